"""Log entries: record batches (v2), messages (v0, v1) and compressed message sets (v0, v1).

All begin with

    0             8          12
    +-------------+----------+------------------------ - -
    | offset 64   | size 32  | `size` bytes, with the magic at 16
    +-------------+----------+------------------------ - -

A `LogEntry` is a view, which decodes records on demand.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import batch, message_set
from pylogbroker.records.batch import CONTROL, HEADER_V2, TIMESTAMP_TYPE, TRANSACTIONAL
from pylogbroker.records.checksum import crc32, crc32c
from pylogbroker.records.compression import DECOMPRESSED_BYTES_MAX, codec_of, decompress
from pylogbroker.records.control import Marker, read_marker
from pylogbroker.records.message_set import INT64, KNOWN_ATTRIBUTES, MESSAGE_HEADER
from pylogbroker.records.model import NO_TIMESTAMP, Buffer, Codec, Record, TimestampType, view

ENTRY_PREFIX = 12

MAGIC_AT = 16

_PREFIX = struct.Struct(">qi4xb")
_SMALLEST = (*message_set.SMALLEST, HEADER_V2.size - ENTRY_PREFIX)


@attrs.define(eq=False, repr=False)
class LogEntry:
    """Header of one entry.

    In a compressed message set, which has no first offset, `base_offset` is the last one, and `count` is -1.
    """

    buffer: memoryview
    magic: int
    attributes: int
    crc: int
    base_offset: int
    last_offset: int
    count: int = 1
    first_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1

    @property
    def size(self) -> int:
        return len(self.buffer)

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """Last record's sequence number, -1 without a producer; wraps at 2^31."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        """Raise InvalidRecords if it is unknown."""
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def marker(self) -> Marker | None:
        """Transaction marker, if any. Decodes its record."""
        return read_marker(self.records) if self.is_control else None

    def check(self) -> None:
        """Raise CorruptRecords for a wrong CRC."""
        if self.magic == 2:
            actual = crc32c(self.buffer[batch.CRC_START :])
        else:
            actual = crc32(self.buffer[message_set.CRC_START :])
        if actual != self.crc:
            raise CorruptRecords(f"the entry at offset {self.base_offset} has CRC {actual:#x} instead of {self.crc:#x}")

    def records(self, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """Raise CorruptRecords for damage or more than `limit` bytes."""
        if self.magic < 2:
            return message_set.read_records(self.buffer, limit)
        data = decompress(self.codec, self.buffer[HEADER_V2.size :], 2, limit)
        append_time = self.max_timestamp if self.attributes & TIMESTAMP_TYPE else None
        return batch.read_records(data, self.count, self.base_offset, self.first_timestamp, append_time)


def entries(buffer: Buffer, *, partial: bool = False) -> Iterator[LogEntry]:
    """Yield the entries in `buffer`; CRCs are not checked.

    Raise CorruptRecords at bytes that are no entry, and at a truncated last one unless `partial`, which skips it.
    """
    whole = view(buffer)
    return (parse(whole[place:stop]) for place, stop in bounds(whole, partial=partial))


def last_entry(buffer: Buffer) -> LogEntry | None:
    """Return the last complete entry, or None without one; raise like `entries`. Other entries are not parsed."""
    whole = view(buffer)
    place = end = 0
    for place, end in bounds(whole, partial=True):  # noqa: B007
        pass
    return parse(whole[place:end]) if end else None


def entry_size(buffer: Buffer) -> int:
    """Return the first entry's size; `buffer` must contain its prefix."""
    return ENTRY_PREFIX + int(_PREFIX.unpack_from(buffer)[1])


def complete_entries(buffer: Buffer) -> memoryview:
    """Return `buffer` without a truncated last entry, which a leader may send."""
    whole = view(buffer)
    if len(whole) >= _PREFIX.size and entry_size(whole) == len(whole):  # as a rule for a record at a time
        return whole
    end = 0
    for _, end in bounds(whole, partial=True):  # noqa: B007
        pass
    return whole[:end]


def bounds(buffer: memoryview, *, partial: bool = False) -> Iterator[tuple[int, int]]:
    """Yield start and end of each entry; raises like `entries`."""
    place, end = 0, len(buffer)
    while place < end:
        stop = place + _PREFIX.size
        if stop <= end:
            offset, size, magic = _PREFIX.unpack_from(buffer, place)
            if not 0 <= magic <= 2:
                raise CorruptRecords(f"magic {magic} at offset {offset} is none of 0, 1 and 2")
            if size < _SMALLEST[magic]:
                raise CorruptRecords(f"a size of {size} bytes at offset {offset} is too small for magic {magic}")
            stop = place + ENTRY_PREFIX + size
        if stop > end:
            if partial:
                return
            raise CorruptRecords(f"the last entry, of {stop - place} bytes, is cut off after {end - place}")
        yield place, stop
        place = stop


def parse(buffer: memoryview) -> LogEntry:
    """Return the entry that fills `buffer`, after checks of size and magic."""
    if buffer[16] != 2:
        return _parse_message(buffer)
    base, _, epoch, magic, crc, attributes, last_delta, first, newest, *producer, count = HEADER_V2.unpack_from(buffer)
    last = base + last_delta
    return LogEntry(buffer, magic, attributes, crc, base, last, count, first, newest, epoch, *producer)


def _parse_message(buffer: memoryview) -> LogEntry:
    offset, _size, crc, magic, attributes = MESSAGE_HEADER.unpack_from(buffer)
    timestamp = INT64.unpack_from(buffer, MESSAGE_HEADER.size)[0] if magic else NO_TIMESTAMP
    attributes &= KNOWN_ATTRIBUTES[magic]
    count = -1 if attributes & 0x07 else 1
    return LogEntry(buffer, magic, attributes, crc, offset, offset, count, timestamp, timestamp)
