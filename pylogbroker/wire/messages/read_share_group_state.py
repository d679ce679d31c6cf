"""ReadShareGroupState (key 84): read the state of a share group's partitions."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    NO_ID,
    ErrorText,
    Int8,
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
class ReadStatePartition:
    partition: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class ReadStateData:
    topic_id: Uuid = NO_ID
    partitions: list[ReadStatePartition] = fresh(list)


@struct
class ReadShareGroupStateRequest(Request):
    api_key, versions = APIS["read_share_group_state"]

    group_id: String = ""
    topics: list[ReadStateData] = fresh(list)


@struct
class ReadStateBatch:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@struct
class ReadStatePartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[ReadStateBatch] = fresh(list)


@struct
class ReadStateResult:
    topic_id: Uuid = NO_ID
    partitions: list[ReadStatePartitionResult] = fresh(list)


@struct
class ReadShareGroupStateResponse(Response):
    """State of a batch: 0 available, 2 acknowledged, 4 archived."""

    api_key, versions = APIS["read_share_group_state"]

    results: list[ReadStateResult] = fresh(list)
