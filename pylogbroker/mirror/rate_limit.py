"""A limit of bytes per second, without I/O: the time is passed in."""

from __future__ import annotations

from math import inf

import attrs


@attrs.define
class RateLimit:
    """Lets a first second's worth through at once. 0 bytes per second: no limit."""

    bytes_per_second: int
    _left: float = 0.0
    _counted_at: float = -inf

    def wait(self, now: float) -> float:
        """Return the seconds until more may be taken; 0 if at once."""
        if not self.bytes_per_second:
            return 0.0
        self._refill(now)
        return 0.0 if self._left > 0 else -self._left / self.bytes_per_second + 1e-3

    def take(self, size: int, now: float) -> None:
        """Count bytes, which may exceed what is left: the next ones wait for it."""
        if self.bytes_per_second:
            self._refill(now)
            self._left -= size

    def _refill(self, now: float) -> None:
        elapsed = max(0.0, now - self._counted_at)
        self._left = min(self._left + elapsed * self.bytes_per_second, float(self.bytes_per_second))
        self._counted_at = now
