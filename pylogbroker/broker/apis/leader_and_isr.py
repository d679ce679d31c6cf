"""LeaderAndIsr (4): the controller orders this broker to lead partitions and to follow others."""

from __future__ import annotations

from itertools import chain

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasMembership
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import mapped, over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

_FIRST_WITH_IDS = 5


_reject_topic = reject_partitions(
    LeaderAndIsrTopicError,
    lambda partition, code: LeaderAndIsrPartitionError("", partition.partition_index, code),
    partitions="partition_states",
    name="topic_id",
)


async def _reject(context: RequestContext, request: LeaderAndIsrRequest, code: ErrorCode) -> LeaderAndIsrResponse:
    """Return the error also for each partition; before version 5 these have names."""
    if context.api_version >= _FIRST_WITH_IDS:
        topics = [await _reject_topic(topic, code) async for topic in over(request.topic_states)]
        return LeaderAndIsrResponse(code, topics=topics)
    named = chain(
        ((state.topic_name, state.partition_index) for state in request.ungrouped_partition_states),
        (
            (topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
        ),
    )
    errors = await mapped(lambda key: LeaderAndIsrPartitionError(*key, code), named)
    return LeaderAndIsrResponse(code, errors)


@serves(LeaderAndIsrRequest, access=[on_cluster(AclOperation.CLUSTER_ACTION, _reject)])
async def handle(
    services: HasMembership, context: RequestContext, request: LeaderAndIsrRequest
) -> LeaderAndIsrResponse:
    return await services.membership.lead_and_follow(request, context.api_version)
