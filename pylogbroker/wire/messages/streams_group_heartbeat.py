"""StreamsGroupHeartbeat (key 88): join a group of Kafka Streams, follow its assignment, and leave it.

0   KIP-1071
1   acceptable recovery lag as int64 (it was an int32 that nobody read); topology descriptions (KIP-1331)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Boolean,
    ErrorText,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Until,
    fresh,
    struct,
)
from pylogbroker.wire.streams_topology import (
    StreamsEndpoint,
    StreamsKeyValue,
    StreamsSubtopology,
    StreamsTaskIds,
    StreamsTaskOffset,
)


@struct
class HeartbeatTopology:
    epoch: Int32 = 0
    subtopologies: list[StreamsSubtopology] = fresh(list)


@struct
class StreamsGroupHeartbeatRequest(Request):
    """The epoch is 0 to join, -1 to leave, -2 for a static member to leave for a moment. Null is "as before"."""

    api_key, versions = APIS["streams_group_heartbeat"]

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: HeartbeatTopology | None = None
    active_tasks: list[StreamsTaskIds] | None = None
    standby_tasks: list[StreamsTaskIds] | None = None
    warmup_tasks: list[StreamsTaskIds] | None = None
    process_id: String | None = None
    user_endpoint: StreamsEndpoint | None = None
    client_tags: list[StreamsKeyValue] | None = None
    task_offsets: list[StreamsTaskOffset] | None = None
    task_end_offsets: list[StreamsTaskOffset] | None = None
    shutdown_application: Boolean = False


@struct
class StreamsStatus:
    status_code: Int8 = 0
    status_detail: String = ""


@struct
class StreamsTopicPartitions:
    topic: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class EndpointToPartitions:
    user_endpoint: StreamsEndpoint = fresh(StreamsEndpoint)
    active_partitions: list[StreamsTopicPartitions] = fresh(list)
    standby_partitions: list[StreamsTopicPartitions] = fresh(list)


@struct
class StreamsGroupHeartbeatResponse(Response):
    """Tasks are null if they have not changed."""

    api_key, versions = APIS["streams_group_heartbeat"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag_legacy: Annotated[Int32, Until(0)] = 0
    task_offset_interval_ms: Int32 = 0
    acceptable_recovery_lag: Annotated[Int64, Since(1), IGNORABLE] = -1
    status: list[StreamsStatus] | None = fresh(list)
    active_tasks: list[StreamsTaskIds] | None = None
    standby_tasks: list[StreamsTaskIds] | None = None
    warmup_tasks: list[StreamsTaskIds] | None = None
    topology_description_required: Annotated[Boolean, Since(1)] = False
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
