"""Last offset of each key, in a table of bounded size.

Open addressing over three columns, 24 bytes per slot: both halves of the key's hash, and the offset plus 1. A first
half of 0 marks a free slot. The slots tried for a key are pseudo-random, for n = 0, 1, ...: the upper half of `first +
n * second`, scaled to the slots.
"""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from pylogbroker.records.columnar.varints import Ints, Words

_SLOT: Final = 24  # bytes
_LOAD: Final = 0.85
_HIGH: Final = np.uint64(32)
_ODD: Final = np.uint64(1)
_SLOTS_MAX: Final = 0xFFFFFFFF
_SLOTS_MIN: Final = 16


@attrs.define(eq=False, repr=False)
class OffsetMap:
    """Offsets by hash, added in increasing order."""

    _first: Words
    _second: Words
    _offset: Ints
    used: int = 0

    @classmethod
    def of(cls, memory: int, records: int) -> OffsetMap:
        """Make a map of at most `memory` bytes, no larger than `records` need."""
        slots = max(min(memory // _SLOT, int(records / _LOAD) + 1, _SLOTS_MAX), _SLOTS_MIN)
        return cls(np.zeros(slots, np.uint64), np.zeros(slots, np.uint64), np.zeros(slots, np.int64))

    @property
    def free(self) -> int:
        return int(len(self._first) * _LOAD) - self.used

    def put(self, first: Words, second: Words, offsets: Ints) -> None:
        """Store offsets; there must be enough `free` slots."""
        slots = self._find(first, second, claim=True)
        fresh = self._offset[slots] == 0
        self._offset[slots] = offsets + 1  # of equal keys, the last one stays
        self.used += int(np.count_nonzero(fresh & (self._offset[slots] == offsets + 1)))

    def last(self, first: Words, second: Words) -> Ints:
        """Return -1 for unknown keys."""
        slots = self._find(first, second, claim=False)
        return np.where(slots < 0, -1, self._offset[slots] - 1)

    def missing(self, first: Words, second: Words) -> int:
        unknown = self.last(first, second) < 0
        return int(np.unique(np.stack((first[unknown], second[unknown])), axis=1).shape[1])

    def into_offsets(self) -> Ints:
        """Return all offsets, ascending; free the map's memory."""
        offsets, used = self._offset, self.used
        self._first = self._second = np.zeros(0, np.uint64)
        self._offset, self.used = np.zeros(0, np.int64), 0
        offsets.sort()
        offsets -= 1
        return offsets[len(offsets) - used :]

    def _find(self, first: Words, second: Words, *, claim: bool) -> Ints:
        """Return slots; for unknown keys -1, or with `claim` a free one."""
        places = np.full(len(first), -1, np.int64)
        rest: npt.NDArray[np.intp] = np.arange(len(first))
        probe, step = first.copy(), second | _ODD
        while len(rest):
            slots = self._slots(probe)
            one, other = first[rest], second[rest]
            there = self._first[slots]
            if claim and len(free := np.flatnonzero(there == 0)):
                self._first[slots[free]] = one[free]  # of several claims, the last one wins, in both halves
                self._second[slots[free]] = other[free]
                there = self._first[slots]
            same = (there == one) & (self._second[slots] == other)
            places[rest[same]] = slots[same]
            on = np.flatnonzero(~same & (there != 0))
            rest = rest[on]
            probe, step = probe[on] + step[on], step[on]
        return places

    def _slots(self, probe: Words) -> Ints:
        return ((probe >> _HIGH) * np.uint64(len(self._first)) >> _HIGH).view(np.int64)
