"""TxnOffsetCommit (key 28): commit a group's offsets as part of a transaction.

Versions::

    0  the producer and the offsets
    1  KIP-219 throttling
    2  leader epochs
    3  generation and member; flexible
    4  TRANSACTION_ABORTABLE replaces INVALID_TXN_STATE
    5  the partition of the group's offsets is added to the transaction (KIP-890)
    6  topic ids replace names (KIP-1319)
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
class TxnOffsetCommitRequestPartition:
    """`committed_offset` is the offset of the next record to consume."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(2), IGNORABLE] = -1
    committed_metadata: String | None = None


@struct
class TxnOffsetCommitRequestTopic:
    name: Annotated[String, Until(5), IGNORABLE] = ""
    partitions: list[TxnOffsetCommitRequestPartition] = fresh(list)
    topic_id: Annotated[Uuid, Since(6), IGNORABLE, Before("partitions")] = NO_ID


@struct
class TxnOffsetCommitRequest(Request):
    """Without membership, the generation is -1 and the member id empty."""

    api_key, versions = APIS["txn_offset_commit"]

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Annotated[Int32, Since(3)] = -1
    member_id: Annotated[String, Since(3)] = ""
    group_instance_id: Annotated[String | None, Since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = fresh(list)


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    name: Annotated[String, Until(5), IGNORABLE] = ""
    partitions: list[TxnOffsetCommitResponsePartition] = fresh(list)
    topic_id: Annotated[Uuid, Since(6), IGNORABLE, Before("partitions")] = NO_ID


@struct
class TxnOffsetCommitResponse(Response):
    api_key, versions = APIS["txn_offset_commit"]

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = fresh(list)
