"""Ends of logs over the last hour: from them follows how old a record is, without reading it.

A ring for each partition that a sampled group has an offset of; the last value is that of the last time. An end that is
not known repeats the one before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Mapping
from typing import Final

import attrs

from pylogbroker.web.group_lags import SAMPLES_MAX

Key = tuple[str, int]
PARTITIONS_MAX: Final = 5000
"""Partitions with a history, of about 1 KiB each."""


@attrs.frozen
class Age:
    """Age of a record, about; `is_more` if it was there before the first sample."""

    ms: int
    is_more: bool = False


@attrs.define(eq=False, repr=False)
class LogEnds:
    _times: deque[int] = attrs.field(factory=lambda: deque(maxlen=SAMPLES_MAX), init=False)
    _ends: dict[Key, array[int]] = attrs.field(factory=dict, init=False)

    def note(self, time_ms: int, keys: Collection[Key], ends: Mapping[Key, int]) -> None:
        """Add the ends of these partitions, and forget the others."""
        self._times.append(time_ms)
        self._ends = {key: ring for key, ring in self._ends.items() if key in keys}
        for key, ring in self._ends.items():
            ring.append(ends.get(key, ring[-1]))
            if len(ring) > SAMPLES_MAX:
                del ring[0]
        for key in keys if len(self._ends) < PARTITIONS_MAX else ():
            if key in ends and key not in self._ends:
                self._ends[key] = array("q", [ends[key]])
                if len(self._ends) == PARTITIONS_MAX:
                    break

    def age(self, key: Key, offset: int, end: int, now_ms: int) -> Age | None:
        """Return the age of the record at an offset before `end`, None if it is not known."""
        ring = self._ends.get(key)
        if not ring:
            return None
        at, first = bisect_right(ring, offset), len(self._times) - len(ring)
        if not at:
            return Age(max(0, now_ms - self._times[first]), True)
        times, ends = [*self._times, now_ms], [*ring, max(end, ring[-1])]
        since, until = times[first + at - 1], times[first + at]
        written = ends[at] - ends[at - 1]
        share = (offset - ends[at - 1]) / written if written > 0 else 1.0
        return Age(max(0, now_ms - since - round(share * (until - since))))

    def written(self, key: Key) -> int | None:
        """Return how many records came between the last two samples; None if it is not known."""
        ring = self._ends.get(key)
        return None if ring is None or len(ring) < 2 else max(0, ring[-1] - ring[-2])

    @property
    def interval_ms(self) -> int:
        """Time between the last two samples; 0 before the second one."""
        return self._times[-1] - self._times[-2] if len(self._times) > 1 else 0
