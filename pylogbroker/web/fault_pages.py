"""Page of faults, the page that adds one, and routes of their forms: there where testing is on."""

from __future__ import annotations

from typing import Final, TypedDict

from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.web.fault_port import FaultRow, fault_row
from pylogbroker.web.fault_views import add_fault_of_form, fault_port, faults, release_fault, remove_fault
from pylogbroker.web.page_routes import form, page
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.visitors import Visitor


class FaultTable(Paged):
    faults: list[FaultRow]


class FaultChoices(TypedDict):
    apis: list[str]
    moments: list[str]


async def fault_table(visitor: Visitor, page: PageNumber = 1) -> FaultTable:
    """Return a page of the faults."""
    values, shown = paged(page, "", fault_port(visitor, AclOperation.DESCRIBE).listed())
    return {**values, "faults": [fault_row(fault) for fault in shown]}


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
