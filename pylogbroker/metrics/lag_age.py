"""The age of the next record that a group waits for, in seconds.

An offset has no time of its own in an index, and reading records for a scrape would be dear. So scrapes remember where
a partition ended, while some group is behind there: a record came between the last scrape that did not see it and the
first that did. Of long times, readings are thinned out: the time may be off by about an eighth.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs

from pylogbroker.metadata.image import PartitionKey

READINGS_MAX: Final = 16


@attrs.define(eq=False, repr=False)
class Reading:
    end: int
    first_seen: float
    last_seen: float


@attrs.define(eq=False, repr=False)
class LagAges:
    _readings: dict[PartitionKey, list[Reading]] = attrs.field(factory=dict, init=False)

    def age(self, key: PartitionKey, committed: int, end: int, now: float) -> float:
        """Return the age of the record at a committed offset, which is below the end."""
        readings = self._readings.setdefault(key, [])
        if readings and readings[-1].end == end:
            readings[-1].last_seen = now
        else:
            if len(readings) == READINGS_MAX:
                del readings[1:-1:2]
            readings.append(Reading(end, now, now))
        return now - _written_at(readings, committed)

    def forget_others(self, lagging: Collection[PartitionKey]) -> None:
        """End a scrape: forget partitions where no group was behind in it. Other scrapes may be under way."""
        self._readings = {key: reading for key, reading in self._readings.items() if key in lagging}


def _written_at(readings: list[Reading], offset: int) -> float:
    """Return when a record came, or the first reading if it was there before."""
    before = None
    for reading in readings:
        if reading.end > offset:
            if before is None:
                return reading.first_seen
            share = (offset - before.end) / (reading.end - before.end)
            return before.last_seen + (reading.first_seen - before.last_seen) * share
        before = reading
    return readings[-1].last_seen  # truncated meanwhile
