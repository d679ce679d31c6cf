"""OffsetForLeaderEpoch (23): where the records of a leader epoch end (KIP-101, KIP-320).

An unknown epoch gets the end of the largest one below it, or else the start of the first. One above all gets -1 and -1.
"""

from __future__ import annotations

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import on_each
from pylogbroker.broker.services import HasPartitions
from pylogbroker.errors import KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)


def _may_describe(access: Access, topic: OffsetForLeaderTopic) -> bool:
    """Brokers may act as such; consumers need to see the topic."""
    return access.allows_on_cluster(AclOperation.CLUSTER_ACTION, quietly=True) or access.allows_on_topic(
        AclOperation.DESCRIBE, topic.topic
    )


_reject_topic = reject_partitions(
    OffsetForLeaderTopicResult,
    lambda partition, code: EpochEndOffset(error_code=code, partition=partition.partition),
    name="topic",
)


@serves(OffsetForLeaderEpochRequest, access=[on_each("topics", "topics", _may_describe, _reject_topic)], is_read=True)
async def handle(
    services: HasPartitions, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics = []
    async for topic in over(request.topics):
        partitions = [_look_up(services, topic.topic, partition) async for partition in over(topic.partitions)]
        topics.append(OffsetForLeaderTopicResult(topic.topic, partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def _look_up(services: HasPartitions, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = services.partitions.find(topic, requested.partition)
        partition.check_epoch(requested.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=requested.partition)
    epoch, end_offset = partition.log.end_offset_for_epoch(requested.leader_epoch)
    return EpochEndOffset(partition=requested.partition, leader_epoch=epoch, end_offset=end_offset)
