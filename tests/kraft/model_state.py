"""A KRaft cluster as the records of its metadata log have it: what a model of a controller decides on.

It is independent of `pylogbroker.kraft.fold`, so that tests may compare a broker's image with it.

    state.apply(record)       # the next record; those of a metadata transaction take effect at its end
    state.records()           # a snapshot: records that give the same state
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.wire.messages.broker_registration import BrokerRegistrationRequest
from pylogbroker.wire.metadata_records import (
    UNCHANGED_LEADER,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FeatureRange,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

TOPIC: Final = 2
FIRST_PRODUCER_ID: Final = 1000
Key = tuple[UUID, int]


@attrs.define
class Member:
    """A broker as the controllers know it; `heard` is the leader's own knowledge, and in no record."""

    epoch: int
    incarnation: UUID
    listeners: list[BrokerEndpoint] = attrs.field(factory=list)
    features: list[FeatureRange] = attrs.field(factory=list)
    rack: str | None = None
    directories: list[UUID] = attrs.field(factory=list)
    is_fenced: bool = True
    heard: float = 0.0
    is_leaving: bool = False

    @property
    def is_live(self) -> bool:
        return not self.is_fenced and not self.is_leaving


@attrs.define
class Replicated:
    """A partition; `eligible` may be elected, although they are in no ISR (KIP-966)."""

    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: list[int] = attrs.field(factory=list)
    removing: list[int] = attrs.field(factory=list)
    eligible: list[int] = attrs.field(factory=list)
    last_leader: list[int] = attrs.field(factory=list)
    """One that may be elected while nobody is in the ISR, and nobody eligible."""

    @property
    def target(self) -> list[int]:
        """Replicas once a reassignment is complete."""
        return [replica for replica in self.replicas if replica not in self.removing]


