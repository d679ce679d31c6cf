"""AlterPartition (key 56): a leader asks the controller to change the ISR of its partitions (KIP-497).

Versions::

    0  flexible
    1  `leader_recovery_state` (KIP-704)
    2  topic ids replace names; errors INELIGIBLE_REPLICA, NEW_LEADER_ELECTED, UNKNOWN_TOPIC_ID (KIP-841)
    3  `new_isr_with_epochs` replaces `new_isr` (KIP-903)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
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
class AlterPartitionBrokerState:
    """Member of the new ISR, and the epoch that its fetches carried; Kafka sends -1 in ZooKeeper mode."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@struct
class AlterPartitionData:
    """New ISR, and the partition epoch that it replaces: the version of the znode in ZooKeeper mode."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: Annotated[list[Int32], Until(2)] = fresh(list)
    new_isr_with_epochs: Annotated[list[AlterPartitionBrokerState], Since(3)] = fresh(list)
    leader_recovery_state: Annotated[Int8, Since(1)] = 0
    partition_epoch: Int32 = 0


@struct
class AlterPartitionTopicData:
    topic_name: Annotated[String, Until(1), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(2), IGNORABLE] = NO_ID
    partitions: list[AlterPartitionData] = fresh(list)


@struct
class AlterPartitionRequest(ClusterRequest):
    api_key, versions = APIS["alter_partition"]

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[AlterPartitionTopicData] = fresh(list)


@struct
class AlterPartitionDataResponse:
    """State of the partition after the change."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = fresh(list)
    leader_recovery_state: Annotated[Int8, Since(1), IGNORABLE] = 0
    partition_epoch: Int32 = 0


@struct
class AlterPartitionTopicResponse:
    topic_name: Annotated[String, Until(1), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(2), IGNORABLE] = NO_ID
    partitions: list[AlterPartitionDataResponse] = fresh(list)


@struct
class AlterPartitionResponse(Response):
    api_key, versions = APIS["alter_partition"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[AlterPartitionTopicResponse] = fresh(list)
