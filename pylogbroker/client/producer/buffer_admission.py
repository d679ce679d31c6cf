"""Buffer admission: a record enters the producer's queue when it has space.

Other records wait up to `queue.enqueue.timeout.ms`, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from pylogbroker.client.errors import QueueFull
from pylogbroker.client.producer.accumulator import NO_RUN, Accumulator
from pylogbroker.client.producer.model import Counts


@attrs.frozen(eq=False, repr=False)
class WaitingRecord:
    size: int
    deadline: float
    proceed: Callable[[], object]
    reject: Callable[[BaseException], object]


@attrs.define(eq=False, repr=False)
class BufferAdmission:
    """Waiting records. `timeout` in seconds: 0 means no wait, None no limit."""

    reactor: IReactorTime
    accumulator: Accumulator
    counts: Counts
    timeout: float | None
    kick: Callable[[], None] = lambda: None
    waiting: deque[WaitingRecord] = attrs.Factory(deque)
    _timer: IDelayedCall | None = None
    _moving: bool = False

    def is_open(self, size: int, records: int = 1) -> bool:
        """Return whether the records fit and nothing waits."""
        return not self.waiting and self.accumulator.has_space(size, records)

    def admit(self, size: int, proceed: Callable[[], object], reject: Callable[[BaseException], object]) -> bool:
        """Call `proceed` when there is space, or `reject` after the timeout; return False if rejected at once."""
        if self.is_open(size):
            proceed()
        elif self.timeout == 0:
            self.counts.dropped += 1
            reject(self._full())
            return False
        else:
            self._wait(size, proceed, reject)
        return True

    def space_available(self) -> Deferred[None]:
        """Fire when current waiters have entered and more would fit."""
        return succeed(None) if self.is_open(1) else self._mark(1)

    def waiters_done(self) -> Deferred[None]:
        """Fire when current waiters have entered or been rejected."""
        return self._mark(0) if self.waiting else succeed(None)

    def move(self) -> None:
        if self._moving:
            return
        self._moving = True
        try:
            while self.waiting and self.accumulator.has_space(self.waiting[0].size):
                self._leave().proceed()
        finally:
            self._moving = False

    def reject_all(self, error: BaseException) -> None:
        while self.waiting:
            self._leave().reject(error)
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _wait(self, size: int, proceed: Callable[[], object], reject: Callable[[BaseException], object]) -> None:
        deadline = inf if self.timeout is None else self.reactor.seconds() + self.timeout
        self.waiting.append(WaitingRecord(size, deadline, proceed, reject))
        self._stop_lingering()
        if self.timeout is not None and (self._timer is None or not self._timer.active()):
            self._timer = self.reactor.callLater(self.timeout, self._expire)

    def _mark(self, size: int) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.waiting.append(WaitingRecord(size, inf, lambda: done.callback(None), lambda _: done.callback(None)))
        self._stop_lingering()
        return done

    def _stop_lingering(self) -> None:
        self.accumulator.run = NO_RUN
        if len(self.waiting) == 1:
            self.accumulator.stop_lingering()
            self.kick()

    def _leave(self) -> WaitingRecord:
        waiter = self.waiting.popleft()
        if not self.waiting:
            self.accumulator.flushers -= 1
        return waiter

    def _expire(self) -> None:
        now = self.reactor.seconds()
        late = [waiter for waiter in self.waiting if waiter.deadline <= now]
        self.waiting = deque(waiter for waiter in self.waiting if waiter.deadline > now)
        if late and not self.waiting:
            self.accumulator.flushers -= 1
        next_deadline = min((waiter.deadline for waiter in self.waiting), default=inf)
        if next_deadline < inf:
            self._timer = self.reactor.callLater(next_deadline - now, self._expire)
        for waiter in late:
            self.counts.dropped += 1
            waiter.reject(self._full())
        self.move()

    def _full(self) -> QueueFull:
        limits = self.accumulator.limits
        return QueueFull(
            f"{self.accumulator.held} records fill the queue; "
            f"raise buffer.memory (now {limits.memory}) or queue.size, or send more slowly"
        )
