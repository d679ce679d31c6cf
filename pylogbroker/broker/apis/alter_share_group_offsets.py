"""AlterShareGroupOffsets (91): set where a share group without members starts in partitions.

What the group has done with records from there on is forgotten. A group that does not exist is created.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol
from uuid import UUID

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import on_group, on_topics
from pylogbroker.broker.services import HasGroups, HasMetadata, HasRuntime
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.requests import ShareOffsetsResult
from pylogbroker.long_loops import mapped, over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from pylogbroker.wire.schema import NO_ID

_NOT_NEGATIVE: Final = "The start offset is negative; expected the offset of a record, or the end of the log"


class _Services(HasRuntime, HasMetadata, HasGroups, Protocol):
    """Services that this API uses."""


def _answer(index: int, code: ErrorCode, text: str | None = None) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(index, code, (text or code.meaning) if code else None)


_reject_topic = reject_partitions(
    lambda name, partitions: AlterShareGroupOffsetsResponseTopic(name, NO_ID, partitions),
    lambda partition, code: _answer(partition.partition_index, code),
    name="topic_name",
)


@serves(
    AlterShareGroupOffsetsRequest,
    access=[
        on_group(AclOperation.READ),
        on_topics(AclOperation.READ, _reject_topic, answers="responses", name="topic_name"),
    ],
)
async def handle(
    services: _Services, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    starts: dict[tuple[UUID, int], int] = {}
    async for topic in over(request.topics):
        image = services.metadata.topics.get(topic.topic_name)
        if image is not None:
            starts |= {
                (image.id, partition.partition_index): partition.start_offset
                for partition in topic.partitions
                if partition.partition_index in image.partitions and partition.start_offset >= 0
            }
    replied: Deferred[ShareOffsetsResult] = Deferred()
    services.groups.shares.set_starts(request.group_id, starts, replied.callback, services.runtime.now_ms())
    result = await replied
    if result.error:
        return AlterShareGroupOffsetsResponse(error_code=result.error, error_message=result.text)
    return AlterShareGroupOffsetsResponse(responses=await mapped(partial(_topic, services, result), request.topics))


def _topic(
    services: _Services, result: ShareOffsetsResult, topic: AlterShareGroupOffsetsRequestTopic
) -> AlterShareGroupOffsetsResponseTopic:
    image = services.metadata.topics.get(topic.topic_name)
    topic_id = NO_ID if image is None else image.id
    answers = [_partition(result, topic_id, partition) for partition in topic.partitions]
    return AlterShareGroupOffsetsResponseTopic(topic.topic_name, topic_id, answers)


def _partition(
    result: ShareOffsetsResult, topic_id: UUID, partition: AlterShareGroupOffsetsRequestPartition
) -> AlterShareGroupOffsetsResponsePartition:
    index = partition.partition_index
    if (topic_id, index) in result.partitions:
        return _answer(index, result.partitions[topic_id, index])
    if partition.start_offset < 0:
        return _answer(index, ErrorCode.INVALID_REQUEST, _NOT_NEGATIVE)
    return _answer(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
