"""LeaderAndIsr (key 4): the controller's orders to a broker: which partitions to lead and which to follow.

Versions::

    0  each partition names its topic
    1  `is_new`; error KAFKA_STORAGE_ERROR
    2  partitions by topic; `broker_epoch` (KIP-380)
    3  `adding_replicas`, `removing_replicas` (KIP-455)
    4  flexible
    5  topic ids, and `type`; the response names topics by id (KIP-516)
    6  `leader_recovery_state` (KIP-704)
    7  `is_kraft_controller` (KIP-866)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Boolean,
    ClusterRequest,
    Int8,
    Int16,
    Int32,
    Int64,
    Response,
    Since,
    String,
    Until,
    Uuid,
    fresh,
    struct,
)


@struct
class LeaderAndIsrPartitionState:
    """State of a partition, and the epoch of the controller that decided it.

    `is_new` allows the broker to create the log. `leader_recovery_state` is 1 after an unclean election.
    """

    topic_name: Annotated[String, Until(1), IGNORABLE] = ""
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = fresh(list)
    partition_epoch: Int32 = 0
    replicas: list[Int32] = fresh(list)
    adding_replicas: Annotated[list[Int32], Since(3), IGNORABLE] = fresh(list)
    removing_replicas: Annotated[list[Int32], Since(3), IGNORABLE] = fresh(list)
    is_new: Annotated[Boolean, Since(1), IGNORABLE] = False
    leader_recovery_state: Annotated[Int8, Since(6)] = 0


@struct
class LeaderAndIsrTopicState:
    topic_name: String = ""
    topic_id: Annotated[Uuid, Since(5), IGNORABLE] = NO_ID
    partition_states: list[LeaderAndIsrPartitionState] = fresh(list)


@struct
class LeaderAndIsrLiveLeader:
    """Leader and its address on the listener between brokers."""

    broker_id: Int32 = 0
    host_name: String = ""
    port: Int32 = 0


@struct
class LeaderAndIsrRequest(ClusterRequest):
    """`type` is 0 from a controller in ZooKeeper mode; 2 means that all partitions of the broker are listed."""

    api_key, versions = APIS["leader_and_isr"]

    controller_id: Int32 = 0
    is_kraft_controller: Annotated[Boolean, Since(7)] = False
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, Since(2), IGNORABLE] = -1
    type: Annotated[Int8, Since(5)] = 0
    ungrouped_partition_states: Annotated[list[LeaderAndIsrPartitionState], Until(1)] = fresh(list)
    topic_states: Annotated[list[LeaderAndIsrTopicState], Since(2)] = fresh(list)
    live_leaders: list[LeaderAndIsrLiveLeader] = fresh(list)


@struct
class LeaderAndIsrPartitionError:
    topic_name: Annotated[String, Until(4), IGNORABLE] = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class LeaderAndIsrTopicError:
    topic_id: Uuid = NO_ID
    partition_errors: list[LeaderAndIsrPartitionError] = fresh(list)


@struct
class LeaderAndIsrResponse(Response):
    api_key, versions = APIS["leader_and_isr"]

    error_code: Int16 = 0
    partition_errors: Annotated[list[LeaderAndIsrPartitionError], Until(4)] = fresh(list)
    topics: Annotated[list[LeaderAndIsrTopicError], Since(5)] = fresh(list)
