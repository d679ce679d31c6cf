"""A signal that one coroutine waits for."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime


@attrs.define(eq=False, repr=False)
class WakeUp:
    """Wakes its waiter. A call while nobody waits ends the next wait at once."""

    _clock: IReactorTime
    _is_called: bool = False
    _waiting: list[Deferred[None]] = attrs.field(factory=list)
    _timers: list[IDelayedCall] = attrs.field(factory=list)

    def call(self, *_: Any) -> None:
        if self._waiting:
            self._end()
        else:
            self._is_called = True

    def wait(self, seconds: float | None = None) -> Deferred[None]:
        """Fire after a call, or after `seconds`."""
        waiting: Deferred[None] = Deferred(self._cancelled)
        if self._is_called or (seconds is not None and seconds <= 0):
            self._is_called = False
            waiting.callback(None)
            return waiting
        self._waiting.append(waiting)
        if seconds is not None:
            self._timers.append(self._clock.callLater(seconds, self._end))
        return waiting

    def _end(self) -> None:
        self._stop_timers()
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.callback(None)

    def _cancelled(self, deferred: Deferred[None]) -> None:
        self._waiting.remove(deferred)
        self._stop_timers()

    def _stop_timers(self) -> None:
        timers, self._timers = self._timers, []
        for timer in timers:
            if timer.active():
                timer.cancel()
