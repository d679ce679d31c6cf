"""DescribeAcls (29): the ACLs that a filter matches, by resource pattern; none if the answer would be too long."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.limits import ResponseBudget
from pylogbroker.broker.security.acl_requests import ACL_BYTES, NO_AUTHORIZER, acl_filter
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation, ResourcePattern
from pylogbroker.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


@serves(DescribeAclsRequest, access=[on_cluster(AclOperation.DESCRIBE)])
async def handle(services: Services, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    if services.authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=f"{NO_AUTHORIZER} on the broker"
        )
    try:
        wanted = acl_filter(request)
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.detail)
    found: dict[ResourcePattern, list[AclDescription]] = {}
    space = ResponseBudget()
    async for binding in services.runtime.slices.over(services.authorizer.acls.index.select(wanted)):
        entry, resource = binding.entry, binding.resource
        try:
            name_size = 0 if resource in found else len(resource.name)
            space.take(ACL_BYTES + name_size + len(entry.principal) + len(entry.host))
        except KafkaError as error:
            return DescribeAclsResponse(error_code=error.code, error_message=error.detail)
        found.setdefault(resource, []).append(
            AclDescription(entry.principal, entry.host, entry.operation, entry.permission)
        )
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(resource.type, resource.name, resource.pattern, acls)
            async for resource, acls in services.runtime.slices.over(found.items())
        ],
    )
