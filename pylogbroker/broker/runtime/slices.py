"""Long work on the reactor thread, divided into slices of a few milliseconds.

Loops over thousands of partitions must let the reactor serve other connections. Their coroutines give way
(`pylogbroker.long_loops`), and the driver of a coroutine runs it in slices:

    answer = slices.attempt(work)                   # a result, or a Deferred if the coroutine waits
    deferred = slices.start(work)
    result = await slices.run(work)                 # in a coroutine that has another driver

Connections do so for handlers. In background work a loop may take slices by itself:

    async for partition in slices.over(partitions):
        ...

All share one slice per iteration of the reactor, so that a hundred long requests delay others as little as one. A
slice is the time since the first loop of an iteration began. So a thousand short loops pause as one long loop does.
A reactor does not say when an iteration ends: a delayed call does. Work that begins up to a millisecond after a slice
began shares that slice, and needs no further call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Sequence
from math import inf
from time import perf_counter
from types import coroutine
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from pylogbroker.long_loops import in_order

T = TypeVar("T")
_Result = TypeVar("_Result")
G = TypeVar("G")
R = TypeVar("R")
S = TypeVar("S")
SLICE_SECONDS: Final = 0.004
_SHORT_SECONDS: Final = 0.0005
"""Work that takes less does not wait for others."""
_NEXT_SLICE_SECONDS: Final = 0.001
"""Time from the beginning of a slice until work that begins can have the next one."""

Work = Coroutine[Any, Any, T]


class _Pause(Deferred[None]):
    """Wait for the next slice."""


def _ignore() -> None:
    """Do nothing."""


def _continued(work: Generator[Deferred[Any], Any, T], waited: Deferred[Any]) -> Generator[Deferred[Any], Any, T]:
    """Run the rest of a coroutine that waits for `waited`."""
    while True:
        try:
            try:
                value = yield waited
            except Exception as error:
                waited = work.throw(error)
            else:
                waited = work.send(value)
        except StopIteration as end:
            result: T = end.value
            return result


def _continued_until(
    work: Generator[Deferred[Any], Any, T], pause: _Pause, on_resume: Callable[[], None]
) -> Generator[Deferred[Any], Any, T]:
    """Run the rest of a paused coroutine; call `on_resume` when it waits for something else, or ends."""
    waited: Deferred[Any] = pause
    try:
        while isinstance(waited, _Pause):
            try:
                yield waited
            except Exception as error:
                waited = work.throw(error)
            else:
                waited = work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        on_resume()
    return (yield from _continued(work, waited))


@attrs.define(eq=False, repr=False)
class Slices:
    """Gives slices of the reactor thread's time to long loops, first come, first served.

    `seconds` is a slice's length, measured by `now`; with `inf` no loop pauses.
    """

    _clock: IReactorTime
    seconds: float = SLICE_SECONDS
    _now: Callable[[], float] = perf_counter
    _waiting: deque[_Pause] = attrs.field(factory=deque, init=False)
    _next_from: float = attrs.field(default=0.0, init=False)  # work that begins later has the next slice
    _until: float = attrs.field(default=0.0, init=False)  # end of the slice
    _scheduled: bool = attrs.field(default=False, init=False)  # the iteration has not ended since

    async def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Iterate over `items`; yield to other work whenever a slice is over.

        A loop that is cancelled while it waits raises CancelledError.
        """
        until = self._begin()
        if self._waiting:
            until = self._now()
        for item in items:
            yield item
            if self._now() >= until:
                await self.next()
                until = self._until
        if self._now() >= self._begin():  # there were no items
            await self.next()

    async def in_order(self, items: Sequence[T], key: Callable[[T], Any] | None = None) -> list[T]:
        """Return the sorted items."""
        return [item async for item in self.over(await self.run(in_order(items, key)))]

    @coroutine
    def run(self, work: Work[T]) -> Generator[Deferred[Any], Any, T]:
        """Run a coroutine in slices, awaited by another one; pause it when it gives way and its slice is over.

        It does not begin before the next slice if this one is over, so that a loop around short coroutines pauses.
        A coroutine that is cancelled while it is paused gets CancelledError.
        """
        if self._now() >= self._begin():
            try:
                yield self.next()
            except BaseException:
                work.close()
                raise
        return (yield from self._drive(work))

    def _drive(self, work: Work[T]) -> Generator[Deferred[Any], Any, T]:
        """Run a coroutine in slices, beginning now."""
        until = self._slice_end()
        value: Any = None
        error: Exception | None = None
        try:
            while True:
                try:
                    waited = work.send(value) if error is None else work.throw(error)
                except StopIteration as end:
                    result: T = end.value
                    return result
                value = error = None
                try:
                    if waited is not None:
                        value = yield waited
                        until = self._slice_end()
                    elif self._now() >= until:
                        yield self.next()
                        until = self._until
                except Exception as thrown:
                    error = thrown
        finally:
            work.close()

    def start(self, work: Work[T]) -> Deferred[T]:
        """Begin to run a coroutine in slices; return a Deferred of its result."""
        return Deferred.fromCoroutine(self._drive(work))

    def attempt(
        self, work: Work[T], on_pause: Callable[[], None] = _ignore, on_resume: Callable[[], None] = _ignore
    ) -> T | Deferred[T]:
        """Run a coroutine in slices: return its result if it does not wait, else a Deferred.

        `on_pause` is called if it is paused before it waits for anything else. `on_resume` is called after that, when
        the coroutine waits for something else or ends.
        """
        sliced = self._drive(work)
        try:
            waited = sliced.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        if not isinstance(waited, _Pause):
            return Deferred.fromCoroutine(_continued(sliced, waited))
        on_pause()
        return Deferred.fromCoroutine(_continued_until(sliced, waited, on_resume))

    def _begin(self) -> float:
        """Return the end of the slice of this iteration, which begins now unless it has begun."""
        if self.seconds == inf:
            return inf
        if not self._scheduled:
            now = self._now()
            if now >= self._next_from:
                self._take(now)
                self._schedule()
        return self._until

    def _take(self, now: float) -> None:
        """Begin a slice."""
        self._next_from, self._until = now + _NEXT_SLICE_SECONDS, now + self.seconds

    def _slice_end(self) -> float:
        """Return when work that begins now pauses; short work need not wait behind long work."""
        until, short = self._begin(), self._now() + min(self.seconds, _SHORT_SECONDS)
        return short if self._waiting else max(until, short)

    def next(self) -> _Pause:
        waiting = _Pause()
        if self.seconds == inf:
            self._until = inf
            waiting.callback(None)
            return waiting
        self._waiting.append(waiting)
        self._schedule()
        return waiting

    def stop(self) -> None:
        self.seconds = inf
        self._run()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._clock.callLater(0, self._run)

    def _run(self) -> None:
        """End the slice of an iteration; let those that wait share the next one."""
        self._scheduled = False
        if self._waiting:
            self._take(self._now())
            if self.seconds != inf:
                self._schedule()
            for _ in range(len(self._waiting)):
                self._waiting.popleft().callback(None)
                if self._now() >= self._until:
                    break
