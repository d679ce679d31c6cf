"""A clock of the reactor that does not follow changes of the machine's clock.

Twisted reads the machine's clock. When that is set back by a minute, no timer fires for a minute: fetches that wait are
not answered, and the broker sends no heartbeats. Timestamps of records are still those of the machine's clock:
`Runtime.now_ms`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the former goes on while a machine sleeps


class SteadySeconds:
    """Seconds since 1970, by the machine's clock as it was at the start."""

    __slots__ = ("_offset", "_read")

    def __init__(self) -> None:
        self._read = time.clock_gettime
        self._offset = time.time() - self._read(_STEADY)

    def __call__(self) -> float:
        return self._offset + self._read(_STEADY)


def make_steady(reactor: Any) -> None:
    """Let a reactor that does not run yet measure time by `SteadySeconds`."""
    reactor.seconds = SteadySeconds()


def time_of_day(clock: Any) -> Callable[[], float]:
    """Return the function that reads the machine's clock, or that of another clock than a steady reactor."""
    seconds: Callable[[], float] = clock.seconds
    return time.time if isinstance(seconds, SteadySeconds) else seconds
