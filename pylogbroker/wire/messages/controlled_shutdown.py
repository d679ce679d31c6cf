"""ControlledShutdown (key 7): a broker asks the controller to move its leaderships before it stops.

Versions::

    0  the request's header has no client id
    1  the usual header
    2  `broker_epoch` (KIP-380)
    3  flexible
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    fresh,
    struct,
)


@struct
class ControlledShutdownRequest(Request):
    api_key, versions = APIS["controlled_shutdown"]

    broker_id: Int32 = 0
    broker_epoch: Annotated[Int64, Since(2), IGNORABLE] = -1


@struct
class RemainingPartition:
    """Partition that the broker still leads."""

    topic_name: String = ""
    partition_index: Int32 = 0


@struct
class ControlledShutdownResponse(Response):
    api_key, versions = APIS["controlled_shutdown"]

    error_code: Int16 = 0
    remaining_partitions: list[RemainingPartition] = fresh(list)
