"""DescribeAcls (29): answer that this broker has no authorizer."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


@serves(DescribeAclsRequest)
def handle(services: Services, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )
