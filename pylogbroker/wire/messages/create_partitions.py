"""CreatePartitions (key 37): more partitions for topics.

== ===========================================================
 0 the new number of partitions, or an assignment
 1 a throttled response is sent before the pause, not after it
 2 flexible
 3 as version 2; THROTTLING_QUOTA_EXCEEDED may be answered
== ===========================================================
"""

from pylogbroker.wire.schema import (
    Boolean,
    ErrorText,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Versions,
    fresh,
    struct,
)


@struct
class CreatePartitionsAssignment:
    """The brokers of one new partition."""

    broker_ids: list[Int32] = fresh(list)


@struct
class CreatePartitionsTopic:
    """How many partitions a topic is to have in all.  Null `assignments` leaves them to the broker."""

    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = fresh(list)


@struct
class CreatePartitionsRequest(Request):
    """The topics to widen."""

    api_key = 37
    versions = Versions(0, 3, flexible=2)

    topics: list[CreatePartitionsTopic] = fresh(list)
    timeout_ms: Int32 = 0
    validate_only: Boolean = False


@struct
class CreatePartitionsTopicResult:
    """What became of one topic."""

    name: String = ""
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class CreatePartitionsResponse(Response):
    """What became of the topics."""

    api_key = 37
    versions = Versions(0, 3, flexible=2)

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = fresh(list)
