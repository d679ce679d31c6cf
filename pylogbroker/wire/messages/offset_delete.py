"""OffsetDelete (key 47): delete a group's committed offsets.

No version is flexible.
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    Int16,
    Int32,
    Request,
    Response,
    String,
    fresh,
    struct,
)


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic:
    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = fresh(list)


@struct
class OffsetDeleteRequest(Request):
    api_key, versions = APIS["offset_delete"]

    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = fresh(list)


@struct
class OffsetDeleteResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = fresh(list)


@struct
class OffsetDeleteResponse(Response):
    api_key, versions = APIS["offset_delete"]

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = fresh(list)
