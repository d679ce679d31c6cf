"""StopReplica (5): the controller lets this broker stop replicas, and perhaps delete their logs."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import Services
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


@serves(StopReplicaRequest, access=[on_cluster(AclOperation.CLUSTER_ACTION)], cluster_only=True)
async def handle(services: Services, context: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    return await services.membership.stop_replicas(request)
