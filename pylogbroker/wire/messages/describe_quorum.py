"""DescribeQuorum (key 55): leader, voters and observers of KRaft's metadata log (KIP-595).

Versions::

    0  flexible
    1  times of the last fetch, and of having been caught up (KIP-836)
    2  error texts, directories and addresses of the controllers (KIP-853)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    ErrorText,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    UInt16,
    Uuid,
    fresh,
    struct,
)


@struct
class QuorumPartition:
    partition_index: Int32 = 0


@struct
class QuorumTopic:
    topic_name: String = ""
    partitions: list[QuorumPartition] = fresh(list)


@struct
class DescribeQuorumRequest(Request):
    api_key, versions = APIS["describe_quorum"]

    topics: list[QuorumTopic] = fresh(list)


@struct
class QuorumReplica:
    """Times are in ms since 1970, -1 if unknown."""

    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, Since(2)] = NO_ID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, Since(1), IGNORABLE] = -1
    last_caught_up_timestamp: Annotated[Int64, Since(1), IGNORABLE] = -1


@struct
class QuorumPartitionState:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[ErrorText | None, Since(2), IGNORABLE] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[QuorumReplica] = fresh(list)
    observers: list[QuorumReplica] = fresh(list)


@struct
class QuorumTopicState:
    topic_name: String = ""
    partitions: list[QuorumPartitionState] = fresh(list)


@struct
class QuorumListener:
    name: String = ""
    host: String = ""
    port: UInt16 = 0


@struct
class QuorumNode:
    node_id: Int32 = 0
    listeners: list[QuorumListener] = fresh(list)


@struct
class DescribeQuorumResponse(Response):
    api_key, versions = APIS["describe_quorum"]

    error_code: Int16 = 0
    error_message: Annotated[ErrorText | None, Since(2), IGNORABLE] = ""
    topics: list[QuorumTopicState] = fresh(list)
    nodes: Annotated[list[QuorumNode], Since(2)] = fresh(list)
