"""From one message format to another: up for what old clients send, down for what old clients read.

Both keep offsets, timestamps and codecs, and pass on what needs no conversion as it is.

A small batch may hold millions of records, and each takes more room in an old format.  So what goes down is converted
record by record, and ends where a bound is reached; who reads on from there gets the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import attrs

from pylogbroker.records.buffers import Buffer
from pylogbroker.records.building import build
from pylogbroker.records.entry import Entry, entries
from pylogbroker.records.message_set import LENGTH_START, SMALLEST
from pylogbroker.records.model import Record


def up_convert(buffer: Buffer, *, leader_epoch: int = -1) -> bytes:
    """Entries of v0 and v1 as batches of v2, one for each entry."""
    return b"".join(_up(entry, leader_epoch) for entry in entries(buffer))


def _up(entry: Entry, leader_epoch: int) -> Buffer:
    if entry.magic == 2:
        return entry.buffer
    return build(
        entry.records(),
        codec=entry.codec,
        base_offset=None,
        timestamp_type=entry.timestamp_type,
        append_time=entry.max_timestamp,
        leader_epoch=leader_epoch,
    )


def down_convert(buffer: Buffer, magic: int, *, first_offset: int = 0, limit: int) -> bytes:
    """Entries as a reader that knows no format above `magic` (0 or 1) takes them.

    Headers are dropped, control batches left out, and of what is converted also records below `first_offset`, where
    the reader begins.  The result ends, perhaps within an entry, before what would make it more than `limit` bytes,
    not counting that records may be compressed; but one record, or one entry that is passed on, is always there.
    """
    room = Room(limit)
    return b"".join(_down(buffer, magic, first_offset, room))


@attrs.define
class Room:
    """Where converted records go to: bytes that are left."""

    left: int
    _is_empty: bool = True

    @property
    def is_full(self) -> bool:
        return self.left <= 0 and not self._is_empty

    def take(self, size: int) -> bool:
        """Whether there is room for `size` bytes, taken now; if not, there is none for anything that follows."""
        fits = size <= self.left or self._is_empty
        self.left = self.left - size if fits else 0
        self._is_empty = False
        return fits


def _down(buffer: Buffer, magic: int, first_offset: int, room: Room) -> Iterator[Buffer]:
    for entry in entries(buffer, partial=True):
        if entry.magic > magic:
            if not (entry.is_control and entry.magic == 2):
                yield _converted(entry, magic, _plain(entry, magic, first_offset, room))
        elif room.take(entry.size):
            yield entry.buffer
        if room.is_full:
            return


def _converted(entry: Entry, magic: int, records: Iterator[Record]) -> bytes:
    first = next(records, None)
    if first is None:
        return b""
    return build(
        chain((first,), records),
        magic=magic,
        codec=entry.codec,
        base_offset=None,
        timestamp_type=entry.timestamp_type,
        append_time=entry.max_timestamp,
    )


def _plain(entry: Entry, magic: int, first_offset: int, room: Room) -> Iterator[Record]:
    """An entry's records, without headers, from an offset on, as long as there is room for their messages."""
    overhead = LENGTH_START + SMALLEST[magic]
    for record in entry.records():
        if record.offset >= first_offset:
            if not room.take(overhead + len(record.key or b"") + len(record.value or b"")):
                return
            yield Record(record.offset, record.timestamp, record.key, record.value)
