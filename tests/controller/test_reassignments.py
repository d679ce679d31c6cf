"""Reassignments, the balance of leaders, and blocks of producer ids: the rules."""

from __future__ import annotations

import attrs
import pytest

from pylogbroker.controller import leader_balance, producer_id_blocks, reassignments
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Node, SetData, Stat
from pylogbroker.long_loops import at_once, over
from pylogbroker.metadata.image import PartitionState
from pylogbroker.metadata.zk_schema import ProducerIdBlock

STATE = PartitionState(leader=1, replicas=(1, 2, 3), isr=(1, 3, 2), leader_epoch=4, partition_epoch=10)
Assignment = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def assignment(state: PartitionState) -> Assignment:
    return state.replicas, state.adding, state.removing


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ((3, 2), ((3, 2, 1), (), (1,))),
        ((4, 5), ((4, 5, 1, 2, 3), (4, 5), (1, 2, 3))),
        ((1, 2, 3, 4), ((1, 2, 3, 4), (4,), ())),
        ((2, 1, 3), ((2, 1, 3), (), ())),
    ],
)
def test_assignments(target: tuple[int, ...], expected: Assignment) -> None:
    planned = reassignments.planned(STATE, target, range(1, 6))
    assert assignment(planned) == expected
    assert planned.target == target
    assert sorted(planned.origin) == [1, 2, 3]
    assert assignment(reassignments.completed(planned)) == (target, (), ())


def test_another_target_starts_from_the_former_replicas() -> None:
    running = reassignments.reassigned(STATE, (4, 5))
    assert assignment(reassignments.planned(running, (6, 1), range(7))) == ((6, 1, 2, 3), (6,), (2, 3))


def test_cancellation() -> None:
    running = reassignments.reassigned(STATE, (4, 5))
    assert assignment(reassignments.planned(running, None, ())) == ((1, 2, 3), (), ())


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_errors(target: tuple[int, ...] | None, expected: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        reassignments.planned(STATE, target, (1, 2, 3))
    assert raised.value.code is expected


def test_the_number_of_replicas_may_have_to_stay() -> None:
    count = len(STATE.replicas)
    with pytest.raises(KafkaError, match=f"replication factor is changed from {count} to {count + 1}") as raised:
        reassignments.planned(STATE, range(1, count + 2), range(1, 6), keeps_factor=True)
    assert raised.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    for keeps, target in ((False, range(1, count + 2)), (True, range(2, count + 2))):
        assert reassignments.planned(STATE, target, range(1, 6), keeps).target == tuple(target)


@pytest.mark.parametrize("target", [None, (1, 5)])
def test_the_last_in_sync_replicas_are_not_removed(target: tuple[int, ...] | None) -> None:
    running = attrs.evolve(reassignments.reassigned(STATE, (4,)), leader=4, isr=(4,))
    with pytest.raises(KafkaError, match="records that no other replica has"):
        reassignments.planned(running, target, (1, 2, 3, 4, 5))


def test_completion_needs_all_in_sync_and_one_alive() -> None:
    running = reassignments.reassigned(STATE, (4, 1))
    assert not reassignments.is_complete(running, (1, 2, 3, 4))
    grown = attrs.evolve(running, isr=(1, 2, 4))
    assert reassignments.is_complete(grown, (4,))
    assert not reassignments.is_complete(grown, (2, 3))


def balanced(leaders: list[int], live: tuple[int, ...] = (1, 2)) -> list[int]:
    """Return the partitions, all preferring broker 1, that get their preferred leader back."""
    states = [attrs.evolve(STATE, leader=leader) for leader in leaders]
    partitions = ((("t", number), state) for number, state in enumerate(states))
    return [number for _, number in at_once(leader_balance.preferred_elections(over(partitions), live, 10))]


def test_balance_of_leaders() -> None:
    assert balanced([2] + [1] * 9) == []
    assert balanced([2] + [1] * 8) == [0]
    assert balanced([1, 2, 3, -1]) == [1, 2, 3]
    assert balanced([2, 2], live=(2,)) == []


def test_partitions_under_reassignment_are_not_balanced() -> None:
    state = attrs.evolve(reassignments.reassigned(STATE, (3, 4)), leader=2)
    assert at_once(leader_balance.preferred_elections(over([(("t", 0), state)]), (1, 2, 3), 10)) == []


def test_producer_ids_follow_the_last_block() -> None:
    node = Node(b"", Stat(0, 1, 1))
    block, write = producer_id_blocks.next_block(node, 2)
    assert block == ProducerIdBlock(2, 0, 999)
    data = b'{"version":1,"broker":2,"block_start":"0","block_end":"999"}'
    assert write == SetData("/latest_producer_id_block", data, 0)
    block, write = producer_id_blocks.next_block(Node(data, Stat(5, 1, 1)), 1)
    assert block == ProducerIdBlock(1, 1000, 1999)
    assert write.version == 5


def test_the_last_producer_ids() -> None:
    data = b'{"version":1,"broker":2,"block_start":"0","block_end":"9223372036854775000"}'
    with pytest.raises(KafkaError, match="All producer ids"):
        producer_id_blocks.next_block(Node(data, Stat(5, 1, 1)), 1)
