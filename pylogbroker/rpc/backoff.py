"""Backoff, and the rules of a retry: when, how often, for how long. Without a reactor.

    retry_blocking(attempt, Backoff(0.1, 1.0), 60.0, retriable=is_retriable)

Loops with a reactor follow the same rules (`pylogbroker.rpc.retries`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

import attrs

from pylogbroker.config import Values

T = TypeVar("T")

_JITTER: Final = 0.2  # fraction of a pause, either way, as in Kafka's clients
_DOUBLINGS_MAX: Final = 64  # a float has no more than 1,023


@attrs.frozen
class Backoff:
    """Exponential backoff with jitter; pauses in seconds."""

    first: float
    longest: float
    random: Callable[[], float] = random.random

    @classmethod
    def fixed(cls, seconds: float) -> Backoff:
        """Return a backoff whose pauses are all the same."""
        return cls(seconds, seconds, lambda: 0.5)

    @classmethod
    def of(cls, settings: Values, name: str = "retry.backoff") -> Backoff:
        """Read `NAME.ms` and `NAME.max.ms`."""
        first = settings.integer(f"{name}.ms") / 1000
        return cls(first, max(first, settings.integer(f"{name}.max.ms") / 1000))

    def pause(self, failures: int) -> float:
        """Return the seconds after `failures` (at least 1) failures."""
        doubled = self.first * 2.0 ** min(failures - 1, _DOUBLINGS_MAX)
        return min(doubled, self.longest) * (1 + _JITTER * (2 * self.random() - 1))


@attrs.define
class RetryPolicy:
    """Decide after each failure whether an attempt follows, and when. `deadline` is a time of the caller's clock."""

    backoff: Backoff
    deadline: float
    retriable: Callable[[BaseException], bool]
    failed: Callable[[Exception], object] | None
    """Called with each error that is retried."""
    failures: int = 0

    def pause_after(self, error: Exception, now: float) -> float:
        """Return the seconds until the next attempt; raise `error` if there is none."""
        self.failures += 1
        left = self.deadline - now
        if left <= 0 or not self.retriable(error):
            raise error
        if self.failed is not None:
            self.failed(error)
        return min(left, self.backoff.pause(self.failures))


def retry_blocking(
    work: Callable[[], T],
    backoff: Backoff,
    seconds: float,
    *,
    retriable: Callable[[BaseException], bool],
    failed: Callable[[Exception], object] | None = None,
) -> T:
    """Return the result of `work`, which is called again after retriable errors, for `seconds` at most.

    The last attempt begins at the end of that time. `failed` gets each error that is retried.
    """
    policy = RetryPolicy(backoff, time.monotonic() + seconds, retriable, failed)
    while True:
        try:
            return work()
        except Exception as error:
            pause = policy.pause_after(error, time.monotonic())
        time.sleep(pause)
