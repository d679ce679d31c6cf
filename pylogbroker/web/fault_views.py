"""Faults, where testing is on: list, add, release what one holds, remove. Others do not have this page.

A fault changes how requests of all clients are answered, so it needs the right to alter the cluster.
"""

from __future__ import annotations

from typing import Any, Final

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.fault_port import FaultPort, ListedFault
from pylogbroker.web.query import BadQuery, Query
from pylogbroker.web.rows import slice_rows
from pylogbroker.web.visitors import Visitor

MOMENTS: Final = ("never", "before", "after", "mid-frame")
"""When the connection is closed."""
_ANY_API: Final = "any"
_TEXTS: Final = ("topic", "group", "transactional_id", "client_id", "principal")
_NUMBERS: Final = ("partition", "broker")
_NUMBER_MAX: Final = 2**31 - 1
_SECONDS_MAX: Final = 3600.0


def _faults(visitor: Visitor, operation: AclOperation) -> FaultPort:
    visitor.check(operation, AclResourceType.CLUSTER)
    if visitor.faults is None:
        raise KafkaError("the broker does not run with testing.faults=true", ErrorCode.RESOURCE_NOT_FOUND)
    return visitor.faults


async def faults(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return the faults from the `start`th on, and what fields of a new one may be."""
    found = _faults(visitor, AclOperation.DESCRIBE).listed()
    values, shown = slice_rows(query, found)
    return {
        "apis": [_ANY_API, *sorted(each.name for each in visitor.services.apis)],
        "moments": MOMENTS,
        **values,
        "faults": [_row(each) for each in shown],
    }


def _row(fault: ListedFault) -> dict[str, Any]:
    return {"id": fault.number, "description": str(fault), "hits": fault.hits, "is_spent": fault.is_spent}


async def add_fault(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Add a fault: by default for one request, or for one with each of several errors."""
    port = _faults(visitor, AclOperation.ALTER)
    api, close = query.text("api"), query.choice("close", MOMENTS)
    fields: dict[str, Any] = {
        "api": api if api not in ("", _ANY_API) else None,
        "error": query.text("error").replace(",", " ").split() or None,
        "after": query.flag("after"),
        "delay": _seconds(query, "delay"),
        "hold": query.flag("hold"),
        "close": close if close != MOMENTS[0] else None,
        "throttle_ms": query.count("throttle_ms", 0, _NUMBER_MAX),
        "must_fire": query.flag("must_fire"),
    }
    fields |= {name: query.text(name) or None for name in _TEXTS}
    fields |= {name: query.number(name, None, _NUMBER_MAX) for name in _NUMBERS}
    times = query.number("times", None, _NUMBER_MAX)
    if query.flag("until_removed"):
        fields["times"] = None
    elif times is not None:
        fields["times"] = times
    try:
        return _row(port.add(**fields))
    except ValueError as error:
        raise BadQuery(str(error)) from None


def _seconds(query: Query, name: str) -> float:
    found = query.decimal(name) if query.text(name) else 0.0
    if not 0 <= found <= _SECONDS_MAX:
        raise BadQuery(f"{name} must be a number of seconds from 0 to {_SECONDS_MAX:g}")
    return found


async def release_fault(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Let the requests that a fault holds go on, and later ones pass."""
    found = _find(visitor, query)
    found.release()
    return _row(found)


async def remove_fault(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Remove a fault, and let the requests that it holds go on."""
    found = _find(visitor, query)
    found.remove()
    return _row(found)


def _find(visitor: Visitor, query: Query) -> ListedFault:
    query.filled("id")
    number = query.number("id")
    for each in _faults(visitor, AclOperation.ALTER).listed():
        if each.number == number:
            return each
    raise KafkaError(f"there is no fault {query.text('id')}", ErrorCode.RESOURCE_NOT_FOUND)
