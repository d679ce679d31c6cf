"""UpdateMetadata (key 6): the controller's news for a broker's image: changed partitions, and all live brokers.

Versions::

    0  each partition names its topic; one address for each broker
    1  several endpoints for each broker
    2  racks
    3  listener names
    4  `offline_replicas`
    5  partitions by topic; `broker_epoch` (KIP-380)
    6  flexible
    7  topic ids (KIP-516)
    8  `is_kraft_controller`, `type` (KIP-866)
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
    Tag,
    Until,
    Uuid,
    fresh,
    struct,
)


@struct
class UpdateMetadataPartitionState:
    """State of a partition. The leader is -1 if there is none, -2 if the topic is deleted."""

    topic_name: Annotated[String, Until(4), IGNORABLE] = ""
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = fresh(list)
    zk_version: Int32 = 0
    replicas: list[Int32] = fresh(list)
    offline_replicas: Annotated[list[Int32], Since(4), IGNORABLE] = fresh(list)


@struct
class UpdateMetadataTopicState:
    topic_name: String = ""
    topic_id: Annotated[Uuid, Since(7), IGNORABLE] = NO_ID
    partition_states: list[UpdateMetadataPartitionState] = fresh(list)


@struct
class UpdateMetadataEndpoint:
    """Address of a listener; `security_protocol` is 0 for PLAINTEXT."""

    port: Int32 = 0
    host: String = ""
    listener: Annotated[String, Since(3), IGNORABLE] = ""
    security_protocol: Int16 = 0


@struct
class UpdateMetadataBroker:
    id: Int32 = 0
    v0_host: Annotated[String, Until(0), IGNORABLE] = ""
    v0_port: Annotated[Int32, Until(0), IGNORABLE] = 0
    endpoints: Annotated[list[UpdateMetadataEndpoint], Since(1), IGNORABLE] = fresh(list)
    rack: Annotated[String | None, Since(2), IGNORABLE] = None


@struct
class UpdateMetadataRequest(ClusterRequest):
    """`live_brokers` replaces the known ones; partitions that are not listed stay as they are.

    `type` is 0 from a controller in ZooKeeper mode.
    """

    api_key, versions = APIS["update_metadata"]

    controller_id: Int32 = 0
    is_kraft_controller: Annotated[Boolean, Since(8)] = False
    type: Annotated[Int8, Since(8), Tag(0)] = 0
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, Since(5), IGNORABLE] = -1
    ungrouped_partition_states: Annotated[list[UpdateMetadataPartitionState], Until(4)] = fresh(list)
    topic_states: Annotated[list[UpdateMetadataTopicState], Since(5)] = fresh(list)
    live_brokers: list[UpdateMetadataBroker] = fresh(list)


@struct
class UpdateMetadataResponse(Response):
    api_key, versions = APIS["update_metadata"]

    error_code: Int16 = 0
