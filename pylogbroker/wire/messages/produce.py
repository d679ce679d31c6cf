"""Produce (key 0): batches of records to append, and where they went.

== ==================================================================
 0 messages in format v0
 1 the response has a throttle time
 2 messages in format v1; the response has the time of appending
 3 record batches (format v2); the transactional id
 4 the storage error KAFKA_STORAGE_ERROR may be answered
 5 the response has the log's start offset
 6 a throttled response is sent before the pause, not after it
 7 batches may be compressed with zstd
 8 the response says which records of a batch were at fault
 9 flexible
10 the response names the new leader and its address
11 as version 10; a transaction may be answered TRANSACTION_ABORTABLE
== ==================================================================
"""

from typing import Annotated

from pylogbroker.wire.schema import (
    IGNORABLE,
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
    Versions,
    fresh,
    frozen_struct,
    struct,
)


@struct
class PartitionProduceData:
    """The records for one partition."""

    index: Int32 = 0
    records: Records | None = None


@struct
class TopicProduceData:
    """The records for one topic."""

    name: String = ""
    partition_data: list[PartitionProduceData] = fresh(list)


@struct
class ProduceRequest(Request):
    """Records to append.  With `acks` 0 there is no response; 1 waits for the leader, -1 for all in sync."""

    api_key = 0
    versions = Versions(0, 11, flexible=9)

    transactional_id: Annotated[String | None, Since(3)] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = fresh(list)


@struct
class BatchIndexAndErrorMessage:
    """A record at fault: its index in the batch, and why."""

    batch_index: Int32 = 0
    batch_index_error_message: ErrorText | None = None


@frozen_struct
class LeaderIdAndEpoch:
    """Who leads the partition now, if it is not the broker asked."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class PartitionProduceResponse:
    """What became of the records for one partition.  `log_append_time_ms` is -1 under CreateTime."""

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
    """What became of the records for one topic."""

    name: String = ""
    partition_responses: list[PartitionProduceResponse] = fresh(list)


@struct
class NodeEndpoint:
    """The address of a broker that some `current_leader` names."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@struct
class ProduceResponse(Response):
    """What became of the records."""

    api_key = 0
    versions = Versions(0, 11, flexible=9)

    responses: list[TopicProduceResponse] = fresh(list)
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    node_endpoints: Annotated[list[NodeEndpoint], Since(10), Tag(0)] = fresh(list)
