"""InitProducerId (22): an id and an epoch for an idempotent producer.

1  as 0        3  the producer's present id and epoch (KIP-360)      5  as 4
2  flexible    4  PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH

Without a transactional id every call gets a new id, whatever the producer had before: nobody else can be using it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give out the next producer id, with epoch 0."""
    if request.transactional_id is not None:
        raise KafkaError("transactions are not served", ErrorCode.INVALID_REQUEST)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError("a producer id goes with its epoch", ErrorCode.INVALID_REQUEST)
    return InitProducerIdResponse(producer_id=await broker.producer_ids.take(), producer_epoch=0)
