"""CreateAcls (30): reject all: there is no authorizer."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


@serves(CreateAclsRequest)
def handle(services: Services, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    rejected = AclCreationResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return CreateAclsResponse(results=[rejected] * len(request.creations))
