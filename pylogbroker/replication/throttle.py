"""Throttle of replication: bytes pass at a rate, on average.

    tokens    grow by `rate` per second, up to those of one second
    record    takes as many tokens as bytes have passed; they may become negative, since batches pass whole
    exceeded  without tokens nothing should pass

A follower asks again after `replica.fetch.wait.max.ms`, so the tokens of that time must not be lost.
"""

from __future__ import annotations

from typing import Final

import attrs

UNLIMITED: Final = 2**63 - 1
_BURST_SECONDS: Final = 1.0


@attrs.define
class ReplicationThrottle:
    _rate: int = UNLIMITED
    _tokens: float = 0.0
    _filled_ms: int = 0

    @property
    def is_unlimited(self) -> bool:
        return self._rate >= UNLIMITED

    def set_rate(self, rate: int, now_ms: int) -> None:
        """Begin with another number of bytes per second; at first, nothing has been saved up."""
        if rate != self._rate:
            self._rate, self._tokens, self._filled_ms = rate, 0.0, now_ms

    def record(self, size: int, now_ms: int) -> None:
        if not self.is_unlimited:
            self._fill(now_ms)
            self._tokens -= size

    def is_exceeded(self, now_ms: int) -> bool:
        if self.is_unlimited:
            return False
        self._fill(now_ms)
        return self._tokens <= 0

    def wait_ms(self, now_ms: int) -> int:
        """Return the time until it is not exceeded, at most UNLIMITED."""
        if not self.is_exceeded(now_ms):
            return 0
        return int(-self._tokens * 1000 / self._rate) + 1 if self._rate else UNLIMITED

    def _fill(self, now_ms: int) -> None:
        gained = max(now_ms - self._filled_ms, 0) * self._rate / 1000
        self._tokens = min(self._tokens + gained, self._rate * _BURST_SECONDS)
        self._filled_ms = now_ms
