"""DescribeTopicPartitions (key 75): topics, page by page."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    NO_ID,
    NOT_ASKED,
    Boolean,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Uuid,
    fresh,
    frozen_struct,
    struct,
)


@struct
class TopicRequest:
    name: String = ""


@frozen_struct
class Cursor:
    """Start of the next page."""

    topic_name: String = ""
    partition_index: Int32 = 0


@struct
class DescribeTopicPartitionsRequest(Request):
    """No topics means all topics."""

    api_key, versions = APIS["describe_topic_partitions"]

    topics: list[TopicRequest] = fresh(list)
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = fresh(list)
    isr_nodes: list[Int32] = fresh(list)
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = fresh(list)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = NO_ID
    is_internal: Boolean = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = fresh(list)
    topic_authorized_operations: Int32 = NOT_ASKED


@struct
class DescribeTopicPartitionsResponse(Response):
    """`next_cursor` is null on the last page."""

    api_key, versions = APIS["describe_topic_partitions"]

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = fresh(list)
    next_cursor: Cursor | None = None
