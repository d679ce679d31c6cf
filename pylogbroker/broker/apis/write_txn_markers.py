"""WriteTxnMarkers (27): append markers that end a producer's transaction in partitions.

Coordinators on other brokers send it, and administrators against transactions without coordinator, which hold back
readers of committed records.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import required
from pylogbroker.broker.services import HasTransactionService
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.transactions import TransactionMarker
from pylogbroker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def _may_write(access: Access, request: WriteTxnMarkersRequest) -> bool:
    """Administrators may ALTER the cluster, brokers may act as such."""
    return access.allows_on_cluster(AclOperation.ALTER, quietly=True) or access.allows_on_cluster(
        AclOperation.CLUSTER_ACTION
    )


_reject_topic = reject_partitions(WritableTxnMarkerTopicResult, WritableTxnMarkerPartitionResult, "partition_indexes")


async def _reject_marker(marker: WritableTxnMarker, code: ErrorCode) -> WritableTxnMarkerResult:
    rejected = [await _reject_topic(topic, code) async for topic in over(marker.topics)]
    return WritableTxnMarkerResult(marker.producer_id, rejected)


async def _reject(context: RequestContext, request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse([await _reject_marker(marker, code) async for marker in over(request.markers)])


@serves(WriteTxnMarkersRequest, access=[required(_may_write, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, _reject)])
async def handle(
    services: HasTransactionService, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    writes = [(marker, _write(services, marker)) async for marker in over(request.markers)]
    return WriteTxnMarkersResponse([await _result(marker, await write) async for marker, write in over(writes)])


def _write(
    services: HasTransactionService, requested: WritableTxnMarker
) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
    partitions = {(topic.name, index): None for topic in requested.topics for index in topic.partition_indexes}
    marker = TransactionMarker(
        requested.producer_id,
        requested.producer_epoch,
        requested.coordinator_epoch,
        requested.transaction_result,
        tuple(partitions),
        requested.transaction_version,
    )
    done: Deferred[Mapping[TopicPartition, ErrorCode]] = Deferred()
    services.transaction_service.append_markers(marker, lambda errors, now_ms: done.callback(errors))
    return done


async def _result(marker: WritableTxnMarker, errors: Mapping[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    topics = []
    async for topic in over(marker.topics):
        partitions = [
            WritableTxnMarkerPartitionResult(index, errors[topic.name, index])
            async for index in over(topic.partition_indexes)
        ]
        topics.append(WritableTxnMarkerTopicResult(topic.name, partitions))
    return WritableTxnMarkerResult(marker.producer_id, topics)
