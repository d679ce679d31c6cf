"""WriteTxnMarkers (key 27): write transaction markers into partitions.

Versions::

    0  markers
    1  flexible
    2  `transaction_version`; from 2 on, the epoch must be above the producer's (KIP-1228)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    fresh,
    struct,
)


@struct
class WritableTxnMarkerTopic:
    name: String = ""
    partition_indexes: list[Int32] = fresh(list)


@struct
class WritableTxnMarker:
    """`transaction_result` is true for a commit."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Boolean = False
    topics: list[WritableTxnMarkerTopic] = fresh(list)
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, Since(2), IGNORABLE] = 0


@struct
class WriteTxnMarkersRequest(Request):
    api_key, versions = APIS["write_txn_markers"]

    markers: list[WritableTxnMarker] = fresh(list)


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = fresh(list)


@struct
class WritableTxnMarkerResult:
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = fresh(list)


@struct
class WriteTxnMarkersResponse(Response):
    api_key, versions = APIS["write_txn_markers"]

    markers: list[WritableTxnMarkerResult] = fresh(list)
