"""Calls that are given a short time, on a machine that may stand still for longer than that.

in_time(lambda milliseconds: read(bootstrap, part, **{"kafka.default.api.timeout.ms": milliseconds}))

A call that has to use its time up is given little, so that the test is quick. If it fails for another reason, because
the time was over before a broker had answered, it is repeated with more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from pylogbroker.errors import PylogbrokerError

T = TypeVar("T")
E = TypeVar("E", bound=PylogbrokerError)
MILLISECONDS: Final = (300, 3_000, 30_000)


def in_time(call: Callable[[int], T]) -> T:
    """Return what a call returns, if need be with more time; the error of the longest time."""
    for milliseconds in MILLISECONDS[:-1]:
        try:
            return call(milliseconds)
        except PylogbrokerError:
            continue
    return call(MILLISECONDS[-1])


def error_of(call: Callable[[int], object], kind: type[E], text: str = "") -> E:
    """Return the error of a call that must fail in this way, if need be with more time."""
    others: list[PylogbrokerError] = []
    for milliseconds in MILLISECONDS:
        try:
            call(milliseconds)
        except PylogbrokerError as error:
            if isinstance(error, kind) and re.search(text, str(error)):
                return error
            others.append(error)
        else:
            raise AssertionError(f"no {kind.__name__}")
    raise AssertionError(f"no {kind.__name__} with {text!r}: {others}")
