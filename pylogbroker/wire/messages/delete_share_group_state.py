"""DeleteShareGroupState (key 86): delete the state of a share group's partitions."""

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
class DeleteStatePartition:
    partition: Int32 = 0


@struct
class DeleteStateData:
    topic_id: Uuid = NO_ID
    partitions: list[DeleteStatePartition] = fresh(list)


@struct
class DeleteShareGroupStateRequest(Request):
    api_key, versions = APIS["delete_share_group_state"]

    group_id: String = ""
    topics: list[DeleteStateData] = fresh(list)


@struct
class DeleteStatePartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class DeleteStateResult:
    topic_id: Uuid = NO_ID
    partitions: list[DeleteStatePartitionResult] = fresh(list)


@struct
class DeleteShareGroupStateResponse(Response):
    api_key, versions = APIS["delete_share_group_state"]

    results: list[DeleteStateResult] = fresh(list)
