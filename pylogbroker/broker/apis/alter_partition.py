"""AlterPartition (56): change the ISRs of partitions for their leader (KIP-497).

Below version 2 partitions are named, and INELIGIBLE_REPLICA is answered as OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from pylogbroker.broker.membership.control import HasClusterControl
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.controller.isr_changes import WantedIsr
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.metadata.image import ClusterImage, LeaderRecovery, PartitionKey, PartitionState
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionDataResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicData,
    AlterPartitionTopicResponse,
)

_FIRST_WITH_IDS = 2
_FIRST_WITH_EPOCHS = 3
_Outcomes = dict[PartitionKey, PartitionState | ErrorCode]


@serves(AlterPartitionRequest, access=[on_cluster(AclOperation.CLUSTER_ACTION)])
async def handle(
    services: HasClusterControl, context: RequestContext, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    control, version = services.cluster_control, context.api_version
    try:
        image = control.image
        names = [_name(image, topic, version) async for topic in over(request.topics)]
        changes: dict[PartitionKey, WantedIsr] = {}
        outcomes: _Outcomes = {}
        ids = {} if version < _FIRST_WITH_IDS else {name: image.topics[name].id for name in names if name is not None}
        existing = ((name, topic) for topic, name in zip(request.topics, names, strict=True) if name is not None)
        async for name, data in over((name, data) for name, topic in existing for data in topic.partitions):
            if data.leader_recovery_state not in (0, 1):
                outcomes[name, data.partition_index] = ErrorCode.INVALID_REQUEST
            else:
                changes[name, data.partition_index] = _change(data, version)
        outcomes |= await control.alter_partitions(request.broker_id, request.broker_epoch, changes, ids)
    except KafkaError as error:
        return AlterPartitionResponse(error_code=error.code)
    topics = []
    async for topic, known_name in over(zip(request.topics, names, strict=True)):
        partitions = [
            _response(outcomes, known_name, data.partition_index, version) async for data in over(topic.partitions)
        ]
        topics.append(AlterPartitionTopicResponse(topic.topic_name, topic.topic_id, partitions))
    return AlterPartitionResponse(topics=topics)


def _name(image: ClusterImage, topic: AlterPartitionTopicData, version: int) -> str | None:
    if version < _FIRST_WITH_IDS:
        return topic.topic_name
    existing = image.topic_by_id(topic.topic_id)
    return None if existing is None else existing.name


def _change(data: AlterPartitionData, version: int) -> WantedIsr:
    if version >= _FIRST_WITH_EPOCHS:
        epochs = {member.broker_id: member.broker_epoch for member in data.new_isr_with_epochs}
        isr = tuple(member.broker_id for member in data.new_isr_with_epochs)
    else:
        epochs, isr = {}, tuple(data.new_isr)
    return WantedIsr(data.leader_epoch, data.partition_epoch, isr, LeaderRecovery(data.leader_recovery_state), epochs)


def _response(outcomes: _Outcomes, name: str | None, number: int, version: int) -> AlterPartitionDataResponse:
    outcome = ErrorCode.UNKNOWN_TOPIC_ID if name is None else outcomes[name, number]
    if isinstance(outcome, PartitionState):
        return AlterPartitionDataResponse(
            partition_index=number,
            leader_id=outcome.leader,
            leader_epoch=outcome.leader_epoch,
            isr=list(outcome.isr),
            leader_recovery_state=int(outcome.recovery),
            partition_epoch=outcome.partition_epoch,
        )
    if outcome is ErrorCode.INELIGIBLE_REPLICA and version < _FIRST_WITH_IDS:
        outcome = ErrorCode.OPERATION_NOT_ATTEMPTED
    return AlterPartitionDataResponse(partition_index=number, error_code=outcome)
