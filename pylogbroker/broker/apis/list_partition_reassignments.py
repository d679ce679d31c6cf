"""ListPartitionReassignments (46): reassignments that are not complete yet (KIP-455)."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.membership.control import ClusterServices
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.errors import KafkaError
from pylogbroker.metadata.image import PartitionKey
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


@serves(ListPartitionReassignmentsRequest, access=[on_cluster(AclOperation.DESCRIBE)], is_read=True, cluster_only=True)
async def handle(
    services: ClusterServices, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    try:
        found = await services.cluster_control.list_reassignments(_keys(request))
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.detail)
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for (topic, number), state in found.items():
        topics.setdefault(topic, []).append(
            OngoingPartitionReassignment(number, list(state.replicas), list(state.adding), list(state.removing))
        )
    return ListPartitionReassignmentsResponse(
        topics=[OngoingTopicReassignment(topic, partitions) for topic, partitions in topics.items()]
    )


def _keys(request: ListPartitionReassignmentsRequest) -> list[PartitionKey] | None:
    if request.topics is None:
        return None
    return [(topic.name, number) for topic in request.topics for number in topic.partition_indexes]
