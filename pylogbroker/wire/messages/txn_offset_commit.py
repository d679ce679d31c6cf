"""TxnOffsetCommit (key 28): commit a group's offsets as part of a transaction.

Versions::

    0  the producer and the offsets
    1  KIP-219 throttling
    2  leader epochs
    3  generation and member; flexible
    4  TRANSACTION_ABORTABLE replaces INVALID_TXN_STATE
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
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
    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = fresh(list)


@struct
class TxnOffsetCommitRequest(Request):
    """Without membership, the generation is -1 and the member id empty."""

    api_key, versions = APIS["txn_offset_commit"]

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
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = fresh(list)


@struct
class TxnOffsetCommitResponse(Response):
    api_key, versions = APIS["txn_offset_commit"]

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = fresh(list)
