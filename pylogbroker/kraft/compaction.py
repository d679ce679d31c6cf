"""Compacts records of the metadata log: the fewest records that give the same metadata. They make a snapshot.

    kept                                   changed or dropped by
    -------------------------------------  ----------------------------------------------------------------------
    FeatureLevel, by name                  its next level; 0 drops it
    RegisterBroker, by broker              BrokerRegistrationChange, Fence- and UnfenceBroker; UnregisterBroker
    RegisterController, by controller      UnregisterController
    Topic, by id, and its Partitions       PartitionChange, ClearElr; RemoveTopic, which takes the topic's settings
    Config, by resource and name           a null value
    ClientQuota, by entity and key         one that removes it
    UserScramCredential, AccessControl-    their removals
    Entry, DelegationToken
    ProducerIds, ZkMigrationState          the next one
    KRaftVersion, KRaftVoters (control)    the next one

Nothing is left out that a member of this project does not use. A record that is changed gets the version of the newer
of the two records; others stay byte for byte, so that memory holds no decoded records. Source: Kafka's classes
ClusterImage, TopicsImage and so on, which write snapshots; KIP-630 for the header and the footer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import LogEntry, Record, build, control
from pylogbroker.wire import NO_ID
from pylogbroker.wire.metadata_records import (
    UNCHANGED_LEADER,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
    decode_record,
    encode_record,
    record_version,
)
from pylogbroker.wire.resource_types import ResourceType

"""Kafka's number of topics as owners of settings."""
_METADATA_VERSION: Final = "metadata.version"
_HEADER_VALUE: Final = Struct(">hqB")
"""Version, time of the last record in the snapshot, and no tagged fields."""
_FOOTER_VALUE: Final = Struct(">hB")
_BATCH_BYTES: Final = 64 << 10
_REGISTRATION_VERSIONS: Final = (0, 1, 3, 4)
"""Versions of RegisterBroker that have the fields of BrokerRegistrationChange, by its version."""
_LOST: Final = "a metadata record is of {}, which is not known"


@attrs.define(eq=False, repr=False)
class _CompactedTopic:
    value: bytes
    name: str
    partitions: dict[int, bytes] = attrs.field(factory=dict)


