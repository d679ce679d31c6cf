"""InitProducerId (key 22): an id and an epoch for an idempotent or transactional producer.

== =================================================================
 0 a transactional id, or null
 1 a throttled response is sent before the pause, not after it
 2 flexible
 3 the producer's present id and epoch, to go on with the next epoch
 4 as version 3; PRODUCER_FENCED may be answered
 5 as version 4; TRANSACTION_ABORTABLE may be answered
== =================================================================
"""

from typing import Annotated

from pylogbroker.wire.schema import (
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Versions,
    struct,
)


@struct
class InitProducerIdRequest(Request):
    """A producer that begins, or resumes."""

    api_key = 22
    versions = Versions(0, 5, flexible=2)

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, Since(3)] = -1
    producer_epoch: Annotated[Int16, Since(3)] = -1


@struct
class InitProducerIdResponse(Response):
    """Its id and epoch."""

    api_key = 22
    versions = Versions(0, 5, flexible=2)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
