"""What the administrative APIs share: finding what a request names twice, and bounds on what one may ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from pylogbroker.errors import ErrorCode, KafkaError

_T = TypeVar("_T")
MAX_NEW_PARTITIONS = 10_000


def named_twice() -> KafkaError:
    """What is answered for an item that a request names more than once."""
    return KafkaError("It is named more than once in the request", ErrorCode.INVALID_REQUEST)


def too_many_partitions() -> KafkaError:
    """What is answered for every item of a request that asks for more than `MAX_NEW_PARTITIONS`."""
    return KafkaError(
        f"One request cannot create more than {MAX_NEW_PARTITIONS} partitions; send several", ErrorCode.POLICY_VIOLATION
    )


def repeated(items: Iterable[_T]) -> set[_T]:
    """The items that occur more than once."""
    return {item for item, count in Counter(items).items() if count > 1}
