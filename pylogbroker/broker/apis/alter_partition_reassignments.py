"""AlterPartitionReassignments (45): move partitions to other brokers, or cancel a move (KIP-455)."""

from __future__ import annotations

from functools import partial

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.membership.control import PlacementServices
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import Steps, on_cluster
from pylogbroker.broker.slices import map_to_steps
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

_reject_topic = reject_partitions(
    ReassignableTopicResponse,
    lambda each, code: ReassignablePartitionResponse(each.partition_index, code, code.meaning),
)


def _reject(
    context: RequestContext, request: AlterPartitionReassignmentsRequest, code: ErrorCode
) -> Steps[AlterPartitionReassignmentsResponse]:
    topics = yield from map_to_steps(partial(_reject_topic, code=code), request.topics)
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=code.meaning, responses=topics)


@serves(AlterPartitionReassignmentsRequest, access=[on_cluster(AclOperation.ALTER, _reject)])
async def handle(
    services: PlacementServices, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    slices = services.runtime.slices
    named = ((topic.name, each) for topic in request.topics for each in topic.partitions)
    targets = {(name, each.partition_index): each.replicas async for name, each in slices.over(named)}
    try:
        errors = await services.cluster_control.alter_reassignments(targets)
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.detail)
    responses = await slices.each(
        request.topics,
        lambda topic: topic.partitions,
        lambda topic, each: _response(each.partition_index, errors[topic.name, each.partition_index]),
        lambda topic, partitions: ReassignableTopicResponse(topic.name, partitions),
    )
    return AlterPartitionReassignmentsResponse(responses=responses)


def _response(number: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(number)
    return ReassignablePartitionResponse(number, error.code, error.detail)
