"""What the administrative APIs share: finding what a request names twice, and bounds on what one may ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from pylogbroker.errors import ErrorCode, KafkaError

_T = TypeVar("_T")
MAX_NEW_PARTITIONS = 10_000
NAMED_TWICE = KafkaError("It is named more than once in the request", ErrorCode.INVALID_REQUEST)
TOO_MANY_PARTITIONS = KafkaError(
    f"One request cannot create more than {MAX_NEW_PARTITIONS} partitions; send several", ErrorCode.POLICY_VIOLATION
)


def repeated(items: Iterable[_T]) -> set[_T]:
    """The items that occur more than once."""
    return {item for item, count in Counter(items).items() if count > 1}
