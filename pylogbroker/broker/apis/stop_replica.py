"""StopReplica (5): the controller lets this broker stop replicas, and perhaps delete their logs."""

from __future__ import annotations

from itertools import chain

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasMembership
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import mapped
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse


async def _reject(context: RequestContext, request: StopReplicaRequest, code: ErrorCode) -> StopReplicaResponse:
    """Return the error also for each partition; the versions name these in three ways."""
    named = chain(
        ((partition.topic_name, partition.partition_index) for partition in request.ungrouped_partitions),
        ((topic.name, index) for topic in request.topics for index in topic.partition_indexes),
        (
            (topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
        ),
    )
    errors = await mapped(lambda key: StopReplicaPartitionError(*key, code), named)
    return StopReplicaResponse(code, errors)


@serves(StopReplicaRequest, access=[on_cluster(AclOperation.CLUSTER_ACTION, _reject)])
async def handle(services: HasMembership, context: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    return await services.membership.stop_replicas(request)
