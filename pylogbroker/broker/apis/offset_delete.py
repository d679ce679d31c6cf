"""OffsetDelete (47): delete a group's offsets of partitions that its members do not consume."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.requested_partitions import existing_partitions
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import on_group, on_topics
from pylogbroker.broker.services import HasGroups, HasMetadata, HasRuntime
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import DeleteOffsetsResult
from pylogbroker.long_loops import mapped
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_reject_topic = reject_partitions(
    OffsetDeleteResponseTopic, lambda partition, code: OffsetDeleteResponsePartition(partition.partition_index, code)
)


class _Services(HasRuntime, HasMetadata, HasGroups, Protocol):
    """Services that this API uses."""


@serves(OffsetDeleteRequest, access=[on_group(AclOperation.DELETE), on_topics(AclOperation.READ, _reject_topic)])
async def handle(services: _Services, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    partitions = await existing_partitions(services, request.topics, lambda partition: None)
    deleted = services.groups.delete_offsets(request.group_id, list(partitions), services.runtime.now_ms())
    if deleted.error:
        return OffsetDeleteResponse(error_code=deleted.error)
    response = OffsetDeleteResponse()
    for topic in request.topics:
        answers = await mapped(partial(_partition, deleted, topic.name), topic.partitions)
        response.topics.append(OffsetDeleteResponseTopic(topic.name, answers))
    return response


def _partition(
    deleted: DeleteOffsetsResult, topic: str, partition: OffsetDeleteRequestPartition
) -> OffsetDeleteResponsePartition:
    index = partition.partition_index
    error = deleted.partitions.get((topic, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return OffsetDeleteResponsePartition(index, error)
