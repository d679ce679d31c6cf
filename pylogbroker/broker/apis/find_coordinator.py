"""FindCoordinator (10): return the leader of the coordinator's partition; create the internal topic first.

The key of a share partition's state is "group:topic id:partition". Brokers ask for it, not clients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import Decision, Later, Narrowed, narrow_each
from pylogbroker.broker.services import (
    CoordinatorService,
    HasGroups,
    HasGroupService,
    HasMetadata,
    HasNode,
    HasPartitions,
    HasShareStates,
    HasTransactions,
    HasTransactionService,
)
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.long_loops import over
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP = 0
_TRANSACTION = 1
_SHARE = 2
_FIRST_WITH_SHARE = 6
_FIRST_WITH_SEVERAL = 4
_NOWHERE = -1
_RESOURCES = {
    _GROUP: (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION: (AclResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}


class _Services(
    HasMetadata,
    HasPartitions,
    HasNode,
    HasGroups,
    HasTransactions,
    HasGroupService,
    HasTransactionService,
    HasShareStates,
    Protocol,
):
    """Services that this API uses."""


def _narrow(
    services: _Services, context: RequestContext, request: FindCoordinatorRequest
) -> Decision | Later[Decision]:
    access = context.required_access
    if request.key_type == _SHARE:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        may_act = access.allows_on_cluster(AclOperation.CLUSTER_ACTION)
        may_find: Callable[[str], bool] = lambda key: may_act  # noqa: E731
    elif request.key_type in _RESOURCES:
        kind, code = _RESOURCES[request.key_type]
        may_find = partial(access.allows, AclOperation.DESCRIBE, kind)
    else:
        return None
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
        await _ensure_topic(services, context, request.key_type)
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


async def _ensure_topic(services: _Services, context: RequestContext, key_type: int) -> None:
    services_by_type: dict[int, CoordinatorService] = {
        _GROUP: services.group_service,
        _TRANSACTION: services.transaction_service,
    }
    if context.api_version >= _FIRST_WITH_SHARE:
        services_by_type[_SHARE] = services.share_states
    service = services_by_type.get(key_type)
    if service is None:
        raise KafkaError(
            "groups (key type 0), transactions (1) and, from version 6 on, states of share groups (2) have a"
            f" coordinator, not key type {key_type}",
            ErrorCode.INVALID_REQUEST,
        )
    try:
        await service.ensure_topic()
    except KafkaError as error:
        raise KafkaError(error.detail, ErrorCode.COORDINATOR_NOT_AVAILABLE) from error


def _find(services: _Services, context: RequestContext, key_type: int, key: str) -> Coordinator:
    if key_type == _GROUP:
        partition = OFFSETS_TOPIC, services.groups.partition_for(key)
    elif key_type == _TRANSACTION:
        partition = TRANSACTIONS_TOPIC, services.transactions.partition_for(key)
    else:
        share_partition = SharePartitionKey.parse(key)
        if share_partition is None:
            detail = f"{key!r} is not a group, a topic id and a partition with colons between them"
            return _nowhere(key, KafkaError(detail, ErrorCode.INVALID_REQUEST))
        partition = SHARE_STATE_TOPIC, services.share_states.partition_for(share_partition)
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
