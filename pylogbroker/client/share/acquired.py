"""Fetched records of a partition to the messages that this member may process.

The records may be more than were acquired. Acquired offsets without a record, by compaction or as control records, are
acknowledged as gaps. Those that cannot be read, or that the answer does not contain, are released: a member with
another decoder may read them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import attrs

from pylogbroker.client.errors import PluginFailed
from pylogbroker.client.messages import Decode, Message, MessageSet
from pylogbroker.client.share.acknowledgements import AcknowledgeType, AcquiredPartition
from pylogbroker.errors import CorruptRecords, KafkaError, PylogbrokerError
from pylogbroker.records import Header, TimestampType
from pylogbroker.wire.messages.share_fetch import AcquiredRange, ShareFetchPartitionData

ROWS_PER_STEP: Final = 250
"""Records between two pauses, about 1 ms."""


class ShareMessage(NamedTuple):
    """Message of a share group; `timestamp` in ms since 1970, `delivery_count` from 1 on."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: tuple[Header, ...]
    delivery_count: int


@attrs.frozen
class AcquiredUnpacker:
    _decode_key: Decode | None
    _decode_value: Decode | None
    _check_crcs: bool

    async def __call__(
        self,
        topic: str,
        data: ShareFetchPartitionData,
        acquired: AcquiredPartition,
        pause: Callable[[], Awaitable[None]],
    ) -> tuple[list[ShareMessage], list[PylogbrokerError]]:
        """Return messages in order, and errors of those that cannot be read; raise KafkaError for invalid ranges.

        Await `pause` after each ROWS_PER_STEP records.
        """
        ranges = _checked(topic, data)
        messages: list[ShareMessage] = []
        errors: list[PylogbrokerError] = []
        if not ranges:
            return messages, errors
        first = ranges[0].first_offset
        records: Any = data.records or b""
        rows = MessageSet(topic, data.partition_index, records, first, check_crcs=self._check_crcs)
        pending, next_offset = iter(ranges), first
        current: AcquiredRange | None = next(pending)
        try:
            for number, row in enumerate(rows, 1):
                if number % ROWS_PER_STEP == 0:
                    await pause()
                while current is not None and row.offset > current.last_offset:
                    _leave_out(acquired, next_offset, current.last_offset, AcknowledgeType.GAP)
                    current = next(pending, None)
                    next_offset = current.first_offset if current is not None else next_offset
                if current is None:
                    break
                if row.offset < next_offset:
                    continue
                _leave_out(acquired, next_offset, row.offset - 1, AcknowledgeType.GAP)
                next_offset = row.offset + 1
                try:
                    messages.append(self._message(row, current.delivery_count))
                except PluginFailed as error:
                    _leave_out(acquired, row.offset, row.offset, AcknowledgeType.RELEASE)
                    errors.append(error)
            end = rows.next_offset
        except CorruptRecords as error:
            end = next_offset
            errors.append(error)
        for start, stop in _unread(current, next_offset, pending):
            _leave_out(acquired, start, min(stop, end - 1), AcknowledgeType.GAP)
            _leave_out(acquired, max(start, end), stop, AcknowledgeType.RELEASE)
        return messages, errors

    def _message(self, row: Message, delivery_count: int) -> ShareMessage:
        key, value = row.key, row.value
        try:
            if self._decode_key is not None:
                key = self._decode_key(key)
            if self._decode_value is not None:
                value = self._decode_value(value)
        except PluginFailed as error:
            raise error.at(row.topic, row.partition, row.offset) from error.__cause__
        return ShareMessage(
            row.topic,
            row.partition,
            row.offset,
            row.timestamp,
            row.timestamp_type,
            key,
            value,
            row.headers,
            delivery_count,
        )


def _checked(topic: str, data: ShareFetchPartitionData) -> Sequence[AcquiredRange]:
    """Return the acquired ranges in order; raise KafkaError if they overlap or are reversed."""
    ranges = sorted(data.acquired_records, key=lambda acquired: acquired.first_offset)
    before = -1
    for acquired in ranges:
        if not before < acquired.first_offset <= acquired.last_offset:
            raise KafkaError(
                f"the broker's answer for {topic}/{data.partition_index} has invalid acquired offsets:"
                f" {acquired.first_offset} to {acquired.last_offset} after {before}"
            )
        before = acquired.last_offset
    return ranges


def _unread(
    current: AcquiredRange | None, next_offset: int, pending: Iterator[AcquiredRange]
) -> Iterator[tuple[int, int]]:
    """Yield the acquired offsets behind the last message that was read."""
    if current is not None:
        yield next_offset, current.last_offset
    for acquired in pending:
        yield acquired.first_offset, acquired.last_offset


def _leave_out(acquired: AcquiredPartition, first: int, last: int, kind: AcknowledgeType) -> None:
    if first <= last:
        acquired.acknowledge_range(first, last, kind)