@attrs.define(eq=False, repr=False)
class MetadataCompaction:
    """Takes all records from the first one on, in order; `epoch` and `max_timestamp` are those of the last batch."""

    max_timestamp: int = attrs.field(default=-1, init=False)
    _singles: dict[tuple[Any, ...], bytes] = attrs.field(factory=dict, init=False)
    """Records that nothing but their next one changes, by what they are of."""
    _features: dict[str, bytes] = attrs.field(factory=dict, init=False)
    _brokers: dict[int, bytes] = attrs.field(factory=dict, init=False)
    _topics: dict[UUID, _CompactedTopic] = attrs.field(factory=dict, init=False)
    _settings: dict[tuple[int, str], dict[str, bytes]] = attrs.field(factory=dict, init=False)
    _controls: dict[int, Record] = attrs.field(factory=dict, init=False)
    _transaction: list[list[bytes]] = attrs.field(factory=list, init=False)
    """The records of one that is open."""

    def take(self, batch: LogEntry) -> None:
        """Take the records of a batch; raise CorruptRecords, UnknownMetadataRecord among them."""
        self.max_timestamp = max(self.max_timestamp, batch.max_timestamp)
        for record in batch.records():
            if batch.is_control:
                self._take_control(record)
            elif record.value is None:
                raise CorruptRecords("a metadata record is null")
            else:
                self._take_value(bytes(record.value))

    def _take_control(self, record: Record) -> None:
        kind = control.control_type(record)
        if kind in (control.KRAFT_VERSION, control.KRAFT_VOTERS):
            self._controls[kind] = Record(0, record.timestamp, bytes(record.key or b""), bytes(record.value or b""))

    def _take_value(self, value: bytes) -> None:
        record = decode_record(value)
        match record:
            case BeginTransactionRecord():
                self._transaction = [[]]
            case AbortTransactionRecord():
                self._transaction = []
            case EndTransactionRecord():
                held, self._transaction = self._transaction, []
                for earlier in chain.from_iterable(held):
                    self._apply(decode_record(earlier), earlier)
            case _ if self._transaction:
                self._transaction[0].append(value)
            case _:
                self._apply(record, value)

    def _apply(self, record: MetadataRecord, value: bytes) -> None:
        match record:
            case PartitionChangeRecord():
                self._change_partition(record, record_version(value))
            case PartitionRecord():
                self._topic(record.topic_id).partitions[record.partition_id] = value
            case TopicRecord():
                self._topics[record.topic_id] = _CompactedTopic(value, record.name)
            case RemoveTopicRecord():
                name = self._topic(record.topic_id).name
                del self._topics[record.topic_id]
                self._settings.pop((ResourceType.TOPIC, name), None)
            case ClearElrRecord():
                self._clear_elr(record.topic_name)
            case ConfigRecord():
                self._set_config(record, value)
            case FeatureLevelRecord():
                _set(self._features, record.name, value if record.feature_level else None)
            case RegisterBrokerRecord():
                self._brokers[record.broker_id] = value
            case UnregisterBrokerRecord():
                self._brokers.pop(record.broker_id, None)
            case BrokerRegistrationChangeRecord():
                self._change_broker(record, record_version(value))
            case FenceBrokerRecord() | UnfenceBrokerRecord():
                is_fenced = isinstance(record, FenceBrokerRecord)
                self._evolve_broker(record.id, 0, {"fenced": is_fenced})
            case NoOpRecord():
                pass
            case _:
                key, is_kept = _single(record)
                _set(self._singles, key, value if is_kept else None)

    # topics

    def _topic(self, topic_id: UUID) -> _CompactedTopic:
        topic = self._topics.get(topic_id)
        if topic is None:
            raise CorruptRecords(_LOST.format(f"the topic {topic_id}"))
        return topic

    def _change_partition(self, change: PartitionChangeRecord, version: int) -> None:
        partitions, number = self._topic(change.topic_id).partitions, change.partition_id
        before = partitions.get(number)
        if before is None:
            raise CorruptRecords(_LOST.format(f"partition {number} of the topic {change.topic_id}"))
        state = decode_record(before)
        assert isinstance(state, PartitionRecord)
        if change.leader != UNCHANGED_LEADER:
            state.leader, state.leader_epoch = change.leader, state.leader_epoch + 1
        state.partition_epoch += 1
        if change.leader_recovery_state >= 0:
            state.leader_recovery_state = change.leader_recovery_state
        if change.directories is not None:
            state.directories = change.directories
        elif change.replicas is not None and state.directories:
            places = dict(zip(state.replicas, state.directories, strict=False))
            state.directories = [places.get(replica, NO_ID) for replica in change.replicas]
        for name in ("isr", "replicas", "removing_replicas", "adding_replicas"):
            if (given := getattr(change, name)) is not None:
                setattr(state, name, given)
        for name in ("eligible_leader_replicas", "last_known_elr"):
            if (given := getattr(change, name)) is not None:
                setattr(state, name, given or None)
        partitions[number] = encode_record(state, max(record_version(before), version))

    def _clear_elr(self, name: str) -> None:
        """Forget eligible leader replicas, those of all topics without a name."""
        for topic in self._topics.values():
            if name in ("", topic.name):
                for number, value in topic.partitions.items():
                    state = decode_record(value)
                    assert isinstance(state, PartitionRecord)
                    state.eligible_leader_replicas = state.last_known_elr = None
                    topic.partitions[number] = encode_record(state, record_version(value))

    # settings

    def _set_config(self, record: ConfigRecord, value: bytes) -> None:
        resource = record.resource_type, record.resource_name
        settings = self._settings.setdefault(resource, {})
        _set(settings, record.name, None if record.value is None else value)
        if not settings:
            del self._settings[resource]

    # brokers

    def _change_broker(self, change: BrokerRegistrationChangeRecord, version: int) -> None:
        fields: dict[str, object] = {}
        if change.fenced:
            fields["fenced"] = change.fenced > 0
        if change.in_controlled_shutdown:
            fields["in_controlled_shutdown"] = True
        if change.log_dirs:
            fields["log_dirs"] = change.log_dirs
        if change.cordoned_log_dirs is not None:
            fields["cordoned_log_dirs"] = change.cordoned_log_dirs
        self._evolve_broker(change.broker_id, _REGISTRATION_VERSIONS[version], fields)

    def _evolve_broker(self, broker_id: int, version: int, fields: dict[str, object]) -> None:
        before = self._brokers.get(broker_id)
        if before is None:
            raise CorruptRecords(_LOST.format(f"broker {broker_id}"))
        broker = decode_record(before)
        for name, given in fields.items():
            setattr(broker, name, given)
        self._brokers[broker_id] = encode_record(broker, max(record_version(before), version))

    # what is left

    def values(self) -> Iterator[bytes]:
        """Yield the records, in an order in which each is of something that is known."""
        features = sorted(self._features, key=lambda name: (name != _METADATA_VERSION, name))
        yield from (self._features[name] for name in features)
        yield from self._brokers.values()
        for topic in self._topics.values():
            yield topic.value
            yield from topic.partitions.values()
        for settings in self._settings.values():
            yield from settings.values()
        yield from self._singles.values()

    def controls(self) -> Sequence[Record]:
        """Return the control records that belong to the header of a snapshot."""
        return [self._controls[kind] for kind in sorted(self._controls)]


