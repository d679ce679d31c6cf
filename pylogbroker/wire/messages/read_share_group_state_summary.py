"""ReadShareGroupStateSummary (key 87): read where a share group's partitions start."""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    ErrorText,
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
class ReadStateSummaryPartition:
    partition: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class ReadStateSummaryData:
    topic_id: Uuid = NO_ID
    partitions: list[ReadStateSummaryPartition] = fresh(list)


@struct
class ReadShareGroupStateSummaryRequest(Request):
    api_key, versions = APIS["read_share_group_state_summary"]

    group_id: String = ""
    topics: list[ReadStateSummaryData] = fresh(list)


@struct
class ReadStateSummaryPartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, Since(1), IGNORABLE] = -1


@struct
class ReadStateSummaryResult:
    topic_id: Uuid = NO_ID
    partitions: list[ReadStateSummaryPartitionResult] = fresh(list)


@struct
class ReadShareGroupStateSummaryResponse(Response):
    api_key, versions = APIS["read_share_group_state_summary"]

    results: list[ReadStateSummaryResult] = fresh(list)
