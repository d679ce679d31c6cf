"""Measures of what clients use, and how long they are throttled: those of Kafka's Rate, SampledStat and TokenBucket.

A rate is the sum of up to `samples` windows, over the time since the oldest of them began. At least `samples - 1` whole
windows count. So a client that was idle may first use its quota of that time at once.

A throttle time is what brings the rate down to the quota if nothing is used meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import floor
from typing import Final, Generic, TypeVar

import attrs

MEASURES_MAX: Final = 10_000
"""Measures of one kind that are kept; idle ones are forgotten beyond it."""


@attrs.frozen
class Windows:
    samples: int = 11
    seconds: int = 1

    @property
    def ms(self) -> int:
        """Length of one window."""
        return self.seconds * 1000

    @property
    def whole_seconds(self) -> int:
        """Time of the whole windows: the quota of this time may be used at once."""
        return (self.samples - 1) * self.seconds


@attrs.define
class _Sample:
    began_ms: int
    last_ms: int
    total: float = 0.0

    def begin(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.total = 0.0


@attrs.define(eq=False, repr=False)
class SampledRate:
    """Rate in units per second."""

    _windows: Windows
    _samples: list[_Sample] = attrs.field(factory=list, init=False)
    _current: int = attrs.field(default=0, init=False)
    last_ms: int = attrs.field(default=0, init=False)
    """When something was last recorded."""

    def record(self, value: float, now_ms: int) -> None:
        """Add what was used; a negative value takes it back."""
        if not self._samples:
            self._samples.append(_Sample(now_ms, now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.began_ms >= self._windows.ms:
            sample = self._next_sample(now_ms)
        sample.total += value
        sample.last_ms = self.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        return self._per_second(self._elapsed_ms(now_ms))

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long to wait until the rate is the quota; 0 if it is not above."""
        elapsed_ms = self._elapsed_ms(now_ms)
        rate = self._per_second(elapsed_ms)
        if rate <= quota:
            return 0
        return floor((rate - quota) / quota * elapsed_ms + 0.5)

    def _per_second(self, elapsed_ms: int) -> float:
        return sum([sample.total for sample in self._samples]) / (elapsed_ms / 1000)

    def _next_sample(self, now_ms: int) -> _Sample:
        """Begin a sample in place of the oldest one; one more than `samples` are kept."""
        self._current = (self._current + 1) % (self._windows.samples + 1)
        if self._current < len(self._samples):
            self._samples[self._current].begin(now_ms)
        else:
            self._samples.append(_Sample(now_ms, now_ms))
        return self._samples[self._current]

    def _elapsed_ms(self, now_ms: int) -> int:
        windows = self._windows
        for sample in self._samples:
            if now_ms - sample.last_ms >= windows.samples * windows.ms:
                sample.begin(now_ms)
        elapsed_ms = now_ms - min([sample.began_ms for sample in self._samples], default=now_ms)
        missing = max(0, windows.samples - 1 - elapsed_ms // windows.ms)
        return max(1, elapsed_ms + missing * windows.ms)


@attrs.define(eq=False, repr=False)
class TokenBucket:
    """Tokens come at a rate, and up to those of all windows are kept. They may become negative."""

    _windows: Windows
    _tokens: float = attrs.field(default=0.0, init=False)
    last_ms: int = attrs.field(default=0, init=False)
    """When tokens were last taken or asked for; at first, the bucket is full."""

    def take(self, tokens: float, quota: float, now_ms: int) -> None:
        self._refill(quota, now_ms)
        self._tokens -= tokens

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long to wait until the tokens are not negative."""
        self._refill(quota, now_ms)
        return floor(-self._tokens * 1000 / quota + 0.5) if self._tokens < 0 else 0

    def _refill(self, quota: float, now_ms: int) -> None:
        burst = self._windows.samples * self._windows.seconds * quota
        self._tokens = min(burst, self._tokens + quota * (now_ms - self.last_ms) / 1000)
        self.last_ms = now_ms


K = TypeVar("K", bound=Hashable)
M = TypeVar("M", SampledRate, TokenBucket)


@attrs.define(eq=False, repr=False)
class Measures(Generic[K, M]):
    """Measures by what they are of; `_forgotten` is called when idle ones, which are as good as new, are dropped."""

    _windows: Windows
    _new: Callable[[Windows], M]
    _forgotten: Callable[[], None] = lambda: None
    _known: dict[K, M] = attrs.field(factory=dict, init=False)
    _most: int = attrs.field(default=MEASURES_MAX, init=False)

    def of(self, key: K, now_ms: int) -> M:
        measure = self._known.get(key)
        if measure is None:
            if len(self._known) >= self._most:
                self._forget_idle(now_ms)
            measure = self._known[key] = self._new(self._windows)
        return measure

    def __len__(self) -> int:
        return len(self._known)

    def _forget_idle(self, now_ms: int) -> None:
        since_ms = now_ms - self._windows.samples * self._windows.ms
        self._known = {key: measure for key, measure in self._known.items() if measure.last_ms > since_ms}
        self._most = max(MEASURES_MAX, 2 * len(self._known))
        self._forgotten()
