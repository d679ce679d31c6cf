"""FindCoordinator (10): return this broker, which coordinates all; create the internal topic first."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP = 0
_TRANSACTION = 1
_FIRST_WITH_SEVERAL = 4
_NOWHERE = -1


@serves(FindCoordinatorRequest)
async def handle(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    try:
        found = await _find(services, context, request.key_type)
    except KafkaError as error:
        found = Coordinator("", _NOWHERE, "", _NOWHERE, error.code, error.detail)
    if context.api_version >= _FIRST_WITH_SEVERAL:
        return FindCoordinatorResponse(
            coordinators=[_of(found, key) for key in dict.fromkeys(request.coordinator_keys)]
        )
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(services: Services, context: RequestContext, key_type: int) -> Coordinator:
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
    host, port = services.node.address(context)
    return Coordinator("", services.node.id, host, port, ErrorCode.NONE, None)


def _of(found: Coordinator, key: str) -> Coordinator:
    return Coordinator(key, found.node_id, found.host, found.port, found.error_code, found.error_message)
