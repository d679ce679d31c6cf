"""Offset index of a segment: maps offsets to positions in the file.

```
entry of 8 bytes, big-endian, relative offsets and positions strictly increasing
    0  4  offset of the last record of a batch, relative to the segment's base offset
    4  4  position of that batch in the segment's file
```

A batch gets an entry if it begins more than `index.interval.bytes` after the last indexed one. New entries stay in
memory until there are 1024, or the segment is sealed. Stored ones are loaded on demand, and dropped when the pool needs
the memory. The segment rebuilds an index that disagrees with the batches.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from struct import Struct
from typing import Final

from pylogbroker.storage.files import ResourcePool, read_cached_file, read_entry, read_file, truncate, write_file_at

_ENTRY: Final = Struct(">II")
ENTRY_SIZE: Final = _ENTRY.size
_BUFFERED_MAX: Final = 1024  # entries
_LITTLE: Final = sys.byteorder == "little"
_NONE: Final = array("I")
"""Of all indexes without entries in memory; never changed. Most indexes have none."""


class OffsetIndex:
    __slots__ = ("_first", "_offsets", "_pool", "_positions", "_stored", "base_offset", "path")

    def __init__(self, path: str, base_offset: int, stored_bytes: int, pool: ResourcePool) -> None:
        self.path = path
        self.base_offset = base_offset
        self._pool = pool
        self._stored = stored_bytes // ENTRY_SIZE  # entries
        self._first = self._stored  # number of the arrays' first entry
        self._offsets = self._positions = _NONE

    def __len__(self) -> int:
        return self._first + len(self._offsets)

    def append(self, offset: int, position: int) -> None:
        if not self._offsets:
            self._offsets, self._positions = array("I"), array("I")
        self._offsets.append(offset - self.base_offset)
        self._positions.append(position)
        if self._first + len(self._offsets) - self._stored >= _BUFFERED_MAX:
            self.store()

    def lookup(self, offset: int, may_wait: bool = True) -> tuple[int, int]:
        """Return the last entry at or below `offset` as (offset, position); (-1, 0) without one."""
        relative = min(offset - self.base_offset, 0xFFFFFFFF)
        offsets = self._offsets
        if self._first and not (offsets and offsets[0] <= relative):
            self._load(may_wait)
            offsets = self._offsets
        slot = bisect_right(offsets, relative) - 1
        return self._entry(slot)

    def lookup_position(self, position: int, may_wait: bool = True) -> tuple[int, int]:
        """Return the last entry whose batch begins at or before `position`; (-1, 0) without one."""
        positions = self._positions
        if self._first and not (positions and positions[0] <= position):
            self._load(may_wait)
            positions = self._positions
        slot = bisect_right(positions, position) - 1
        return (self.base_offset + self._offsets[slot], positions[slot]) if slot >= 0 else (-1, 0)

    def last(self, may_wait: bool = True) -> tuple[int, int]:
        if self._offsets or not self._first:
            return self._entry(len(self._offsets) - 1)
        raw = read_entry(self.path, self._stored - 1, ENTRY_SIZE, may_wait)
        if not raw:
            return -1, 0
        relative, position = _ENTRY.unpack(raw)
        return self.base_offset + relative, position

    def _entry(self, slot: int) -> tuple[int, int]:
        if slot < 0:
            return -1, 0
        return self.base_offset + self._offsets[slot], self._positions[slot]

    def store(self) -> None:
        begin = self._stored - self._first
        offsets, positions = self._offsets[begin:], self._positions[begin:]
        if not offsets:
            return
        data = array("I", bytes(ENTRY_SIZE * len(offsets)))
        data[0::2], data[1::2] = offsets, positions
        if _LITTLE:
            data.byteswap()
        write_file_at(self.path, data.tobytes(), self._stored * ENTRY_SIZE)
        self._stored += len(offsets)
        if self._first:
            self.release()
        else:
            self._pool.admit(self, len(self) * ENTRY_SIZE)

    def release(self) -> None:
        begin = self._stored - self._first
        del self._offsets[:begin], self._positions[:begin]
        self._first = self._stored

    def truncate(self, offset: int) -> None:
        if self._first:
            self._load()
        keep = bisect_right(self._offsets, offset - 1 - self.base_offset) if offset > self.base_offset else 0
        del self._offsets[keep:], self._positions[keep:]
        if keep < self._stored:
            self._stored = keep
            truncate(self.path, keep * ENTRY_SIZE)

    def clear(self) -> None:
        self._pool.forget(self)
        self._stored = self._first = 0
        del self._offsets[:], self._positions[:]
        truncate(self.path, 0)

    def _load(self, may_wait: bool = True) -> None:
        """Ignore a truncated file: the segment rebuilds its index."""
        data = array("I")
        raw = (read_file if may_wait else read_cached_file)(self.path) or b""
        data.frombytes(raw[: self._stored * ENTRY_SIZE] if len(raw) >= self._stored * ENTRY_SIZE else b"")
        if _LITTLE:
            data.byteswap()
        begin = self._stored - self._first
        self._offsets, self._positions = data[0::2] + self._offsets[begin:], data[1::2] + self._positions[begin:]
        self._first, self._stored = 0, len(data) // 2
        self._pool.admit(self, len(self) * ENTRY_SIZE)
