"""Splits a segment's file into blocks of whole, checked batches, with headers as columns.

Padding lets a header or an 8-byte word be read wherever a batch or record begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

import attrs
import numpy as np

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import ENTRY_PREFIX, HEADER_V2, NO_TIMESTAMP, LogEntry, crc32c, message_set
from pylogbroker.records.batch import CRC_START
from pylogbroker.records.checksum import crc32
from pylogbroker.records.columnar.entry_groups import batch_headers_at
from pylogbroker.records.columnar.varints import Bytes, Ints
from pylogbroker.records.log_entry import parse
from pylogbroker.storage.compaction.jobs import SourceSegment
from pylogbroker.storage.files import opened

BLOCK: Final = 16 << 20
_SMALLEST_BLOCK: Final = 64 << 10
_STEPS: Final = 4  # reads per second of a throttled cleaner
PADDING: Final = 64  # bytes, more than a header

_HEAD: Final = Struct(">8xiIbI")  # length, CRC of v0 and v1, magic, CRC of v2
_SMALLEST: Final = (*message_set.SMALLEST, HEADER_V2.size - ENTRY_PREFIX)


class DamagedSegment(CorruptRecords):
    """Damage of a segment's file at `position`."""

    def __init__(self, path: str, position: int, detail: str) -> None:
        super().__init__(detail)
        self.path, self.position = path, position


class DamagedEntry(CorruptRecords):
    """Damage of the batch with this `index` in a block."""

    def __init__(self, index: int, detail: str) -> None:
        super().__init__(detail)
        self.index = index


@attrs.frozen(eq=False, repr=False)
class Block:
    """Consecutive batches. Columns of v2 fields are undefined for v0 and v1."""

    source: SourceSegment
    position: int  # of `data` in the file
    data: Bytes
    starts: Ints  # in `data`
    sizes: Ints
    magics: Ints
    base_offsets: Ints
    last_offsets: Ints
    attributes: Ints
    first_timestamps: Ints
    timestamps: Ints  # largest of each batch or message
    producer_ids: Ints
    counts: Ints

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def end(self) -> int:
        return self.position + int(self.starts[-1] + self.sizes[-1])

    def raw(self, first: int, behind: int) -> memoryview:
        last = behind - 1
        return self.data.data[int(self.starts[first]) : int(self.starts[last] + self.sizes[last])]

    def entry(self, index: int) -> LogEntry:
        return parse(self.raw(index, index + 1))

    def damaged(self, index: int, detail: str) -> DamagedSegment:
        return DamagedSegment(self.source.path, self.position + int(self.starts[index]), detail)


def block_size(bytes_per_second: int) -> int:
    """Return a smaller size for a throttled cleaner: it reads in small steps."""
    return max(_SMALLEST_BLOCK, min(BLOCK, bytes_per_second // _STEPS))


def read_blocks(source: SourceSegment, spent: Callable[[int], None], size: int = BLOCK) -> Iterator[Block]:
    """Yield blocks of about `size` bytes; call `spent` with each read's bytes. Raise DamagedSegment."""
    with opened(source.path) as fd:
        position, read_size = 0, size
        while position < source.size:
            data = _read(fd, source, position, min(read_size, source.size - position))
            spent(len(data) - PADDING)
            starts, sizes = _split(source, position, data)
            if starts:
                block = _block(source, position, data, starts, sizes)
                yield block
                position, read_size = block.end, size
            else:
                read_size = _claimed(source, position, data, read_size)


def _read(fd: int, source: SourceSegment, position: int, size: int) -> Bytes:
    data = np.empty(size + PADDING, np.uint8)
    data[size:] = 0
    view, done = data.data[:size], 0
    while done < size:
        read = os.preadv(fd, [view[done:]], position + done)
        if not read:
            raise DamagedSegment(source.path, position + done, f"the file ends before its {source.size} bytes")
        done += read
    return data


def _split(source: SourceSegment, position: int, data: Bytes) -> tuple[list[int], list[int]]:
    whole = data.data
    end = len(whole) - PADDING
    head = _HEAD.unpack_from
    starts, sizes = [], []
    start = 0
    while start + ENTRY_PREFIX < end:
        length, crc, magic, crc_of_batch = head(whole, start)
        if not 0 <= magic <= 2 or length < _SMALLEST[magic]:
            raise DamagedSegment(source.path, position + start, f"no batch: magic {magic}, size {length}")
        stop = start + ENTRY_PREFIX + length
        if stop > end:
            break
        if magic == 2:
            good = crc32c(whole[start + CRC_START : stop]) == crc_of_batch
        else:
            good = crc32(whole[start + message_set.CRC_START : stop]) == crc
        if not good:
            raise DamagedSegment(source.path, position + start, "the CRC is wrong")
        starts.append(start)
        sizes.append(stop - start)
        start = stop
    return starts, sizes


def _claimed(source: SourceSegment, position: int, data: Bytes, read_size: int) -> int:
    claimed = ENTRY_PREFIX + int(_HEAD.unpack_from(data.data)[0])
    if claimed > source.size - position or claimed <= read_size:
        raise DamagedSegment(source.path, position, f"a batch of {claimed} bytes is cut off")
    return claimed


def _block(source: SourceSegment, position: int, data: Bytes, starts: list[int], sizes: list[int]) -> Block:
    begins = np.array(starts, np.int64)
    heads = batch_headers_at(data.data, begins)

    def column(name: str) -> Ints:
        return heads[name].astype(np.int64)

    magics, bases = column("magic"), column("base_offset")
    timestamps = np.where(magics == 2, column("max_timestamp"), NO_TIMESTAMP)
    for index in np.flatnonzero(magics == 1).tolist():
        timestamps[index] = parse(data.data[starts[index] : starts[index] + sizes[index]]).max_timestamp
    lasts = bases + np.where(magics == 2, column("last_offset_delta"), 0)
    _check_order(source, position, begins, bases, lasts)
    return Block(
        source, position, data, begins, np.array(sizes, np.int64), magics, bases, lasts, column("attributes"),
        column("first_timestamp"), timestamps, column("producer_id"), column("count"),
    )  # fmt: skip


def _check_order(source: SourceSegment, position: int, begins: Ints, bases: Ints, lasts: Ints) -> None:
    before = np.concatenate((np.array([source.base_offset - 1]), lasts[:-1]))
    wrong = np.flatnonzero((bases <= before) | (lasts < bases))
    if len(wrong):
        index = int(wrong[0])
        raise DamagedSegment(
            source.path, position + int(begins[index]), f"offset {bases[index]} is not larger than the one before"
        )
