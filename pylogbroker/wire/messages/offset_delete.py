"""OffsetDelete (key 47): forget what a group has committed for some partitions.

== ===================================
 0 partitions by topic; never flexible
== ===================================
"""

from pylogbroker.wire.schema import (
    Int16,
    Int32,
    Request,
    Response,
    String,
    Versions,
    fresh,
    struct,
)


@struct
class OffsetDeleteRequestPartition:
    """A partition."""

    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = fresh(list)


@struct
class OffsetDeleteRequest(Request):
    """The offsets to forget."""

    api_key = 47
    versions = Versions(0, 0)

    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = fresh(list)


@struct
class OffsetDeleteResponsePartition:
    """Whether one offset was forgotten."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    """Whether the offsets of one topic were forgotten."""

    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = fresh(list)


@struct
class OffsetDeleteResponse(Response):
    """Whether they were forgotten."""

    api_key = 47
    versions = Versions(0, 0)

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = fresh(list)
