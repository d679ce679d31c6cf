"""Writes groups, offsets and tombstones to `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import attrs

from pylogbroker.coordinators import (
    APPEND_ERRORS,
    AppendCallback,
    LazyRecords,
    ProducerIdAndEpoch,
    RecordWriter,
    TopicPartition,
    record,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import record_schema
from pylogbroker.groups.kinds import ClassicGroup, Group
from pylogbroker.groups.requests import CommittedOffset
from pylogbroker.records import Record

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)

_GROUP_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **APPEND_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    **dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
}
"""Errors of a member's request by the append's error."""

_OFFSET_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **APPEND_ERRORS,
    **dict.fromkeys(_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
}
"""Errors of a commit by the append's error."""


@attrs.frozen
class GroupRecordWriter:
    _writer: RecordWriter

    def write_group(
        self, group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int, done: AppendCallback
    ) -> None:
        value = _group_value(group)
        members = _members(group, assignments)

        def encode() -> Iterator[Record]:
            value.members = [record_schema.MemberMetadata(*member) for member in members]
            yield record(
                record_schema.encode_group_key(group.group_id), record_schema.encode_group_value(value), now_ms
            )

        records = LazyRecords(1, encode, elements=len(members))
        self._writer.append(group.partition, records, now_ms, done, _GROUP_ERRORS)

    def write_offsets(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, CommittedOffset],
        now_ms: int,
        done: AppendCallback,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Write all offsets or none; with `producer` in its transaction."""
        group_id = group.group_id

        def encode() -> Iterator[Record]:
            for partition, offset in offsets.items():
                key = record_schema.encode_offset_key(group_id, *partition)
                yield record(key, record_schema.encode_offset_value(offset), now_ms)

        self._writer.append(group.partition, LazyRecords(len(offsets), encode), now_ms, done, _OFFSET_ERRORS, producer)

    def write_tombstones(
        self, group: Group, partitions: Collection[TopicPartition], with_group: bool, now_ms: int
    ) -> None:
        """Write tombstones of offsets, and `with_group` of the group.

        They are not acknowledged: after a failed write, or one that no other replica has, the next load finds the
        offsets again.
        """
        group_id = group.group_id

        def encode() -> Iterator[Record]:
            for partition in partitions:
                yield record(record_schema.encode_offset_key(group_id, *partition), None, now_ms)
            if with_group:
                yield record(record_schema.encode_group_key(group_id), None, now_ms)

        count = len(partitions) + with_group
        if count:
            self._writer.append_unreplicated(group.partition, LazyRecords(count, encode))


def _group_value(group: ClassicGroup) -> record_schema.GroupMetadataValue:
    return record_schema.GroupMetadataValue(
        group.protocol_type or "",
        group.generation,
        group.protocol_name,
        group.leader,
        record_schema.UNKNOWN_TIME if group.since is None else group.since,
    )


def _members(group: ClassicGroup, assignments: Mapping[str, bytes]) -> list[tuple[Any, ...]]:
    """Return the fields of `MemberMetadata` for each member."""
    protocol = group.protocol_name
    return [
        (
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(protocol),
            assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
