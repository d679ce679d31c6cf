"""OffsetDelete (47): forget how far a group has come on some partitions, which its members must not be consuming."""

from __future__ import annotations

from collections.abc import Generator

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import STEP_ITEMS, inline_if_short
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import DeleteOffsetsResult
from pylogbroker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@serves(OffsetDeleteRequest)
def handle(
    services: Services, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Generator[None, None, OffsetDeleteResponse]:
    """Forget the offsets of partitions that there are; of many in steps, before the connection's next request."""
    return inline_if_short(_delete(services, request), sum([len(topic.partitions) for topic in request.topics]))


def _delete(services: Services, request: OffsetDeleteRequest) -> Generator[None, None, OffsetDeleteResponse]:
    partitions = []
    for topic in request.topics:
        known = services.metadata.topics.get(topic.name)
        for number, partition in enumerate(topic.partitions):
            if number % STEP_ITEMS == 0:
                yield
            if known is not None and partition.partition_index in known.partitions:
                partitions.append((topic.name, partition.partition_index))
    deleted = services.groups.delete_offsets(request.group_id, partitions, services.runtime.now_ms())
    if deleted.error:
        return OffsetDeleteResponse(error_code=deleted.error)
    return (yield from _response(request, deleted))


def _response(
    request: OffsetDeleteRequest, deleted: DeleteOffsetsResult
) -> Generator[None, None, OffsetDeleteResponse]:
    response = OffsetDeleteResponse()
    for topic in request.topics:
        answered = OffsetDeleteResponseTopic(topic.name, [])
        response.topics.append(answered)
        for number, partition in enumerate(topic.partitions):
            if number % STEP_ITEMS == 0:
                yield
            index = partition.partition_index
            error = deleted.partitions.get((topic.name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            answered.partitions.append(OffsetDeleteResponsePartition(index, error))
    return response
