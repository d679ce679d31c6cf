"""Elections of leaders, and changes of states without one: the answers are those of Apache's controllers."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.controller import elections, partition_changes
from pylogbroker.metadata.image import NO_LEADER, LeaderRecovery, PartitionState, unstored_partition
from tests.support.examples import examples

STATE = PartitionState(leader=3, replicas=(3, 1, 2), isr=(3, 1, 2), leader_epoch=4, partition_epoch=7)
Result = tuple[int, tuple[int, ...], int] | None


def result(state: PartitionState | None) -> Result:
    return None if state is None else (state.leader, state.isr, state.leader_epoch)


@pytest.mark.parametrize(
    ("isr", "live", "expected"),
    [
        ((3, 1, 2), (1, 2), (1, (1, 2), 5)),  # the first replica that can
        ((3, 2), (1, 2), (2, (2,), 5)),  # not the first live one
        ((3,), (1, 2), None),  # a dead ISR of one: no leader
        ((2, 1), (3, 2, 1), (1, (2, 1), 5)),  # the order of replicas decides, the ISR's order stays
    ],
)
def test_offline(isr: tuple[int, ...], live: tuple[int, ...], expected: Result) -> None:
    assert result(elections.offline(attrs.evolve(STATE, isr=isr), live)) == expected


def test_unclean() -> None:
    state = attrs.evolve(STATE, isr=(3,))
    elected = elections.unclean(state, (2, 1))
    assert result(elected) == (1, (1,), 5)
    assert elected
    assert elected.recovery is LeaderRecovery.RECOVERING
    older = elections.unclean(state, (2, 1), marks_recovery=False)
    assert older
    assert older.recovery is LeaderRecovery.RECOVERED
    assert elections.unclean(state, ()) is None


def test_unclean_elections_prefer_clean_ones() -> None:
    assert elections.unclean(STATE, (1, 2)) == elections.offline(STATE, (1, 2))


def test_reassignment() -> None:
    state = attrs.evolve(STATE, leader=1, replicas=(3, 2, 1), removing=(1,), isr=(1, 3, 2))
    assert result(elections.reassignment(state, (1, 2, 3))) == (3, (1, 3, 2), 5)
    assert result(elections.reassignment(state, (1, 2))) == (2, (1, 3, 2), 5)
    assert elections.reassignment(state, (1,)) is None


def test_preferred() -> None:
    state = attrs.evolve(STATE, leader=1)
    assert result(elections.preferred(state, (1, 2, 3))) == (3, (3, 1, 2), 5)
    assert elections.preferred(state, (1, 2)) is None
    assert elections.preferred(attrs.evolve(state, isr=(1, 2)), (1, 2, 3)) is None


def test_controlled_shutdown() -> None:
    assert result(elections.controlled_shutdown(STATE, (1, 2), (3,))) == (1, (1, 2), 5)
    assert result(elections.controlled_shutdown(STATE, (2,), (3, 1))) == (2, (2,), 5)
    assert elections.controlled_shutdown(attrs.evolve(STATE, isr=(3,)), (1, 2), (3,)) is None


@given(
    isr=st.lists(st.integers(1, 4), min_size=1, max_size=4, unique=True),
    live=st.sets(st.integers(1, 4)),
    leader=st.integers(0, 3),
)
@settings(max_examples=examples(100))
def test_all_elections_keep_the_invariants(isr: list[int], live: set[int], leader: int) -> None:
    state = PartitionState(isr[leader % len(isr)], (4, 2, 3, 1), tuple(isr), 5, 6)
    for elected in (
        elections.offline(state, live),
        elections.reassignment(state, live),
        elections.preferred(state, live),
        elections.controlled_shutdown(state, live, set(state.replicas) - live),
        elections.unclean(state, live),
        *(partition_changes.without_replica(state, broker) for broker in state.replicas),
    ):
        if elected is not None:
            assert elected.leader in (*elected.isr, NO_LEADER)
            assert set(elected.isr) <= set(state.replicas)
            assert elected.isr
            assert elected.leader_epoch == state.leader_epoch + 1


def test_new_partitions() -> None:
    assigned = unstored_partition((3, 1, 2))
    first = partition_changes.first_state(assigned, (2, 1))
    assert first == PartitionState(1, (3, 1, 2), (1, 2), leader_epoch=0, partition_epoch=0)
    assert partition_changes.first_state(assigned, ()) is None


@pytest.mark.parametrize(
    ("leader", "isr", "broker", "expected"),
    [
        (3, (3, 1, 2), 2, (3, (3, 1), 5)),  # a follower
        (3, (3, 1, 2), 3, (NO_LEADER, (1, 2), 5)),  # the leader
        (3, (3,), 3, (NO_LEADER, (3,), 5)),  # the last one stays in the ISR
        (NO_LEADER, (3,), 3, None),  # once more: nothing changes
        (3, (3, 1), 2, None),  # not in the ISR
    ],
)
def test_without_a_replica(leader: int, isr: tuple[int, ...], broker: int, expected: Result) -> None:
    state = attrs.evolve(STATE, leader=leader, isr=isr)
    assert result(partition_changes.without_replica(state, broker)) == expected
