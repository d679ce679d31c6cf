"""Answers to what is denied: the error for each partition, made in steps, since a request may name very many."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.slices import map_in_steps, map_to_steps
from pylogbroker.errors import ErrorCode
from pylogbroker.wire import Request, Response


class RejectTopic(Protocol):
    def __call__(
        self, topic: Any, code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ) -> Generator[None, None, Any]:
        """Return a topic's part of the answer."""


def reject_partitions(
    make_topic: Callable[[Any, list[Any]], Any],
    make_partition: Callable[[Any, ErrorCode], Any],
    partitions: str = "partitions",
    name: str = "name",
) -> RejectTopic:
    """Reject each partition of a topic; `partitions` and `name`, which may be an id, are its fields in the request."""
    name_of, partitions_of = attrgetter(name), attrgetter(partitions)

    def reject(topic: Any, code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED) -> Generator[None, None, Any]:
        rejected = yield from map_in_steps(lambda each: make_partition(each, code), partitions_of(topic))
        return make_topic(name_of(topic), rejected)

    return reject


def reject_topics(
    make_response: Callable[[list[Any]], Response], reject: RejectTopic, topics: str = "topics"
) -> Callable[[RequestContext, Request, ErrorCode], Generator[None, None, Response]]:
    """Reject all topics of a request, which are its field `topics`."""

    def reject_all(context: RequestContext, request: Request, code: ErrorCode) -> Generator[None, None, Response]:
        return make_response((yield from map_to_steps(partial(reject, code=code), getattr(request, topics))))

    return reject_all
