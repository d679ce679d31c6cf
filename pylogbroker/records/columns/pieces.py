"""What was fetched, in pieces: whole batches, checked, inflated, ready to be read as columns or one by one.

    buffer   | batch | batch | message | message | batch | bat
    pieces   |    piece      |      piece        | piece |  cut off: left out

A piece is of one kind, v2 batches or messages of v0 and v1.  Compressed batches are inflated when their piece is asked
for, and a piece ends when that came to some megabytes; so what a fetch inflates to is never all in memory.

Batches that are not for applications (markers, and data of aborted transactions where these are known) and empty ones
are passed over.  So is all that begins at the end that was asked for, or behind it; it is not even looked at.
What is wrong with an entry is raised when it is its turn: the entries before it are a piece of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import attrs

from pylogbroker.errors import PylogbrokerError
from pylogbroker.records.batch import CODEC, CONTROL, CRC_START, HEADER_V2, TRANSACTIONAL, read_records
from pylogbroker.records.buffers import Buffer, view
from pylogbroker.records.checksum import crc32c
from pylogbroker.records.columns.aborted import AbortedTransactions
from pylogbroker.records.columns.heads import Heads, heads_at
from pylogbroker.records.compression import MAX_DECOMPRESSED, codec_of, inflate
from pylogbroker.records.entry import Entry, bounds, parse
from pylogbroker.records.model import Record

ENOUGH: Final = 8 << 20  # bytes of records, inflated, for one piece
_START: Final = struct.Struct(">q8xbIh")  # offset and magic of any entry; CRC and attributes of a batch
_SPECIAL: Final = CODEC | CONTROL | TRANSACTIONAL
_COUNT: Final = struct.Struct(">57xi")
_NOTHING: Final = memoryview(b"")


@attrs.define(eq=False)
class Piece:
    """Entries in a row, what is in them, and which offset follows them."""

    next_offset: int = -1
    limit: int = MAX_DECOMPRESSED
    buffer: memoryview = _NOTHING
    """All that was fetched."""

    places: list[int] = attrs.Factory(list)
    """Where in the buffer each v2 batch begins."""

    stops: list[int] = attrs.Factory(list)
    """Where it ends."""

    inflated: dict[int, Buffer] = attrs.Factory(dict)
    """The records of those that are compressed, by where the batch begins."""

    _entries: list[Entry] = attrs.Factory(list)

    @property
    def entries(self) -> list[Entry]:
        """The entries; batches are made entries when somebody asks for them."""
        some = slice(len(self._entries), None)
        self._entries += map(parse, map(self._cut, self.places[some], self.stops[some]))
        return self._entries

    @property
    def payloads(self) -> list[Buffer]:
        """The records of each v2 batch, inflated; of messages nothing."""
        behind = HEADER_V2.size
        return [
            self.inflated[place] if place in self.inflated else self._cut(place + behind, stop)
            for place, stop in zip(self.places, self.stops, strict=True)
        ]

    @property
    def heads(self) -> Heads:
        """The headers of the batches, as a table."""
        return heads_at(self.buffer, self.places)

    @property
    def is_v2(self) -> bool:
        """Whether the entries are batches."""
        return bool(self.places)

    @property
    def most(self) -> int:
        """How many records there are, if that can be told: messages of v0 and v1 may be compressed."""
        if self.is_v2:
            return sum(_COUNT.unpack_from(self.buffer, place)[0] for place in self.places)
        return len(self._entries)

    def records(self) -> Iterator[Record]:
        """The records, one by one."""
        if not self.is_v2:
            for entry in self.entries:
                yield from entry.records(self.limit)
        for entry, payload in zip(self.entries, self.payloads, strict=False):
            append_time = entry.max_timestamp if entry.timestamp_type else None
            yield from read_records(bytes(payload), entry.count, entry.base_offset, entry.first_timestamp, append_time)

    def singles(self) -> Iterator[Piece]:
        """Each of the entries as a piece of its own; one in any case."""
        last = len(self.entries) - 1
        for index, entry in enumerate(self.entries):
            behind = self.next_offset if index == last else entry.next_offset
            some = slice(index, index + 1)
            places, stops = self.places[some], self.stops[some]
            yield attrs.evolve(self, next_offset=behind, entries=[entry], places=places, stops=stops)
        if not self.entries:
            yield self

    def before(self, place: int, stop: int) -> Piece:
        """The same, of which the last entry, perhaps one that was passed over, is there."""
        self.next_offset = parse(self._cut(place, stop)).next_offset
        return self

    def _cut(self, place: int, stop: int) -> memoryview:
        return self.buffer[place:stop]


def pieces(
    buffer: Buffer,
    aborted: AbortedTransactions | None = None,
    *,
    limit: int = MAX_DECOMPRESSED,
    enough: int = ENOUGH,
    check: bool = True,
    end: int | None = None,
) -> Iterator[Piece]:
    """The pieces of `buffer`; an entry that is cut off at its end is left out.

    No batch may inflate to more than `limit` bytes.  Unless `check`, checksums are not looked at.  `end` is the first
    offset that is not wanted, though records behind it may come.
    """
    buffer = view(buffer)
    piece, size, last = Piece(limit=limit, buffer=buffer), 0, (0, 0)
    of_batches: bool | None = None  # unless there is nothing in it yet
    failure: PylogbrokerError | None = None
    try:
        for place, stop in bounds(buffer, partial=True):
            offset, magic, crc, attributes = _START.unpack_from(buffer, place)
            is_v2 = magic == 2
            if end is not None and offset >= end and (is_v2 or parse(buffer[place:stop]).count == 1):
                last = place, stop
                break
            if check and not (is_v2 and crc32c(buffer[place + CRC_START : stop]) == crc):
                parse(buffer[place:stop]).check()
            inflated: Buffer | None = None
            if is_v2 and (attributes & _SPECIAL or stop - place == HEADER_V2.size):
                whole = buffer[place:stop]
                if _is_passed_over(parse(whole), aborted):
                    last = place, stop
                    continue
                if attributes & CODEC:
                    inflated = inflate(codec_of(attributes), whole[HEADER_V2.size :], 2, limit)
            if size >= enough or of_batches not in (None, is_v2):
                yield piece.before(*last)
                piece, size = Piece(limit=limit, buffer=buffer), 0
            last, of_batches = (place, stop), is_v2
            if is_v2:
                piece.places.append(place)
                piece.stops.append(stop)
            else:
                piece.entries.append(parse(buffer[place:stop]))
            if inflated is not None:
                piece.inflated[place] = inflated
            size += stop - place if inflated is None else len(inflated)
    except PylogbrokerError as error:
        failure = error
    if last[1]:
        yield piece.before(*last)
    if failure is not None:
        raise failure


def _is_passed_over(entry: Entry, aborted: AbortedTransactions | None) -> bool:
    """Whether nobody but brokers is meant to see a batch."""
    hidden = aborted is not None and aborted.hides(entry)
    emptied = entry.size == HEADER_V2.size and not entry.count and not entry.attributes & CODEC  # by compaction
    return hidden or emptied or entry.is_control
