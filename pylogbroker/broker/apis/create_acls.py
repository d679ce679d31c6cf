"""CreateAcls (30): entries of access control lists, which need an authorizer, and this broker has none."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


@serves(CreateAclsRequest)
def handle(services: Services, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuse each entry, as Kafka does without an authorizer."""
    refused = AclCreationResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return CreateAclsResponse(results=[refused] * len(request.creations))
