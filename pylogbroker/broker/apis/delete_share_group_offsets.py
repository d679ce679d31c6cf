"""DeleteShareGroupOffsets (92): let a share group without members forget topics.

If the group reads such a topic again, it begins where its settings say.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from twisted.internet.defer import Deferred

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_group, on_topics
from pylogbroker.broker.services import HasGroups, HasMetadata, HasRuntime
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.requests import ShareOffsetsResult
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from pylogbroker.wire.schema import NO_ID


class _Services(HasRuntime, HasMetadata, HasGroups, Protocol):
    """Services that this API uses."""


def _rejected(topic: DeleteShareGroupOffsetsRequestTopic) -> DeleteShareGroupOffsetsResponseTopic:
    return _answer(topic.topic_name, NO_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@serves(
    DeleteShareGroupOffsetsRequest,
    access=[
        on_group(AclOperation.DELETE),
        on_topics(AclOperation.READ, _rejected, answers="responses", name="topic_name"),
    ],
)
async def handle(
    services: _Services, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    ids: dict[str, UUID] = {}
    async for topic in over(request.topics):
        image = services.metadata.topics.get(topic.topic_name)
        if image is not None:
            ids[topic.topic_name] = image.id
    replied: Deferred[ShareOffsetsResult] = Deferred()
    services.groups.shares.delete_starts(
        request.group_id, tuple(ids.values()), replied.callback, services.runtime.now_ms()
    )
    result = await replied
    if result.error:
        return DeleteShareGroupOffsetsResponse(error_code=result.error, error_message=result.text)
    errors: dict[UUID, ErrorCode] = {}
    async for (topic_id, _), error in over(result.partitions.items()):
        errors[topic_id] = errors.get(topic_id) or error
    names = dict.fromkeys(topic.topic_name for topic in request.topics)
    return DeleteShareGroupOffsetsResponse(responses=[_topic(name, ids.get(name), errors) for name in names])


def _topic(name: str, topic_id: UUID | None, errors: dict[UUID, ErrorCode]) -> DeleteShareGroupOffsetsResponseTopic:
    if topic_id is None:
        return _answer(name, NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    error = errors.get(topic_id, ErrorCode.NONE)
    if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return _answer(name, NO_ID, error, "There is no offset information to delete.")
    return _answer(name, topic_id, error)


def _answer(
    name: str, topic_id: UUID, code: ErrorCode, text: str | None = None
) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(name, topic_id, code, (text or code.meaning) if code else None)
