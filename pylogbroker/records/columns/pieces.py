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
import numpy as np

from pylogbroker.errors import PylogbrokerError
from pylogbroker.records.batch import CODEC, CONTROL, CRC_START, HEADER_V2, TRANSACTIONAL, read_records
from pylogbroker.records.buffers import Buffer, view
from pylogbroker.records.checksum import crc32c
from pylogbroker.records.columns.aborted import AbortedTransactions
from pylogbroker.records.columns.heads import HEAD, Heads
from pylogbroker.records.compression import MAX_DECOMPRESSED, codec_of, inflate
from pylogbroker.records.entry import Entry, cut, parse
from pylogbroker.records.model import Record

ENOUGH: Final = 8 << 20  # bytes of records, inflated, for one piece
_PREFIX: Final = struct.Struct(">q8xb")  # of any entry: offset and magic
_MAGIC: Final = 16
_NOTHING: Final = memoryview(b"")
_CRC: Final = struct.Struct(">17xI")
_ATTRIBUTES: Final = 22  # the half that says something
_COUNT: Final = struct.Struct(">57xi")


@attrs.define(eq=False)
class Piece:
    """Entries in a row, what is in them, and which offset follows them."""

    next_offset: int = -1
    limit: int = MAX_DECOMPRESSED
    _entries: list[Entry] = attrs.Factory(list)
    payloads: list[Buffer] = attrs.Factory(list)
    """The records of each v2 batch, inflated; of messages nothing."""

    batches: list[memoryview] = attrs.Factory(list)
    """Each v2 batch as it was fetched."""

    places: list[int] = attrs.Factory(list)
    """Where in the buffer they begin."""

    buffer: memoryview = _NOTHING
    """All that was fetched."""

    @property
    def entries(self) -> list[Entry]:
        """The entries; batches are made entries when somebody asks for them."""
        self._entries += map(parse, self.batches[len(self._entries) :])
        return self._entries

    @property
    def heads(self) -> Heads:
        """The headers of the batches, as a table."""
        return np.frombuffer(b"".join([batch[: HEADER_V2.size] for batch in self.batches]), HEAD)

    @property
    def is_v2(self) -> bool:
        """Whether the entries are batches."""
        return bool(self.payloads)

    @property
    def most(self) -> int:
        """How many records there are, if that can be told: messages of v0 and v1 may be compressed."""
        return sum(_COUNT.unpack_from(batch)[0] for batch in self.batches) if self.is_v2 else len(self.entries)

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
            yield attrs.evolve(
                self,
                next_offset=behind,
                entries=[entry],
                payloads=self.payloads[some],
                batches=self.batches[some],
                places=self.places[some],
            )
        if not self.entries:
            yield self

    def before(self, last: memoryview) -> Piece:
        """The same, which an entry, perhaps one that was passed over, is the last of."""
        self.next_offset = parse(last).next_offset
        return self


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
    piece, size, place = Piece(limit=limit, buffer=buffer), 0, 0
    coming = _sound(buffer, aborted, limit, check, end)
    failure: PylogbrokerError | None = None
    last: memoryview | None = None
    while True:
        try:
            found = next(coming, None)
        except PylogbrokerError as error:
            found, failure = None, error
        if found is None:
            break
        whole, payload = found
        is_v2 = whole[_MAGIC] == 2
        if last is not None and (piece.batches or piece.entries) and (size >= enough or piece.is_v2 != is_v2):
            yield piece.before(last)
            piece, size = Piece(limit=limit, buffer=buffer), 0
        last = whole
        if payload is None:
            pass
        elif is_v2:
            piece.batches.append(whole)
            piece.payloads.append(payload)
            piece.places.append(place)
            size += len(payload)
        else:
            piece.entries.append(parse(whole))
            size += len(payload)
        place += len(whole)
    if last is not None:
        yield piece.before(last)
    if failure is not None:
        raise failure


def _sound(
    buffer: Buffer, aborted: AbortedTransactions | None, limit: int, check: bool, end: int | None
) -> Iterator[tuple[memoryview, Buffer | None]]:
    """Entries whose CRC is right, each with its records, inflated; without, if they are not to be seen."""
    for whole in cut(buffer, partial=True):
        if end is not None and _is_behind(whole, end):
            yield whole, None
            return
        if whole[_MAGIC] < 2:
            if check:
                parse(whole).check()
            yield whole, whole
            continue
        if check and crc32c(whole[CRC_START:]) != _CRC.unpack_from(whole)[0]:
            parse(whole).check()
        attributes = whole[_ATTRIBUTES]
        special = attributes & (CONTROL | TRANSACTIONAL) or len(whole) == HEADER_V2.size
        if special and _is_passed_over(parse(whole), aborted):
            yield whole, None
        elif attributes & CODEC:
            yield whole, inflate(codec_of(attributes), whole[HEADER_V2.size :], 2, limit)
        else:
            yield whole, whole[HEADER_V2.size :]


def _is_behind(whole: memoryview, end: int) -> bool:
    """Whether all that is in an entry is; the offset of compressed messages is that of the last one."""
    offset, magic = _PREFIX.unpack_from(whole)
    return bool(offset >= end) and (magic == 2 or parse(whole).count == 1)


def _is_passed_over(entry: Entry, aborted: AbortedTransactions | None) -> bool:
    """Whether nobody but brokers is meant to see a batch."""
    hidden = aborted is not None and aborted.hides(entry)
    emptied = entry.size == HEADER_V2.size and not entry.count and not entry.attributes & CODEC  # by compaction
    return hidden or emptied or entry.is_control
