"""DescribeAcls (29): the ACLs that a filter matches, by resource pattern."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.security.acl_requests import NO_AUTHORIZER, acl_filter
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
    async for binding in services.runtime.slices.over(services.authorizer.acls.index.select(wanted)):
        entry = binding.entry
        found.setdefault(binding.resource, []).append(
            AclDescription(entry.principal, entry.host, entry.operation, entry.permission)
        )
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(resource.type, resource.name, resource.pattern, acls)
            async for resource, acls in services.runtime.slices.over(found.items())
        ],
    )
