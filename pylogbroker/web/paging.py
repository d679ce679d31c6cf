"""Pages of tables: 200 rows each, found by their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict, TypeVar

from pylogbroker.web.parameters import INT32_MAX, ROWS_MAX
from pylogbroker.web.router.values import Capped

T = TypeVar("T")
PageNumber = Annotated[int, Capped(INT32_MAX), "number of the page, from 1 on"]


class Paged(TypedDict):
    """Numbers of the page and of all pages and rows, and the order of the rows."""

    page: int
    pages: int
    total: int
    sort: str


def paged(page: int, sort: str, rows: Sequence[T]) -> tuple[Paged, Sequence[T]]:
    """Return the values of a page, and its rows; a page after the last one is the last one."""
    pages = max(1, -(-len(rows) // ROWS_MAX))
    page = min(max(1, page), pages)
    values: Paged = {"page": page, "pages": pages, "total": len(rows), "sort": sort}
    return values, rows[(page - 1) * ROWS_MAX : page * ROWS_MAX]
