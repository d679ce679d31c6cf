"""ControlledShutdown (7): move leaderships off a broker that will stop."""

from __future__ import annotations

from pylogbroker.broker.membership.control import HasClusterControl
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.errors import KafkaError
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


@serves(ControlledShutdownRequest, access=[on_cluster(AclOperation.CLUSTER_ACTION)])
async def handle(
    services: HasClusterControl, context: RequestContext, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    try:
        remaining = await services.cluster_control.shut_down_broker(request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return ControlledShutdownResponse(error_code=error.code)
    return ControlledShutdownResponse(remaining_partitions=[RemainingPartition(*key) for key in remaining])
