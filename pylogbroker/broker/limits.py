"""Limits on requests and responses: what one request may create, and how many bytes its response may have.

A name costs a few bytes in a request each time, while the response may repeat all that is known about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import attrs

from pylogbroker.config import NEW_PARTITIONS_MAX
from pylogbroker.errors import ErrorCode, KafkaError

RESPONSE_BYTES_MAX = 64 * 1024 * 1024
_T = TypeVar("_T")


@attrs.define
class PartitionAllowance:
    """Number of partitions that one request may still create.

    A request is checked on arrival, so that one that asks for too many creates none.  Each of its changes is checked
    again when it runs: topics may have changed while it waited for earlier changes.
    """

    left: int = NEW_PARTITIONS_MAX

    def take(self, count: int) -> None:
        """Note that `count` partitions are created; POLICY_VIOLATION if these are too many."""
        if count > self.left:
            raise too_many_partitions()
        self.left -= max(count, 0)


@attrs.define
class ResponseBudget:
    """Number of bytes that one response may still take."""

    left: int = attrs.field(factory=lambda: RESPONSE_BYTES_MAX)

    def take(self, size: int) -> None:
        """Note the approximate size of an item; INVALID_REQUEST in place of the first one that does not fit."""
        if size > self.left:
            self.left = 0
            raise KafkaError(
                f"The answer would exceed {RESPONSE_BYTES_MAX} bytes; ask for less in one request",
                ErrorCode.INVALID_REQUEST,
            )
        self.left -= size


def too_many_partitions() -> KafkaError:
    """Return the error for every item of a request that asks for more than `NEW_PARTITIONS_MAX`."""
    return KafkaError(
        f"One request cannot create more than {NEW_PARTITIONS_MAX} partitions; send several", ErrorCode.POLICY_VIOLATION
    )


def duplicate_error() -> KafkaError:
    """Return the error for an item that a request names more than once."""
    return KafkaError("It is named more than once in the request", ErrorCode.INVALID_REQUEST)


def duplicates(items: Iterable[_T]) -> set[_T]:
    """Return the items that occur more than once."""
    return {item for item, count in Counter(items).items() if count > 1}


def distinct_partitions(requested: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    """Return topics with their partitions, each of them once, in the order in which they are first mentioned."""
    found: dict[str, dict[int, None]] = {}
    for topic, indexes in requested:
        found.setdefault(topic, {}).update(dict.fromkeys(indexes))
    return {topic: list(indexes) for topic, indexes in found.items()}
