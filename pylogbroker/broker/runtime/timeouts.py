"""Timeouts of waits that end earlier as a rule, such as those of fetches and of writes with acks=all.

    add     -> the queue of this duration, at its end
    remove  -> out of the queue
    one delayed call for each queue -> the waits whose time has come, oldest first

A delayed call of the reactor costs more than the rest of a small wait. Here one call serves all waits of a duration,
and stays when a wait ends. It looks at the queue at least once in `LOOK_SECONDS`, and ends when the queue is empty.
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime

LOOK_SECONDS: Final = 1.0
"""A queue without waits, of a duration that clients choose, is kept for no longer."""


class TimedWait(Protocol):
    def time_out(self) -> None:
        """End the wait: its time is over."""


@attrs.define(eq=False, repr=False)
class Timeouts:
    _clock: IReactorTime
    _queues: dict[float, dict[TimedWait, float]] = attrs.field(factory=dict, init=False)
    """Ends of waits, by their duration in seconds; oldest first."""
    _calls: dict[float, IDelayedCall] = attrs.field(factory=dict, init=False)

    def add(self, seconds: float, wait: TimedWait) -> None:
        """Call `wait.time_out` in so many seconds, unless it is removed before."""
        queue = self._queues.get(seconds)
        if queue is None:
            queue = self._queues[seconds] = {}
            self._look_in(seconds, seconds)
        queue[wait] = self._clock.seconds() + seconds

    def remove(self, seconds: float, wait: TimedWait) -> float:
        """Forget a wait, if it is there; return the time at which it would have ended, 0 without one."""
        queue = self._queues.get(seconds)
        return 0.0 if queue is None else queue.pop(wait, 0.0)

    def stop(self) -> None:
        """Forget all waits."""
        self._queues.clear()
        for call in self._calls.values():
            call.cancel()
        self._calls.clear()

    def _look_in(self, left: float, seconds: float) -> None:
        self._calls[seconds] = self._clock.callLater(max(0.0, min(left, LOOK_SECONDS)), self._look, seconds)

    def _look(self, seconds: float) -> None:
        """End the waits of a duration whose time has come."""
        queue, now = self._queues[seconds], self._clock.seconds()
        del self._calls[seconds]
        due = []
        for wait, end in queue.items():
            if end > now:
                break
            due.append(wait)
        try:
            for wait in due:
                if queue.pop(wait, None) is not None:  # else the end of another one has removed it
                    wait.time_out()
        finally:  # the others end also if one fails
            self._look_again(queue, now, seconds)

    def _look_again(self, queue: dict[TimedWait, float], now: float, seconds: float) -> None:
        if self._queues.get(seconds) is not queue:  # stopped meanwhile
            return
        if queue:
            self._look_in(next(iter(queue.values())) - now, seconds)
        else:
            del self._queues[seconds]
