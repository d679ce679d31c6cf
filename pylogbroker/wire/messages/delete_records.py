"""DeleteRecords (key 21): let logs begin later.

== ===========================================================
 0 offsets per partition
 1 a throttled response is sent before the pause, not after it
 2 flexible
== ===========================================================
"""

from pylogbroker.wire.schema import (
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    Versions,
    fresh,
    struct,
)


@struct
class DeleteRecordsPartition:
    """The offset below which one partition loses its records; -1 is its high watermark."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@struct
class DeleteRecordsTopic:
    """The offsets of one topic."""

    name: String = ""
    partitions: list[DeleteRecordsPartition] = fresh(list)


@struct
class DeleteRecordsRequest(Request):
    """The offsets below which records go."""

    api_key = 21
    versions = Versions(0, 2, flexible=2)

    topics: list[DeleteRecordsTopic] = fresh(list)
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult:
    """Where one partition begins now."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    """Where the partitions of one topic begin now."""

    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = fresh(list)


@struct
class DeleteRecordsResponse(Response):
    """Where the logs begin now."""

    api_key = 21
    versions = Versions(0, 2, flexible=2)

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = fresh(list)
