"""DescribeAcls (29): access control lists, which need an authorizer, and this broker has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


@serves(DescribeAclsRequest)
def handle(broker: Broker, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Answer as Kafka answers without an authorizer."""
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )
