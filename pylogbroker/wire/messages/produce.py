"""Produce (key 0): append record batches.

Versions::

     0  messages in format v0
     1  `throttle_time_ms`
     2  messages in format v1; `log_append_time_ms`
     3  record batches (format v2); the transactional id
     4  error KAFKA_STORAGE_ERROR
     5  `log_start_offset` in the response
     6  KIP-219 throttling
     7  batches may be compressed with zstd
     8  `record_errors` (KIP-467)
     9  flexible
    10  the new leader and its address (KIP-951)
    11  error TRANSACTION_ABORTABLE
    12  in a transaction, partitions are added to it (KIP-890)
    13  topic ids replace names (KIP-516)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Before,
    ErrorText,
    Int16,
    Int32,
    Int64,
    Records,
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


@struct
class PartitionProduceData:
    index: Int32 = 0
    records: Records | None = None


@struct
class TopicProduceData:
    name: Annotated[String, Until(12), IGNORABLE] = ""
    partition_data: list[PartitionProduceData] = fresh(list)
    topic_id: Annotated[Uuid, Since(13), IGNORABLE, Before("partition_data")] = NO_ID


@struct
class ProduceRequest(Request):
    """`acks` 0: no response; 1: the leader has the records; -1: all in-sync replicas have them."""

    api_key, versions = APIS["produce"]

    transactional_id: Annotated[String | None, Since(3)] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = fresh(list)


@struct
class BatchIndexAndErrorMessage:
    """Invalid record: its index in the batch, and the reason."""

    batch_index: Int32 = 0
    batch_index_error_message: ErrorText | None = None


@frozen_struct
class LeaderIdAndEpoch:
    """Current leader, if it is another broker."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class PartitionProduceResponse:
    """`log_append_time_ms` is -1 with CreateTime."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, Since(2), IGNORABLE] = -1
    log_start_offset: Annotated[Int64, Since(5), IGNORABLE] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], Since(8), IGNORABLE] = fresh(list)
    error_message: Annotated[ErrorText | None, Since(8), IGNORABLE] = None
    current_leader: Annotated[LeaderIdAndEpoch, Since(10), Tag(0)] = LeaderIdAndEpoch()


@struct
class TopicProduceResponse:
    name: Annotated[String, Until(12), IGNORABLE] = ""
    partition_responses: list[PartitionProduceResponse] = fresh(list)
    topic_id: Annotated[Uuid, Since(13), IGNORABLE, Before("partition_responses")] = NO_ID


@struct
class NodeEndpoint:
    """Broker named in a `current_leader`."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@struct
class ProduceResponse(Response):
    api_key, versions = APIS["produce"]

    responses: list[TopicProduceResponse] = fresh(list)
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    node_endpoints: Annotated[list[NodeEndpoint], Since(10), Tag(0)] = fresh(list)
