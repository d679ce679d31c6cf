"""Which brokers get which partitions."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.placement import Assignment, check_assignment, spread


def test_spreading_goes_round_the_brokers() -> None:
    assert spread([4, 5, 6], 0, 4, 2) == {0: (4, 5), 1: (5, 6), 2: (6, 4), 3: (4, 5)}
    assert spread([4, 5, 6], 2, 1, 3) == {2: (6, 4, 5)}


@pytest.mark.parametrize(
    ("assignment", "width"),
    [
        ({0: [1], 1: [2]}, None),
        ({0: [2, 1]}, 2),
    ],
)
def test_good_assignments(assignment: Assignment, width: int | None) -> None:
    check_assignment(assignment, [1, 2], 0, width)


@pytest.mark.parametrize(
    ("assignment", "width", "reported"),
    [
        ({1: [1]}, None, "consecutively from 0"),
        ({0: [1], 2: [1]}, None, "consecutively"),
        ({0: []}, None, "empty"),
        ({0: [1, 1]}, None, "twice"),
        ({0: [1], 1: [1, 2]}, None, "1 replicas"),
        ({0: [1]}, 2, "2 replicas"),
        ({0: [3]}, None, "broker 3 is not registered"),
    ],
)
def test_bad_assignments(assignment: Assignment, width: int | None, reported: str) -> None:
    with pytest.raises(KafkaError, match=reported) as caught:
        check_assignment(assignment, [1, 2], 0, width)
    assert caught.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
