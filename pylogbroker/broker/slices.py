"""Long work on the reactor thread, divided into slices of a few milliseconds.

Loops over thousands of partitions must let the reactor serve other connections:

    async for partition in broker.slices.over(partitions):
        ...

All such loops share one slice per iteration of the reactor, so that a hundred long requests delay others as little as
one.

Anything may happen between two items: the body must not rely on earlier state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from heapq import merge
from inspect import isawaitable, iscoroutine
from math import inf
from time import perf_counter
from types import GeneratorType
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime

T = TypeVar("T")
_Result = TypeVar("_Result")
G = TypeVar("G")
R = TypeVar("R")
S = TypeVar("S")
SLICE_SECONDS: Final = 0.004

ITEMS_INLINE_MAX: Final = 500
"""Items of a request that is handled without steps."""

STEP_ITEMS: Final = 100
"""Items between two steps."""

_SORTED_PER_STEP: Final = 1000


def inline_if_short(steps: Generator[None, None, _Result], items: int) -> _Result | Generator[None, None, _Result]:
    """Return the result of `steps`, or the generator itself if it has many items."""
    return steps if items > ITEMS_INLINE_MAX else at_once(steps)


def map_in_steps(make: Callable[[T], R], items: Iterable[T]) -> Generator[None, None, list[R]]:
    """Return `make` of each item; yield before each `STEP_ITEMS`."""
    made: list[R] = []
    for number, item in enumerate(items):
        if number % STEP_ITEMS == 0:
            yield
        made.append(make(item))
    return made


def map_to_steps(make: Callable[[T], Generator[None, None, R]], items: Iterable[T]) -> Generator[None, None, list[R]]:
    """Return what the steps of each item make; yield before each `STEP_ITEMS`, too."""
    made: list[R] = []
    for number, item in enumerate(items):
        if number % STEP_ITEMS == 0:
            yield
        made += [(yield from make(item))]
    return made


def sort_in_steps(items: Sequence[T], key: Callable[[T], Any] | None = None) -> Generator[None, None, Iterator[T]]:
    """Return the items in order; the iterator merges sorted parts, so that reading it may give way, too."""
    parts: list[list[T]] = []
    for start in range(0, len(items), _SORTED_PER_STEP):
        yield
        parts.append(sorted(items[start : start + _SORTED_PER_STEP], key=key))  # type: ignore[type-var, arg-type]
    return merge(*parts, key=key)  # type: ignore[arg-type]


def at_once(steps: Generator[None, None, _Result]) -> _Result:
    """Return the result of short work, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _Result = end.value
            return result


def after(steps: Generator[None, None, Any], then: Callable[[Any], Any]) -> Generator[None, None, Any]:
    """Do what follows some steps, which may be steps, too."""
    result = then((yield from steps))
    return (yield from result) if type(result) is GeneratorType else result


def _untimed(work: Any) -> Any:
    return work


@attrs.define(eq=False)
class Slices:
    """Gives slices of the reactor thread's time to long loops, first come, first served.

    `seconds` is a slice's length, measured by `now`; with `inf` no loop pauses.
    """

    _clock: IReactorTime
    seconds: float = SLICE_SECONDS
    _now: Callable[[], float] = perf_counter
    _waiting: deque[Deferred[None]] = attrs.field(factory=deque, init=False)
    _until: float = attrs.field(default=0.0, init=False)  # end of the slice that waiting loops share
    _scheduled: bool = attrs.field(default=False, init=False)

    async def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Iterate over `items`; yield to other work whenever a slice is over.

        A loop that is cancelled while it waits raises CancelledError.
        """
        until = self._now() if self._waiting else self._now() + self.seconds
        for item in items:
            yield item
            if self._now() >= until:
                await self.next()
                until = self._until

    async def each(
        self,
        groups: Iterable[G],
        items: Callable[[G], Iterable[T]],
        make: Callable[[G, T], R],
        join: Callable[[G, list[R]], S],
    ) -> list[S]:
        """Return `join` of each group, with `make` of each of its items."""
        return [
            join(group, [make(group, item) async for item in self.over(items(group))])
            async for group in self.over(groups)
        ]

    async def run(self, steps: Generator[None, None, T]) -> T:
        results: list[T] = []

        def running() -> Iterator[None]:
            results.append((yield from steps))

        async for _ in self.over(running()):
            pass
        return results[0]

    async def settle(
        self, answer: Any, run: Callable[[Generator[None, None, Any]], Awaitable[Any]] | None = None
    ) -> Any:
        """Return a handler's answer, which may be steps or an awaitable; `run` runs steps in place of this object."""
        if type(answer) is GeneratorType:
            answer = await (run or self.run)(answer)
        return await answer if isawaitable(answer) else answer

    def complete(self, answer: Any, finish: Callable[[Any], Any], timed: Callable[[Any], Any] = _untimed) -> Any:
        """Return `finish` of a handler's answer: at once, in steps or as an awaitable, like the answer itself.

        `finish` may return steps. `timed` wraps steps and coroutines of the handler.
        """
        if type(answer) is GeneratorType:
            return after(timed(answer), lambda result: self.complete(result, finish, timed))
        return self._complete_later(answer, finish, timed) if isawaitable(answer) else finish(answer)

    async def _complete_later(
        self, answer: Awaitable[Any], finish: Callable[[Any], Any], timed: Callable[[Any], Any]
    ) -> Any:
        completed = finish(await (timed(answer) if iscoroutine(answer) else answer))
        return await self.run(completed) if type(completed) is GeneratorType else completed

    async def finish(self, steps: Generator[None, None, T], items: int) -> T:
        return await self.run(steps) if items > ITEMS_INLINE_MAX else at_once(steps)

    def next(self) -> Deferred[None]:
        if self.seconds == inf:
            self._until = inf
            return succeed(None)
        waiting: Deferred[None] = Deferred()
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
        self._scheduled = False
        self._until = self._now() + self.seconds
        for _ in range(len(self._waiting)):
            self._waiting.popleft().callback(None)
            if self._now() >= self._until:
                break
        if self._waiting:
            self._schedule()
