"""AlterPartitionReassignments (45): move partitions to other brokers, or cancel a move (KIP-455)."""

from __future__ import annotations

from pylogbroker.broker.membership.control import HasPlacementControl
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

_reject_topic = reject_partitions(
    ReassignableTopicResponse,
    lambda partition, code: ReassignablePartitionResponse(partition.partition_index, code, code.meaning),
)


async def _reject(
    context: RequestContext, request: AlterPartitionReassignmentsRequest, code: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    topics = [await _reject_topic(topic, code) async for topic in over(request.topics)]
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=code.meaning, responses=topics)


@serves(AlterPartitionReassignmentsRequest, access=[on_cluster(AclOperation.ALTER, _reject)])
async def handle(
    services: HasPlacementControl, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    named = ((topic.name, partition) for topic in request.topics for partition in topic.partitions)
    targets = {(name, partition.partition_index): partition.replicas async for name, partition in over(named)}
    try:
        errors = await services.cluster_control.alter_reassignments(
            targets, keeps_factor=not request.allow_replication_factor_change
        )
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.detail)
    responses = []
    async for topic in over(request.topics):
        numbers = [partition.partition_index for partition in topic.partitions]
        partitions = [_response(number, errors[topic.name, number]) async for number in over(numbers)]
        responses.append(ReassignableTopicResponse(topic.name, partitions))
    return AlterPartitionReassignmentsResponse(
        responses=responses, allow_replication_factor_change=request.allow_replication_factor_change
    )


def _response(number: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(number)
    return ReassignablePartitionResponse(number, error.code, error.detail)
