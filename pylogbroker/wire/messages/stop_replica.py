"""StopReplica (key 5): the controller's order to stop replicas, and to delete them if it says so.

Versions::

    0  one list of partitions; `delete_partitions` for all
    1  partitions by topic; `broker_epoch` (KIP-380)
    2  flexible
    3  leader epoch and `delete_partition` for each partition; error FENCED_LEADER_EPOCH (KIP-570)
    4  `is_kraft_controller` (KIP-866)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Boolean,
    ClusterRequest,
    Int16,
    Int32,
    Int64,
    Response,
    Since,
    String,
    Until,
    fresh,
    struct,
)


@struct
class StopReplicaPartitionV0:
    topic_name: String = ""
    partition_index: Int32 = 0


@struct
class StopReplicaTopicV1:
    name: String = ""
    partition_indexes: list[Int32] = fresh(list)


@struct
class StopReplicaPartitionState:
    """`leader_epoch` is -2 if the topic is deleted, -1 if it is unknown; neither is compared."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = -1
    delete_partition: Boolean = False


@struct
class StopReplicaTopicState:
    topic_name: String = ""
    partition_states: list[StopReplicaPartitionState] = fresh(list)


@struct
class StopReplicaRequest(ClusterRequest):
    api_key, versions = APIS["stop_replica"]

    controller_id: Int32 = 0
    is_kraft_controller: Annotated[Boolean, Since(4)] = False
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, Since(1), IGNORABLE] = -1
    delete_partitions: Annotated[Boolean, Until(2)] = False
    ungrouped_partitions: Annotated[list[StopReplicaPartitionV0], Until(0)] = fresh(list)
    topics: Annotated[list[StopReplicaTopicV1], Since(1), Until(2)] = fresh(list)
    topic_states: Annotated[list[StopReplicaTopicState], Since(3)] = fresh(list)


@struct
class StopReplicaPartitionError:
    topic_name: String = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class StopReplicaResponse(Response):
    api_key, versions = APIS["stop_replica"]

    error_code: Int16 = 0
    partition_errors: list[StopReplicaPartitionError] = fresh(list)
