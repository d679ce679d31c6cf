"""OffsetCommit (key 8): commit a group's offsets.

Versions::

    0  offsets alone
    1  generation and member; a timestamp for each offset
    2  a retention time instead of timestamps
    3  `throttle_time_ms`
    4  KIP-219 throttling
    5  no retention time: the broker's settings hold
    6  leader epochs
    7  static membership
    8  flexible
    9  consumer group protocol (KIP-848)
   10  topic ids replace names
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Before,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Until,
    Uuid,
    fresh,
    struct,
)


@struct
class OffsetCommitRequestPartition:
    """`committed_offset` is the offset of the next record to consume."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(6), IGNORABLE] = -1
    commit_timestamp: Annotated[Int64, Since(1), Until(1)] = -1
    committed_metadata: String | None = ""


@struct
class OffsetCommitRequestTopic:
    name: Annotated[String, Until(9), IGNORABLE] = ""
    partitions: list[OffsetCommitRequestPartition] = fresh(list)
    topic_id: Annotated[Uuid, Since(10), IGNORABLE, Before("partitions")] = NO_ID


@struct
class OffsetCommitRequest(Request):
    """Outside a group, the generation is -1 and the member id empty."""

    api_key, versions = APIS["offset_commit"]

    group_id: String = ""
    generation_id_or_member_epoch: Annotated[Int32, Since(1), IGNORABLE] = -1
    member_id: Annotated[String, Since(1), IGNORABLE] = ""
    group_instance_id: Annotated[String | None, Since(7)] = None
    retention_time_ms: Annotated[Int64, Since(2), Until(4), IGNORABLE] = -1
    topics: list[OffsetCommitRequestTopic] = fresh(list)


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    name: Annotated[String, Until(9), IGNORABLE] = ""
    partitions: list[OffsetCommitResponsePartition] = fresh(list)
    topic_id: Annotated[Uuid, Since(10), IGNORABLE, Before("partitions")] = NO_ID


@struct
class OffsetCommitResponse(Response):
    api_key, versions = APIS["offset_commit"]

    throttle_time_ms: Annotated[Int32, Since(3), IGNORABLE] = 0
    topics: list[OffsetCommitResponseTopic] = fresh(list)
