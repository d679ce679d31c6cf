"""DescribeCluster (key 60): the cluster's brokers and controller.

Versions::

    0  flexible
    1  `endpoint_type`: brokers (1) or controllers (2) (KIP-919)
    2  fenced brokers, if requested

Brokers of pylogbroker are asked for broker epochs by tagged fields of their own, which Kafka skips.
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NOT_ASKED,
    OWN_TAGS,
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
    Tag,
    fresh,
    struct,
)


@struct
class DescribeClusterRequest(Request):
    api_key, versions = APIS["describe_cluster"]

    include_cluster_authorized_operations: Boolean = False
    endpoint_type: Annotated[Int8, Since(1)] = 1
    include_fenced_brokers: Annotated[Boolean, Since(2)] = False
    with_epochs: Annotated[Boolean, Tag(OWN_TAGS), IGNORABLE] = False


@struct
class DescribeClusterBroker:
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Annotated[Boolean, Since(2)] = False
    epoch: Annotated[Int64, Tag(OWN_TAGS), IGNORABLE] = -1


@struct
class DescribeClusterResponse(Response):
    api_key, versions = APIS["describe_cluster"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    endpoint_type: Annotated[Int8, Since(1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = fresh(list)
    cluster_authorized_operations: Int32 = NOT_ASKED
