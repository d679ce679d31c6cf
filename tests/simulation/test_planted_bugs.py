"""Bugs planted into whole brokers: some seed finds each.

A seed that found the bug once is tried first. A change of the brokers may let other seeds find it: then a warning names
one of them, which makes the test short again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import attrs
import pytest
from twisted.internet.defer import ensureDeferred

from pylogbroker.broker.coordinators.internal_topic import InternalTopic
from pylogbroker.broker.membership.admin import ClusterAdmin
from pylogbroker.broker.membership.cluster_role import ClusterRole
from pylogbroker.broker.membership.config_watch import ConfigWatch
from pylogbroker.broker.metadata.new_sessions import NewSessions
from pylogbroker.broker.metadata.notifications import Notifications
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.requests.rejected_batches import RejectedBatches
from pylogbroker.controller import reassignment_phases, reassignments
from pylogbroker.controller.controlled_cluster import ControlledCluster
from pylogbroker.groups.consumer import group, reconciliation
from pylogbroker.groups.consumer.group import ConsumerGroup
from pylogbroker.groups.consumer.member import ConsumerMember
from pylogbroker.interfaces import CoordinationError
from pylogbroker.metadata.image import ConfigChange, ConfigResource, PartitionKey, PartitionState
from pylogbroker.replication import PartitionReplica
from pylogbroker.transactions.completion import Completion
from tests.replication.invariants import Violation
from tests.replication.mutants import TruncatesToHighWatermark
from tests.simulation import runs
from tests.simulation.network import Latency

SEEDS = range(1, 25)
SETUP: Mapping[str, Any] = {
    "fault_seconds": 1.0,
    "flushes": False,
    "late_answers": 0.0,
    "group_members": 0,
    "copiers": 0,
    "reassigners": 0,
    "recreators": 0,
    "administrators": 0,
    "pipeliners": 0,
    "consumer_group_members": 0,
    "transactions_v2": False,
    "share_members": 0,
    "shares_copies": False,
    "share_resets": False,
}


def first_violation(setup: Mapping[str, Any], likely: int) -> tuple[int, str]:
    """Return the seed and the text of the first violation; try a seed first that found it once."""
    for seed in dict.fromkeys((likely, *SEEDS)):
        try:
            runs.run_many([seed], setup)
        except Violation as violation:
            if seed != likely:
                warnings.warn(f"likely={likely} finds nothing any more, seed {seed} does: put it there", stacklevel=3)
            return seed, str(violation).partition("\n")[0]
    raise AssertionError("no seed finds the bug")


def check_found(faults: tuple[str, ...], *invariants: str, likely: int, **fixed: Any) -> None:
    _, text = first_violation({**SETUP, "faults": faults, **fixed}, likely)
    assert text.partition(":")[0] in invariants


def test_a_violation_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed alone decides: it finds the same violation of the same invariant."""
    monkeypatch.setattr(PartitionReplica, "follower_class", TruncatesToHighWatermark)
    setup = {**SETUP, "faults": ("kill", "isolate", "pause")}
    seed, text = first_violation(setup, likely=7)
    with pytest.raises(Violation) as caught:
        runs.run_many([seed], setup)
    assert str(caught.value).startswith(text)


