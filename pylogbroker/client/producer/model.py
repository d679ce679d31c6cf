"""Inputs and results of a producer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, repeat
from typing import Any, NamedTuple, overload

import attrs

from pylogbroker.records import Header

UNKNOWN_OFFSET = -1


class RecordMetadata(NamedTuple):
    """Partition, offset and timestamp of a sent record.

    The offset is -1 if unknown: with `acks=0`, for records dropped by a callback handler or taken by a custom event
    handler, and for duplicates older than the broker remembers. The timestamp, in milliseconds since 1970, is the
    record's, or the broker's with LogAppendTime. A named tuple for speed.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


@attrs.frozen(eq=False, repr=False)
class BatchMetadata(Sequence[RecordMetadata]):
    """Metadata of a batch's records, each made when it is read. Without `append_time`, -1, they have timestamps."""

    topic: str
    partition: int
    base_offset: int
    timestamps: Sequence[int]
    append_time: int

    def __len__(self) -> int:
        return len(self.timestamps)

    @overload
    def __getitem__(self, place: int) -> RecordMetadata: ...

    @overload
    def __getitem__(self, place: slice) -> list[RecordMetadata]: ...

    def __getitem__(self, place: int | slice) -> RecordMetadata | list[RecordMetadata]:
        if isinstance(place, slice):
            return self._some(place)
        place = range(len(self.timestamps))[place]
        timestamp = self.timestamps[place] if self.append_time < 0 else self.append_time
        offset = self.base_offset + place if self.base_offset >= 0 else UNKNOWN_OFFSET
        return RecordMetadata(self.topic, self.partition, offset, timestamp)

    def _some(self, places: slice) -> list[RecordMetadata]:
        """Return a contiguous part, without a loop in Python."""
        timestamps = self.timestamps[places]
        first = places.indices(len(self))[0]
        offsets = count(self.base_offset + first) if self.base_offset >= 0 else repeat(UNKNOWN_OFFSET)
        times = timestamps if self.append_time < 0 else repeat(self.append_time, len(timestamps))
        rows = zip(repeat(self.topic), repeat(self.partition), offsets, times, strict=False)
        return list(map(tuple.__new__, repeat(RecordMetadata), rows))


@attrs.frozen
class ProducerRecord:
    """Arguments of `send`."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Sequence[Header] = ()


@attrs.frozen
class OffsetToCommit:
    """Next offset to consume, with the consumer's note."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@attrs.frozen
class GroupMember:
    """Group and committing member; without a member id, rebalances do not fence the commit."""

    group: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


Offsets = Mapping[tuple[str, int], int | OffsetToCommit]


@attrs.define
class Counts:
    """Counters of a producer; times in seconds, summed over batches.

    `queued`, `queued_bytes` and `waiting` go up and down, others only up.
    """

    queued: int = 0  # records, in flight included
    queued_bytes: int = 0
    waiting: int = 0  # records without space
    sent: int = 0  # records, at their first request
    acknowledged: int = 0
    failed: int = 0
    dropped: int = 0  # by a callback handler, or without space
    bytes: int = 0  # compressed batches in requests, retries included
    batches: int = 0
    requests: int = 0
    retries: int = 0  # batches
    queue_time: float = 0.0  # from batch creation to first request
    request_time: float = 0.0
