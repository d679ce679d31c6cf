"""Limits on partitions that a request may create, and on the bytes of its response, which may be far larger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import attrs

from pylogbroker.config import NEW_PARTITIONS_MAX
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import STEP_ITEMS, at_once, give_way, over

RESPONSE_BYTES_MAX = 64 * 1024 * 1024
_T = TypeVar("_T")


class _Named(Protocol):
    name: str


_N = TypeVar("_N", bound=_Named)


@attrs.define
class PartitionAllowance:
    """Number of partitions that one request may still create.

    Requests are checked on arrival, so that too large ones create none. Each change is checked again: topics may have
    changed meanwhile.
    """

    left: int = NEW_PARTITIONS_MAX

    def take(self, count: int) -> None:
        """Subtract `count` partitions; POLICY_VIOLATION if these are too many."""
        if count > self.left:
            raise _too_many_partitions()
        self.left -= max(count, 0)


@attrs.define
class ResponseBudget:
    left: int = attrs.field(factory=lambda: RESPONSE_BYTES_MAX)

    def take(self, size: int) -> None:
        """Subtract an item's approximate size; raise INVALID_REQUEST for the first one that does not fit."""
        if size > self.left:
            self.left = 0
            raise KafkaError(
                f"The answer would exceed {RESPONSE_BYTES_MAX} bytes; ask for less in one request",
                ErrorCode.INVALID_REQUEST,
            )
        self.left -= size


async def within_budget(items: Iterable[_T], size: Callable[[_T], int]) -> AsyncIterator[_T]:
    """Iterate over the items of a response; raise INVALID_REQUEST before the first one that does not fit."""
    budget = ResponseBudget()
    async for item in over(items):
        budget.take(size(item))
        yield item


async def attempt_each(
    changes: Sequence[_N], attempt: Callable[[_N, KafkaError | None], Awaitable[_T]], excess: bool
) -> list[_T]:
    """Attempt changes of named things once each; pass the error for those named twice, or too many partitions."""
    twice = await find_duplicates(named.name for named in changes)
    error = _too_many_partitions() if excess else None
    results: dict[str, _T] = {}
    async for change in over(changes):
        if change.name not in results:
            results[change.name] = await attempt(change, duplicate_error() if change.name in twice else error)
    return list(results.values())


def _too_many_partitions() -> KafkaError:
    """Return the error for every item of a request above `NEW_PARTITIONS_MAX`."""
    return KafkaError(
        f"One request cannot create more than {NEW_PARTITIONS_MAX} partitions; send several", ErrorCode.POLICY_VIOLATION
    )


def duplicate_error() -> KafkaError:
    return KafkaError("It is named more than once in the request", ErrorCode.INVALID_REQUEST)


def duplicates(items: Iterable[_T]) -> set[_T]:
    return at_once(find_duplicates(items))


async def find_duplicates(items: Iterable[_T]) -> set[_T]:
    once: set[_T] = set()
    repeated: set[_T] = set()
    for number, item in enumerate(items):
        if number % STEP_ITEMS == 0:
            await give_way()
        (repeated if item in once else once).add(item)
    return repeated


def distinct_partitions(requested: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    distinct: dict[str, dict[int, None]] = {}
    for topic, indexes in requested:
        distinct.setdefault(topic, {}).update(dict.fromkeys(indexes))
    return {topic: list(indexes) for topic, indexes in distinct.items()}
