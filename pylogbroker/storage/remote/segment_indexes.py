"""Indexes of a remote segment, in one object, whose size and checksum the manifest has.

```
 0  4  number of sections   6
 4  4  size of each section

 sections, in this order
    offsets         offset index of the segment, in Kafka's layout
    times           time index
    transactions    transaction index
    producers       snapshot of the producer states at the segment's end
    epochs          leader epochs of the log up to the segment's end: pairs of 4 bytes epoch and 8 bytes first offset
    chunks          CRC-32C of each MiB of the record batches, 4 bytes each
```

All numbers are big-endian. Positions and offsets are hints, as in the indexes of a local segment: each result is
compared with its batch.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final

import attrs

from pylogbroker.records import crc32c
from pylogbroker.storage.log.transaction_index import ENTRY_SIZE as TRANSACTION_BYTES
from pylogbroker.storage.log.transaction_index import AbortedTxn
from pylogbroker.storage.remote.manifest import DamagedObject, Epochs, RemoteSegment

CHUNK_BYTES: Final = 1 << 20
_SECTIONS: Final = 6
_HEAD: Final = Struct(f">{1 + _SECTIONS}I")
_EPOCH: Final = Struct(">iq")
_TIME: Final = Struct(">qI")
_TRANSACTION: Final = Struct(">hqqqq")
_POSITION_BYTES: Final = 8
_CRC_BYTES: Final = 4
_LITTLE: Final = sys.byteorder == "little"


@attrs.frozen(eq=False, repr=False)
class SegmentIndexes:
    """Decoded indexes of one remote segment."""

    base_offset: int
    _offsets: array[int]  # relative to the base offset
    _positions: array[int]
    _times: bytes
    transactions: tuple[AbortedTxn, ...]
    producers: bytes
    epochs: Epochs
    chunks: array[int]
    weight: int  # bytes in memory

    def position(self, offset: int) -> tuple[int, int]:
        """Return the last entry at or below `offset` as (offset, position); (-1, 0) without one."""
        return self._entry(bisect_right(self._offsets, min(offset - self.base_offset, 0xFFFFFFFF)) - 1)

    def offset_at(self, position: int) -> tuple[int, int]:
        """Return the last entry whose batch begins at or before `position`; (-1, 0) without one."""
        return self._entry(bisect_right(self._positions, position) - 1)

    def _entry(self, slot: int) -> tuple[int, int]:
        return (self.base_offset + self._offsets[slot], self._positions[slot]) if slot >= 0 else (-1, 0)

    def offset_of_time(self, timestamp: int) -> int:
        """Return an offset before which no record has this timestamp or a later one."""
        count = len(self._times) // _TIME.size
        slot = bisect_left(range(count), timestamp, key=lambda n: _TIME.unpack_from(self._times, n * _TIME.size)[0]) - 1
        if slot < 0:
            return self.base_offset
        relative: int = _TIME.unpack_from(self._times, slot * _TIME.size)[1]
        return self.base_offset + relative


def encode(
    offsets: bytes, times: bytes, transactions: bytes, producers: bytes, epochs: Epochs, chunks: list[int]
) -> bytes:
    sections = (
        offsets,
        times,
        transactions,
        producers,
        b"".join(_EPOCH.pack(*entry) for entry in epochs),
        b"".join(crc.to_bytes(_CRC_BYTES, "big") for crc in chunks),
    )
    return _HEAD.pack(_SECTIONS, *map(len, sections)) + b"".join(sections)


def first_aborted(transactions: bytes) -> int:
    """Return the smallest first offset of the transactions in an index; -1 without any."""
    return min((first for _, _, first, _, _ in _TRANSACTION.iter_unpack(transactions)), default=-1)


def decode(segment: RemoteSegment, data: bytes) -> SegmentIndexes:
    """Raise DamagedObject unless these are the indexes of the segment."""
    if len(data) != segment.index_size or crc32c(data) != segment.index_crc32c:
        raise DamagedObject(f"the indexes of {segment.name} are incomplete or damaged")
    if len(data) < _HEAD.size:
        raise DamagedObject(f"the indexes of {segment.name} have an unknown layout")
    count, *sizes = _HEAD.unpack_from(data)
    chunk_count = -(-segment.size // CHUNK_BYTES)
    is_whole = (
        count == _SECTIONS
        and _HEAD.size + sum(sizes) == len(data)
        and sizes[0] % _POSITION_BYTES == sizes[1] % _TIME.size == 0
        and sizes[2] % TRANSACTION_BYTES == sizes[4] % _EPOCH.size == 0
        and sizes[5] == chunk_count * _CRC_BYTES
    )
    if not is_whole:
        raise DamagedObject(f"the indexes of {segment.name} have an unknown layout")
    sections, start = [], _HEAD.size
    for size in sizes:
        sections.append(data[start : start + size])
        start += size
    places = _numbers(sections[0])
    return SegmentIndexes(
        segment.base_offset,
        places[0::2],
        places[1::2],
        sections[1],
        tuple(AbortedTxn(*fields) for _, *fields in _TRANSACTION.iter_unpack(sections[2])),
        sections[3],
        tuple((epoch, offset) for epoch, offset in _EPOCH.iter_unpack(sections[4])),
        _numbers(sections[5]),
        2 * len(data),
    )


def _numbers(section: bytes) -> array[int]:
    numbers = array("I", section)
    if _LITTLE:
        numbers.byteswap()
    return numbers
