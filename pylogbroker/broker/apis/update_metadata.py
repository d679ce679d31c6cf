"""UpdateMetadata (6): the controller's news of partitions and brokers, for the answers to clients."""

from __future__ import annotations

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasMembership
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


@serves(UpdateMetadataRequest, access=[on_cluster(AclOperation.CLUSTER_ACTION)])
async def handle(
    services: HasMembership, context: RequestContext, request: UpdateMetadataRequest
) -> UpdateMetadataResponse:
    return await services.membership.update_metadata(request)
