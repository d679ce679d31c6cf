"""A partition that is searched block by block, towards its start or its end."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final

import attrs

from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.conditions import Subject
from pylogbroker.errors import CorruptRecords, OffsetOutOfRange
from pylogbroker.long_loops import give_way
from pylogbroker.web.partition_logs import PartitionLog
from pylogbroker.web.record_rows import RecordRegion
from pylogbroker.web.record_search.batches import RegionPart, prepare
from pylogbroker.web.record_search.decoding import RegionDecoder
from pylogbroker.web.record_search.selection import Selection

_REGION_BYTES_MAX: Final = 1024 * 1024
_FIRST_REGION_BYTES: Final = 64 * 1024
_FIRST_OFFSETS: Final = 100
_GROWTH: Final = 8
NEWEST: Final = 1 << 63
OLDEST: Final = -NEWEST
"""Beyond all timestamps."""
_DAMAGES_MAX: Final = 3
_RECORD_BYTES: Final = 150
"""Bytes that a record is supposed to take, beside its key and value."""


@attrs.define(eq=False, repr=False)
class PartitionCursor:
    """Searches offsets from `low` to below `high`, which are those that are left."""

    log: PartitionLog
    selection: Selection
    is_newest_first: bool
    low: int
    high: int
    rows_max: int
    bytes_max: int
    decoder: RegionDecoder | None = None
    pending: deque[Subject] = attrs.field(factory=deque, init=False)
    """Selected records that are not taken yet, in the order of the search."""
    time: int = attrs.field(init=False)
    """Time where the search stands; before its first block, the one that comes first."""
    damages: list[str] = attrs.field(factory=list, init=False)
    _offsets: int = attrs.field(default=_FIRST_OFFSETS, init=False)
    _region_bytes: int = attrs.field(default=_FIRST_REGION_BYTES, init=False)

    @time.default
    def _first_time(self) -> int:
        return NEWEST if self.is_newest_first else OLDEST

    @property
    def has_begun(self) -> bool:
        return self.time != self._first_time()

    @property
    def partition(self) -> int:
        return self.log.index

    @property
    def left(self) -> int:
        """Number of offsets that are left."""
        return max(0, self.high - self.low)

    @property
    def position(self) -> int:
        """Offset to go on from, if all records in `pending` are to be found again."""
        if self.pending:
            return self.pending[0].offset + self.is_newest_first
        return self.high if self.is_newest_first else self.low

    async def advance(self, in_thread: InThread) -> None:
        """Search one more block."""
        self.low = max(self.low, self.log.log_start_offset)
        try:
            if self.is_newest_first:
                await self._advance_down(in_thread)
            else:
                await self._advance_up(in_thread)
        except OffsetOutOfRange:  # retention, or a new leader, has cut the log meanwhile
            self.low = max(self.low, min(self.high, self.log.log_start_offset + 1))
        self._region_bytes = min(self._region_bytes * _GROWTH, _REGION_BYTES_MAX)

    async def _advance_up(self, in_thread: InThread) -> None:
        region = await self._region(self.low)
        if region is None:
            self.low = self.high
            return
        part = await self._prepared(in_thread, region, self.low, self.low)
        self.time = max(self.time, part.last_time)
        size = 0
        async for record in self._selected(part, self.low):
            self.pending.append(record)
            size += record.size + _RECORD_BYTES
            if len(self.pending) >= self.rows_max or size > self.bytes_max:
                self.low, self.time = record.offset + 1, record.time
                return
        self.low = max(self.low + 1, part.next_offset if part.next_offset >= 0 else region.next_offset)

    async def _advance_down(self, in_thread: InThread) -> None:
        """Read forward from a place below `high`, and keep the newest records.

        The batch at that place is read from its own begin, so that it is read once.
        """
        begin = at = max(self.low, self.high - self._offsets)
        block = _Block(self.rows_max, self.bytes_max)
        first, read = begin, 0
        while at < self.high and (region := await self._region(at)) is not None:
            low = self.low if at == begin else at
            part = await self._prepared(in_thread, region, low, at)
            if at == begin and part.first_offset >= 0:
                first = max(self.low, min(begin, part.first_offset))
                self.time = min(self.time, part.first_time)
            async for record in self._selected(part, low):
                block.add(record)
            read += part.bytes
            at = max(at + 1, part.next_offset if part.next_offset >= 0 else region.next_offset)
        self.pending.extend(reversed(block.records))
        per_offset = read / (self.high - first)
        self._offsets = max(1, min(self._offsets * _GROWTH, int(_REGION_BYTES_MAX / max(1.0, per_offset))))
        self.high = first
        if block.is_cut:
            self.high, self.time = block.records[0].offset, block.records[0].time

    async def _prepared(self, in_thread: InThread, region: RecordRegion, low: int, messages_low: int) -> RegionPart:
        needles = self.selection.needles
        is_decoded = self.decoder is not None
        part: RegionPart = await in_thread(
            prepare, region, self.partition, low, self.high, needles, messages_low, is_decoded
        )
        if self.decoder is not None:
            await self.decoder.decode(part)
        self._note(part.damages)
        return part

    async def _region(self, offset: int) -> RecordRegion | None:
        """Return batches from an offset on: those below `high`, or the one that `high` is within."""
        log = self.log
        region = await log.region_at(offset, self.high, self._region_bytes)
        return await log.region_at(offset, log.high_watermark, 1) if region is None else region

    async def _selected(self, part: RegionPart, low: int) -> AsyncIterator[Subject]:
        """Yield the selected records from `low` to below `high`; give way now and then."""
        has, is_everything = self.selection.has, self.selection.is_everything
        high = self.high
        for batch in part.batches:
            try:
                for run in batch.runs():
                    for record in run if is_everything else filter(has, run):
                        if low <= record.offset < high:
                            yield record
                    await give_way()
            except CorruptRecords as error:
                self._note([f"A batch of partition {self.partition} is damaged behind offset {low}: {error}"])

    def _note(self, damages: Sequence[str]) -> None:
        self.damages += damages[: max(0, _DAMAGES_MAX - len(self.damages))]


@attrs.define(eq=False, repr=False)
class _Block:
    """Newest selected records of a block, up to a number and a size."""

    _rows_max: int
    _bytes_max: int
    records: deque[Subject] = attrs.field(factory=deque, init=False)
    is_cut: bool = attrs.field(default=False, init=False)
    _size: int = attrs.field(default=0, init=False)

    def add(self, record: Subject) -> None:
        self.records.append(record)
        self._size += record.size + _RECORD_BYTES
        while len(self.records) > self._rows_max or (self._size > self._bytes_max and len(self.records) > 1):
            self._size -= self.records.popleft().size + _RECORD_BYTES
            self.is_cut = True
