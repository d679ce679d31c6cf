"""ACLs as a matrix: a row for each principal, a column for each kind of resource, operations in the cells.

A page has so many cells' entries as other tables have rows, so that a principal with many ACLs has several pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple, TypedDict

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import WILDCARD
from pylogbroker.web.acl_views import RESOURCES, AclRow, AclWords, acl_row, described_acls, filter_of
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Name, Search
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import OneOf, Trimmed
from pylogbroker.web.visitors import Visitor

ANY: Final = "any"
KINDS: Final = tuple(kind for kind in RESOURCES if kind != ANY)
Kind = Annotated[str, Trimmed, OneOf((ANY, *KINDS))]
OneKind = Annotated[str, Trimmed, OneOf(KINDS)]
OnePattern = Annotated[str, Trimmed, OneOf(("literal", "prefixed"))]


class ResourceKey(NamedTuple):
    """A principal and a resource, in the order of the matrix."""

    principal: str
    kind: int
    name: str
    pattern: str


class HostPermission(TypedDict):
    """Operations that are allowed or denied, from one host or from all."""

    is_denied: bool
    host: str
    operations: list[str]


class Entry(TypedDict):
    """Permissions of a principal on one resource."""

    principal: str
    resource: str
    name: str
    pattern: str
    permissions: list[HostPermission]


class MatrixRow(TypedDict):
    principal: str
    cells: Mapping[str, list[Entry]]


class AclMatrix(Paged):
    """`super_users` and `is_open` are settings of the broker: empty and None for who may not see these."""

    is_enabled: bool
    principal: str
    resource: str
    name: str
    all_acls: int
    acls: int
    all_kinds: list[str]
    kinds: list[str]
    super_users: str
    is_open: bool | None
    rows: list[MatrixRow]


class EntryDetails(TypedDict):
    entry: Entry
    acls: list[AclRow]


async def acl_matrix(
    visitor: Visitor, principal: Search = "", resource: Kind = ANY, name: Search = "", page: PageNumber = 1
) -> AclMatrix:
    """Return a page of the ACLs of principals whose names contain a text, and that concern a resource."""
    slices, config = visitor.services.runtime.slices, visitor.services.config
    acls = await described_acls(visitor, filter_of())
    matching = [acl async for acl in slices.over(acls or ()) if _is_shown(acl, principal, resource, name)]
    by_key: dict[ResourceKey, list[AclWords]] = {}
    async for acl in slices.over(matching):
        by_key.setdefault(_key(acl), []).append(acl)
    values, keys = paged(page, "", await slices.in_order([*by_key]))
    entries = [_entry(key, by_key[key]) for key in keys]
    kinds = {entry["resource"] for entry in entries}
    return {
        "is_enabled": acls is not None,
        "principal": principal,
        "resource": resource,
        "name": name,
        "all_acls": len(acls or ()),
        "acls": len(matching),
        "all_kinds": [*KINDS],
        "kinds": [kind for kind in KINDS if kind in kinds],
        "super_users": config.super_users if visitor.sees_broker_settings else "",
        "is_open": config.allow_everyone_if_no_acl_found if visitor.sees_broker_settings else None,
        **values,
        "rows": [*_rows(entries)],
    }


def _is_shown(acl: AclWords, principal: str, resource: str, name: str) -> bool:
    """Return whether an ACL fits; the name fits a part of its name, and the resources that it holds for."""
    holds = acl.name == WILDCARD or (acl.pattern == "prefixed" and name.startswith(acl.name))
    return principal in acl.principal and resource in (ANY, acl.resource) and (name in acl.name or holds)


def _key(acl: AclWords) -> ResourceKey:
    return ResourceKey(acl.principal, KINDS.index(acl.resource), acl.name, acl.pattern)


def _entry(key: ResourceKey, acls: Sequence[AclWords]) -> Entry:
    operations: dict[tuple[bool, str], list[str]] = {}
    for acl in acls:
        operations.setdefault((acl.permission != "deny", acl.host), []).append(acl.operation)
    return {
        "principal": key.principal,
        "resource": KINDS[key.kind],
        "name": key.name,
        "pattern": key.pattern,
        "permissions": [
            {"is_denied": not is_allowed, "host": host, "operations": sorted(names)}
            for (is_allowed, host), names in sorted(operations.items())
        ],
    }


def _rows(entries: Sequence[Entry]) -> Iterator[MatrixRow]:
    by_principal: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        by_principal.setdefault(entry["principal"], {}).setdefault(entry["resource"], []).append(entry)
    for principal, cells in by_principal.items():
        yield {"principal": principal, "cells": cells}


async def acl_entry(
    visitor: Visitor, principal: Name, resource: OneKind, name: Name, pattern: OnePattern = "literal"
) -> EntryDetails:
    """Return the ACLs of a principal on one resource; raise KafkaError if there are none."""
    for field, value in (("principal", principal), ("name", name)):
        if not value:
            raise BadRequest(f"{field} is empty", field)
    acls = await described_acls(visitor, filter_of(resource, name, pattern, principal))
    if not acls:
        raise KafkaError(f"there are no ACLs of {principal} on the {resource} {name}", ErrorCode.RESOURCE_NOT_FOUND)
    return {"entry": _entry(_key(acls[0]), acls), "acls": [acl_row(*acl) for acl in acls]}
