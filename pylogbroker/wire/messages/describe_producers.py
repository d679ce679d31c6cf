"""DescribeProducers (key 61): producers of a partition and their open transactions."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    ErrorText,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    fresh,
    struct,
)


@struct
class TopicRequest:
    name: String = ""
    partition_indexes: list[Int32] = fresh(list)


@struct
class DescribeProducersRequest(Request):
    api_key, versions = APIS["describe_producers"]

    topics: list[TopicRequest] = fresh(list)


@struct
class ProducerState:
    """Missing values are -1."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    active_producers: list[ProducerState] = fresh(list)


@struct
class TopicResponse:
    name: String = ""
    partitions: list[PartitionResponse] = fresh(list)


@struct
class DescribeProducersResponse(Response):
    """Topics in the order of the request."""

    api_key, versions = APIS["describe_producers"]

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = fresh(list)
