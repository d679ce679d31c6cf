"""Replica of one broker: roles by the partition's states."""

from __future__ import annotations

from pylogbroker.metadata.image import NO_LEADER, BrokerRegistration, PartitionState
from pylogbroker.replication import (
    AdvanceHighWatermark,
    AssignEpoch,
    FetchedData,
    FollowerReplica,
    LeaderReplica,
    PartitionReplica,
    ReplicationSettings,
)
from tests.replication.model_log import ModelLog


def replica_with(records: int = 2, high_watermark: int = 1) -> PartitionReplica:
    log = ModelLog()
    log.append([(1, value) for value in range(records)])
    brokers = {broker: BrokerRegistration(broker) for broker in (1, 2)}
    return PartitionReplica(1, log, ReplicationSettings(), brokers, high_watermark)


def state(leader: int, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...] = (1, 2)) -> PartitionState:
    return PartitionState(leader, (1, 2), isr, leader_epoch, partition_epoch)


def test_the_high_watermark_begins_within_the_log() -> None:
    assert replica_with(2, 9).high_watermark == 2


def test_the_high_watermark_goes_from_role_to_role() -> None:
    replica = replica_with()
    assert replica.apply(state(2, 3, 5), 0) == ()
    role = replica.role
    assert isinstance(role, FollowerReplica)
    request = role.next_request(0)
    assert request is not None
    role.fetched(request, FetchedData(2, 0, False))
    assert replica.apply(state(1, 4, 6), 0) == (AssignEpoch(4),)
    assert replica.high_watermark == 2
    replica.apply(state(NO_LEADER, 5, 7), 0)
    assert (replica.role, replica.high_watermark) == (None, 2)


def test_an_older_state_changes_nothing() -> None:
    replica = replica_with()
    replica.apply(state(1, 4, 6), 0)
    role = replica.role
    for stale in (state(2, 3, 9), state(2, 4, 6), state(2, 5, 6)):
        assert replica.apply(stale, 0) == ()
    assert replica.role is role


def test_a_state_of_the_same_leader_epoch_keeps_the_role() -> None:
    replica = replica_with()
    replica.apply(state(1, 4, 6), 0)
    role = replica.role
    replica.brokers_changed({}, 0)
    assert replica.apply(state(1, 4, 7, isr=(1,)), 0) == (AdvanceHighWatermark(2),)
    assert replica.role is role


def test_each_leader_epoch_has_a_role_of_its_own() -> None:
    replica = replica_with()
    replica.apply(state(1, 4, 6), 0)
    first = replica.role
    replica.apply(state(1, 5, 7), 0)
    assert isinstance(replica.role, LeaderReplica)
    assert replica.role is not first


def test_a_broker_without_a_replica_has_no_role() -> None:
    replica = replica_with()
    replica.apply(PartitionState(2, (2,), (2,), 4, 6), 0)
    assert replica.role is None


def test_an_old_deletion_does_not_stop_a_replica() -> None:
    replica = replica_with()
    replica.apply(state(2, 4, 6), 0)
    assert [replica.may_stop(epoch) for epoch in (3, 4, 5, -1, -2)] == [False, True, True, True, True]
