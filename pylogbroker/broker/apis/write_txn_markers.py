"""WriteTxnMarkers (27): append markers that end a producer's transaction in partitions.

Administrators use it against transactions without coordinator, which hold back readers of committed records.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions import TransactionMarker
from pylogbroker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@serves(WriteTxnMarkersRequest)
async def handle(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    writes = [_write(services, wanted) for wanted in request.markers]
    return WriteTxnMarkersResponse(
        [_result(wanted, await write) for wanted, write in zip(request.markers, writes, strict=True)]
    )


def _write(services: Services, wanted: WritableTxnMarker) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
    partitions = {(topic.name, index): None for topic in wanted.topics for index in topic.partition_indexes}
    marker = TransactionMarker(
        wanted.producer_id,
        wanted.producer_epoch,
        wanted.coordinator_epoch,
        wanted.transaction_result,
        tuple(partitions),
    )
    done: Deferred[Mapping[TopicPartition, ErrorCode]] = Deferred()
    services.transaction_service.write_markers(marker, lambda errors, now_ms: done.callback(errors))
    return done


def _result(wanted: WritableTxnMarker, errors: Mapping[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        wanted.producer_id,
        [
            WritableTxnMarkerTopicResult(
                topic.name,
                [
                    WritableTxnMarkerPartitionResult(index, errors[topic.name, index])
                    for index in topic.partition_indexes
                ],
            )
            for topic in wanted.topics
        ],
    )
