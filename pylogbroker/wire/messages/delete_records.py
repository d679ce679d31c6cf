"""DeleteRecords (key 21): raise log start offsets.

Versions::

    0  offsets per partition
    1  KIP-219 throttling
    2  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    fresh,
    struct,
)


@struct
class DeleteRecordsPartition:
    """Records below `offset` are deleted; -1 is the high watermark."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@struct
class DeleteRecordsTopic:
    name: String = ""
    partitions: list[DeleteRecordsPartition] = fresh(list)


@struct
class DeleteRecordsRequest(Request):
    api_key, versions = APIS["delete_records"]

    topics: list[DeleteRecordsTopic] = fresh(list)
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult:
    """`low_watermark` is the new log start offset."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = fresh(list)


@struct
class DeleteRecordsResponse(Response):
    api_key, versions = APIS["delete_records"]

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = fresh(list)
