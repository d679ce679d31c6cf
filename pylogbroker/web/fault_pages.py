"""Page of faults, the page that adds one, and routes of their forms: there where testing is on."""

from __future__ import annotations

from typing import Final, TypedDict

from pylogbroker.web.fault_port import FaultRow
from pylogbroker.web.fault_views import add_fault_of_form, faults, release_fault, remove_fault
from pylogbroker.web.page_routes import form, page
from pylogbroker.web.paging import PageNumber
from pylogbroker.web.parameters import ROWS_MAX
from pylogbroker.web.visitors import Visitor


class FaultTable(TypedDict):
    page: int
    pages: int
    total: int
    faults: list[FaultRow]


class FaultChoices(TypedDict):
    apis: list[str]
    moments: list[str]


async def fault_table(visitor: Visitor, page: PageNumber = 1) -> FaultTable:
    """Return a page of the faults."""
    page = max(1, page)
    listed = await faults(visitor, (page - 1) * ROWS_MAX)
    pages = max(1, -(-listed["total"] // ROWS_MAX))
    return {"page": page, "pages": pages, "total": listed["total"], "faults": listed["faults"]}


async def new_fault(visitor: Visitor) -> FaultChoices:
    """Return what the fields of a fault may be."""
    listed = await faults(visitor, count=0)
    return {"apis": listed["apis"], "moments": listed["moments"]}


_FAULTS: Final = page("/faults", fault_table)
_ADD: Final = page("/faults/add", new_fault, "fault-add")

FAULT_PAGES: Final = (
    _FAULTS,
    _ADD,
    form("/faults/add", add_fault_of_form, _ADD, lambda done: "/faults"),
    form("/faults/{id}/release", release_fault, _FAULTS, lambda done: "/faults"),
    form("/faults/{id}/remove", remove_fault, _FAULTS, lambda done: "/faults"),
)
