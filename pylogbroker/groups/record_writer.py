"""What the coordinator writes down: groups, offsets, and that either is gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import attrs

from pylogbroker.coordinators import EventQueue
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import record_schema
from pylogbroker.groups.classic.group import Group
from pylogbroker.groups.classic.member import Member
from pylogbroker.groups.log_port import AppendCallback, GroupLogPort, ProducerIdAndEpoch
from pylogbroker.groups.requests import CommittedOffset, TopicPartition
from pylogbroker.records import Record
from pylogbroker.wire import EncodingError

RECORDS_INLINE_MAX = 500
"""Records that are made at once.  The store makes more of them with their batch, in a worker thread."""

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)

_COMMON = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
GROUP_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **_COMMON,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    **dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
}
"""What a member is told when the assignment could not be stored for that reason."""

OFFSET_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **_COMMON,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    **dict.fromkeys(_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
}
"""What a client is told when its offsets could not be stored for that reason."""


def _ignore_result(error: ErrorCode, now_ms: int) -> None:
    """Tombstones that could not be stored are written again after the next start."""


@attrs.define(eq=False)
class GroupRecordWriter:
    """Turns groups and offsets into records and hands them to the store."""

    _log_port: GroupLogPort
    _events: EventQueue

    def write_group(self, group: Group, assignments: Mapping[str, bytes], now_ms: int, done: AppendCallback) -> None:
        """Write a group's generation with these assignments."""

        def records() -> list[Record]:
            key = record_schema.encode_group_key(group.group_id)
            return [_record(now_ms, key, record_schema.encode_group_value(_group_value(group, assignments)))]

        self._append(group, records, now_ms, done, GROUP_ERRORS)

    def write_offsets(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, CommittedOffset],
        now_ms: int,
        done: AppendCallback,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Write a group's offsets, all of them or none; with a producer as part of its transaction."""

        def records() -> Collection[Record]:
            return _lazy_if_many(_OffsetRecords(group.group_id, offsets, now_ms))

        self._append(group, records, now_ms, done, OFFSET_ERRORS, producer)

    def forget(self, group: Group, partitions: Collection[TopicPartition], whole: bool, now_ms: int) -> None:
        """Write that these offsets are gone, and with `whole` the group too."""
        tombstones = _Tombstones(group.group_id, partitions, whole, now_ms)
        if len(tombstones):
            self._append(group, lambda: _lazy_if_many(tombstones), now_ms, _ignore_result, {})

    def _append(
        self,
        group: Group,
        records: Callable[[], Collection[Record]],
        now_ms: int,
        done: AppendCallback,
        errors: Mapping[ErrorCode, ErrorCode],
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        def stored(error: ErrorCode, later_ms: int) -> None:
            done(errors.get(error, error), later_ms)

        report = self._events.as_event(stored)
        try:
            encoded = records()
        except EncodingError:  # a string is longer than the layout can say
            report(ErrorCode.MESSAGE_TOO_LARGE, now_ms)
        else:
            self._log_port.append(group.partition, encoded, report, producer)


def _record(now_ms: int, key: bytes, value: bytes | None) -> Record:
    return Record(offset=0, timestamp=now_ms, key=key, value=value)


class _LazyRecords(Collection[Record]):
    """Records that are made when they are asked for; any thread may iterate."""

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)


def _lazy_if_many(records: _LazyRecords) -> Collection[Record]:
    return records if len(records) > RECORDS_INLINE_MAX else list(records)


@attrs.frozen
class _OffsetRecords(_LazyRecords):
    """The records of a group's offsets."""

    _group_id: str
    _offsets: Mapping[TopicPartition, CommittedOffset]
    _now_ms: int

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[Record]:
        for partition, offset in self._offsets.items():
            key = record_schema.encode_offset_key(self._group_id, *partition)
            yield _record(self._now_ms, key, record_schema.encode_offset_value(offset))


@attrs.frozen
class _Tombstones(_LazyRecords):
    """The tombstones of a group's offsets, and with `whole` of the group."""

    _group_id: str
    _partitions: Collection[TopicPartition]
    _whole: bool
    _now_ms: int

    def __len__(self) -> int:
        return len(self._partitions) + self._whole

    def __iter__(self) -> Iterator[Record]:
        for partition in self._partitions:
            yield _record(self._now_ms, record_schema.encode_offset_key(self._group_id, *partition), None)
        if self._whole:
            yield _record(self._now_ms, record_schema.encode_group_key(self._group_id), None)


def _group_value(group: Group, assignments: Mapping[str, bytes]) -> record_schema.GroupMetadataValue:
    return record_schema.GroupMetadataValue(
        group.protocol_type or "",
        group.generation,
        group.protocol_name,
        group.leader,
        record_schema.UNKNOWN_TIME if group.since is None else group.since,
        [_member_value(group, member, assignments) for member in group.members.values()],
    )


def _member_value(group: Group, member: Member, assignments: Mapping[str, bytes]) -> record_schema.MemberMetadata:
    return record_schema.MemberMetadata(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(group.protocol_name),
        assignments.get(member.member_id, b""),
    )
