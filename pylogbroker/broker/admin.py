"""What the administrative APIs share: finding what a request names twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

_T = TypeVar("_T")


def repeated(items: Iterable[_T]) -> set[_T]:
    """The items that occur more than once."""
    return {item for item, count in Counter(items).items() if count > 1}
