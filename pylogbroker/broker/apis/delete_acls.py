"""DeleteAcls (31): entries of access control lists, which need an authorizer, and this broker has none."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


@serves(DeleteAclsRequest)
def handle(services: Services, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Refuse each filter, as Kafka does without an authorizer."""
    refused = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
