"""In-sync replicas: what the leader believes after each answer to AlterPartition."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.replication.actions import IsrChange
from pylogbroker.replication.isr import InSyncReplicas


def change(*isr: int, partition_epoch: int = 4) -> IsrChange:
    return IsrChange(1, partition_epoch, isr, (-1,) * len(isr))


def proposed(*isr: int) -> InSyncReplicas:
    state = InSyncReplicas((1, 2), 4)
    state.propose(change(*isr))
    return state


def test_an_added_replica_counts_at_once() -> None:
    state = proposed(1, 2, 3)
    assert (state.committed, state.maximal) == ((1, 2), (1, 2, 3))


def test_a_removed_replica_counts_until_the_controller_confirms() -> None:
    state = proposed(1)
    assert state.maximal == (1, 2)
    assert state.commit((1,), 5)
    assert state.maximal == (1,)


def test_an_older_state_is_ignored() -> None:
    state = proposed(1, 2, 3)
    assert not state.commit((1,), 4)
    assert state.pending is not None


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_change_that_was_not_stored_is_dropped(error: ErrorCode) -> None:
    state = proposed(1, 2, 3)
    assert state.pending is not None
    assert not state.failed(state.pending, error)
    assert (state.pending, state.maximal) == (None, (1, 2))


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_an_outdated_change_waits_for_the_next_state(error: ErrorCode) -> None:
    state = proposed(1, 2, 3)
    assert state.pending is not None
    assert not state.failed(state.pending, error)
    assert state.maximal == (1, 2, 3)


@pytest.mark.parametrize("error", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH])
def test_a_change_with_unknown_outcome_is_repeated(error: ErrorCode) -> None:
    state = proposed(1, 2, 3)
    assert state.pending is not None
    assert state.failed(state.pending, error)
    assert state.maximal == (1, 2, 3)


def test_an_answer_to_an_equal_earlier_proposal_is_ignored() -> None:
    state = proposed(1, 2, 3)
    assert not state.failed(change(1, 2, 3), ErrorCode.INELIGIBLE_REPLICA)
    assert state.maximal == (1, 2, 3)
