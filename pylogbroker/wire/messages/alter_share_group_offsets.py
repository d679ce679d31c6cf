"""AlterShareGroupOffsets (key 91): set where a share group starts in partitions."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    NO_ID,
    ErrorText,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    Uuid,
    fresh,
    struct,
)


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: Int32 = 0
    start_offset: Int64 = 0


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: String = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = fresh(list)


@struct
class AlterShareGroupOffsetsRequest(Request):
    api_key, versions = APIS["alter_share_group_offsets"]

    group_id: String = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = fresh(list)


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: String = ""
    topic_id: Uuid = NO_ID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = fresh(list)


@struct
class AlterShareGroupOffsetsResponse(Response):
    api_key, versions = APIS["alter_share_group_offsets"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = fresh(list)
