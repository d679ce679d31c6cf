"""Faults, where testing is on: list, add, release what one holds, remove. Others do not have this page.

A fault changes how requests of all clients are answered, so it needs the right to alter the cluster.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Unpack, get_args

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.fault_port import CloseMoment, FaultFields, FaultPort, FaultRow, ListedFault, fault_row
from pylogbroker.web.parameters import ROWS_MAX, Count, Index, Name, Offset, Start
from pylogbroker.web.router import BadRequest
from pylogbroker.web.rows import RowRange, slice_rows
from pylogbroker.web.visitors import Visitor

_SECONDS_MAX: Final = 3600.0
_ANY_API: Final = "any"
_NEVER: Final = "never"
_FaultId = Annotated[Offset, "id of the fault"]


class FaultList(RowRange):
    apis: list[str]
    moments: list[str]
    faults: list[FaultRow]


def fault_port(visitor: Visitor, operation: AclOperation) -> FaultPort:
    """Return the faults of the broker to a visitor with a right on the cluster; raise KafkaError."""
    visitor.check(operation, AclResourceType.CLUSTER)
    if visitor.faults is None:
        raise KafkaError("the broker does not run with testing.faults=true", ErrorCode.RESOURCE_NOT_FOUND)
    return visitor.faults


async def faults(visitor: Visitor, start: Start = 0, count: Count = ROWS_MAX) -> FaultList:
    """Return the faults from the `start`th on, and what fields of a new one may be."""
    values, shown = slice_rows(start, count, fault_port(visitor, AclOperation.DESCRIBE).listed())
    return {
        "apis": [_ANY_API, *sorted(api.name for api in visitor.services.apis)],
        "moments": [_NEVER, *get_args(CloseMoment)],
        **values,
        "faults": [fault_row(fault) for fault in shown],
    }


async def add_fault(visitor: Visitor, **fields: Unpack[FaultFields]) -> FaultRow:
    """Add a fault: by default for one request, or for one with each of several errors."""
    port = fault_port(visitor, AclOperation.ALTER)
    if not 0 <= fields.get("delay", 0.0) <= _SECONDS_MAX:
        raise BadRequest(f"delay must be a number of seconds from 0 to {_SECONDS_MAX:g}")
    try:
        return fault_row(port.add(**fields))
    except ValueError as error:
        raise BadRequest(str(error)) from None


async def add_fault_of_form(
    visitor: Visitor,
    api: Name = _ANY_API,
    error: Name = "",
    times: Index | None = None,
    until_removed: bool = False,
    after: bool = False,
    delay: float = 0.0,
    hold: bool = False,
    close: Literal["never", "before", "after", "mid-frame"] = "never",
    throttle_ms: Index = 0,
    must_fire: bool = False,
    topic: Name = "",
    partition: Index | None = None,
    group: Name = "",
    transactional_id: Name = "",
    broker: Index | None = None,
    client_id: Name = "",
    principal: Name = "",
) -> FaultRow:
    """Add a fault as the fields of a form have it: empty ones are not given, errors are separated by commas."""
    fields: FaultFields = {
        "api": api if api not in ("", _ANY_API) else None,
        "error": error.replace(",", " ").split() or None,
        "after": after,
        "delay": delay,
        "hold": hold,
        "close": None if close == "never" else close,
        "throttle_ms": throttle_ms,
        "must_fire": must_fire,
        "topic": topic or None,
        "partition": partition,
        "group": group or None,
        "transactional_id": transactional_id or None,
        "broker": broker,
        "client_id": client_id or None,
        "principal": principal or None,
    }
    if until_removed:
        fields["times"] = None
    elif times is not None:
        fields["times"] = times
    return await add_fault(visitor, **fields)


async def release_fault(visitor: Visitor, id: _FaultId) -> FaultRow:
    """Let the requests that a fault holds go on, and later ones pass."""
    fault = _find(visitor, id)
    fault.release()
    return fault_row(fault)


async def remove_fault(visitor: Visitor, id: _FaultId) -> FaultRow:
    """Remove a fault, and let the requests that it holds go on."""
    fault = _find(visitor, id)
    fault.remove()
    return fault_row(fault)


def _find(visitor: Visitor, number: int) -> ListedFault:
    for fault in fault_port(visitor, AclOperation.ALTER).listed():
        if fault.id == number:
            return fault
    raise KafkaError(f"there is no fault {number}", ErrorCode.RESOURCE_NOT_FOUND)
