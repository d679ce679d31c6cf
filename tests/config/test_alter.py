"""Incremental changes of settings."""

from __future__ import annotations

import pytest

from pylogbroker.config import TOPIC, Change, Operation, apply
from pylogbroker.errors import ConfigError

SET, DELETE, APPEND, SUBTRACT = Operation
POLICY = "cleanup.policy"


@pytest.mark.parametrize(
    ("current", "changes", "result"),
    [
        ({}, [Change("retention.ms", SET, "5")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [Change("retention.ms", SET, "6")], {"retention.ms": "6"}),
        ({"retention.ms": "5", "segment.ms": "1"}, [Change("retention.ms", DELETE)], {"segment.ms": "1"}),
        ({}, [Change("retention.ms", DELETE)], {}),
        ({}, [Change("retention.ms", SET, None)], {"retention.ms": None}),
        ({}, [Change(POLICY, APPEND, "compact")], {POLICY: "delete,compact"}),
        ({}, [Change(POLICY, APPEND, "delete")], {POLICY: "delete"}),
        ({POLICY: "compact"}, [Change(POLICY, APPEND, "delete")], {POLICY: "compact,delete"}),
        ({POLICY: "compact,delete"}, [Change(POLICY, SUBTRACT, "delete")], {POLICY: "compact"}),
        (
            {"leader.replication.throttled.replicas": "0:1"},
            [Change("leader.replication.throttled.replicas", APPEND, "1:1, 0:1,2:1")],
            {"leader.replication.throttled.replicas": "0:1,1:1,2:1"},
        ),
    ],
)  # fmt: skip
def test_changes(current: dict[str, str], changes: list[Change], result: dict[str, str | None]) -> None:
    assert apply(current, changes, TOPIC) == result


def test_a_list_grows_from_what_is_in_force() -> None:
    inherited = {POLICY: ("compact",)}
    result = apply({}, [Change(POLICY, APPEND, "delete")], TOPIC, inherited)
    assert result == {POLICY: "compact,delete"}


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
@pytest.mark.parametrize("name", ["retention.ms", "no.such.setting"])
def test_only_lists_can_be_appended_to(operation: Operation, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: not a list"):
        apply({}, [Change(name, operation, "5")], TOPIC)
