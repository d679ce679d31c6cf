"""DeleteTopics (20): delete topics by name, or since version 6 by id."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import duplicate_error
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import Decision, Later, Narrowed, with_fields
from pylogbroker.broker.services import HasConfig, HasController, HasMetadata, HasQuotas, Metadata, Mutations
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import mapped, over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from pylogbroker.wire.schema import NO_ID

_FIRST_WITH_QUOTA_ERROR = 5


class _Services(HasConfig, HasMetadata, HasController, HasQuotas, Protocol):
    """Services that this API uses."""


def _narrow(services: _Services, context: RequestContext, request: DeleteTopicsRequest) -> Decision | Later[Decision]:
    """Reject topics that the client may not delete; the name of an id is a secret to those who may not see it."""
    access = context.required_access
    if access.allows_on_cluster(AclOperation.DELETE, quietly=True):
        return None
    return _narrow_topics(request, partial(_rejected, access, services.metadata))


async def _narrow_topics(
    request: DeleteTopicsRequest, reject: Callable[[DeleteTopicState], DeletableTopicResult | None]
) -> Decision:
    by_id = await mapped(reject, request.topics)
    by_name = await mapped(reject, map(DeleteTopicState, request.topic_names))
    rejected = [result for result in (*by_id, *by_name) if result is not None]
    if not rejected:
        return None

    def complete(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses += rejected
        return response

    left = with_fields(
        request,
        topics=[topic for topic, error in zip(request.topics, by_id, strict=True) if error is None],
        topic_names=[name for name, error in zip(request.topic_names, by_name, strict=True) if error is None],
    )
    return Narrowed(left, complete)


def _rejected(access: Access, metadata: Metadata, requested: DeleteTopicState) -> DeletableTopicResult | None:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = (
        metadata.image.topic_by_id(requested.topic_id)
        if requested.name is None
        else metadata.topics.get(requested.name)
    )
    name = topic.name if requested.name is None and topic is not None else requested.name
    if name is None:
        return None  # an unknown id
    is_seen = access.allows_on_topic(AclOperation.DESCRIBE, name)
    if is_seen and (topic is None or access.allows_on_topic(AclOperation.DELETE, name)):
        return None
    if requested.name is None:
        return DeletableTopicResult(name if is_seen else None, requested.topic_id, code, code.meaning)
    return DeletableTopicResult(name, NO_ID, code, code.meaning)


@serves(DeleteTopicsRequest, access=[_narrow])
async def handle(services: _Services, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    distinct: dict[uuid.UUID | str, DeleteTopicState] = {}
    twice = set()
    async for topic in over(chain(request.topics, map(DeleteTopicState, request.topic_names))):
        identity = _identity(services.metadata, topic)
        if identity in distinct:
            twice.add(identity)
        distinct[identity] = topic
    disabled = None if services.config.delete_topic_enable else _disabled(context.api_version)
    mutations = services.quotas.mutations(context, _FIRST_WITH_QUOTA_ERROR)
    results = []
    async for identity, topic in over(distinct.items()):
        known_error = duplicate_error() if identity in twice else disabled
        results.append(await _attempt(services, topic, known_error, mutations))
    return DeleteTopicsResponse(mutations.throttle_ms if mutations else 0, results)


def _identity(metadata: Metadata, requested: DeleteTopicState) -> uuid.UUID | str:
    if requested.name is None:
        return requested.topic_id
    topic = metadata.topics.get(requested.name)
    return topic.id if topic else requested.name


def _disabled(version: int) -> KafkaError:
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    return KafkaError(
        "Topics cannot be deleted: delete.topic.enable is false; set it to true in the configuration", code
    )


async def _attempt(
    services: _Services, requested: DeleteTopicState, known_error: KafkaError | None, mutations: Mutations | None
) -> DeletableTopicResult:
    try:
        if known_error:
            raise known_error
        services.controller.check_is_controller()
        named = _wanted(requested)
        if mutations is not None:
            mutations.take(len(services.metadata.require_topic(named).partitions))
        topic = await services.controller.delete_topic(named)
    except KafkaError as error:
        return DeletableTopicResult(requested.name, requested.topic_id, error.code, error.detail)
    return DeletableTopicResult(topic.name, topic.id)


def _wanted(topic: DeleteTopicState) -> str | uuid.UUID:
    by_id = topic.topic_id != NO_ID
    if by_id == (topic.name is not None):
        problem = "both a name and an id" if by_id else "neither a name nor an id"
        raise KafkaError(f"A topic is given by {problem}; give one of them", ErrorCode.INVALID_REQUEST)
    return topic.topic_id if topic.name is None else topic.name
