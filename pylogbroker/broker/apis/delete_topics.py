"""DeleteTopics (20), 0 to 6: delete topics by name, or by id from version 6 on.

1  throttle_time_ms in the answer
3  TOPIC_DELETION_DISABLED says that delete.topic.enable is false; before, INVALID_REQUEST does
4  flexible
5  an error message for each topic
6  topics by name or by id
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import TYPE_CHECKING

from pylogbroker.broker.admin import repeated
from pylogbroker.broker.catalog import Catalog
from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from pylogbroker.wire.schema import NO_ID

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete the topics one after the other; one that is refused does not hinder the others."""
    wanted = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    enabled = broker.config.boolean("delete.topic.enable")
    twice = _named_twice(broker.catalog, wanted)
    results = []
    for topic in wanted:
        disabled = None if enabled else _disabled(context.api_version)
        results.append(await _attempt(broker.catalog, topic, twice, disabled))
    return DeleteTopicsResponse(responses=results)


def _disabled(version: int) -> KafkaError:
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    return KafkaError(
        "Topics cannot be deleted: delete.topic.enable is false; set it to true in the configuration", code
    )


async def _attempt(
    catalog: Catalog, wanted: DeleteTopicState, twice: Collection[uuid.UUID | str], disabled: KafkaError | None
) -> DeletableTopicResult:
    try:
        if disabled:
            raise disabled
        name = _resolve(catalog, wanted, twice)
        topic = await catalog.delete(name)
    except KafkaError as error:
        return DeletableTopicResult(wanted.name, wanted.topic_id, error.code, error.detail)
    return DeletableTopicResult(topic.name, topic.id)


def _named_twice(catalog: Catalog, wanted: list[DeleteTopicState]) -> set[uuid.UUID | str]:
    """What is asked for more than once: topics' ids, and names of topics that do not exist."""
    return repeated(_identity(catalog, topic) for topic in wanted)


def _identity(catalog: Catalog, wanted: DeleteTopicState) -> uuid.UUID | str:
    if wanted.name is None:
        return wanted.topic_id
    known = catalog.topics.get(wanted.name)
    return known.id if known else wanted.name


def _resolve(catalog: Catalog, wanted: DeleteTopicState, twice: Collection[uuid.UUID | str]) -> str:
    by_id = wanted.topic_id != NO_ID
    if by_id == (wanted.name is not None):
        problem = "both a name and an id" if by_id else "neither a name nor an id"
        raise KafkaError(f"A topic is given by {problem}; give one of them", ErrorCode.INVALID_REQUEST)
    if _identity(catalog, wanted) in twice:
        raise KafkaError("The topic is named more than once in the request", ErrorCode.INVALID_REQUEST)
    if wanted.name is not None:
        return catalog.require(wanted.name).name
    topic = catalog.by_id(wanted.topic_id)
    if topic is None:
        raise KafkaError(f"There is no topic of the id {wanted.topic_id}", ErrorCode.UNKNOWN_TOPIC_ID)
    return topic.name
