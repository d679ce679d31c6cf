"""Lists of an answer: `start` is the first row, and there are at most so many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from pylogbroker.web.query import Query

ROWS_MAX: Final = 200
T = TypeVar("T")


def slice_rows(query: Query, found: Sequence[T]) -> tuple[dict[str, Any], Sequence[T]]:
    """Return where the rows that are asked for begin, how many there may be and are, and the rows."""
    start, count = query.count("start", 0), query.count("count", ROWS_MAX, ROWS_MAX)
    return {"start": start, "count": count, "total": len(found)}, found[start : start + count]
