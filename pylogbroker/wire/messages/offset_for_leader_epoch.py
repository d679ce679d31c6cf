"""OffsetForLeaderEpoch (key 23): where an epoch ends in the log, to find out where two logs part.

== =============================================================================
 0 the end offset
 1 the response has the epoch found
 2 the leader epoch that the asker believes in; the response has a throttle time
 3 who asks
 4 flexible
== =============================================================================
"""

from typing import Annotated

from pylogbroker.wire.schema import (
    IGNORABLE,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Versions,
    fresh,
    struct,
)


@struct
class OffsetForLeaderPartition:
    """The epoch to look up in one partition."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(2), IGNORABLE] = -1
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic:
    """The epochs to look up in one topic."""

    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = fresh(list)


@struct
class OffsetForLeaderEpochRequest(Request):
    """The epochs to look up.  `replica_id` is -1 for a consumer, -2 for a debugging one."""

    api_key = 23
    versions = Versions(0, 4, flexible=4)

    replica_id: Annotated[Int32, Since(3), IGNORABLE] = -2
    topics: list[OffsetForLeaderTopic] = fresh(list)


@struct
class EpochEndOffset:
    """The largest epoch not above the one asked for, and where it ends."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, Since(1), IGNORABLE] = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    """The ends of epochs in one topic."""

    topic: String = ""
    partitions: list[EpochEndOffset] = fresh(list)


@struct
class OffsetForLeaderEpochResponse(Response):
    """The ends of epochs."""

    api_key = 23
    versions = Versions(0, 4, flexible=4)

    throttle_time_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    topics: list[OffsetForLeaderTopicResult] = fresh(list)
