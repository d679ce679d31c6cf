"""AddOffsetsToTxn (key 25): add a group's offsets to a transaction.

Versions::

    0  a group
    1  KIP-219 throttling
    2  PRODUCER_FENCED replaces INVALID_PRODUCER_EPOCH
    3  flexible
    4  error TRANSACTION_ABORTABLE
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import Int16, Int32, Int64, Request, Response, String, struct


@struct
class AddOffsetsToTxnRequest(Request):
    api_key, versions = APIS["add_offsets_to_txn"]

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@struct
class AddOffsetsToTxnResponse(Response):
    api_key, versions = APIS["add_offsets_to_txn"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