def test_a_follower_that_truncates_to_its_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant KIP-101."""
    monkeypatch.setattr(PartitionReplica, "follower_class", TruncatesToHighWatermark)
    check_found(("kill", "isolate", "pause"), "1", "2", "3", "7", likely=7)


def test_a_broker_that_registers_after_a_crash_while_it_is_in_isrs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(role: ClusterRole) -> list[PartitionKey]:
        return []

    monkeypatch.setattr(ClusterRole, "_suspect_partitions", none)
    check_found(("lose_power",), "1", "2", likely=20)


def test_a_coordinator_that_reads_nothing_when_it_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def replay(topic: object, partition: Partition, *arguments: object) -> int:
        return partition.log.log_end_offset

    monkeypatch.setattr(InternalTopic, "replay", replay)
    check_found(("kill", "isolate", "pause"), "11", likely=4, group_members=2)


def test_partitions_that_are_assigned_before_their_owner_has_revoked_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_step(member: ConsumerMember, epoch: int, target: Any, owned: Any, is_free: Any) -> Any:
        return reconciliation.next_step(member, epoch, target, owned, lambda partition: True)

    monkeypatch.setattr(group, "next_step", next_step)
    monkeypatch.setattr(group, "_held", lambda partitions, holders, member_id: dict(partitions))
    monkeypatch.setattr(ConsumerGroup, "_release", lambda consumer_group, member: None)
    check_found((), "16", likely=1, consumer_group_members=3, partitions=3)


def test_revocations_that_are_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "_still_owns", lambda owned, revoking: False)
    fixed = {"consumer_group_members": 8, "partitions": 8, "latency": Latency(0.02, 0.5, 0.1)}
    check_found((), "16", likely=30, **fixed)


def test_a_transaction_of_a_former_life_that_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fence(completion: Completion, transaction: Any, now_ms: int, done: Any) -> None:
        completion.end(transaction, True, now_ms, done)

    monkeypatch.setattr(Completion, "fence", fence)
    check_found(("kill", "isolate", "pause"), "12", likely=4, copiers=2)


def test_a_reassignment_that_does_not_wait_for_its_new_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    def led_by_target(cluster: ControlledCluster, key: PartitionKey, state: PartitionState) -> PartitionState:
        leader = next(broker for broker in state.replicas if cluster.is_live(key, broker))
        return attrs.evolve(state, leader=leader, isr=state.replicas, leader_epoch=state.leader_epoch + 1)

    monkeypatch.setattr(reassignments, "is_complete", lambda state, live: bool({*live} & {*state.target}))
    monkeypatch.setattr(reassignment_phases, "_led_by_target", led_by_target)
    check_found(("lose_connection", "pause"), "2", likely=1, brokers=5, reassigners=1)


def test_logs_of_deleted_topics_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    async def delete(partitions: Partitions, topic: str, indexes: Iterable[int]) -> list[int]:
        for index in indexes:
            partitions.led.pop((topic, index), None)
            partitions.hosted.pop((topic, index), None)
        return []

    monkeypatch.setattr(Partitions, "delete", delete)
    check_found(("lose_connection", "pause"), "13", "no rest without faults", likely=3, recreators=1)


def test_a_broker_that_misses_a_notification_after_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def follow_once(notifications: Notifications, session_id: int) -> None:
        with suppress(CoordinationError):
            await notifications._read()

    monkeypatch.setattr(Notifications, "_follow", follow_once)
    check_found(("lose_zookeeper", "cut_zookeeper"), "no rest without faults", likely=4, administrators=1)


def test_a_broker_that_reads_no_settings_in_a_new_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConfigWatch, "resume", ConfigWatch.start)
    check_found(("expire_session",), "no rest without faults", likely=3, administrators=1)


def test_a_broker_that_reads_no_acls_in_a_new_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NewSessions, "_session_changed", lambda sessions, event: None)
    check_found(("expire_session",), "no rest without faults", likely=1, administrators=1)


def test_a_change_that_is_acknowledged_before_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def alter(admin: ClusterAdmin, resource: ConfigResource, change: ConfigChange) -> None:
        ensureDeferred(admin._change(lambda: admin._alter(resource, change))).addErrback(lambda failure: None)

    monkeypatch.setattr(ClusterAdmin, "alter_config", alter)
    check_found(("lose_zookeeper", "kill"), "14", likely=31, administrators=1)


def test_batches_that_are_judged_while_the_error_of_an_earlier_one_is_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RejectedBatches, "check", lambda rejected, partition, batch: None)
    fixed = {"fault_seconds": 0.5, "partitions": 2, "min_insync_replicas": 2, "pipeliners": 2}
    check_found(("kill", "isolate", "pause"), "9", likely=21, **fixed)
