"""ShareGroupHeartbeat (key 76): join a share group, follow its assignment, and leave it."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    NO_ID,
    ErrorText,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Uuid,
    fresh,
    struct,
)


@struct
class ShareGroupHeartbeatRequest(Request):
    """The epoch is 0 to join, -1 to leave. Null topics mean "as before"."""

    api_key, versions = APIS["share_group_heartbeat"]

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: list[String] | None = None


@struct
class ShareTopicPartitions:
    topic_id: Uuid = NO_ID
    partitions: list[Int32] = fresh(list)


@struct
class ShareAssignment:
    topic_partitions: list[ShareTopicPartitions] = fresh(list)


@struct
class ShareGroupHeartbeatResponse(Response):
    """`assignment` is null if it has not changed."""

    api_key, versions = APIS["share_group_heartbeat"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ShareAssignment | None = None
