"""Loops over thousands of items on the reactor thread: coroutines that give way to other work.

    async for partition in over(partitions):    # each item may take long
        ...
    names = await mapped(name_of, topics)       # a hundred items together take no time worth mentioning

`pylogbroker.broker.runtime.slices` runs such a coroutine in slices of a few milliseconds. Other drivers run it without
pauses: Twisted's, `at_once`, and any that sends None for None.

Anything may happen where a coroutine gives way: the code behind must not rely on earlier state.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from heapq import merge
from inspect import isawaitable
from types import coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

STEP_ITEMS: Final = 100
"""Cheap items between two points where a loop gives way."""

_SORTED_PER_STEP: Final = 1000


@coroutine
def give_way() -> Generator[None, None, None]:
    """Let other work run, if it is time for that."""
    yield


async def over(items: Iterable[T]) -> AsyncIterator[T]:
    """Iterate over `items`; give way after each."""
    for item in items:
        yield item
        await give_way()


async def mapped(make: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return `make` of each item; give way at first and after each `STEP_ITEMS`."""
    await give_way()
    made: list[R] = []
    for item in items:
        made.append(make(item))
        if len(made) % STEP_ITEMS == 0:
            await give_way()
    return made


async def in_order(items: Sequence[T], key: Callable[[T], Any] | None = None) -> Iterator[T]:
    """Sort; the iterator merges sorted parts, so that a loop over it may give way, too."""
    parts: list[list[T]] = []
    for start in range(0, len(items), _SORTED_PER_STEP):
        await give_way()
        parts.append(sorted(items[start : start + _SORTED_PER_STEP], key=key))  # type: ignore[type-var, arg-type]
    return merge(*parts, key=key)  # type: ignore[arg-type]


async def settled(answer: Awaitable[T] | T) -> T:
    """Return a handler's answer, which may come later."""
    if isawaitable(answer):
        result: T = await answer
        return result
    return answer


def advance(work: Coroutine[Any, Any, object]) -> bool:
    """Run a coroutine until it gives way; return False when it has ended."""
    try:
        work.send(None)
    except StopIteration:
        return False
    return True


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing, without a pause."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
