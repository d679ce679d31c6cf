"""CreatePartitions (key 37): add partitions to topics.

Versions::

    0  the new number of partitions, or an assignment
    1  KIP-219 throttling
    2  flexible
    3  error THROTTLING_QUOTA_EXCEEDED
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    Boolean,
    ErrorText,
    Int16,
    Int32,
    Request,
    Response,
    String,
    fresh,
    struct,
)


@struct
class CreatePartitionsAssignment:
    """Brokers of one new partition."""

    broker_ids: list[Int32] = fresh(list)


@struct
class CreatePartitionsTopic:
    """`count` is the total. With null `assignments` the broker chooses."""

    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = fresh(list)


@struct
class CreatePartitionsRequest(Request):
    api_key, versions = APIS["create_partitions"]

    topics: list[CreatePartitionsTopic] = fresh(list)
    timeout_ms: Int32 = 0
    validate_only: Boolean = False


@struct
class CreatePartitionsTopicResult:
    name: String = ""
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class CreatePartitionsResponse(Response):
    api_key, versions = APIS["create_partitions"]

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = fresh(list)
