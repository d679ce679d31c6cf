"""AddOffsetsToTxn (25): add a group's partition of `__consumer_offsets` to a transaction."""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.completed_transactions import add_when_complete
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.producer_fencing import error_for
from pylogbroker.broker.security.rules import on_group, on_transactional_id
from pylogbroker.broker.services import HasGroups, HasGroupService, HasMetadata, HasRuntime, HasTransactions
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FIRST_WITH_FENCED = 2


class _Services(HasRuntime, HasMetadata, HasGroups, HasTransactions, HasGroupService, Protocol):
    """Services that this API uses."""


@serves(AddOffsetsToTxnRequest, access=[on_transactional_id(AclOperation.WRITE), on_group(AclOperation.READ)])
async def handle(
    services: _Services, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    try:
        await services.group_service.ensure_topic()
    except KafkaError:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if OFFSETS_TOPIC not in services.metadata.topics:  # announced later: its markers would count as a deleted topic's
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer = request.transactional_id, request.producer_id, request.producer_epoch
    key = OFFSETS_TOPIC, services.groups.partition_for(request.group_id)
    error = await add_when_complete(services, context.caller, *producer, [key])
    return AddOffsetsToTxnResponse(error_code=error_for(error, context, _FIRST_WITH_FENCED))
