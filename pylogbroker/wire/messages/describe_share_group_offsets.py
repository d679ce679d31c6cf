"""DescribeShareGroupOffsets (key 90): return where share groups start in their partitions, and their lag."""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    ErrorText,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Uuid,
    fresh,
    struct,
)


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: String = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = fresh(list)


@struct
class DescribeShareGroupOffsetsRequest(Request):
    """Null topics are all topics of the group."""

    api_key, versions = APIS["describe_share_group_offsets"]

    groups: list[DescribeShareGroupOffsetsRequestGroup] = fresh(list)


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, Since(1), IGNORABLE] = -1
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: String = ""
    topic_id: Uuid = NO_ID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = fresh(list)


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: String = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = fresh(list)
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class DescribeShareGroupOffsetsResponse(Response):
    api_key, versions = APIS["describe_share_group_offsets"]

    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = fresh(list)
