"""Entries: what a log is a sequence of, whatever the message format.

An entry is a record batch (v2), a message (v0, v1) or a message around a compressed set of them.  All begin alike,

    0             8          12
    +-------------+----------+------------------------ - -
    | offset 64   | size 32  | `size` bytes, with the magic at 16
    +-------------+----------+------------------------ - -

so that they can be told apart and stepped over.  An `Entry` is a view of one: its header's fields, and its records on
demand only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import batch, message_set
from pylogbroker.records.batch import CONTROL, HEADER_V2, TIMESTAMP_TYPE, TRANSACTIONAL
from pylogbroker.records.buffers import Buffer, view
from pylogbroker.records.checksum import crc32, crc32c
from pylogbroker.records.compression import MAX_DECOMPRESSED, codec_of, decompress
from pylogbroker.records.control import Marker, parse_marker
from pylogbroker.records.message_set import INT64, KNOWN_ATTRIBUTES, MESSAGE_HEADER
from pylogbroker.records.model import NO_TIMESTAMP, Codec, Record, TimestampType

ENTRY_PREFIX = 12
"""The bytes of offset and size, which `size` itself does not count."""

MAGIC_AT = 16
"""Where an entry says its message format."""

_PREFIX = struct.Struct(">qi4xb")
_SMALLEST = (*message_set.SMALLEST, HEADER_V2.size - ENTRY_PREFIX)


@attrs.define(eq=False)
class Entry:
    """The header of one entry.

    `base_offset` of a compressed message set (v0, v1) is that of its last record, as `last_offset`, and `count` is -1:
    only its records tell where it begins.
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
        """Bytes of the whole entry."""
        return len(self.buffer)

    @property
    def next_offset(self) -> int:
        """The offset that the next entry's first record has at least."""
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, -1 without a producer id; numbers go round at 2^31."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        """How the records are compressed; InvalidRecords for a codec that does not exist."""
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whose clock the timestamps are from."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are markers (commit, abort), not data."""
        return self.attributes & CONTROL != 0

    @property
    def marker(self) -> Marker | None:
        """How a transaction ended, if that is what the entry says.  Decodes its record."""
        return parse_marker(self)

    def check(self) -> None:
        """Compare the CRC; CorruptRecords if it differs."""
        if self.magic == 2:
            actual = crc32c(self.buffer[batch.CRC_START :])
        else:
            actual = crc32(self.buffer[message_set.CRC_START :])
        if actual != self.crc:
            raise CorruptRecords(f"the entry at offset {self.base_offset} has CRC {actual:#x} instead of {self.crc:#x}")

    def records(self, limit: int = MAX_DECOMPRESSED) -> Iterator[Record]:
        """The records, decoded one by one; CorruptRecords at what is damaged or decompresses to more than `limit`."""
        if self.magic < 2:
            return message_set.read_records(self.buffer, limit)
        data = decompress(self.codec, self.buffer[HEADER_V2.size :], 2, limit)
        append_time = self.max_timestamp if self.attributes & TIMESTAMP_TYPE else None
        return batch.read_records(data, self.count, self.base_offset, self.first_timestamp, append_time)


def entries(buffer: Buffer, *, partial: bool = False) -> Iterator[Entry]:
    """The entries in `buffer`, one after the other.

    CorruptRecords at what cannot be an entry, and at a cut-off one at the end, unless `partial`: then it is left out.
    CRCs are not looked at; see `Entry.check`.
    """
    whole = view(buffer)
    return (parse(whole[place:stop]) for place, stop in bounds(whole, partial=partial))


def entry_size(buffer: Buffer) -> int:
    """Bytes of the entry that `buffer` begins with; the buffer may end within it, but not within its prefix."""
    return ENTRY_PREFIX + int(_PREFIX.unpack_from(buffer)[1])


def bounds(buffer: memoryview, *, partial: bool = False) -> Iterator[tuple[int, int]]:
    """Where each of them begins and ends; `parse` takes what is there."""
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


def parse(buffer: memoryview) -> Entry:
    """The entry that fills `buffer`, whose size and magic are known to be right."""
    if buffer[16] != 2:
        return _parse_message(buffer)
    base, _, epoch, magic, crc, attributes, last_delta, first, newest, *producer, count = HEADER_V2.unpack_from(buffer)
    last = base + last_delta
    return Entry(buffer, magic, attributes, crc, base, last, count, first, newest, epoch, *producer)


def _parse_message(buffer: memoryview) -> Entry:
    offset, _size, crc, magic, attributes = MESSAGE_HEADER.unpack_from(buffer)
    timestamp = INT64.unpack_from(buffer, MESSAGE_HEADER.size)[0] if magic else NO_TIMESTAMP
    attributes &= KNOWN_ATTRIBUTES[magic]
    count = -1 if attributes & 0x07 else 1
    return Entry(buffer, magic, attributes, crc, offset, offset, count, timestamp, timestamp)
