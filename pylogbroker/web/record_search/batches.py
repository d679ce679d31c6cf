"""Batches of a region: read, inflated and prepared in a worker thread; their records are decoded afterwards.

A damaged batch is left out, and named.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from pylogbroker.conditions import Needles, Subject
from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records import HEADER_V2, LogEntry, TimestampType, entries
from pylogbroker.records.compression import decompress
from pylogbroker.records.record_spans import fields_at, record_starts
from pylogbroker.web.record_rows import RecordRegion
from pylogbroker.web.schema_store import frames_of

INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one batch."""
PREPARED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes that one call of a thread inflates, but for its last batch."""

_RUN_RECORDS_MAX: Final = 32
_RUN_BYTES_MAX: Final = 64 * 1024
"""Bytes from the first record of a run to the last one."""


@attrs.frozen(eq=False, repr=False)
class PreparedBatch:
    """Batch whose records may be selected."""

    partition: int
    entry: LogEntry
    data: bytes
    starts: Sequence[int]
    """Places of these records in the data."""
    is_framed: bool = False
    """Some content names a schema, and is to be decoded."""

    def runs(self) -> Iterator[Iterator[Subject]]:
        """Yield runs of the records that may be selected, which take little time each; these raise CorruptRecords."""
        starts, begin = self.starts, 0
        while begin < len(starts):
            end = min(begin + _RUN_RECORDS_MAX, bisect_right(starts, starts[begin] + _RUN_BYTES_MAX))
            yield self._decoded(starts[begin:end])
            begin = end

    def _decoded(self, starts: Iterable[int]) -> Iterator[Subject]:
        entry, data, partition = self.entry, self.data, self.partition
        base, first = entry.base_offset, entry.first_timestamp
        append_time = entry.max_timestamp if entry.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        for start in starts:
            elapsed, delta, key, value, headers = fields_at(data, start)
            yield Subject(
                partition, base + delta, first + elapsed if append_time is None else append_time, key, value, headers
            )


@attrs.frozen(eq=False, repr=False)
class PreparedMessages:
    """Messages of the formats before batches, which are decoded as a whole."""

    _subjects: list[Subject]
    is_framed: bool = False

    def runs(self) -> Iterator[Iterator[Subject]]:
        """Yield runs of records, which take little time each."""
        begin = size = 0
        for number, subject in enumerate(self._subjects, 1):
            size += subject.size
            if number - begin == _RUN_RECORDS_MAX or size > _RUN_BYTES_MAX:
                yield iter(self._subjects[begin:number])
                begin, size = number, 0
        yield iter(self._subjects[begin:])


@attrs.define(eq=False, repr=False)
class RegionPart:
    """Batches of a region that may have selected records, in the order of the log."""

    batches: list[PreparedBatch | PreparedMessages] = attrs.field(factory=list)
    first_offset: int = -1
    """Offset of the region's first entry, -1 if it has none."""
    first_time: int = -1
    last_time: int = -1
    """Times of the first entry and the last one, -1 if they are not known."""
    next_offset: int = -1
    """Offset behind the last entry that was looked at, -1 without any."""
    bytes: int = 0
    """Bytes that were read."""
    damages: list[str] = attrs.field(factory=list)


def prepare(
    region: RecordRegion,
    partition: int,
    low: int,
    high: int,
    needles: Needles | None,
    messages_low: int = 0,
    is_decoded: bool = False,
) -> RegionPart:
    """Read a region, and prepare batches that reach into offsets from `low` to below `high`. Blocks.

    Messages below `messages_low` are left out: compressed ones do not say with which offset they begin. With
    `is_decoded`, batches whose content names schemas are all kept: needles are not in its bytes.
    """
    part = RegionPart()
    inflated = 0
    try:
        for entry in entries(region.read(), partial=True):
            if (entry.count >= 0 and entry.base_offset >= high) or inflated > PREPARED_BYTES_MAX:
                break
            part.next_offset = entry.next_offset
            if entry.last_offset < max(low, messages_low if entry.magic < 2 else 0):
                continue
            if part.first_offset < 0:
                part.first_offset = entry.base_offset
                part.first_time = min(entry.first_timestamp, entry.max_timestamp)
            part.bytes += entry.size
            part.last_time = max(part.last_time, entry.max_timestamp)
            if not entry.is_control:
                inflated += _prepare(entry, partition, needles, messages_low, is_decoded, part)
    except CorruptRecords as error:
        part.damages.append(f"Partition {partition} is damaged behind offset {max(low, part.first_offset)}: {error}")
    return part


def _prepare(
    entry: LogEntry, partition: int, needles: Needles | None, messages_low: int, is_decoded: bool, part: RegionPart
) -> int:
    """Add a batch unless it has none of the needles; return the bytes of its records."""
    try:
        if entry.magic < 2:
            records = list(entry.records(INFLATED_BYTES_MAX))
            subjects = [
                Subject(partition, record.offset, record.timestamp, record.key, record.value)
                for record in records
                if record.offset >= messages_low
            ]
            part.batches.append(PreparedMessages(subjects, is_decoded))
            return sum(record.size for record in subjects)
        data = decompress(entry.codec, entry.buffer[HEADER_V2.size :], 2, INFLATED_BYTES_MAX)
        if is_decoded and _has_frames(data, entry.count):
            part.batches.append(PreparedBatch(partition, entry, data, record_starts(data, entry.count), True))
        elif needles is None or needles.are_in(data):
            starts = record_starts(data, entry.count)
            is_dense = needles is not None and needles.count_in(data) > len(starts) // 2
            if needles is not None and not is_dense:
                starts = [*_candidates(data, starts, needles)]
            part.batches.append(PreparedBatch(partition, entry, data, starts))
        return len(data)
    except (CorruptRecords, InvalidRecords) as error:
        offsets = f"offsets {entry.base_offset} to {entry.last_offset}"
        part.damages.append(f"The batch with {offsets} of partition {partition} cannot be read: {error}")
        return 0


def _candidates(data: bytes, starts: Sequence[int], needles: Needles) -> Iterator[int]:
    """Yield the starts of records that contain a needle, in their order."""
    places = needles.places(data)
    place = next(places, -1)
    while place >= 0:
        number = bisect_right(starts, place)
        if number:
            yield starts[number - 1]
        try:
            place = places.send(starts[number] if number < len(starts) else len(data))
        except StopIteration:
            return


def _has_frames(data: bytes, count: int) -> bool:
    """Return whether a key or value of a batch names a schema; raise CorruptRecords."""
    for start in record_starts(data, count):
        _, _, key, value, headers = fields_at(data, start)
        if frames_of(key, value, headers):
            return True
    return False
