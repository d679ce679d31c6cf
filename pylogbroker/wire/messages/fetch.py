"""Fetch (key 1): the log from an offset on, for consumers and followers.

== =========================================================================================
 0 messages in format v0
 1 the response has a throttle time
 2 messages up to format v1
 3 a limit in bytes for the whole response; partitions are served in the order asked
 4 record batches (format v2); isolation level, aborted transactions, the last stable offset
 5 the log's start offset, both ways
 6 as version 5; KAFKA_STORAGE_ERROR may be answered
 7 fetch sessions: only changes are sent
 8 a throttled response is sent before the pause, not after it
 9 the leader epoch that the fetcher believes in
10 batches may be compressed with zstd
11 the fetcher's rack, and the replica it should rather read from
12 flexible; the epoch of the last record fetched, and where logs diverge
13 topics are named by their ids
14 as version 13; OFFSET_MOVED_TO_TIERED_STORAGE may be answered
15 the follower's id moves into `replica_state`, with its broker epoch
16 the response has the addresses of new leaders
17 the follower's directory id
== =========================================================================================
"""

from typing import Annotated

from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Int8,
    Int16,
    Int32,
    Int64,
    RecordsChunk,
    Request,
    Response,
    Since,
    String,
    Tag,
    Until,
    Uuid,
    Versions,
    fresh,
    frozen_struct,
    struct,
)


@frozen_struct
class ReplicaState:
    """Which follower fetches, and its broker epoch."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    """From where on, and how much, to read of one partition."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(9), IGNORABLE] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, Since(12)] = -1
    log_start_offset: Annotated[Int64, Since(5), IGNORABLE] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, Since(17), Tag(0), IGNORABLE] = NO_ID


@struct
class FetchTopic:
    """The partitions to read of one topic."""

    topic: Annotated[String, Until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_ID
    partitions: list[FetchPartition] = fresh(list)


@struct
class ForgottenTopic:
    """Partitions that leave the session."""

    topic: Annotated[String, Until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_ID
    partitions: list[Int32] = fresh(list)


@struct
class FetchRequest(Request):
    """What to read.  `replica_id` (from version 15 on in `replica_state`) is -1 for a consumer."""

    api_key = 1
    versions = Versions(0, 17, flexible=12)

    cluster_id: Annotated[String | None, Since(12), Tag(0), IGNORABLE] = None
    replica_id: Annotated[Int32, Until(14)] = -1
    replica_state: Annotated[ReplicaState, Since(15), Tag(1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, Since(3), IGNORABLE] = 0x7FFFFFFF
    isolation_level: Annotated[Int8, Since(4), IGNORABLE] = 0
    session_id: Annotated[Int32, Since(7), IGNORABLE] = 0
    session_epoch: Annotated[Int32, Since(7), IGNORABLE] = -1
    topics: list[FetchTopic] = fresh(list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], Since(7)] = fresh(list)
    rack_id: Annotated[String, Since(11), IGNORABLE] = ""


@frozen_struct
class EpochEndOffset:
    """The largest epoch up to which the logs agree, and where it ends."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@frozen_struct
class LeaderIdAndEpoch:
    """Who leads the partition now, as far as known."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@frozen_struct
class SnapshotId:
    """The snapshot to fetch instead, where the log no longer reaches back."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    """An aborted transaction: from `first_offset` on, records of this producer are not to be seen."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


@struct
class PartitionData:
    """What was read of one partition.  `records` is sent as it is, be it bytes or a region of a file."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, Since(4), IGNORABLE] = -1
    log_start_offset: Annotated[Int64, Since(5), IGNORABLE] = -1
    diverging_epoch: Annotated[EpochEndOffset, Since(12), Tag(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, Since(12), Tag(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, Since(12), Tag(2)] = SnapshotId()
    aborted_transactions: Annotated[list[AbortedTransaction] | None, Since(4), IGNORABLE] = fresh(list)
    preferred_read_replica: Annotated[Int32, Since(11)] = -1
    records: RecordsChunk | None = None


@struct
class FetchableTopicResponse:
    """What was read of one topic."""

    topic: Annotated[String, Until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_ID
    partitions: list[PartitionData] = fresh(list)


@struct
class NodeEndpoint:
    """The address of a broker that some `current_leader` names."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@struct
class FetchResponse(Response):
    """What was read.  A `session_id` of 0 says that there is no session."""

    api_key = 1
    versions = Versions(0, 17, flexible=12)

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Annotated[Int16, Since(7), IGNORABLE] = 0
    session_id: Annotated[Int32, Since(7)] = 0
    responses: list[FetchableTopicResponse] = fresh(list)
    node_endpoints: Annotated[list[NodeEndpoint], Since(16), Tag(0)] = fresh(list)
