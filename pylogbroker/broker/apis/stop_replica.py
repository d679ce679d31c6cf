"""StopReplica (5): the controller lets this broker stop replicas, and perhaps delete their logs."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse


def _reject(context: RequestContext, request: StopReplicaRequest, code: ErrorCode) -> StopReplicaResponse:
    """Return the error also for each partition; the versions name these in three ways."""
    named = [(each.topic_name, each.partition_index) for each in request.ungrouped_partitions]
    named += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    named += [
        (topic.topic_name, each.partition_index) for topic in request.topic_states for each in topic.partition_states
    ]
    return StopReplicaResponse(code, [StopReplicaPartitionError(*each, code) for each in named])


@serves(StopReplicaRequest, access=[on_cluster(AclOperation.CLUSTER_ACTION, _reject)], cluster_only=True)
async def handle(services: Services, context: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    return await services.membership.stop_replicas(request)
