"""Decisions of a model of a controller on leaders, ISRs and reassignments: state in, records out.

    event                              records
    ---------------------------------  -------------------------------------------------------------------------
    a broker is fenced or leaves       its ISRs without it, other leaders; the last one in an ISR stays there
    it was not stopped cleanly         the same, and it is no eligible leader any more
    a broker is unfenced               leaders of partitions that have none
    AlterPartition                     the ISR, if all members are live, and in the lives that the leader names
    a reassignment, all replicas in    the new replicas, and perhaps another leader
    sync

With eligible leader replicas (KIP-966), a broker that leaves an ISR below min.insync.replicas stays eligible. An ISR
may become empty; without anybody eligible, its last leader may be elected.

Source: Kafka's class PartitionChangeBuilder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from uuid import UUID

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.alter_partition import AlterPartitionData
from pylogbroker.wire.metadata_records import PartitionChangeRecord
from tests.kraft.model_state import Key, ModelState, Replicated, partition_change

NO_LEADER = -1
UNKNOWN_EPOCH = -1


@attrs.define(eq=False)
class ReplicaDecisions:
    state: ModelState
    has_elr: bool = False

    def without(
        self, broker: int, among: Iterable[Key] | None = None, *, is_unclean: bool = False
    ) -> Iterator[PartitionChangeRecord]:
        """Yield what takes a broker out of ISRs and leaderships, of all partitions or of those that it may have."""
        partitions = self.state.partitions
        for key in partitions if among is None else among:
            partition = partitions[key]
            if broker not in (*partition.isr, partition.leader, *(partition.eligible if is_unclean else ())):
                continue
            isr = [member for member in partition.isr if member != broker]
            if not isr and not self.has_elr:
                isr = partition.isr
            yield from self._changed(key, partition, isr, (broker,) if is_unclean else (), gone=broker)

    def elected(self, broker: int, among: Iterable[Key] | None = None) -> Iterator[PartitionChangeRecord]:
        """Yield leaders of partitions that have none, once a broker is live."""
        partitions = self.state.partitions
        for key in partitions if among is None else among:
            partition = partitions[key]
            if partition.leader == NO_LEADER:
                yield from self._changed(key, partition, partition.isr, live=broker)

    def preferred(self) -> Iterator[PartitionChangeRecord]:
        """Yield preferred leaders that do not lead."""
        for key, partition in self.state.partitions.items():
            first = partition.replicas[0]
            if partition.leader != first and first in partition.isr and self.state.is_live(first):
                yield from _one(partition_change(key, partition, leader=first))

    def _changed(
        self,
        key: Key,
        partition: Replicated,
        isr: Sequence[int],
        unclean: Collection[int] = (),
        gone: int = NO_LEADER,
        live: int = NO_LEADER,
        **others: list[int],
    ) -> Iterator[PartitionChangeRecord]:
        """Yield the change of a partition to another ISR, with the leader and the eligible replicas that follow."""
        replicas = others.get("replicas", partition.replicas)
        isr = [member for member in isr if member in replicas]
        eligible = self._eligible(key, partition, isr, replicas, unclean)
        leader = partition.leader
        if leader not in isr or leader == gone:
            candidates = [
                member for member in replicas if member == live or (member != gone and self.state.is_live(member))
            ]
            leader = next((member for member in candidates if member in isr), NO_LEADER)
            if leader == NO_LEADER and not isr:
                fallback = eligible or partition.last_leader
                leader = next((member for member in candidates if member in fallback), NO_LEADER)
                if leader != NO_LEADER:
                    isr, eligible = [leader], [member for member in eligible if member != leader]
        last_leader = partition.last_leader
        if self.has_elr and not isr and partition.leader != NO_LEADER:
            last_leader = [partition.leader]
        elif leader != NO_LEADER:
            last_leader = []
        after = {"isr": list(isr), "leader": leader, "eligible": eligible, "last_leader": last_leader, **others}
        yield from _one(partition_change(key, partition, **after))

    def _eligible(
        self, key: Key, partition: Replicated, isr: Sequence[int], replicas: Sequence[int], unclean: Collection[int]
    ) -> list[int]:
        if not self.has_elr or len(isr) >= min(self.state.insync_replicas_min(key[0]), len(replicas)):
            return []
        former = dict.fromkeys((*partition.eligible, *partition.isr))
        return [member for member in former if member in replicas and member not in isr and member not in unclean]

    # AlterPartition

    def alter(self, broker: int, key: Key, asked: AlterPartitionData) -> ErrorCode | list[PartitionChangeRecord]:
        """Return the records of a leader's change of its ISR, or the error."""
        partition = self.state.partitions.get(key)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if broker != partition.leader or asked.leader_epoch != partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if asked.partition_epoch != partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        members = asked.new_isr_with_epochs
        isr = [member.broker_id for member in members]
        if broker not in isr or not set(isr) <= set(partition.replicas):
            return ErrorCode.INVALID_REQUEST
        for member in members:
            registered = self.state.members.get(member.broker_id)
            if registered is None or not registered.is_live:
                return ErrorCode.INELIGIBLE_REPLICA
            if member.broker_epoch not in (UNKNOWN_EPOCH, registered.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        if (partition.adding or partition.removing) and set(partition.target) <= set(isr):
            return list(self._completed(key, partition, isr))
        return list(self._changed(key, partition, isr))

    # reassignments

    def reassign(self, key: Key, target: Sequence[int] | None) -> ErrorCode | list[PartitionChangeRecord]:
        """Return the records that begin a reassignment, or cancel one."""
        partition = self.state.partitions.get(key)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        former = [replica for replica in partition.replicas if replica not in partition.adding]
        if target is None:
            return self._cancelled(key, partition, former)
        if any(broker not in self.state.members for broker in target) or not target:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        adding = [broker for broker in target if broker not in former]
        removing = [broker for broker in former if broker not in target]
        replicas = [*target, *removing]
        isr = [member for member in partition.isr if member in replicas]
        changes = {"replicas": replicas, "adding": adding, "removing": removing}
        if not adding and set(target) <= set(isr):
            return list(self._completed(key, partition, isr, list(target)))
        if not isr:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        return list(self._changed(key, partition, isr, **changes))

    def _cancelled(self, key: Key, partition: Replicated, former: list[int]) -> ErrorCode | list[PartitionChangeRecord]:
        isr = [member for member in partition.isr if member in former]
        if not partition.adding and not partition.removing:
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        if not isr:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        return list(self._changed(key, partition, isr, replicas=former, adding=[], removing=[]))

    def _completed(
        self, key: Key, partition: Replicated, isr: Sequence[int], target: list[int] | None = None
    ) -> Iterator[PartitionChangeRecord]:
        replicas = partition.target if target is None else target
        return self._changed(key, partition, isr, replicas=replicas, adding=[], removing=[])


def _one(record: PartitionChangeRecord | None) -> Iterator[PartitionChangeRecord]:
    if record is not None:
        yield record


def key_of(state: ModelState, name: str, number: int) -> Key:
    return state.topics.get(name, UUID(int=0)), number
