"""OffsetDelete (47): forget how far a group has come on some partitions, which its members must not be consuming.

0  the only one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import DeleteOffsetsResult
from pylogbroker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


def handle(broker: Broker, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Forget the offsets of partitions that there are."""
    topics = broker.catalog.topics
    partitions = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if topic.name in topics and partition.partition_index in topics[topic.name].partitions
    ]
    deleted = broker.groups.delete_offsets(request.group_id, partitions, broker.now_ms())
    if deleted.error:
        return OffsetDeleteResponse(error_code=deleted.error)
    return OffsetDeleteResponse(topics=_topics(request, deleted))


def _topics(request: OffsetDeleteRequest, deleted: DeleteOffsetsResult) -> list[OffsetDeleteResponseTopic]:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [
        OffsetDeleteResponseTopic(
            topic.name,
            [
                OffsetDeleteResponsePartition(index, deleted.partitions.get((topic.name, index), unknown))
                for index in (partition.partition_index for partition in topic.partitions)
            ],
        )
        for topic in request.topics
    ]
