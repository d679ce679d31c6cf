"""DescribeAcls (29): the ACLs that a filter matches, by resource pattern; none if the answer would be too long."""

from __future__ import annotations

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import within_budget
from pylogbroker.broker.security.acl_requests import ACL_BYTES, NO_AUTHORIZER, acl_filter
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasAuthorizer
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclBinding, AclOperation, ResourcePattern
from pylogbroker.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


@serves(DescribeAclsRequest, access=[on_cluster(AclOperation.DESCRIBE)])
async def handle(
    services: HasAuthorizer, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    if services.authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=f"{NO_AUTHORIZER} on the broker"
        )
    by_resource = dict[ResourcePattern, list[AclDescription]]()

    def size(binding: AclBinding) -> int:
        name_size = 0 if binding.resource in by_resource else len(binding.resource.name)
        return ACL_BYTES + name_size + len(binding.entry.principal) + len(binding.entry.host)

    try:
        selected = services.authorizer.acls.index.select(acl_filter(request))
        async for binding in within_budget(selected, size):
            entry = binding.entry
            by_resource.setdefault(binding.resource, []).append(
                AclDescription(entry.principal, entry.host, entry.operation, entry.permission)
            )
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.detail)
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(resource.type, resource.name, resource.pattern, acls)
            async for resource, acls in over(by_resource.items())
        ],
    )
