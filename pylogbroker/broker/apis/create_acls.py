"""CreateAcls (30): entries of access control lists, which need an authorizer, and this broker has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


@serves(CreateAclsRequest)
def handle(broker: Broker, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuse each entry, as Kafka does without an authorizer."""
    refused = AclCreationResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return CreateAclsResponse(results=[refused] * len(request.creations))
