"""Durations of the last loads of a coordinator's shards, for metrics."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

WINDOW_SECONDS: Final = 60.0
_LOADS_MAX: Final = 10_000


@attrs.define(eq=False, repr=False)
class RecentLoads:
    """Loads that ended within the window, the last ones if there were very many."""

    _loads: deque[tuple[float, float]] = attrs.field(factory=lambda: deque(maxlen=_LOADS_MAX), init=False)

    def add(self, begun: float, ended: float) -> None:
        """Note a load by its times in seconds."""
        self._loads.append((begun, ended))

    def durations(self, now: float) -> list[float]:
        """Return the durations in seconds; forget older loads."""
        loads = self._loads
        while loads and loads[0][1] < now - WINDOW_SECONDS:
            loads.popleft()
        return [ended - begun for begun, ended in loads]
