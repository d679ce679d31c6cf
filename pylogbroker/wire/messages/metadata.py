"""Metadata (key 3): the cluster's brokers, and its topics' partitions and leaders.

== ==================================================================================================
 0 no topics named means all topics
 1 null means all topics and none means none; the response has racks, the controller, internal topics
 2 the cluster's id
 3 the response has a throttle time
 4 topics may be created on the way, if the request allows it
 5 offline replicas
 6 a throttled response is sent before the pause, not after it
 7 leader epochs
 8 authorised operations, of the cluster and of topics, when asked for
 9 flexible
10 topic ids
11 no more authorised operations of the cluster: DescribeCluster has them
12 topics may be asked for by id alone
== ==================================================================================================
"""

from typing import Annotated

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
    Versions,
    fresh,
    struct,
)


@struct
class MetadataRequestTopic:
    """A topic asked for, by name or by id."""

    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_ID
    name: Annotated[String | None, NullableSince(10)] = ""


@struct
class MetadataRequest(Request):
    """What to tell.  Null `topics` means all of them."""

    api_key = 3
    versions = Versions(0, 12, flexible=9)

    topics: Annotated[list[MetadataRequestTopic] | None, NullableSince(1)] = fresh(list)
    allow_auto_topic_creation: Annotated[Boolean, Since(4)] = True
    include_cluster_authorized_operations: Annotated[Boolean, Since(8), Until(10)] = False
    include_topic_authorized_operations: Annotated[Boolean, Since(8)] = False


@struct
class MetadataResponseBroker:
    """A broker and its address on the listener asked."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, Since(1), IGNORABLE] = None


@struct
class MetadataResponsePartition:
    """A partition: its leader, its replicas and those in sync.  A leader of -1 is none."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, Since(7), IGNORABLE] = -1
    replica_nodes: list[Int32] = fresh(list)
    isr_nodes: list[Int32] = fresh(list)
    offline_replicas: Annotated[list[Int32], Since(5), IGNORABLE] = fresh(list)


@struct
class MetadataResponseTopic:
    """A topic."""

    error_code: Int16 = 0
    name: Annotated[String | None, NullableSince(12)] = ""
    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_ID
    is_internal: Annotated[Boolean, Since(1), IGNORABLE] = False
    partitions: list[MetadataResponsePartition] = fresh(list)
    topic_authorized_operations: Annotated[Int32, Since(8)] = NOT_ASKED


@struct
class MetadataResponse(Response):
    """Brokers and topics."""

    api_key = 3
    versions = Versions(0, 12, flexible=9)

    throttle_time_ms: Annotated[Int32, Since(3), IGNORABLE] = 0
    brokers: list[MetadataResponseBroker] = fresh(list)
    cluster_id: Annotated[String | None, Since(2), IGNORABLE] = None
    controller_id: Annotated[Int32, Since(1), IGNORABLE] = -1
    topics: list[MetadataResponseTopic] = fresh(list)
    cluster_authorized_operations: Annotated[Int32, Since(8), Until(10)] = NOT_ASKED
