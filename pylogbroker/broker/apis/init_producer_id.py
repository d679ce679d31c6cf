"""InitProducerId (22): an id and an epoch for an idempotent or transactional producer.

Without a transactional id every call gets a new id, whatever the producer had before: nobody else can be using it.
With one the coordinator keeps id and epoch, and ends what an earlier producer of that name has left behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.producer_fencing import error_for
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.transactions import InitProducerId, InitResult
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

_FIRST_WITH_FENCED = 4


@serves(InitProducerIdRequest)
async def handle(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give out the next producer id, or what the coordinator says."""
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _error_response(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return await _any_id(broker)
    result = await _ask(broker, request.transactional_id, request)
    if result.error:
        return _error_response(error_for(result.error, context, _FIRST_WITH_FENCED))
    return InitProducerIdResponse(producer_id=result.producer_id, producer_epoch=result.producer_epoch)


async def _any_id(broker: Broker) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.take(), producer_epoch=0)
    except KafkaError as error:
        return _error_response(error.code)


def _ask(broker: Broker, transactional_id: str, request: InitProducerIdRequest) -> Deferred[InitResult]:
    replied: Deferred[InitResult] = Deferred()
    asked = InitProducerId(
        transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
    )
    broker.transactions.init_producer_id(asked, replied.callback, broker.now_ms())
    return replied


def _error_response(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
