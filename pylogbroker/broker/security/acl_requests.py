"""ACLs and filters as requests have them: numbers are checked."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol, TypeVar

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls import tree_layout
from pylogbroker.security.acls.bindings import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.wire.messages.create_acls import AclCreation

NO_AUTHORIZER: Final = "No Authorizer is configured"
ACL_BYTES: Final = 20
"""Bytes of an ACL and of its resource in an answer, besides names."""

E = TypeVar("E", bound=IntEnum)


class FilterInRequest(Protocol):
    @property
    def resource_type_filter(self) -> int: ...
    @property
    def resource_name_filter(self) -> str | None: ...
    @property
    def pattern_type_filter(self) -> int: ...
    @property
    def principal_filter(self) -> str | None: ...
    @property
    def host_filter(self) -> str | None: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


def acl_filter(row: FilterInRequest) -> AclFilter:
    """Return a request's filter; raise INVALID_REQUEST."""
    return AclFilter(
        _known(AclResourceType, row.resource_type_filter, "resource type"),
        row.resource_name_filter,
        _known(PatternType, row.pattern_type_filter, "pattern type"),
        row.principal_filter,
        row.host_filter,
        _known(AclOperation, row.operation, "operation"),
        _known(AclPermission, row.permission_type, "permission"),
    )


def new_binding(creation: AclCreation) -> AclBinding:
    """Return the ACL to create; raise INVALID_REQUEST."""
    kind = _specific(AclResourceType, creation.resource_type, "resource type")
    pattern = _known(PatternType, creation.resource_pattern_type, "pattern type")
    operation = _specific(AclOperation, creation.operation, "operation")
    permission = _specific(AclPermission, creation.permission_type, "permission")
    if pattern not in tree_layout.STORED_PATTERNS:
        raise _invalid(f"An ACL has a literal or prefixed name, not the pattern type {pattern.name}")
    if kind is AclResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise _invalid("An ACL needs a resource name; * stands for all")
    if not tree_layout.can_be_stored(creation.resource_name):
        raise _invalid("Names of resources in ACLs cannot have a slash, or be . or ..; use a prefix")
    principal_type, _, principal = creation.principal.partition(":")
    if not (principal_type and principal):
        raise _invalid(f"{creation.principal!r} is no principal; expected User:name, or User:* for everybody")
    if not creation.host:
        raise _invalid("An ACL needs a host, an IP address; * stands for all")
    entry = AccessControlEntry(creation.principal, creation.host, operation, permission)
    return AclBinding(ResourcePattern(kind, creation.resource_name, pattern), entry)


def _known(kind: type[E], number: int, what: str) -> E:
    try:
        return kind(number)
    except ValueError:
        raise _invalid(f"There is no {what} {number}") from None


def _specific(kind: type[E], number: int, what: str) -> E:
    """Return a member other than ANY."""
    member = _known(kind, number, what)
    if member.name == "ANY":
        raise _invalid(f"ANY is a {what} of filters, not of ACLs")
    return member


def _invalid(detail: str) -> KafkaError:
    return KafkaError(detail, ErrorCode.INVALID_REQUEST)
