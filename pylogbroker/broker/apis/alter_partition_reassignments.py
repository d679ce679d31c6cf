"""AlterPartitionReassignments (45): move partitions to other brokers, or cancel a move (KIP-455)."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.membership.control import ClusterServices
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def _reject(
    context: RequestContext, request: AlterPartitionReassignmentsRequest, code: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=code.meaning,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [ReassignablePartitionResponse(each.partition_index, code, code.meaning) for each in topic.partitions],
            )
            for topic in request.topics
        ],
    )


@serves(AlterPartitionReassignmentsRequest, access=[on_cluster(AclOperation.ALTER, _reject)], cluster_only=True)
async def handle(
    services: ClusterServices, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    targets = {
        (topic.name, partition.partition_index): partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }
    try:
        errors = await services.cluster_control.alter_reassignments(targets)
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.detail)
    return AlterPartitionReassignmentsResponse(
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [
                    _response(partition.partition_index, errors[topic.name, partition.partition_index])
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _response(number: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(number)
    return ReassignablePartitionResponse(number, error.code, error.detail)
