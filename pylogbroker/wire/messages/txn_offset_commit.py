"""TxnOffsetCommit (key 28): how far a group has consumed, to be true once the producer's transaction is committed.

= =============================================================
0 the producer and the offsets
1 a throttled response is sent before the pause, not after it
2 leader epochs
3 the group's generation and member; flexible
4 the error TRANSACTION_ABORTABLE
= =============================================================
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
class TxnOffsetCommitRequestPartition:
    """The offset to commit for one partition: that of the next record to consume."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(2), IGNORABLE] = -1
    committed_metadata: String | None = None


@struct
class TxnOffsetCommitRequestTopic:
    """The offsets to commit for one topic."""

    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = fresh(list)


@struct
class TxnOffsetCommitRequest(Request):
    """The offsets to commit.  Without membership, the generation is -1 and the member id empty."""

    api_key = 28
    versions = Versions(0, 4, flexible=3)

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, Since(3)] = -1
    member_id: Annotated[String, Since(3)] = ""
    group_instance_id: Annotated[String | None, Since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = fresh(list)


@struct
class TxnOffsetCommitResponsePartition:
    """Whether one offset was taken."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    """Whether the offsets of one topic were taken."""

    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = fresh(list)


@struct
class TxnOffsetCommitResponse(Response):
    """Whether the offsets were taken."""

    api_key = 28
    versions = Versions(0, 4, flexible=3)

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = fresh(list)
