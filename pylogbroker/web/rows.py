"""Lists of an answer: `start` is the first row, and there are at most so many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, TypeVar

T = TypeVar("T")


class RowRange(TypedDict):
    """Rows of an answer: the first one, how many there may be, and how many there are."""

    start: int
    count: int
    total: int


def slice_rows(start: int, count: int, rows: Sequence[T]) -> tuple[RowRange, Sequence[T]]:
    """Return where the rows that are asked for begin, how many there may be and are, and the rows."""
    return {"start": start, "count": count, "total": len(rows)}, rows[start : start + count]
