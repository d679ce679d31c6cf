"""ListPartitionReassignments (46): reassignments that are not complete yet (KIP-455)."""

from __future__ import annotations

from pylogbroker.broker.membership.control import HasPlacementControl
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.errors import KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


@serves(ListPartitionReassignmentsRequest, access=[on_cluster(AclOperation.DESCRIBE)], is_read=True)
async def handle(
    services: HasPlacementControl, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    named = ((topic.name, number) for topic in request.topics or () for number in topic.partition_indexes)
    keys = None if request.topics is None else [key async for key in over(named)]
    try:
        reassignments = await services.cluster_control.list_reassignments(keys)
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.detail)
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    async for (topic, number), state in over(reassignments.items()):
        topics.setdefault(topic, []).append(
            OngoingPartitionReassignment(number, list(state.replicas), list(state.adding), list(state.removing))
        )
    return ListPartitionReassignmentsResponse(
        topics=[OngoingTopicReassignment(*entry) async for entry in over(topics.items())]
    )
