"""DeleteShareGroupOffsets (key 92): delete where a share group starts in topics."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    NO_ID,
    ErrorText,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Uuid,
    fresh,
    struct,
)


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: String = ""


@struct
class DeleteShareGroupOffsetsRequest(Request):
    api_key, versions = APIS["delete_share_group_offsets"]

    group_id: String = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = fresh(list)


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: String = ""
    topic_id: Uuid = NO_ID
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class DeleteShareGroupOffsetsResponse(Response):
    api_key, versions = APIS["delete_share_group_offsets"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = fresh(list)
