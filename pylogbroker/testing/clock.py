"""Time of a test's brokers: real time, moved forward.

    broker.clock.advance("1h")

Sessions, transactions, retention, expiry of offsets and delayed fetches follow this clock. Retention is applied when
the time was moved, and otherwise as rarely as with Kafka. Connections, the coordination tree and the clients stay on
real time: to a client that sends heartbeats it looks as if they were late.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from math import isfinite
from typing import Any, Final

import attrs
from twisted.internet.base import DelayedCall
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from pylogbroker.config.durations import UNITS_MS

log = Logger()

STEPS_MAX: Final = 1000
"""Calls that run each at its own time while the clock moves; the others run at its new time."""

_LAST_SECONDS: Final = 10.0
_QUIET_ITERATIONS: Final = 5
_SETTLE_SECONDS_MAX: Final = 10.0
_PART: Final = re.compile(r"(\d+(?:\.\d+)?) *(ms|[smhdw])")

Duration = str | float | timedelta


def seconds_of(duration: Duration) -> float:
    """Return the seconds of `"1h30m"`, `"500ms"`, a timedelta or a number of seconds; raise ValueError."""
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        if not re.fullmatch(rf"(?:{_PART.pattern} *)+", duration):
            raise ValueError(f"{duration!r} is not a duration; expected one such as 90s, 1h30m, 500ms or 7d")
        seconds = sum(float(number) * UNITS_MS[unit] for number, unit in _PART.findall(duration)) / 1000
    else:
        seconds = float(duration)
    if not isfinite(seconds):
        raise ValueError(f"{duration!r} is not a duration: the time of a broker has no end")
    if seconds < 0:
        raise ValueError(f"{duration!r} is negative: the time of a broker only moves forward")
    return seconds


@implementer(IReactorTime)
class MovableClock:
    """The reactor's time and an offset. Use on the reactor's thread, except for `seconds`."""

    def __init__(self, reactor: Any, offset: float = 0.0) -> None:
        self.offset = offset
        self._reactor = reactor
        self._calls: list[DelayedCall] = []
        self._timer: Any = None

    def seconds(self) -> float:
        return float(self._reactor.seconds() + self.offset)

    def callLater(self, delay: float, callable: Callable[..., object], *args: object, **kw: object) -> DelayedCall:
        call = DelayedCall(self.seconds() + delay, callable, args, kw, self._calls.remove, self._moved, self.seconds)
        self._calls.append(call)
        self._moved(call)
        return call

    def getDelayedCalls(self) -> list[DelayedCall]:
        return list(self._calls)

    @property
    def is_due(self) -> bool:
        """True if a call is to run now."""
        return bool(self._calls) and self._calls[0].getTime() <= self.seconds()

    @property
    def due(self) -> str:
        """The next call, as a name."""
        function = self._calls[0].func
        return str(getattr(function, "__qualname__", function))

    def advance(self, seconds: float) -> None:
        """Move the time; run what becomes due in the order of its times, each at its time."""
        target = self.offset + seconds
        for _ in range(STEPS_MAX):
            self._sort()
            if not self._calls or self._calls[0].getTime() - self._reactor.seconds() > target:
                break
            self.offset = max(self.offset, self._calls[0].getTime() - self._reactor.seconds())
            self._run(self._calls[0])
        self.offset = target
        self._run_due()

    def _run_due(self) -> None:
        """Run the calls that are due; those that they add run in the reactor's next iteration."""
        now = self.seconds()
        self._sort()
        for call in [call for call in self._calls if call.getTime() <= now]:
            if call.active() and call.getTime() <= now:  # an earlier one may have put it off
                self._run(call)
        self._set_timer()

    def _run(self, call: DelayedCall) -> None:
        self._calls.remove(call)
        call.called = 1
        try:
            call.func(*call.args, **call.kw)
        except Exception:
            log.failure("a delayed call failed")

    def _moved(self, call: DelayedCall) -> None:
        self._sort()
        if self._calls[0] is call:
            self._set_timer()

    def _sort(self) -> None:
        self._calls.sort(key=DelayedCall.getTime)

    def _set_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        if self._calls:
            self._timer = self._reactor.callLater(max(0.0, self._calls[0].getTime() - self.seconds()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._run_due()


class NotSettled(RuntimeError):
    """The clock has moved, but brokers are still doing what was due."""


_Work = Callable[[], Awaitable[None]]


@attrs.frozen
class _RunningBrokers:
    """Brokers between `attach` and `detach`; its arguments describe the functions."""

    clock: MovableClock
    call: Callable[[_Work, str], None]
    is_busy: Callable[[], bool]
    retain: _Work

    async def settle(self) -> str:
        """Wait until the brokers have nothing to do at once, neither in worker threads; return what they still do."""
        clock = self.clock
        quiet, deadline = 0, clock._reactor.seconds() + _SETTLE_SECONDS_MAX
        while quiet < _QUIET_ITERATIONS:
            await deferLater(clock._reactor, 0.001 if quiet else 0)
            quiet = 0 if clock.is_due or self.is_busy() else quiet + 1
            if not quiet and clock._reactor.seconds() > deadline:
                return f"{clock.due} is due again and again" if clock.is_due else "worker threads are busy"
        return ""


class BrokerClock:
    """Moves the time of a test's brokers, from any thread but theirs; the time stays moved when they are restarted."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._brokers: _RunningBrokers | None = None

    def attach(
        self,
        reactor: Any,
        call: Callable[[_Work, str], None],
        is_busy: Callable[[], bool],
        retain: _Work,
    ) -> MovableClock:
        """Return the clock of brokers that start.

        `call` runs work on their thread, `is_busy` asks their workers, and `retain` applies retention to their logs.
        """
        self._brokers = _RunningBrokers(MovableClock(reactor, self._offset), call, is_busy, retain)
        return self._brokers.clock

    def detach(self) -> None:
        if self._brokers is not None:
            self._offset = self._brokers.clock.offset
        self._brokers = None

    def time(self) -> float:
        """Return the seconds since 1970."""
        return time.time() + (self._offset if self._brokers is None else self._brokers.clock.offset)

    def advance(self, duration: Duration) -> None:
        """Advance the time by `"1h"`, `"90s"`, a timedelta or seconds; return when the work that became due is done.

        Raise NotSettled if that takes longer than 10 seconds: the time has moved then.
        """
        seconds = seconds_of(duration)
        brokers = self._brokers
        if brokers is None:
            self._offset += seconds
            return

        async def move() -> None:
            last = min(seconds, _LAST_SECONDS)  # a periodic job that still runs is not started, so it gets another time
            unsettled = ""
            for part in filter(None, (seconds - last, last)):
                brokers.clock.advance(part)
                unsettled = await brokers.settle()
            if seconds:
                await brokers.retain()
            if unsettled:
                raise NotSettled(
                    f"the brokers are not done {_SETTLE_SECONDS_MAX:g} s after the clock moved: {unsettled}"
                )

        brokers.call(move, f"advance of the clock by {duration}")
