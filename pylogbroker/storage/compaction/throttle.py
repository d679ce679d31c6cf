"""Bounds the bytes per second that the cleaner reads and writes."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs


@attrs.define
class Throttle:
    """Delays the caller until the rate allows the bytes. Unused time is not saved up."""

    bytes_per_second: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _free_at: float = 0.0

    def spent(self, size: int) -> None:
        """Wait for the time that `size` bytes take."""
        now = self.clock()
        self._free_at = max(self._free_at, now) + size / self.bytes_per_second
        if self._free_at > now:
            self.sleep(self._free_at - now)