@attrs.define(eq=False)
class ModelState:
    members: dict[int, Member] = attrs.field(factory=dict)
    topics: dict[str, UUID] = attrs.field(factory=dict)
    names: dict[UUID, str] = attrs.field(factory=dict)
    partitions: dict[Key, Replicated] = attrs.field(factory=dict)
    settings: dict[tuple[int, str], dict[str, str]] = attrs.field(factory=dict)
    """By resource type and name."""
    acls: dict[UUID, AccessControlEntryRecord] = attrs.field(factory=dict)
    levels: dict[str, int] = attrs.field(factory=dict)
    next_producer_id: int = FIRST_PRODUCER_ID
    transaction: list[MetadataRecord] | None = None
    """Records of an open metadata transaction."""

    @classmethod
    def of(cls, records: Iterable[MetadataRecord]) -> ModelState:
        state = cls()
        for record in records:
            state.apply(record)
        return state

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case BeginTransactionRecord():
                self.transaction = []
            case AbortTransactionRecord():
                self.transaction = None
            case EndTransactionRecord():
                held, self.transaction = self.transaction or [], None
                for earlier in held:
                    self.apply(earlier)
            case _ if self.transaction is not None:
                self.transaction.append(record)
            case RegisterBrokerRecord():
                self._register(record)
            case BrokerRegistrationChangeRecord():
                self._change_member(record)
            case TopicRecord():
                self.topics[record.name], self.names[record.topic_id] = record.topic_id, record.name
            case RemoveTopicRecord():
                self._remove_topic(record.topic_id)
            case PartitionRecord():
                self._add_partition(record)
            case PartitionChangeRecord():
                self._change_partition(record)
            case _:
                self._apply_other(record)

    def _apply_other(self, record: MetadataRecord) -> None:
        match record:
            case ConfigRecord():
                settings = self.settings.setdefault((record.resource_type, record.resource_name), {})
                settings.pop(record.name, None)
                if record.value is not None:
                    settings[record.name] = record.value
            case AccessControlEntryRecord():
                self.acls[record.id] = record
            case RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)
            case FeatureLevelRecord():
                self.levels[record.name] = record.feature_level
            case UnregisterBrokerRecord():
                self.members.pop(record.broker_id, None)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id

    def _register(self, record: RegisterBrokerRecord) -> None:
        self.members[record.broker_id] = Member(
            record.broker_epoch,
            record.incarnation_id,
            record.end_points,
            record.features,
            record.rack,
            record.log_dirs,
            record.fenced,
            is_leaving=record.in_controlled_shutdown,
        )

    def _change_member(self, record: BrokerRegistrationChangeRecord) -> None:
        member = self.members[record.broker_id]
        assert member.epoch == record.broker_epoch, record
        if record.fenced:
            member.is_fenced = record.fenced > 0
        member.is_leaving |= record.in_controlled_shutdown > 0
        member.directories = list(record.log_dirs or member.directories)

    def _remove_topic(self, topic_id: UUID) -> None:
        name = self.names.pop(topic_id)
        del self.topics[name]
        self.settings.pop((TOPIC, name), None)
        for key in [key for key in self.partitions if key[0] == topic_id]:
            del self.partitions[key]

    def _add_partition(self, record: PartitionRecord) -> None:
        self.partitions[record.topic_id, record.partition_id] = Replicated(
            list(record.replicas),
            list(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            list(record.adding_replicas),
            list(record.removing_replicas),
            list(record.eligible_leader_replicas or ()),
            list(record.last_known_elr or ()),
        )

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        state = self.partitions[record.topic_id, record.partition_id]
        state.partition_epoch += 1
        if record.leader != UNCHANGED_LEADER:
            state.leader = record.leader
            state.leader_epoch += 1
        for name, given in (
            ("isr", record.isr),
            ("replicas", record.replicas),
            ("adding", record.adding_replicas),
            ("removing", record.removing_replicas),
            ("eligible", record.eligible_leader_replicas),
            ("last_leader", record.last_known_elr),
        ):
            if given is not None:
                setattr(state, name, list(given))

    def is_live(self, broker: int) -> bool:
        member = self.members.get(broker)
        return member is not None and member.is_live

    def insync_replicas_min(self, topic_id: UUID) -> int:
        return int(self.settings.get((TOPIC, self.names[topic_id]), {}).get("min.insync.replicas", 1))

    def records(self) -> Iterator[MetadataRecord]:
        """Yield the records of a snapshot."""
        yield from (FeatureLevelRecord(name, level) for name, level in self.levels.items())
        for broker_id, member in self.members.items():
            yield RegisterBrokerRecord(
                broker_id,
                False,
                member.incarnation,
                member.epoch,
                member.listeners,
                member.features,
                member.rack,
                member.is_fenced,
                member.is_leaving,
                log_dirs=member.directories,
            )
        for name, topic_id in self.topics.items():
            yield TopicRecord(name, topic_id)
        for (topic_id, number), state in self.partitions.items():
            yield partition_record(topic_id, number, state)
        for (kind, name), settings in self.settings.items():
            yield from (ConfigRecord(kind, name, key, value) for key, value in settings.items())
        yield from self.acls.values()
        yield ProducerIdsRecord(0, -1, self.next_producer_id)


def partition_record(topic_id: UUID, number: int, state: Replicated) -> PartitionRecord:
    return PartitionRecord(
        number,
        topic_id,
        state.replicas,
        state.isr,
        state.removing,
        state.adding,
        state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        directories=[UUID(int=0)] * len(state.replicas),
        eligible_leader_replicas=state.eligible or None,
        last_known_elr=state.last_leader or None,
    )


def registration_record(request: BrokerRegistrationRequest, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        request.broker_id,
        False,
        request.incarnation_id,
        epoch,
        request.listeners,
        request.features,
        request.rack,
        log_dirs=request.log_dirs,
    )


def partition_change(key: Key, before: Replicated, **after: Any) -> PartitionChangeRecord | None:
    """Return the record of a change to the given attributes; None without any."""
    changed = {name: value for name, value in after.items() if value != getattr(before, name)}
    if not changed:
        return None
    record = PartitionChangeRecord(key[1], key[0])
    record.isr = changed.get("isr")
    record.leader = changed.get("leader", UNCHANGED_LEADER)
    record.replicas = changed.get("replicas")
    record.removing_replicas = changed.get("removing")
    record.adding_replicas = changed.get("adding")
    record.eligible_leader_replicas = changed.get("eligible")
    record.last_known_elr = changed.get("last_leader")
    if record.leader == UNCHANGED_LEADER and len(changed.get("replicas", before.replicas)) < len(before.replicas):
        record.leader = before.leader  # a removed replica must not count any more: another leader epoch
    return record
