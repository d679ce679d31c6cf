"""FindCoordinator (10): return the leader of the coordinator's partition; create the internal topic first."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import Decision, Later, Narrowed, narrow_each
from pylogbroker.broker.services import (
    HasGroups,
    HasGroupService,
    HasMetadata,
    HasNode,
    HasPartitions,
    HasTransactions,
    HasTransactionService,
)
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP = 0
_TRANSACTION = 1
_FIRST_WITH_SEVERAL = 4
_NOWHERE = -1
_RESOURCES = {
    _GROUP: (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION: (AclResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}


class _Services(
    HasMetadata, HasPartitions, HasNode, HasGroups, HasTransactions, HasGroupService, HasTransactionService, Protocol
):
    """Services that this API uses."""


def _narrow(
    services: _Services, context: RequestContext, request: FindCoordinatorRequest
) -> Decision | Later[Decision]:
    if request.key_type not in _RESOURCES:
        return None
    kind, code = _RESOURCES[request.key_type]
    may_find = partial(context.required_access.allows, AclOperation.DESCRIBE, kind)
    reject = partial(_nowhere, error=KafkaError("", code))
    if context.api_version >= _FIRST_WITH_SEVERAL:
        return narrow_each(request, "coordinator_keys", "coordinators", may_find, reject)
    return None if may_find(request.key) else Narrowed(None, lambda _: _single(reject(request.key)))


@serves(FindCoordinatorRequest, access=[_narrow])
async def handle(
    services: _Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    several = context.api_version >= _FIRST_WITH_SEVERAL
    keys = over(dict.fromkeys(request.coordinator_keys) if several else [request.key])
    try:
        await _ensure_topic(services, request.key_type)
    except KafkaError as error:
        coordinators = [_nowhere(key, error) async for key in keys]
    else:
        coordinators = [_find(services, context, request.key_type, key) async for key in keys]
    if several:
        return FindCoordinatorResponse(coordinators=coordinators)
    return _single(coordinators[0])


def _single(coordinator: Coordinator) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


async def _ensure_topic(services: _Services, key_type: int) -> None:
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


def _find(services: _Services, context: RequestContext, key_type: int, key: str) -> Coordinator:
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
