"""LeaderAndIsr (4): the controller orders this broker to lead partitions and to follow others."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

_FIRST_WITH_IDS = 5


def _reject(context: RequestContext, request: LeaderAndIsrRequest, code: ErrorCode) -> LeaderAndIsrResponse:
    """Return the error also for each partition; before version 5 these have names."""
    if context.api_version < _FIRST_WITH_IDS:
        named = [(each.topic_name, each.partition_index) for each in request.ungrouped_partition_states]
        named += [
            (topic.topic_name, each.partition_index)
            for topic in request.topic_states
            for each in topic.partition_states
        ]
        return LeaderAndIsrResponse(code, [LeaderAndIsrPartitionError(*each, code) for each in named])
    return LeaderAndIsrResponse(
        code,
        topics=[
            LeaderAndIsrTopicError(
                topic.topic_id,
                [LeaderAndIsrPartitionError("", each.partition_index, code) for each in topic.partition_states],
            )
            for topic in request.topic_states
        ],
    )


@serves(LeaderAndIsrRequest, access=[on_cluster(AclOperation.CLUSTER_ACTION, _reject)], cluster_only=True)
async def handle(services: Services, context: RequestContext, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    return await services.membership.lead_and_follow(request, context.api_version)
