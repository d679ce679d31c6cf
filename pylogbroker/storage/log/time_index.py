"""Time index of a segment: maps timestamps to offsets.

```
entry of 12 bytes, big-endian, timestamps strictly increasing
    0  8  largest timestamp in the segment so far, ms
    8  4  last offset of the batch that has it, relative to the segment's base offset
```

An entry (t, o) means: no record before that batch has a timestamp of t or later. All records later than t are after o.
One is added with each entry of the offset index. Another one at the end of a sealed or closed segment has its largest
timestamp. Lookups are rare, so nothing is cached.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final

from pylogbroker.storage.files import Buffer, read_cached_file, read_entry, read_file, truncate, write_file_at

_ENTRY: Final = Struct(">qI")
ENTRY_SIZE: Final = _ENTRY.size
_BUFFERED_MAX: Final = 1024  # entries
_NO_TIMESTAMPS: Final = array("q")
_NO_OFFSETS: Final = array("I")
"""Of all indexes without buffered entries; never changed. Most indexes have none."""


class TimeIndex:
    __slots__ = ("_last", "_offsets", "_stored", "_timestamps", "base_offset", "path")

    def __init__(self, path: str, base_offset: int, stored_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._stored = stored_bytes // ENTRY_SIZE  # entries
        self._timestamps, self._offsets = _NO_TIMESTAMPS, _NO_OFFSETS  # of the buffered entries
        self._last: tuple[int, int] | None = None if self._stored else (-1, base_offset)

    def __len__(self) -> int:
        return self._stored + len(self._timestamps)

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is the largest. On OSError it stays buffered."""
        if timestamp <= self.last()[0]:
            return
        if not self._timestamps:
            self._timestamps, self._offsets = array("q"), array("I")
        self._timestamps.append(timestamp)
        self._offsets.append(offset - self.base_offset)
        self._last = timestamp, offset
        if len(self._timestamps) >= _BUFFERED_MAX:
            self.store()

    def last(self, may_wait: bool = True) -> tuple[int, int]:
        """Return the last entry as (timestamp, offset); (-1, base offset) without one."""
        if self._last is None:
            self._last = self._read_last(may_wait)
        return self._last

    def lookup(self, timestamp: int, may_wait: bool = True) -> tuple[int, int]:
        """Return the last entry up to `timestamp`; (-1, base offset) without one."""
        if self._timestamps and self._timestamps[0] <= timestamp:
            slot = bisect_right(self._timestamps, timestamp) - 1
            return self._timestamps[slot], self.base_offset + self._offsets[slot]
        raw, count = self._read_stored(may_wait)
        slot = bisect_right(range(count), timestamp, key=lambda n: self._entry(raw, n)[0]) - 1
        return self._entry(raw, slot)

    def lookup_offset(self, offset: int, may_wait: bool = True) -> tuple[int, int]:
        """Return the last entry before `offset`; (-1, base offset) without one."""
        if self._offsets and self.base_offset + self._offsets[0] < offset:
            slot = bisect_left(self._offsets, offset - self.base_offset) - 1
            return self._timestamps[slot], self.base_offset + self._offsets[slot]
        raw, count = self._read_stored(may_wait)
        slot = bisect_left(range(count), offset, key=lambda n: self._entry(raw, n)[1]) - 1
        return self._entry(raw, slot)

    def _read_stored(self, may_wait: bool) -> tuple[Buffer, int]:
        """Return the file's entries, and their number."""
        raw = (read_file if may_wait else read_cached_file)(self.path) or b""
        return raw, min(len(raw) // ENTRY_SIZE, self._stored)

    def store(self) -> None:
        if not self._timestamps:
            return
        data = b"".join(map(_ENTRY.pack, self._timestamps, self._offsets))
        write_file_at(self.path, data, self._stored * ENTRY_SIZE)
        self._stored += len(self._timestamps)
        self._timestamps, self._offsets = _NO_TIMESTAMPS, _NO_OFFSETS

    def truncate(self, offset: int) -> None:
        self.store()
        raw = read_file(self.path) or b""
        keep = min(len(raw) // ENTRY_SIZE, self._stored)
        while keep and self._entry(raw, keep - 1)[1] >= offset:
            keep -= 1
        self._stored = keep
        self._last = self._entry(raw, keep - 1)
        truncate(self.path, keep * ENTRY_SIZE)

    def clear(self) -> None:
        self._stored, self._last = 0, (-1, self.base_offset)
        self._timestamps, self._offsets = _NO_TIMESTAMPS, _NO_OFFSETS
        truncate(self.path, 0)

    def _entry(self, raw: Buffer, slot: int) -> tuple[int, int]:
        if slot < 0:
            return -1, self.base_offset
        timestamp, relative = _ENTRY.unpack_from(raw, slot * ENTRY_SIZE)
        return timestamp, self.base_offset + relative

    def _read_last(self, may_wait: bool) -> tuple[int, int]:
        raw = read_entry(self.path, self._stored - 1, ENTRY_SIZE, may_wait)
        return self._entry(raw, len(raw) // ENTRY_SIZE - 1)
