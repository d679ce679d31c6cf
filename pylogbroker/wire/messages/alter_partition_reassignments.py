"""AlterPartitionReassignments (key 45): move partitions to other brokers, or cancel a move (KIP-455).

Versions::

    0  flexible
    1  `allow_replication_factor_change`
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Before,
    Boolean,
    ErrorText,
    Int16,
    Int32,
    Request,
    Response,
    Since,
    String,
    fresh,
    struct,
)


@struct
class ReassignablePartition:
    """Null replicas cancel a reassignment."""

    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


@struct
class ReassignableTopic:
    name: String = ""
    partitions: list[ReassignablePartition] = fresh(list)


@struct
class AlterPartitionReassignmentsRequest(Request):
    api_key, versions = APIS["alter_partition_reassignments"]

    timeout_ms: Int32 = 60_000
    topics: list[ReassignableTopic] = fresh(list)
    allow_replication_factor_change: Annotated[Boolean, Since(1), Before("topics")] = True


@struct
class ReassignablePartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class ReassignableTopicResponse:
    name: String = ""
    partitions: list[ReassignablePartitionResponse] = fresh(list)


@struct
class AlterPartitionReassignmentsResponse(Response):
    api_key, versions = APIS["alter_partition_reassignments"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    responses: list[ReassignableTopicResponse] = fresh(list)
    allow_replication_factor_change: Annotated[Boolean, Since(1), IGNORABLE, Before("error_code")] = True
