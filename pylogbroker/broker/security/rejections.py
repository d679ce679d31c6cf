"""Answers to what is denied: the error for each partition, by coroutines, since a request may name many."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from operator import attrgetter
from typing import Any, Protocol

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import mapped, over
from pylogbroker.wire import Request, Response


class RejectTopic(Protocol):
    async def __call__(self, topic: Any, code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED) -> Any:
        """Return a topic's part of the answer."""


def reject_partitions(
    make_topic: Callable[[Any, list[Any]], Any],
    make_partition: Callable[[Any, ErrorCode], Any],
    partitions: str = "partitions",
    name: str = "name",
    has_id: bool = False,
) -> RejectTopic:
    """Reject each partition of a topic; `partitions` and `name`, which may be an id, are its fields in the request.

    With `has_id`, the answer repeats the topic's id besides the name.
    """
    name_of, partitions_of = attrgetter(name), attrgetter(partitions)

    async def reject(topic: Any, code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED) -> Any:
        rejected = await mapped(lambda partition: make_partition(partition, code), partitions_of(topic))
        answer = make_topic(name_of(topic), rejected)
        if has_id:
            answer.topic_id = topic.topic_id
        return answer

    return reject


def reject_topics(
    make_response: Callable[[list[Any]], Response], reject: RejectTopic, topics: str = "topics"
) -> Callable[[RequestContext, Request, ErrorCode], Coroutine[Any, Any, Response]]:
    """Reject all topics of a request, which are its field `topics`."""

    async def reject_all(context: RequestContext, request: Request, code: ErrorCode) -> Response:
        return make_response([await reject(topic, code) async for topic in over(getattr(request, topics))])

    return reject_all
