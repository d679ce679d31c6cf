"""AddOffsetsToTxn (key 25): a transaction is going to commit a group's offsets.

== ===========================================================
 0 a group
 1 a throttled response is sent before the pause, not after it
 2 PRODUCER_FENCED may be answered
 3 flexible
 4 TRANSACTION_ABORTABLE may be answered
== ===========================================================
"""

from pylogbroker.wire.schema import Int16, Int32, Int64, Request, Response, String, Versions, struct


@struct
class AddOffsetsToTxnRequest(Request):
    """The group, and who is going to commit."""

    api_key = 25
    versions = Versions(0, 4, flexible=3)

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@struct
class AddOffsetsToTxnResponse(Response):
    """Whether the group's offsets were added."""

    api_key = 25
    versions = Versions(0, 4, flexible=3)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
