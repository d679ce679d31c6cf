"""ShareFetch (key 78): acquire records of a share group, and acknowledge others.

Versions::

    1  KIP-932
    2  `share_acquire_mode` and acknowledgements that renew (KIP-1206, KIP-1222)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Boolean,
    ErrorText,
    Int8,
    Int16,
    Int32,
    Int64,
    RecordsChunk,
    Request,
    Response,
    Since,
    String,
    Uuid,
    fresh,
    struct,
)


@struct
class AcknowledgementBatch:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = fresh(list)


@struct
class ShareFetchPartition:
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = fresh(list)


@struct
class ShareFetchTopic:
    topic_id: Uuid = NO_ID
    partitions: list[ShareFetchPartition] = fresh(list)


@struct
class ForgottenShareTopic:
    topic_id: Uuid = NO_ID
    partitions: list[Int32] = fresh(list)


@struct
class ShareFetchRequest(Request):
    """The session's epoch is 0 to open it, -1 to close it; a partition that the session has needs no mention."""

    api_key, versions = APIS["share_fetch"]

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Annotated[Int8, Since(2), IGNORABLE] = 0
    is_renew_ack: Annotated[Boolean, Since(2)] = False
    topics: list[ShareFetchTopic] = fresh(list)
    forgotten_topics_data: list[ForgottenShareTopic] = fresh(list)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class AcquiredRange:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


@struct
class ShareFetchPartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: ErrorText | None = None
    current_leader: LeaderIdAndEpoch = fresh(LeaderIdAndEpoch)
    records: RecordsChunk = b""
    acquired_records: list[AcquiredRange] = fresh(list)


@struct
class ShareFetchableTopicResponse:
    topic_id: Uuid = NO_ID
    partitions: list[ShareFetchPartitionData] = fresh(list)


@struct
class NodeEndpoint:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@struct
class ShareFetchResponse(Response):
    """`acquired_records` says which of the records the member may process, and how often it was delivered."""

    api_key, versions = APIS["share_fetch"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareFetchableTopicResponse] = fresh(list)
    node_endpoints: list[NodeEndpoint] = fresh(list)
