"""From one message format to another: up for what old clients send, down for what old clients read.

Both keep offsets, timestamps and codecs, and pass on what needs no conversion as it is.

A small batch may hold millions of records, and each takes more room in an old format.  So what goes down is converted
record by record, and ends where a bound is reached; who reads on from there gets the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, takewhile
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records.buffers import Buffer, view
from pylogbroker.records.building import build
from pylogbroker.records.entry import Entry, bounds, entries, parse
from pylogbroker.records.message_set import LENGTH_START, SMALLEST
from pylogbroker.records.model import NO_TIMESTAMP, Codec, Record, TimestampType

Stopped = Callable[[], bool]
"""Whether nobody waits for the result any more."""

_RUN_RECORDS: Final = 500  # that a batch of single messages is made of at most
_DELTA_MAX: Final = 0x7FFFFFFF  # between the offsets of a batch's records


def never() -> bool:
    """Tell a conversion that somebody waits for its result."""
    return False


def up_convert(buffer: Buffer, *, is_stopped: Stopped = never) -> tuple[bytes, int]:
    """The whole entries in `buffer` as batches of v2, and how many of its bytes they take.

    A compressed set becomes a batch with the same codec, messages one after the other become a batch together, and
    batches of v2 stay.  The result ends before an entry of v0 or v1 that is damaged: nothing wrong gets a new checksum.
    CorruptRecords or InvalidRecords if that one comes first.  It is of no use once `is_stopped` says so.
    """
    parts: list[Buffer] = []
    run = _Run(parts)
    size = 0
    whole = view(buffer)
    try:
        for start, stop in bounds(whole, partial=True):
            if is_stopped():
                break
            entry = parse(whole[start:stop])
            if entry.magic < 2 and entry.codec is Codec.NONE:
                run.add(entry.timestamp_type, next(entry.records()))
            else:
                part = _up(entry, is_stopped)
                run.end()
                parts.append(part)
            size = stop
    except (CorruptRecords, InvalidRecords):
        if not size:
            raise
    run.end()
    return b"".join(parts), size


@attrs.define
class _Run:
    """Uncompressed messages of v0 or v1 that follow one another, on their way into one batch of v2."""

    parts: list[Buffer]
    _kind: tuple[TimestampType, int] = (TimestampType.CREATE_TIME, NO_TIMESTAMP)
    _records: list[Record] = attrs.field(factory=list)

    def add(self, timestamp_type: TimestampType, record: Record) -> None:
        """Add a record, to a new batch if it does not fit into the one begun."""
        kind = timestamp_type, record.timestamp if timestamp_type else NO_TIMESTAMP
        records = self._records
        if records and (
            kind != self._kind or len(records) == _RUN_RECORDS or record.offset - records[0].offset > _DELTA_MAX
        ):
            self.end()
        self._kind = kind
        self._records.append(record)

    def end(self) -> None:
        """Build the batch."""
        if self._records:
            timestamp_type, append_time = self._kind
            built = build(self._records, base_offset=None, timestamp_type=timestamp_type, append_time=append_time)
            self.parts.append(built)
            self._records = []


def _up(entry: Entry, is_stopped: Stopped) -> Buffer:
    if entry.magic == 2:
        return entry.buffer
    return build(
        takewhile(lambda _: not is_stopped(), entry.records()),
        codec=entry.codec,
        base_offset=None,
        timestamp_type=entry.timestamp_type,
        append_time=entry.max_timestamp,
    )


def down_convert(
    buffer: Buffer, magic: int, *, first_offset: int = 0, limit: int, is_stopped: Stopped = never
) -> bytes:
    """Entries as a reader that knows no format above `magic` (0 or 1) takes them.

    Headers are dropped, control batches left out, and of what is converted also records below `first_offset`, where
    the reader begins.  The result ends, perhaps within an entry, before what would make it more than `limit` bytes,
    not counting that records may be compressed; but one record, or one entry that is passed on, is always there.  It
    ends early, and is of no use, once `is_stopped` says so.
    """
    room = Room(limit, is_stopped)
    return b"".join(_down(buffer, magic, first_offset, room))


@attrs.define
class Room:
    """Where converted records go to: bytes that are left."""

    left: int
    _is_stopped: Stopped = never
    _is_empty: bool = True

    @property
    def is_full(self) -> bool:
        return self.left <= 0 and not self._is_empty

    def take(self, size: int) -> bool:
        """Whether there is room for `size` bytes, taken now; if not, there is none for anything that follows."""
        fits = (size <= self.left or self._is_empty) and not self._is_stopped()
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
