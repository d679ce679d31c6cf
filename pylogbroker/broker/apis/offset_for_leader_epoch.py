"""OffsetForLeaderEpoch (23): where the records of a leader epoch end (KIP-101, KIP-320).

An unknown epoch gets the end of the largest one below it, or else the start of the first. One above all gets -1 and -1.
"""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@serves(OffsetForLeaderEpochRequest, is_read=True)
async def handle(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    found = await services.runtime.slices.each(
        request.topics,
        lambda topic: topic.partitions,
        lambda topic, wanted: _look_up(services, topic.topic, wanted),
        lambda topic, partitions: OffsetForLeaderTopicResult(topic.topic, partitions),
    )
    return OffsetForLeaderEpochResponse(topics=found)


def _look_up(services: Services, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = services.partitions.find(topic, wanted.partition)
        partition.check_epoch(wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    epoch, end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
