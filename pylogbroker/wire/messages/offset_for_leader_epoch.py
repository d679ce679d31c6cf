"""OffsetForLeaderEpoch (key 23): end offsets of leader epochs, to find where two logs diverge.

Versions::

    0  the end offset
    1  the response has the epoch found
    2  `current_leader_epoch` in the request; `throttle_time_ms`
    3  `replica_id`
    4  flexible
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
class OffsetForLeaderPartition:
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(2), IGNORABLE] = -1
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic:
    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = fresh(list)


@struct
class OffsetForLeaderEpochRequest(Request):
    """`replica_id` is -1 for a consumer, -2 for a debugging consumer."""

    api_key, versions = APIS["offset_for_leader_epoch"]

    replica_id: Annotated[Int32, Since(3), IGNORABLE] = -2
    topics: list[OffsetForLeaderTopic] = fresh(list)


@struct
class EpochEndOffset:
    """Largest epoch not above the one asked for, and its end."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, Since(1), IGNORABLE] = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: String = ""
    partitions: list[EpochEndOffset] = fresh(list)


@struct
class OffsetForLeaderEpochResponse(Response):
    api_key, versions = APIS["offset_for_leader_epoch"]

    throttle_time_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    topics: list[OffsetForLeaderTopicResult] = fresh(list)
