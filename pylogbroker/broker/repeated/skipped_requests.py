"""Requests that take the usual path at once, because one before them was unusual."""

from __future__ import annotations

from typing import Final

_SKIPPED_MAX: Final = 1024


class SkippedRequests:
    """Lets 1, 2, 4 ... 1,024 requests pass by after each one that was unusual; a usual one begins with 1 again."""

    __slots__ = ("_left", "_next")

    def __init__(self) -> None:
        self._left, self._next = 0, 1

    def has_next(self) -> bool:
        """Return whether the next request takes the usual path."""
        if not self._left:
            return False
        self._left -= 1
        return True

    @property
    def is_next(self) -> bool:
        """True if `has_next` lets the next request pass by."""
        return self._left > 0

    def unusual(self) -> None:
        self._left, self._next = self._next, min(self._next * 2, _SKIPPED_MAX)

    def usual(self) -> None:
        self._next = 1
