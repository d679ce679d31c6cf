"""WriteTxnMarkers (key 27): write into partitions that a producer's transaction has ended.

== ========
 0 markers
 1 flexible
== ========
"""

from pylogbroker.wire.schema import (
    Boolean,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    Versions,
    fresh,
    struct,
)


@struct
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: list[Int32] = fresh(list)


@struct
class WritableTxnMarker:
    """The end of one transaction; `transaction_result` is whether it was committed."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Boolean = False
    topics: list[WritableTxnMarkerTopic] = fresh(list)
    coordinator_epoch: Int32 = 0


@struct
class WriteTxnMarkersRequest(Request):
    """The markers to write."""

    api_key = 27
    versions = Versions(0, 1, flexible=1)

    markers: list[WritableTxnMarker] = fresh(list)


@struct
class WritableTxnMarkerPartitionResult:
    """Whether the marker is in one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    """The results of one topic's partitions."""

    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = fresh(list)


@struct
class WritableTxnMarkerResult:
    """The results of one marker."""

    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = fresh(list)


@struct
class WriteTxnMarkersResponse(Response):
    """The results of the markers."""

    api_key = 27
    versions = Versions(0, 1, flexible=1)

    markers: list[WritableTxnMarkerResult] = fresh(list)
