"""ACLs: describe, create, delete. Their values are those of `pylogbroker.security.acls.bindings`.

A newer broker may return operations or kinds of resources without a member there: these are plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import Router, deferred, outcome
from pylogbroker.errors import KafkaError
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from pylogbroker.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from pylogbroker.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

Bindings = tuple[AclBinding, ...]


@attrs.frozen(eq=False, repr=False)
class AclAdmin:
    _router: Router

    @deferred
    async def describe(self, acl_filter: AclFilter | None = None) -> Bindings:
        """Return the ACLs that a filter selects, by default all."""
        if acl_filter is not None and not isinstance(acl_filter, AclFilter):
            raise arguments.invalid("acl_filter", acl_filter, "AclFilter")
        fields = _fields(acl_filter or AclFilter())

        def read(response: DescribeAclsResponse) -> Iterator[tuple[None, Bindings | KafkaError]]:
            bindings = tuple(
                AclBinding(_pattern(resource), _entry(acl)) for resource in response.resources for acl in resource.acls
            )
            yield None, outcome("ACLs", response.error_code, response.error_message, bindings)

        def make(_: Sequence[None]) -> DescribeAclsRequest:
            return DescribeAclsRequest(*fields)

        return (await self._router.ask_any([None], make, read))[None]

    @deferred
    async def create(self, bindings: Iterable[AclBinding]) -> None:
        """Create ACLs; one that exists is no error."""
        sent: list[AclBinding] = []

        def make(batch: Sequence[AclBinding]) -> CreateAclsRequest:
            sent[:] = batch
            return CreateAclsRequest([_creation(binding) for binding in batch])

        def read(response: CreateAclsResponse) -> Iterator[tuple[AclBinding, KafkaError | None]]:
            for binding, result in zip(sent, response.results, strict=False):
                yield binding, outcome(_text(binding), result.error_code, result.error_message, None)

        example = "AclBinding(ResourcePattern(...), AccessControlEntry(...))"
        given = arguments.instances("bindings", bindings, AclBinding, example)
        await self._router.ask(self._router.controller(), given, make, read)

    @deferred
    async def delete(self, filters: Iterable[AclFilter]) -> dict[AclFilter, Bindings]:
        """Delete the ACLs that filters select; return them."""
        sent: list[AclFilter] = []

        def make(batch: Sequence[AclFilter]) -> DeleteAclsRequest:
            sent[:] = batch
            return DeleteAclsRequest([DeleteAclsFilter(*_fields(acl_filter)) for acl_filter in batch])

        def read(response: DeleteAclsResponse) -> Iterator[tuple[AclFilter, Bindings | KafkaError]]:
            for acl_filter, result in zip(sent, response.filter_results, strict=False):
                bindings = tuple(AclBinding(_pattern(acl), _entry(acl)) for acl in result.matching_acls)
                failed = next((acl for acl in result.matching_acls if acl.error_code), None)
                worst: Any = result if result.error_code or failed is None else failed
                yield acl_filter, outcome("ACLs", worst.error_code, worst.error_message, bindings)

        given = arguments.instances("filters", filters, AclFilter, "AclFilter()")
        return await self._router.ask(self._router.controller(), given, make, read)


def _fields(acl_filter: AclFilter) -> tuple[Any, ...]:
    return (
        acl_filter.type,
        acl_filter.name,
        acl_filter.pattern,
        acl_filter.principal,
        acl_filter.host,
        acl_filter.operation,
        acl_filter.permission,
    )


def _creation(binding: AclBinding) -> AclCreation:
    resource, entry = binding.resource, binding.entry
    return AclCreation(
        resource.type, resource.name, resource.pattern, entry.principal, entry.host, entry.operation, entry.permission
    )


def _pattern(resource: Any) -> ResourcePattern:
    kind, pattern = _member(AclResourceType, resource.resource_type), _member(PatternType, resource.pattern_type)
    return ResourcePattern(kind, resource.resource_name, pattern)


def _entry(acl: Any) -> AccessControlEntry:
    return AccessControlEntry(
        acl.principal,
        acl.host,
        _member(AclOperation, acl.operation),
        _member(AclPermission, acl.permission_type),
    )


def _member(kind: type[IntEnum], number: int) -> Any:
    """Return a member, or the number itself if only newer brokers know it."""
    return kind(number) if number in kind._value2member_map_ else number


def _text(binding: AclBinding) -> str:
    resource, entry = binding.resource, binding.entry
    permission, operation, kind = (
        getattr(member, "name", member) for member in (entry.permission, entry.operation, resource.type)
    )
    return f"{permission} {entry.principal} {operation} on {kind} {resource.name}"


__all__ = [
    "AccessControlEntry",
    "AclAdmin",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "AclResourceType",
    "PatternType",
    "ResourcePattern",
]
