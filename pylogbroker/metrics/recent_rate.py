"""Rates over about the last minute, from values at scrapes."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

WINDOW_SECONDS: Final = 60.0


@attrs.define(eq=False, repr=False)
class RecentRate:
    """Growth of a value per second, since the oldest reading in the window, or the last one before it."""

    _readings: deque[tuple[float, float]] = attrs.field(factory=deque, init=False)

    def update(self, seconds: float, value: float) -> float:
        """Note the value at a time; return the rate."""
        readings = self._readings
        readings.append((seconds, value))
        while len(readings) > 2 and readings[1][0] <= seconds - WINDOW_SECONDS:
            readings.popleft()
        since, first = readings[0]
        return (value - first) / (seconds - since) if seconds > since else 0.0
