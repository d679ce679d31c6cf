"""AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids (KIP-730).

Versions::

    0  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import Int16, Int32, Int64, Request, Response, struct


@struct
class AllocateProducerIdsRequest(Request):
    api_key, versions = APIS["allocate_producer_ids"]

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@struct
class AllocateProducerIdsResponse(Response):
    api_key, versions = APIS["allocate_producer_ids"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
