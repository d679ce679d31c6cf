"""ListPartitionReassignments (key 46): reassignments that are not complete yet (KIP-455).

Versions::

    0  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import ErrorText, Int16, Int32, Request, Response, String, fresh, struct


@struct
class ListPartitionReassignmentsTopics:
    name: String = ""
    partition_indexes: list[Int32] = fresh(list)


@struct
class ListPartitionReassignmentsRequest(Request):
    """Null topics are all topics."""

    api_key, versions = APIS["list_partition_reassignments"]

    timeout_ms: Int32 = 60_000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@struct
class OngoingPartitionReassignment:
    """`replicas` has the old and the new ones."""

    partition_index: Int32 = 0
    replicas: list[Int32] = fresh(list)
    adding_replicas: list[Int32] = fresh(list)
    removing_replicas: list[Int32] = fresh(list)


@struct
class OngoingTopicReassignment:
    name: String = ""
    partitions: list[OngoingPartitionReassignment] = fresh(list)


@struct
class ListPartitionReassignmentsResponse(Response):
    api_key, versions = APIS["list_partition_reassignments"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    topics: list[OngoingTopicReassignment] = fresh(list)
