"""Writes the changes of consumer groups to `__consumer_offsets`.

A group is in memory what it will be in the log: its changes are appended in order, and answered when they are stored.
Changes that were not stored are written again with the next ones. So the log and memory differ by the changes of failed
appends alone, which no answer has mentioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs

from pylogbroker.coordinators import APPEND_ERRORS, LazyRecords, RecordWriter, record
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer import record_schema
from pylogbroker.groups.consumer.group import ConsumerGroup, RecordKey, RecordKind
from pylogbroker.groups.consumer.member import ConsumerMember
from pylogbroker.groups.consumer.partitions import TopicIdPartition, by_topic
from pylogbroker.records import Record
from pylogbroker.wire import WireMessage

_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **APPEND_ERRORS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors of a member's request by the append's error."""

_BATCH_WEIGHT_MAX = 300_000
"""About the most bytes of a batch. A large group's changes are several: each prefix of them is a valid group."""

Stored = Callable[[ErrorCode, int], None]
_MakeValue = Callable[[], WireMessage | None]


@attrs.define(eq=False, repr=False)
class _Append:
    changes: tuple[RecordKey, ...]
    waiting: list[Stored] = attrs.field(factory=list)


@attrs.define(eq=False, repr=False)
class GroupChanges:
    _writer: RecordWriter
    _appends: dict[ConsumerGroup, list[_Append]] = attrs.field(factory=dict, init=False)  # on their way

    def store(self, group: ConsumerGroup, now_ms: int, stored: Stored) -> None:
        """Write what has changed; call `stored` when that, and all earlier changes, are stored."""
        for batch in _batches(group, group.take_changes()):
            self._append(group, batch, now_ms)
        under_way = self._appends.get(group)
        if under_way:
            under_way[-1].waiting.append(stored)
        else:
            stored(ErrorCode.NONE, now_ms)

    def _append(self, group: ConsumerGroup, batch: dict[RecordKey, _MakeValue], now_ms: int) -> None:
        append = _Append(tuple(batch))
        self._appends.setdefault(group, []).append(append)
        group_id = group.group_id

        def encode() -> Iterator[Record]:
            for (kind, name), make in batch.items():
                value = make()
                key = record_schema.encode_key(kind, group_id, name)
                yield record(key, None if value is None else record_schema.encode_value(value), now_ms)

        def done(error: ErrorCode, done_ms: int) -> None:
            self._done(group, append, error, done_ms)

        self._writer.append(group.partition, LazyRecords(len(batch), encode), now_ms, done, _ERRORS)

    def _done(self, group: ConsumerGroup, append: _Append, error: ErrorCode, now_ms: int) -> None:
        appends = self._appends[group]
        appends.remove(append)
        if not appends:
            del self._appends[group]
        if error:
            group.put_back(append.changes)
        for stored in append.waiting:
            stored(error, now_ms)

    def write_tombstones(self, group: ConsumerGroup, now_ms: int) -> None:
        """Remove all records of a group without members; as in `GroupRecordWriter.write_tombstones`."""
        group.note_all()
        keys = list(group.take_changes())
        group_id = group.group_id

        def encode() -> Iterator[Record]:
            yield record(record_schema.encode_partition_metadata_key(group_id), None, now_ms)
            for kind, name in keys:
                yield record(record_schema.encode_key(kind, group_id, name), None, now_ms)

        self._writer.append_unreplicated(group.partition, LazyRecords(len(keys) + 1, encode))


def _batches(group: ConsumerGroup, changes: Iterable[RecordKey]) -> Iterator[dict[RecordKey, _MakeValue]]:
    batch: dict[RecordKey, _MakeValue] = {}
    weight = 0
    for change in changes:
        value, size = _value(group, *change)
        if batch and weight + size > _BATCH_WEIGHT_MAX:
            yield batch
            batch, weight = {}, 0
        batch[change] = value
        weight += size
    if batch:
        yield batch


def _value(group: ConsumerGroup, kind: RecordKind, name: str) -> tuple[_MakeValue, int]:
    """Return a function that makes the value of the present state in any thread, and about how many bytes it has."""
    usual = 100 + len(name)
    if group.is_dead:
        return _tombstone, usual
    match kind:
        case RecordKind.GROUP:
            value = record_schema.GroupValue(group.epoch, group.metadata_hash)
            return lambda: value, usual
        case RecordKind.TARGET:
            target = record_schema.TargetValue(group.target_epoch, group.assigned_ms)
            return lambda: target, usual
        case RecordKind.EXPRESSION:
            return _expression(group, name, usual)
    member = group.members.get(name)
    if member is None:
        return _tombstone, usual
    match kind:
        case RecordKind.TARGET_OF_MEMBER:
            partitions = group.target_of(name)
            return lambda: record_schema.MemberTargetValue(_target_topics(partitions)), usual + 20 * len(partitions)
        case RecordKind.CURRENT:
            return _current(member, usual)
    return _member(member, usual)


def _tombstone() -> None:
    return None


def _expression(group: ConsumerGroup, expression: str, size: int) -> tuple[_MakeValue, int]:
    resolved = group.expressions.get(expression)
    if resolved is None:
        return _tombstone, size
    topics, version, resolved_ms = resolved.topics, resolved.version, resolved.resolved_ms
    size += sum(map(len, topics))
    return lambda: record_schema.ExpressionValue(sorted(topics), version, resolved_ms), size


def _member(member: ConsumerMember, size: int) -> tuple[_MakeValue, int]:
    classic = member.classic
    value = record_schema.MemberValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        [],
        member.expression,
        member.rebalance_timeout_ms,
        member.assignor,
        None
        if classic is None
        else record_schema.ClassicMemberMetadata(
            classic.session_timeout_ms, [record_schema.ClassicProtocol(*protocol) for protocol in classic.protocols]
        ),
    )
    topics = member.topics
    if classic is not None:
        size += sum(len(metadata) for _, metadata in classic.protocols)

    def make() -> WireMessage:
        value.subscribed_topic_names = sorted(topics)
        return value

    return make, size + sum(map(len, topics))


def _current(member: ConsumerMember, size: int) -> tuple[_MakeValue, int]:
    epoch, previous_epoch, state = member.epoch, member.previous_epoch, member.state
    assigned, revoking = member.assigned, member.revoking

    def make() -> WireMessage:
        return record_schema.CurrentValue(
            epoch, previous_epoch, state, _current_topics(assigned), _current_topics(revoking)
        )

    return make, size + 24 * (len(assigned) + len(revoking))


def _target_topics(partitions: Iterable[TopicIdPartition]) -> list[record_schema.TopicPartitions]:
    return [
        record_schema.TopicPartitions(topic_id, numbers) for topic_id, numbers in sorted(by_topic(partitions).items())
    ]


def _current_topics(partitions: Mapping[TopicIdPartition, int]) -> list[record_schema.CurrentTopicPartitions]:
    return [
        record_schema.CurrentTopicPartitions(topic_id, numbers, [partitions[topic_id, number] for number in numbers])
        for topic_id, numbers in sorted(by_topic(partitions).items())
    ]
