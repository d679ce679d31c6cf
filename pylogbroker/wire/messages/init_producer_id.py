"""InitProducerId (key 22): id and epoch for an idempotent or transactional producer.

Versions::

    0  a transactional id, or null
    1  KIP-219 throttling
    2  flexible
    3  the producer's current id and epoch, to raise the epoch (KIP-360)
    4  PRODUCER_FENCED replaces INVALID_PRODUCER_EPOCH
    5  error TRANSACTION_ABORTABLE
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    struct,
)


@struct
class InitProducerIdRequest(Request):
    api_key, versions = APIS["init_producer_id"]

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, Since(3)] = -1
    producer_epoch: Annotated[Int16, Since(3)] = -1


@struct
class InitProducerIdResponse(Response):
    api_key, versions = APIS["init_producer_id"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
