"""Access control lists: list those that a filter matches, add one, delete one."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final

from pylogbroker.broker.slices import sort_in_steps
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.acls.bindings import AclOperation, AclPermission, AclResourceType, PatternType
from pylogbroker.web.query import BadQuery, Query
from pylogbroker.web.rows import slice_rows
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pylogbroker.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResource


def _word(member: IntEnum) -> str:
    return member.name.lower().replace("_", "-")


def _members(kind: type[IntEnum]) -> dict[str, IntEnum]:
    return {_word(each): each for each in kind}


RESOURCES: Final = _members(AclResourceType)
PATTERNS: Final = _members(PatternType)
OPERATIONS: Final = _members(AclOperation)
PERMISSIONS: Final = _members(AclPermission)
_FIELDS: Final = ("resource", "name", "pattern", "principal", "host", "operation", "permission")
_NAMES: Final = ("name", "principal", "host")
_WIDE: Final = ("", "any", "match")
"""Choices by which a filter matches several ACLs."""


async def acls(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return ACLs by resource, from the `start`th on, of those that the filter matches."""
    slices, answer = visitor.services.runtime.slices, await visitor.ask(DescribeAclsRequest(*_filter(query)))
    is_enabled = answer.error_code != ErrorCode.SECURITY_DISABLED
    if is_enabled:
        raise_for(answer.error_code, answer.error_message)
    found = [row async for row in slices.over(row for resource in answer.resources for row in _rows(resource))]
    in_order = [row async for row in slices.over(await slices.run(sort_in_steps(found)))]
    values, shown = slice_rows(query, in_order)
    return {
        "is_enabled": is_enabled,
        "filter": {name: query.text(name) for name in _FIELDS},
        "choices": {
            "resource": [*RESOURCES],
            "pattern": [*PATTERNS],
            "operation": [*OPERATIONS],
            "permission": [*PERMISSIONS],
        },
        **values,
        "acls": [dict(zip(_FIELDS, row, strict=True)) for row in shown],
    }


def _rows(found: DescribeAclsResource) -> Iterator[tuple[str, ...]]:
    kind, pattern = _word(AclResourceType(found.resource_type)), _word(PatternType(found.pattern_type))
    for each in found.acls:
        operation, permission = _word(AclOperation(each.operation)), _word(AclPermission(each.permission_type))
        yield kind, found.resource_name, pattern, each.principal, each.host, operation, permission


async def add_acl(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Add an ACL: by default one that allows, from every host, on the resource of exactly this name."""
    wanted = {
        "resource": query.required("resource"),
        "name": query.required("name").strip(),
        "pattern": query.text("pattern") or "literal",
        "principal": query.required("principal").strip(),
        "host": query.text("host") or "*",
        "operation": query.required("operation"),
        "permission": query.text("permission") or "allow",
    }
    kind, _, pattern, _, _, operation, permission = _filter(Query(wanted))
    row = AclCreation(kind, wanted["name"], pattern, wanted["principal"], wanted["host"], operation, permission)
    [found] = (await visitor.ask(CreateAclsRequest([row]))).results
    raise_for(found.error_code, found.error_message)
    return wanted


async def delete_acl(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Delete one ACL, all of whose fields are given: a field that matches several would delete more."""
    wanted = {name: query.required(name) for name in _FIELDS}
    for name, value in wanted.items():
        if not value or (name not in _NAMES and value.strip() in _WIDE):
            raise BadQuery(f"{name} must be that of one ACL, not {value.strip() or 'empty'}")
    [found] = (await visitor.ask(DeleteAclsRequest([DeleteAclsFilter(*_filter(query))]))).filter_results
    raise_for(found.error_code, found.error_message)
    if not found.matching_acls:
        raise KafkaError("there is no such ACL", ErrorCode.RESOURCE_NOT_FOUND)
    for each in found.matching_acls:
        raise_for(each.error_code, each.error_message)
    return wanted


def _filter(query: Query) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    """Return the fields of a request; what is not given matches any."""
    return (
        RESOURCES[query.choice("resource", [*RESOURCES])],
        query.given("name") or None,
        PATTERNS[query.choice("pattern", [*PATTERNS])],
        query.given("principal") or None,
        query.given("host") or None,
        OPERATIONS[query.choice("operation", [*OPERATIONS])],
        PERMISSIONS[query.choice("permission", [*PERMISSIONS])],
    )
