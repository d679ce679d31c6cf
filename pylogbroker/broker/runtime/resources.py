"""Clock, worker threads, time slices and rate limits that the services of a broker share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from pylogbroker.broker.requests.deferred_actions import DeferredActions
from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.broker.runtime.timeouts import Timeouts

LOG_INTERVAL_MS = 60_000

InThread = Callable[..., Deferred[Any]]
"""`in_thread(function, *arguments)` calls a function in a worker thread; returns a Deferred of its result."""


@attrs.define
class LogRateLimit:
    """Limits lines that every request would log. Subjects must be few: all are remembered."""

    _logged_ms: dict[str, int] = attrs.field(factory=dict, init=False)

    def is_due(self, about: str, now_ms: int) -> bool:
        """Return True at most once in `LOG_INTERVAL_MS` for each `about`."""
        last_ms = self._logged_ms.get(about)
        if last_ms is not None and 0 <= now_ms - last_ms < LOG_INTERVAL_MS:
            return False
        self._logged_ms[about] = now_ms
        return True


class PeriodicCall(LoopingCall):
    """LoopingCall on a given clock; the default one would install a reactor in the process."""

    def __init__(self, clock: IReactorTime, function: Callable[..., object], *arguments: object) -> None:
        self.f = function
        self.a = arguments
        self.kw = {}
        self.clock = clock


@attrs.frozen(eq=False, repr=False)
class Runtime:
    """Shared by all services. `in_reading_thread` runs calls that wait for the disk, at low priority.

    `in_login_thread` runs those that check credentials; without it, all threads do.

    Connections to other brokers are on `reactor`; everything else follows `clock`, which is the same but in tests.
    `time_of_day` is the machine's clock, which may be set: it is for timestamps, `clock` for timers and durations.
    """

    clock: IReactorTime
    time_of_day: Callable[[], float]
    reactor: Any
    in_thread: InThread
    in_reading_thread: InThread
    in_login_thread: InThread
    slices: Slices
    deferred_actions: DeferredActions
    log_rate_limit: LogRateLimit
    timeouts: Timeouts

    @classmethod
    def on(
        cls,
        clock: IReactorTime,
        in_thread: InThread,
        in_reading_thread: InThread,
        reactor: Any = None,
        in_login_thread: InThread | None = None,
        time_of_day: Callable[[], float] | None = None,
    ) -> Runtime:
        threads = in_thread, in_reading_thread, in_login_thread or in_thread
        own = clock if reactor is None else reactor
        return cls(
            clock,
            time_of_day or clock.seconds,
            own,
            *threads,
            Slices(clock),
            DeferredActions(clock),
            LogRateLimit(),
            Timeouts(clock),
        )

    def now_ms(self) -> int:
        return int(self.time_of_day() * 1000)

    def may_log(self, about: str) -> bool:
        return self.log_rate_limit.is_due(about, self.now_ms())
