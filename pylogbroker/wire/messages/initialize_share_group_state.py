"""InitializeShareGroupState (key 83): begin the state of a share group's partitions."""

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
class InitializeStatePartition:
    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


@struct
class InitializeStateData:
    topic_id: Uuid = NO_ID
    partitions: list[InitializeStatePartition] = fresh(list)


@struct
class InitializeShareGroupStateRequest(Request):
    api_key, versions = APIS["initialize_share_group_state"]

    group_id: String = ""
    topics: list[InitializeStateData] = fresh(list)


@struct
class InitializeStatePartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class InitializeStateResult:
    topic_id: Uuid = NO_ID
    partitions: list[InitializeStatePartitionResult] = fresh(list)


@struct
class InitializeShareGroupStateResponse(Response):
    api_key, versions = APIS["initialize_share_group_state"]

    results: list[InitializeStateResult] = fresh(list)
