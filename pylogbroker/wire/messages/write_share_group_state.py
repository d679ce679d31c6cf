"""WriteShareGroupState (key 85): change the state of a share group's partitions."""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    ErrorText,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Uuid,
    fresh,
    struct,
)


@struct
class WrittenStateBatch:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@struct
class WriteStatePartition:
    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, Since(1), IGNORABLE] = -1
    state_batches: list[WrittenStateBatch] = fresh(list)


@struct
class WriteStateTopic:
    topic_id: Uuid = NO_ID
    partitions: list[WriteStatePartition] = fresh(list)


@struct
class WriteShareGroupStateRequest(Request):
    api_key, versions = APIS["write_share_group_state"]

    group_id: String = ""
    topics: list[WriteStateTopic] = fresh(list)


@struct
class WriteStatePartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class WriteStateResult:
    topic_id: Uuid = NO_ID
    partitions: list[WriteStatePartitionResult] = fresh(list)


@struct
class WriteShareGroupStateResponse(Response):
    api_key, versions = APIS["write_share_group_state"]

    results: list[WriteStateResult] = fresh(list)
