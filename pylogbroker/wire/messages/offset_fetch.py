"""OffsetFetch (key 9): read groups' committed offsets.

Versions::

    0  an unknown offset is UNKNOWN_TOPIC_OR_PARTITION
    1  an unknown offset is -1
    2  null means all topics; the response has an error of its own
    3  `throttle_time_ms`
    4  KIP-219 throttling
    5  leader epochs
    6  flexible
    7  `require_stable`: pending transactional offsets are an error
    8  several groups
    9  consumer group protocol (KIP-848)
   10  topic ids replace names
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Before,
    Boolean,
    Int16,
    Int32,
    Int64,
    NullableSince,
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
class OffsetFetchRequestTopic:
    """Below version 8."""

    name: String = ""
    partition_indexes: list[Int32] = fresh(list)


@struct
class OffsetFetchRequestTopics:
    """Topics of a group, from version 8 on."""

    name: Annotated[String, Until(9), IGNORABLE] = ""
    partition_indexes: list[Int32] = fresh(list)
    topic_id: Annotated[Uuid, Since(10), IGNORABLE, Before("partition_indexes")] = NO_ID


@struct
class OffsetFetchRequestGroup:
    """Null `topics` means all committed offsets."""

    group_id: String = ""
    member_id: Annotated[String | None, Since(9), IGNORABLE] = None
    member_epoch: Annotated[Int32, Since(9), IGNORABLE] = -1
    topics: list[OffsetFetchRequestTopics] | None = fresh(list)


@struct
class OffsetFetchRequest(Request):
    """`group_id` and `topics` below version 8, then `groups`."""

    api_key, versions = APIS["offset_fetch"]

    group_id: Annotated[String, Until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Until(7), NullableSince(2)] = fresh(list)
    groups: Annotated[list[OffsetFetchRequestGroup], Since(8)] = fresh(list)
    require_stable: Annotated[Boolean, Since(7)] = False


@struct
class OffsetFetchResponsePartition:
    """Below version 8; offset -1 means none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(5), IGNORABLE] = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    """Below version 8."""

    name: String = ""
    partitions: list[OffsetFetchResponsePartition] = fresh(list)


@struct
class OffsetFetchResponsePartitions:
    """Committed offset of a partition, from version 8 on; offset -1 means none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    """Topics of a group, from version 8 on."""

    name: Annotated[String, Until(9), IGNORABLE] = ""
    partitions: list[OffsetFetchResponsePartitions] = fresh(list)
    topic_id: Annotated[Uuid, Since(10), IGNORABLE, Before("partitions")] = NO_ID


@struct
class OffsetFetchResponseGroup:
    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = fresh(list)
    error_code: Int16 = 0


@struct
class OffsetFetchResponse(Response):
    """`topics` below version 8, then `groups`."""

    api_key, versions = APIS["offset_fetch"]

    throttle_time_ms: Annotated[Int32, Since(3), IGNORABLE] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Until(7)] = fresh(list)
    error_code: Annotated[Int16, Since(2), Until(7), IGNORABLE] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Since(8)] = fresh(list)
