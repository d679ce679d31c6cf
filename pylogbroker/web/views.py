"""The views of the page: each is a function that returns values of JSON.

    /api/NAME    the values as JSON
    /NAME        the same values as HTML, see `pages`; topics are at / as well

`visitors` says who may see them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
from twisted.web.resource import Resource
from twisted.web.server import Request

from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.web.cluster_views import brokers, topic, topics
from pylogbroker.web.group_views import group, groups
from pylogbroker.web.late_answers import LateAnswers
from pylogbroker.web.query import BadQuery, Query
from pylogbroker.web.record_views import records
from pylogbroker.web.texts import Directory, Page
from pylogbroker.web.visitors import NotServed, Visitor, check_address, visitor_of

ANSWERS_MAX: Final = 8
"""Answers in preparation at a time."""

View = Callable[[Visitor, Query], Awaitable[dict[str, Any]]]
VIEWS: Final[Mapping[str, View]] = {
    "topics": topics,
    "topic": topic,
    "records": records,
    "groups": groups,
    "group": group,
    "brokers": brokers,
}
_NOT_FOUND = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
)
_FORBIDDEN = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)


@attrs.define(eq=False)
class Source:
    """The broker, once it serves, and its answers in preparation."""

    services: Services | None = None
    answers: LateAnswers = attrs.field(factory=lambda: LateAnswers(ANSWERS_MAX), init=False)

    def open(self, request: Request) -> Services:
        """Return the broker; raise NotServed."""
        if self.services is None:
            raise NotServed(503, "the broker starts or stops")
        check_address(request)
        if self.answers.is_full:
            raise NotServed(503, "too many requests at a time")
        return self.services


class ViewPage(Page):
    """A view, asked for by GET; subclasses say what its values and errors look like."""

    content_type = b""

    def __init__(self, source: Source, name: str) -> None:
        super().__init__()
        self._source = source
        self.name = name

    def render_GET(self, request: Request) -> bytes | int:
        try:
            services = self._source.open(request)
        except NotServed as error:
            return self._answer_error(request, error.code, str(error))
        return self._source.answers.begin(request, self._answer(request, services))

    async def _answer(self, request: Request, services: Services) -> None:
        try:
            visitor = await visitor_of(services, request)
            body = self.body(await VIEWS[self.name](visitor, Query.of(request)))
            request.setHeader(b"content-type", self.content_type)
        except NotServed as error:
            body = self._answer_error(request, error.code, str(error))
        except BadQuery as error:
            body = self._answer_error(request, 400, str(error))
        except KafkaError as error:
            body = self._answer_error(request, _status(error.code), error.detail)
        except PylogbrokerError as error:
            body = self._answer_error(request, 400, str(error))
        request.setHeader(b"content-length", b"%d" % len(body))
        request.write(body)
        request.finish()

    def _answer_error(self, request: Request, code: int, reason: str) -> bytes:
        request.setResponseCode(code)
        request.setHeader(b"content-type", self.content_type)
        if code == 401:
            request.setHeader(b"www-authenticate", b'Basic realm="pylogbroker", charset="UTF-8"')
        return self.error_body(code, reason)

    def body(self, values: dict[str, Any]) -> bytes:
        raise NotImplementedError

    def error_body(self, code: int, reason: str) -> bytes:
        raise NotImplementedError


def _status(code: ErrorCode) -> int:
    if code in _FORBIDDEN:
        return 403
    return 404 if code in _NOT_FOUND else 503 if code.retriable else 400


class JsonPage(ViewPage):
    content_type = b"application/json"

    def body(self, values: dict[str, Any]) -> bytes:
        return json.dumps(values, separators=(",", ":")).encode() + b"\n"

    def error_body(self, code: int, reason: str) -> bytes:
        return self.body({"error": reason, "status": code})


def put_api(root: Resource, source: Source) -> None:
    """Serve the views below /api."""
    api = Directory()
    root.putChild(b"api", api)
    for name in VIEWS:
        api.putChild(name.encode(), JsonPage(source, name))
