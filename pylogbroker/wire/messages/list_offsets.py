"""ListOffsets (key 2): offsets by timestamp; LATEST, EARLIEST and the other constants stand in for one.

Versions::

    0  the start offsets of segments, latest first, `max_num_offsets` of them
    1  one offset, with its timestamp
    2  isolation level; the response has a throttle time
    3  KIP-219 throttling
    4  leader epochs, both ways
    5  error OFFSET_NOT_AVAILABLE
    6  flexible
    7  MAX_TIMESTAMP, the offset of the greatest timestamp
    8  EARLIEST_LOCAL, the earliest offset on local disk
    9  LATEST_TIERED, the latest offset in tiered storage
   10  `timeout_ms` of look-ups in tiered storage
   11  EARLIEST_PENDING_UPLOAD, the earliest offset that is not yet in tiered storage
"""

from typing import Annotated, Final

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Until,
    fresh,
    struct,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


@struct
class ListOffsetsPartition:
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(4), IGNORABLE] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, Until(0)] = 1


@struct
class ListOffsetsTopic:
    name: String = ""
    partitions: list[ListOffsetsPartition] = fresh(list)


@struct
class ListOffsetsRequest(Request):
    """`replica_id` is -1 for a consumer."""

    api_key, versions = APIS["list_offsets"]

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, Since(2)] = 0
    topics: list[ListOffsetsTopic] = fresh(list)
    timeout_ms: Annotated[Int32, Since(10), IGNORABLE] = 0


@struct
class ListOffsetsPartitionResponse:
    """`offset` is -1 if none was found."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: Annotated[list[Int64], Until(0)] = fresh(list)
    timestamp: Annotated[Int64, Since(1)] = -1
    offset: Annotated[Int64, Since(1)] = -1
    leader_epoch: Annotated[Int32, Since(4)] = -1


@struct
class ListOffsetsTopicResponse:
    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = fresh(list)


@struct
class ListOffsetsResponse(Response):
    api_key, versions = APIS["list_offsets"]

    throttle_time_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    topics: list[ListOffsetsTopicResponse] = fresh(list)
