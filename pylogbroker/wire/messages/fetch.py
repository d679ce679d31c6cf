"""Fetch (key 1): read logs, for consumers and followers.

Versions::

     0  messages in format v0
     1  `throttle_time_ms`
     2  messages up to format v1
     3  `max_bytes` for the whole response; partitions in the order asked
     4  record batches (format v2); isolation level, aborted transactions, the last stable offset
     5  `log_start_offset`, both ways
     6  error KAFKA_STORAGE_ERROR
     7  fetch sessions (KIP-227)
     8  KIP-219 throttling
     9  `current_leader_epoch` (KIP-320)
    10  batches may be compressed with zstd
    11  the consumer's rack, and the preferred replica to read from (KIP-392)
    12  flexible; last fetched epoch, diverging epoch (KIP-595)
    13  topic ids replace names (KIP-516)
    14  error OFFSET_MOVED_TO_TIERED_STORAGE
    15  `replica_state` replaces `replica_id`
    16  addresses of new leaders (KIP-951)
    17  the follower's directory id
    18  the high watermark that the follower knows (KIP-1166)
"""

from typing import Annotated, Final

from pylogbroker.wire.api_table import APIS
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
    fresh,
    frozen_struct,
    struct,
)

NO_HIGH_WATERMARK: Final = (1 << 63) - 1
"""In a request: without the high watermark that the sender knows; -1 stands for none known."""


@frozen_struct
class ReplicaState:
    """Follower that fetches, and its broker epoch."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(9), IGNORABLE] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, Since(12)] = -1
    log_start_offset: Annotated[Int64, Since(5), IGNORABLE] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, Since(17), Tag(0), IGNORABLE] = NO_ID
    high_watermark: Annotated[Int64, Since(18), Tag(1), IGNORABLE] = NO_HIGH_WATERMARK


@struct
class FetchTopic:
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
    """`replica_id` (from version 15 on in `replica_state`) is -1 for a consumer."""

    api_key, versions = APIS["fetch"]

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
    """Largest epoch up to which the logs agree, and its end."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@frozen_struct
class LeaderIdAndEpoch:
    """Current leader, as far as known."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@frozen_struct
class SnapshotId:
    """Snapshot to fetch instead, if the log begins too late."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    """Records of this producer from `first_offset` to its abort marker must be skipped."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


@struct
class PartitionData:
    """`records` is sent as is: bytes, or a region of a file."""

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
    topic: Annotated[String, Until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_ID
    partitions: list[PartitionData] = fresh(list)


@struct
class NodeEndpoint:
    """Broker named in a `current_leader`."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@struct
class FetchResponse(Response):
    """`session_id` 0 means no session."""

    api_key, versions = APIS["fetch"]

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Annotated[Int16, Since(7), IGNORABLE] = 0
    session_id: Annotated[Int32, Since(7)] = 0
    responses: list[FetchableTopicResponse] = fresh(list)
    node_endpoints: Annotated[list[NodeEndpoint], Since(16), Tag(0)] = fresh(list)
