"""EndTxn (key 26): commit or abort a transaction.

Versions::

    0  a transaction
    1  KIP-219 throttling
    2  PRODUCER_FENCED replaces INVALID_PRODUCER_EPOCH
    3  flexible
    4  error TRANSACTION_ABORTABLE
    5  the producer id and epoch of the next transaction (KIP-890)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Boolean,
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
class EndTxnRequest(Request):
    api_key, versions = APIS["end_txn"]

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Boolean = False


@struct
class EndTxnResponse(Response):
    api_key, versions = APIS["end_txn"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, Since(5), IGNORABLE] = -1
    producer_epoch: Annotated[Int16, Since(5), IGNORABLE] = -1
