"""ConsumerGroupHeartbeat (key 68): join a group of KIP-848, follow its assignment, and leave it.

Versions::

    0  the coordinator may give the member its id
    1  the client makes the id; `subscribed_topic_regex`
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    NO_ID,
    ErrorText,
    Int16,
    Int32,
    Request,
    Response,
    Since,
    String,
    Uuid,
    fresh,
    struct,
)


@struct
class OwnedTopicPartitions:
    topic_id: Uuid = NO_ID
    partitions: list[Int32] = fresh(list)


@struct
class ConsumerGroupHeartbeatRequest(Request):
    """The epoch is 0 to join, -1 to leave, -2 to leave for a moment. Null, and a timeout of -1, mean "as before"."""

    api_key, versions = APIS["consumer_group_heartbeat"]

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: Annotated[String | None, Since(1)] = None
    server_assignor: String | None = None
    topic_partitions: list[OwnedTopicPartitions] | None = None


@struct
class HeartbeatAssignment:
    topic_partitions: list[OwnedTopicPartitions] = fresh(list)


@struct
class ConsumerGroupHeartbeatResponse(Response):
    """`assignment` is null if it has not changed."""

    api_key, versions = APIS["consumer_group_heartbeat"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: HeartbeatAssignment | None = None
