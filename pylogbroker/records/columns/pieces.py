"""What was fetched, in pieces: whole batches, checked, inflated, ready to be read as columns or one by one.

    buffer   | batch | batch | message | message | batch | bat
    pieces   |    piece      |      piece        | piece |  cut off: left out

A piece is of one kind, v2 batches or messages of v0 and v1.  Compressed batches are inflated when their piece is asked
for, and a piece ends when that came to some megabytes; so what a fetch inflates to is never all in memory.

Batches that are not for applications (markers, and data of aborted transactions where these are known) and empty ones
are passed over.
What is wrong with an entry is raised when it is its turn: the entries before it are a piece of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from pylogbroker.errors import PylogbrokerError
from pylogbroker.records.batch import CODEC, HEADER_V2, read_records
from pylogbroker.records.buffers import Buffer
from pylogbroker.records.columns.aborted import AbortedTransactions
from pylogbroker.records.compression import MAX_DECOMPRESSED, inflate
from pylogbroker.records.entry import Entry, entries
from pylogbroker.records.model import Record

ENOUGH: Final = 8 << 20  # bytes of records, inflated, for one piece


@attrs.define(eq=False)
class Piece:
    """Entries in a row, what is in them, and which offset follows them."""

    next_offset: int = -1
    limit: int = MAX_DECOMPRESSED
    entries: list[Entry] = attrs.Factory(list)
    payloads: list[Buffer] = attrs.Factory(list)
    """The records of each v2 batch, inflated; of messages nothing."""

    @property
    def is_v2(self) -> bool:
        """Whether the entries are batches."""
        return bool(self.payloads)

    @property
    def most(self) -> int:
        """How many records there are, if that can be told: messages of v0 and v1 may be compressed."""
        return sum(entry.count for entry in self.entries) if self.is_v2 else len(self.entries)

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
            yield Piece(behind, self.limit, [entry], self.payloads[index : index + 1])
        if not self.entries:
            yield self


def pieces(
    buffer: Buffer,
    aborted: AbortedTransactions | None = None,
    *,
    limit: int = MAX_DECOMPRESSED,
    enough: int = ENOUGH,
    check: bool = True,
) -> Iterator[Piece]:
    """The pieces of `buffer`; an entry that is cut off at its end is left out.

    No batch may inflate to more than `limit` bytes.  Unless `check`, checksums are not looked at.
    """
    piece, size = Piece(limit=limit), 0
    coming = _sound(buffer, aborted, limit, check)
    failure: PylogbrokerError | None = None
    anything = False
    while True:
        try:
            found = next(coming, None)
        except PylogbrokerError as error:
            found, failure = None, error
        if found is None:
            break
        entry, payload = found
        if piece.entries and (size >= enough or piece.is_v2 != (entry.magic == 2)):
            yield piece
            piece, size = Piece(limit=limit), 0
        anything = True
        piece.next_offset = entry.next_offset
        if payload is not None:
            piece.entries.append(entry)
            piece.payloads += [payload] if entry.magic == 2 else []
            size += len(payload)
    if anything:
        yield piece
    if failure is not None:
        raise failure


def _sound(
    buffer: Buffer, aborted: AbortedTransactions | None, limit: int, check: bool
) -> Iterator[tuple[Entry, Buffer | None]]:
    """Entries whose CRC is right, each with its records, inflated; without, if they are not to be seen."""
    for entry in entries(buffer, partial=True):
        if check:
            entry.check()
        if entry.magic < 2:
            yield entry, entry.buffer
            continue
        hidden = aborted is not None and aborted.hides(entry)
        if entry.is_control or hidden:
            yield entry, None
        elif entry.size == HEADER_V2.size and not entry.count and not entry.attributes & CODEC:
            yield entry, None  # compaction left the header alone
        elif entry.attributes & CODEC:
            yield entry, inflate(entry.codec, entry.buffer[HEADER_V2.size :], 2, limit)
        else:
            yield entry, entry.buffer[HEADER_V2.size :]
