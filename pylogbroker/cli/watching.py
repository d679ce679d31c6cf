"""Lists that are shown again and again: `--watch`, and how fast their numbers change."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final

import click

_SECONDS: Final = "2"
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")


def watch_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the seconds between two views as `watch`; None for a single one. Ctrl-C ends the views, not the command."""

    @functools.wraps(function)
    def until_interrupted(*arguments: Any, watch: float | None, **others: Any) -> Any:
        try:
            return function(*arguments, watch=watch, **others)
        except KeyboardInterrupt:
            if watch is None:
                raise

    return click.option(
        "--watch",
        type=click.FloatRange(0.1),
        is_flag=False,
        flag_value=_SECONDS,
        metavar="[SECONDS]",
        help="Show again every two seconds, or as often as this says, until Ctrl-C.",
    )(until_interrupted)


def views(seconds: float | None, sleep: Callable[[float], object] = time.sleep) -> Iterator[None]:
    """Yield for each view; clear the terminal before each but the first."""
    yield
    while seconds is not None:
        sleep(seconds)
        if sys.stdout.isatty():
            click.clear()
        yield


class RatesBetweenViews:
    """Changes per second between a view and the one before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: Mapping[Any, int | None] = {}
        self._at = 0.0

    def of(self, numbers: Mapping[Any, int | None]) -> Callable[[Hashable], float | None]:
        """Return the function that has each number's rate; None for a number that is new or unknown."""
        before, self._before = self._before, numbers
        now = self._clock()
        seconds, self._at = now - self._at, now

        def rate(name: Hashable) -> float | None:
            first, last = before.get(name), numbers.get(name)
            return None if first is None or last is None or seconds <= 0 else round((last - first) / seconds, 1)

        return rate


def readable_size(size: float | None) -> str | None:
    """Return bytes in a unit with which they have up to three digits before the point, by powers of two."""
    if size is None:
        return None
    exponent = 0
    while abs(size) >= 1000 and exponent + 1 < len(_UNITS):
        size /= 1024
        exponent += 1
    return f"{size:.1f} {_UNITS[exponent]}" if exponent else f"{size:g} B"


def readable_rate(rate: float | None) -> str | None:
    return None if rate is None else f"{readable_size(rate)}/s"