def _set(kept: dict[Any, bytes], key: object, value: bytes | None) -> None:
    """Keep a value, or drop that of the key."""
    if value is None:
        kept.pop(key, None)
    else:
        kept[key] = value


def _single(record: MetadataRecord) -> tuple[tuple[Any, ...], bool]:
    """Return what a record is of, and whether it is kept, or drops the one of the same."""
    match record:
        case ClientQuotaRecord():
            entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
            return (ClientQuotaRecord, entity, record.key), not record.remove
        case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
            key = UserScramCredentialRecord, record.name, record.mechanism
            return key, isinstance(record, UserScramCredentialRecord)
        case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
            return (AccessControlEntryRecord, record.id), isinstance(record, AccessControlEntryRecord)
        case DelegationTokenRecord() | RemoveDelegationTokenRecord():
            return (DelegationTokenRecord, record.token_id), isinstance(record, DelegationTokenRecord)
        case RegisterControllerRecord() | UnregisterControllerRecord():
            return (RegisterControllerRecord, record.controller_id), isinstance(record, RegisterControllerRecord)
        case ProducerIdsRecord() | ZkMigrationStateRecord():
            return (type(record),), True
    raise CorruptRecords(f"no rule compacts a {type(record).__name__}")


def compacted(
    batches: Iterable[LogEntry], epoch: int, give_way: Callable[[], object] = lambda: time.sleep(0)
) -> Iterator[bytes]:
    """Yield the bytes of a snapshot of all records, in pieces of about 64 KiB. Blocks; any thread.

    `give_way` is called often: it lets other threads use the interpreter. Raise CorruptRecords.
    """
    compaction = MetadataCompaction()
    for batch in batches:
        compaction.take(batch)
        give_way()
    timestamp, offset = compaction.max_timestamp, 0

    def batch_of(records: Sequence[Record], is_control: bool = False) -> bytes:
        nonlocal offset
        first, offset = offset, offset + len(records)
        return build(records, base_offset=first, leader_epoch=epoch, control=is_control)

    def control_record(kind: int, value: bytes) -> Record:
        return Record(0, timestamp, control.control_key(kind), value)

    header = control_record(control.SNAPSHOT_HEADER, _HEADER_VALUE.pack(0, timestamp, 0))
    yield batch_of([header, *compaction.controls()], is_control=True)
    for values in _in_pieces(compaction.values()):
        yield batch_of([Record(0, timestamp, None, value) for value in values])
        give_way()
    yield batch_of([control_record(control.SNAPSHOT_FOOTER, _FOOTER_VALUE.pack(0, 0))], is_control=True)


def _in_pieces(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    piece: list[bytes] = []
    size = 0
    for value in values:
        piece.append(value)
        size += len(value)
        if size >= _BATCH_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
