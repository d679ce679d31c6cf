"""OffsetFetch (key 9): what a group has committed.

== ===========================================================
 0 offsets kept in ZooKeeper
 1 offsets kept in the log
 2 null means all topics; the response has an error of its own
 3 the response has a throttle time
 4 a throttled response is sent before the pause, not after it
 5 leader epochs
 6 flexible
 7 offsets that a transaction may yet change can be refused
 8 several groups at once, in structs of their own
 9 member and epoch, for the new group protocol
== ===========================================================
"""

from typing import Annotated

from pylogbroker.wire.schema import (
    IGNORABLE,
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
    Versions,
    fresh,
    struct,
)


@struct
class OffsetFetchRequestTopic:
    """The partitions asked about, below version 8."""

    name: String = ""
    partition_indexes: list[Int32] = fresh(list)


@struct
class OffsetFetchRequestTopics:
    """The partitions asked about, from version 8 on."""

    name: String = ""
    partition_indexes: list[Int32] = fresh(list)


@struct
class OffsetFetchRequestGroup:
    """A group asked about.  Null `topics` means all that it has committed."""

    group_id: String = ""
    member_id: Annotated[String | None, Since(9), IGNORABLE] = None
    member_epoch: Annotated[Int32, Since(9), IGNORABLE] = -1
    topics: list[OffsetFetchRequestTopics] | None = fresh(list)


@struct
class OffsetFetchRequest(Request):
    """What to look up: `group_id` and `topics` below version 8, `groups` from then on."""

    api_key = 9
    versions = Versions(0, 9, flexible=6)

    group_id: Annotated[String, Until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Until(7), NullableSince(2)] = fresh(list)
    groups: Annotated[list[OffsetFetchRequestGroup], Since(8)] = fresh(list)
    require_stable: Annotated[Boolean, Since(7)] = False


@struct
class OffsetFetchResponsePartition:
    """One committed offset, below version 8; -1 if there is none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(5), IGNORABLE] = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    """One topic's offsets, below version 8."""

    name: String = ""
    partitions: list[OffsetFetchResponsePartition] = fresh(list)


@struct
class OffsetFetchResponsePartitions:
    """One committed offset, from version 8 on; -1 if there is none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    """One topic's offsets, from version 8 on."""

    name: String = ""
    partitions: list[OffsetFetchResponsePartitions] = fresh(list)


@struct
class OffsetFetchResponseGroup:
    """One group's offsets."""

    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = fresh(list)
    error_code: Int16 = 0


@struct
class OffsetFetchResponse(Response):
    """What is committed: in `topics` below version 8, in `groups` from then on."""

    api_key = 9
    versions = Versions(0, 9, flexible=6)

    throttle_time_ms: Annotated[Int32, Since(3), IGNORABLE] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Until(7)] = fresh(list)
    error_code: Annotated[Int16, Since(2), Until(7), IGNORABLE] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Since(8)] = fresh(list)
