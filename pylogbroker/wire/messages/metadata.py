"""Metadata (key 3): brokers, topics, partitions and leaders.

Versions::

     0  an empty list means all topics
     1  null means all topics; racks, controller, internal topics
     2  the cluster's id
     3  `throttle_time_ms`
     4  `allow_auto_topic_creation`
     5  offline replicas
     6  KIP-219 throttling
     7  leader epochs
     8  authorised operations, if requested
     9  flexible
    10  topic ids
    11  no authorised operations of the cluster (see DescribeCluster)
    12  topics by id alone
    13  the response has an error of its own (KIP-1102)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    NOT_ASKED,
    Boolean,
    Int16,
    Int32,
    NullableSince,
    Request,
    Response,
    Since,
    String,
    Until,
    Uuid,
    fresh,
    struct,
)


@struct
class MetadataRequestTopic:
    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_ID
    name: Annotated[String | None, NullableSince(10)] = ""


@struct
class MetadataRequest(Request):
    """Null `topics` means all topics."""

    api_key, versions = APIS["metadata"]

    topics: Annotated[list[MetadataRequestTopic] | None, NullableSince(1)] = fresh(list)
    allow_auto_topic_creation: Annotated[Boolean, Since(4)] = True
    include_cluster_authorized_operations: Annotated[Boolean, Since(8), Until(10)] = False
    include_topic_authorized_operations: Annotated[Boolean, Since(8)] = False


@struct
class MetadataResponseBroker:
    """Address on the listener asked."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, Since(1), IGNORABLE] = None


@struct
class MetadataResponsePartition:
    """Leader -1 means none."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, Since(7), IGNORABLE] = -1
    replica_nodes: list[Int32] = fresh(list)
    isr_nodes: list[Int32] = fresh(list)
    offline_replicas: Annotated[list[Int32], Since(5), IGNORABLE] = fresh(list)


@struct
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: Annotated[String | None, NullableSince(12)] = ""
    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_ID
    is_internal: Annotated[Boolean, Since(1), IGNORABLE] = False
    partitions: list[MetadataResponsePartition] = fresh(list)
    topic_authorized_operations: Annotated[Int32, Since(8)] = NOT_ASKED


@struct
class MetadataResponse(Response):
    api_key, versions = APIS["metadata"]

    throttle_time_ms: Annotated[Int32, Since(3), IGNORABLE] = 0
    brokers: list[MetadataResponseBroker] = fresh(list)
    cluster_id: Annotated[String | None, Since(2), IGNORABLE] = None
    controller_id: Annotated[Int32, Since(1), IGNORABLE] = -1
    topics: list[MetadataResponseTopic] = fresh(list)
    cluster_authorized_operations: Annotated[Int32, Since(8), Until(10)] = NOT_ASKED
    error_code: Annotated[Int16, Since(13), IGNORABLE] = 0
