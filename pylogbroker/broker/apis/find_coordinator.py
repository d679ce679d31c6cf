"""FindCoordinator (10): return the leader of the coordinator's partition; create the internal topic first."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pylogbroker.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP = 0
_TRANSACTION = 1
_FIRST_WITH_SEVERAL = 4
_NOWHERE = -1


@serves(FindCoordinatorRequest)
async def handle(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    several = context.api_version >= _FIRST_WITH_SEVERAL
    keys = list(dict.fromkeys(request.coordinator_keys)) if several else [request.key]
    try:
        await _ensure_topic(services, request.key_type)
    except KafkaError as error:
        found = [_nowhere(key, error) for key in keys]
    else:
        found = [_find(services, context, request.key_type, key) async for key in services.runtime.slices.over(keys)]
    if several:
        return FindCoordinatorResponse(coordinators=found)
    return FindCoordinatorResponse(
        error_code=found[0].error_code,
        error_message=found[0].error_message,
        node_id=found[0].node_id,
        host=found[0].host,
        port=found[0].port,
    )


async def _ensure_topic(services: Services, key_type: int) -> None:
    if key_type not in (_GROUP, _TRANSACTION):
        raise KafkaError(
            f"groups (key type 0) and transactions (1) have a coordinator, not key type {key_type}",
            ErrorCode.INVALID_REQUEST,
        )
    service = services.group_service if key_type == _GROUP else services.transaction_service
    try:
        await service.ensure_topic()
    except KafkaError as error:
        raise KafkaError(error.detail, ErrorCode.COORDINATOR_NOT_AVAILABLE) from error


def _find(services: Services, context: RequestContext, key_type: int, key: str) -> Coordinator:
    if key_type == _GROUP:
        partition = OFFSETS_TOPIC, services.groups.partition_for(key)
    else:
        partition = TRANSACTIONS_TOPIC, services.transactions.partition_for(key)
    if partition in services.partitions.led:
        host, port = services.node.address(context)
        return Coordinator(key, services.node.id, host, port, ErrorCode.NONE, None)
    image = services.metadata.image
    topic = image.topics.get(partition[0])
    state = None if topic is None else topic.partitions.get(partition[1])
    if state is not None and state.leader != services.node.id:
        for broker in services.node.live_brokers(image, context):
            if broker.id == state.leader:
                return Coordinator(key, broker.id, broker.host, broker.port, ErrorCode.NONE, None)
    detail = f"{partition[0]}-{partition[1]} has no leader now"
    return _nowhere(key, KafkaError(detail, ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _nowhere(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(key, _NOWHERE, "", _NOWHERE, error.code, error.detail)
