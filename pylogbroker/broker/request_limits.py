"""What the administrative APIs share: finding what a request names twice, and bounds on what one may ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import attrs

from pylogbroker.config import NEW_PARTITIONS_MAX
from pylogbroker.errors import ErrorCode, KafkaError

_T = TypeVar("_T")


@attrs.define
class PartitionAllowance:
    """How many partitions one request may still create.

    A request is checked on arrival, so that one that asks for too much does nothing at all, and again by each of its
    changes when that runs: a topic may have appeared, gone or grown while the change waited for those before it.
    """

    left: int = NEW_PARTITIONS_MAX

    def take(self, count: int) -> None:
        """Note that `count` partitions are created; POLICY_VIOLATION if these are too many."""
        if count > self.left:
            raise too_many_partitions()
        self.left -= max(count, 0)


def duplicate_error() -> KafkaError:
    """What is answered for an item that a request names more than once."""
    return KafkaError("It is named more than once in the request", ErrorCode.INVALID_REQUEST)


def too_many_partitions() -> KafkaError:
    """Return the error for every item of a request that asks for more than `NEW_PARTITIONS_MAX`."""
    return KafkaError(
        f"One request cannot create more than {NEW_PARTITIONS_MAX} partitions; send several", ErrorCode.POLICY_VIOLATION
    )


def duplicates(items: Iterable[_T]) -> set[_T]:
    """The items that occur more than once."""
    return {item for item, count in Counter(items).items() if count > 1}
