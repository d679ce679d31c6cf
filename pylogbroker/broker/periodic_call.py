"""A repeating call on a clock that is given."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall


class PeriodicCall(LoopingCall):
    """Twisted's LoopingCall without a default clock: looking for that would install a reactor in the whole process."""

    def __init__(self, clock: IReactorTime, function: Callable[..., object], *arguments: object) -> None:
        self.f = function
        self.a = arguments
        self.kw = {}
        self.clock = clock
