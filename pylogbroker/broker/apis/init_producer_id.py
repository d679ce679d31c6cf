"""InitProducerId (22): an id and an epoch for an idempotent producer.

1  as 0        3  the producer's present id and epoch (KIP-360)      5  as 4
2  flexible    4  PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH

Without a transactional id every call gets a new id, whatever the producer had before: nobody else can be using it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give out the next producer id, with epoch 0."""
    has_half = (request.producer_id == -1) != (request.producer_epoch == -1)
    if request.transactional_id is not None:
        broker.refuse_transactions(context)
    if has_half or request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=await broker.producer_ids.take(), producer_epoch=0)
