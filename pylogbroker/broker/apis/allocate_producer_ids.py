"""AllocateProducerIds (67): allocate a block of producer ids for a broker (KIP-730)."""

from __future__ import annotations

from pylogbroker.broker.membership.control import HasClusterControl
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.errors import KafkaError
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


@serves(AllocateProducerIdsRequest, access=[on_cluster(AclOperation.CLUSTER_ACTION)])
async def handle(
    services: HasClusterControl, context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    try:
        block = await services.cluster_control.allocate_producer_ids(request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return AllocateProducerIdsResponse(error_code=error.code)
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.last - block.first + 1)
