"""Access control lists: list those that a filter matches, add one, delete one."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, Final, NamedTuple, TypedDict

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.acls.bindings import AclOperation, AclPermission, AclResourceType, PatternType
from pylogbroker.web.parameters import ROWS_MAX, Count, Name, Start
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import OneOf, Trimmed
from pylogbroker.web.rows import RowRange, slice_rows
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pylogbroker.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResource


def _word(member: IntEnum) -> str:
    return member.name.lower().replace("_", "-")


def _members(kind: type[IntEnum]) -> dict[str, IntEnum]:
    return {_word(member): member for member in kind}


RESOURCES: Final = _members(AclResourceType)
PATTERNS: Final = _members(PatternType)
OPERATIONS: Final = _members(AclOperation)
_PERMISSIONS: Final = _members(AclPermission)
_FIELDS: Final = ("resource", "name", "pattern", "principal", "host", "operation", "permission")
_NAMES: Final = ("name", "principal", "host")
Resource = Annotated[str, Trimmed, OneOf((*RESOURCES,))]
Pattern = Annotated[str, Trimmed, OneOf((*PATTERNS,))]
Operation = Annotated[str, Trimmed, OneOf((*OPERATIONS,))]
Permission = Annotated[str, Trimmed, OneOf((*_PERMISSIONS,))]
_ANY: Final = "any"
_WIDE: Final = ("", "any", "match")
"""Choices by which a filter matches several ACLs."""


class AclWords(NamedTuple):
    """An ACL in the words of `pylogbroker acl`."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


class AclRow(TypedDict):
    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


class AclChoices(TypedDict):
    resource: list[str]
    pattern: list[str]
    operation: list[str]
    permission: list[str]


class AclList(RowRange):
    is_enabled: bool
    filter: AclRow
    choices: AclChoices
    acls: list[AclRow]


async def acls(
    visitor: Visitor,
    resource: Resource = _ANY,
    name: Name = "",
    pattern: Pattern = _ANY,
    principal: Name = "",
    host: Name = "",
    operation: Operation = _ANY,
    permission: Permission = _ANY,
    start: Start = 0,
    count: Count = ROWS_MAX,
) -> AclList:
    """Return ACLs by resource, from the `start`th on, of those that the filter matches."""
    filter_row = acl_row(resource, name, pattern, principal, host, operation, permission)
    rows = await described_acls(visitor, filter_row)
    values, shown = slice_rows(start, count, rows or [])
    return {
        "is_enabled": rows is not None,
        "filter": filter_row,
        "choices": {
            "resource": [*RESOURCES],
            "pattern": [*PATTERNS],
            "operation": [*OPERATIONS],
            "permission": [*_PERMISSIONS],
        },
        **values,
        "acls": [acl_row(*row) for row in shown],
    }


async def described_acls(visitor: Visitor, acl_filter: AclRow) -> list[AclWords] | None:
    """Return the ACLs that a filter matches, by resource; None without an authorizer."""
    slices, answer = visitor.services.runtime.slices, await visitor.ask(DescribeAclsRequest(*_filter(acl_filter)))
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return None
    raise_for(answer.error_code, answer.error_message)
    rows = [row async for row in slices.over(row for resource in answer.resources for row in _rows(resource))]
    return await slices.in_order(rows)


def filter_of(resource: str = _ANY, name: str = "", pattern: str = _ANY, principal: str = "") -> AclRow:
    """Return a filter that matches every ACL but for these fields."""
    return acl_row(resource, name, pattern, principal, "", _ANY, _ANY)


def acl_row(
    resource: str, name: str, pattern: str, principal: str, host: str, operation: str, permission: str
) -> AclRow:
    return {
        "resource": resource,
        "name": name,
        "pattern": pattern,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permission": permission,
    }


def _rows(resource: DescribeAclsResource) -> Iterator[AclWords]:
    kind, pattern = _word(AclResourceType(resource.resource_type)), _word(PatternType(resource.pattern_type))
    for acl in resource.acls:
        operation, permission = _word(AclOperation(acl.operation)), _word(AclPermission(acl.permission_type))
        yield AclWords(kind, resource.resource_name, pattern, acl.principal, acl.host, operation, permission)


async def add_acl(
    visitor: Visitor,
    resource: Resource,
    name: Name,
    principal: Name,
    operation: Operation,
    pattern: Pattern = "literal",
    host: Name = "*",
    permission: Permission = "allow",
) -> AclRow:
    """Add an ACL: by default one that allows, from every host, on the resource of exactly this name."""
    fields = acl_row(resource, name, pattern, principal, host or "*", operation, permission)
    kind, _, pattern_type, _, _, operation_code, permission_type = _filter(fields)
    row = AclCreation(
        kind, fields["name"], pattern_type, fields["principal"], fields["host"], operation_code, permission_type
    )
    result = await visitor.ask_one(CreateAclsRequest([row]), "results")
    raise_for(result.error_code, result.error_message)
    return fields


async def delete_acl(
    visitor: Visitor,
    resource: Resource,
    name: Name,
    pattern: Pattern,
    principal: Name,
    host: Name,
    operation: Operation,
    permission: Permission,
) -> AclRow:
    """Delete one ACL, all of whose fields are given: a field that matches several would delete more."""
    fields = acl_row(resource, name, pattern, principal, host, operation, permission)
    for field, value in zip(_FIELDS, fields.values(), strict=True):
        if not value or (field not in _NAMES and value in _WIDE):
            raise BadRequest(f"{field} must be that of one ACL, not {value or 'empty'}")
    result = await visitor.ask_one(DeleteAclsRequest([DeleteAclsFilter(*_filter(fields))]), "filter_results")
    raise_for(result.error_code, result.error_message)
    if not result.matching_acls:
        raise KafkaError("there is no such ACL", ErrorCode.RESOURCE_NOT_FOUND)
    for acl in result.matching_acls:
        raise_for(acl.error_code, acl.error_message)
    return fields


def _filter(row: AclRow) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    """Return the fields of a request; what is not given matches any."""
    return (
        RESOURCES[row["resource"]],
        row["name"] or None,
        PATTERNS[row["pattern"]],
        row["principal"] or None,
        row["host"] or None,
        OPERATIONS[row["operation"]],
        _PERMISSIONS[row["permission"]],
    )
