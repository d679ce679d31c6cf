"""Conversion between message formats: up for old producers, down for old consumers.

Offsets, timestamps and codecs stay; fitting entries stay unchanged.

A small batch may hold millions of records, which are larger in old formats. So down-conversion has a limit; the next
fetch gets the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, takewhile
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records.builder import build
from pylogbroker.records.log_entry import LogEntry, bounds, entries, parse
from pylogbroker.records.message_set import LENGTH_START, SMALLEST
from pylogbroker.records.model import NO_TIMESTAMP, Buffer, Codec, Record, TimestampType, view

_Stopped = Callable[[], bool]
"""True once the result is not needed, and may be useless."""

_BATCH_RECORDS_MAX: Final = 500  # uncompressed messages
_DELTA_MAX: Final = 0x7FFFFFFF


def never() -> bool:
    return False


def up_convert(buffer: Buffer, is_stopped: _Stopped = never) -> tuple[bytes, int, int]:
    """Convert complete entries to v2; return the batches, the bytes of `buffer` read, and the records converted.

    A compressed set becomes a batch with its codec, consecutive messages become one batch. Conversion stops at a
    damaged v0 or v1 entry, which must not get a valid checksum; if it is the first, raise CorruptRecords or
    InvalidRecords.
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
                if entry.magic < 2:
                    run.converted += parse(view(part)).count
            size = stop
    except (CorruptRecords, InvalidRecords):
        if not size:
            raise
    run.end()
    return b"".join(parts), size, run.converted


@attrs.define
class _Run:
    parts: list[Buffer]
    converted: int = 0
    """Records in `parts` that were converted, also from compressed sets."""
    _kind: tuple[TimestampType, int] = (TimestampType.CREATE_TIME, NO_TIMESTAMP)
    _records: list[Record] = attrs.field(factory=list)

    def add(self, timestamp_type: TimestampType, record: Record) -> None:
        kind = timestamp_type, record.timestamp if timestamp_type else NO_TIMESTAMP
        records = self._records
        if records and (
            kind != self._kind or len(records) == _BATCH_RECORDS_MAX or record.offset - records[0].offset > _DELTA_MAX
        ):
            self.end()
        self._kind = kind
        self._records.append(record)

    def end(self) -> None:
        if self._records:
            timestamp_type, append_time = self._kind
            built = build(self._records, base_offset=None, timestamp_type=timestamp_type, append_time=append_time)
            self.parts.append(built)
            self.converted += len(self._records)
            self._records = []


def _up(entry: LogEntry, is_stopped: _Stopped) -> Buffer:
    if entry.magic == 2:
        return entry.buffer
    return build(
        takewhile(lambda _: not is_stopped(), entry.records()),
        codec=entry.codec,
        base_offset=None,
        timestamp_type=entry.timestamp_type,
        append_time=entry.max_timestamp,
    )


def down_convert(buffer: Buffer, magic: int, budget: SizeBudget, first_offset: int = 0) -> bytes:
    """Convert entries for a consumer that knows no format above `magic` (0 or 1).

    Headers, control batches and converted records below `first_offset` are left out. The result stays within the
    budget, measured uncompressed, except for a first record or unconverted entry. It may end within an entry.
    """
    return b"".join(_down(buffer, magic, first_offset, budget))


@attrs.define
class SizeBudget:
    """Bytes that one conversion may make, and the count of what it converts."""

    left: int
    _is_stopped: _Stopped = never
    converted: int = attrs.field(default=0, init=False)  # records
    _is_empty: bool = True

    @property
    def is_full(self) -> bool:
        return self.left <= 0 and not self._is_empty

    def take(self, size: int) -> bool:
        """Reserve `size` bytes; return False, now and later, if they exceed the budget."""
        fits = (size <= self.left or self._is_empty) and not self._is_stopped()
        self.left = self.left - size if fits else 0
        self._is_empty = False
        return fits


def _down(buffer: Buffer, magic: int, first_offset: int, budget: SizeBudget) -> Iterator[Buffer]:
    for entry in entries(buffer, partial=True):
        if entry.magic > magic:
            if not (entry.is_control and entry.magic == 2):
                yield _converted(entry, magic, _plain(entry, magic, first_offset, budget))
        elif budget.take(entry.size):
            yield entry.buffer
        if budget.is_full:
            return


def _converted(entry: LogEntry, magic: int, records: Iterator[Record]) -> bytes:
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


def _plain(entry: LogEntry, magic: int, first_offset: int, budget: SizeBudget) -> Iterator[Record]:
    overhead = LENGTH_START + SMALLEST[magic]
    for record in entry.records():
        if record.offset >= first_offset:
            if not budget.take(overhead + len(record.key or b"") + len(record.value or b"")):
                return
            budget.converted += 1
            yield Record(record.offset, record.timestamp, record.key, record.value)
