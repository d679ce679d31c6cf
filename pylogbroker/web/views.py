"""The views of the page: each is a function that returns values of JSON.

    /api/NAME    the values as JSON
    /NAME        the same values as HTML, see `pages`; topics are at / as well

They are served to connections from this machine alone, by brokers whose listeners all let in everybody. A page for
others needs users.
"""

from __future__ import annotations

import ipaddress
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

ANSWERS_MAX: Final = 8
"""Answers in preparation at a time."""

View = Callable[[Services, Query], Awaitable[dict[str, Any]]]
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


@attrs.define(eq=False)
class Source:
    """The broker, once it serves, and its answers in preparation."""

    services: Services | None = None
    answers: LateAnswers = attrs.field(factory=lambda: LateAnswers(ANSWERS_MAX), init=False)

    def rejection(self, request: Request) -> tuple[int, str] | None:
        """Return status and reason if a request is not served."""
        if self.services is None:
            return 503, "the broker starts or stops"
        if not _is_loopback(request):
            return 403, "records are shown to connections from this machine alone"
        if is_protected(self.services):
            return 403, "this broker has users or an authorizer, which the page does not know yet"
        if self.answers.is_full:
            return 503, "too many requests at a time"
        return None


def is_protected(services: Services) -> bool:
    """Return whether some client of the broker must prove who it is, or may not do everything."""
    secured = any(each.security.has_tls or each.security.has_sasl for each in services.config.listeners)
    return secured or services.authorizer is not None


def _is_loopback(request: Request) -> bool:
    try:
        return all(
            ipaddress.ip_address(address.host).is_loopback
            for address in (request.getHost(), request.getClientAddress())
        )
    except (AttributeError, ValueError):
        return False


class ViewPage(Page):
    """A view, asked for by GET; subclasses say what its values and errors look like."""

    content_type = b""

    def __init__(self, source: Source, name: str) -> None:
        super().__init__()
        self._source = source
        self.name = name

    def render_GET(self, request: Request) -> bytes | int:
        rejection = self._source.rejection(request)
        if rejection is not None:
            return self._answer_error(request, *rejection)
        assert self._source.services is not None
        return self._source.answers.begin(request, self._answer(request, self._source.services))

    async def _answer(self, request: Request, services: Services) -> None:
        try:
            body = self.body(await VIEWS[self.name](services, Query.of(request)))
            request.setHeader(b"content-type", self.content_type)
        except BadQuery as error:
            body = self._answer_error(request, 400, str(error))
        except KafkaError as error:
            code = 404 if error.code in _NOT_FOUND else 503 if error.code.retriable else 400
            body = self._answer_error(request, code, error.detail or error.code.meaning)
        except PylogbrokerError as error:
            body = self._answer_error(request, 400, str(error))
        request.setHeader(b"content-length", b"%d" % len(body))
        request.write(body)
        request.finish()

    def _answer_error(self, request: Request, code: int, reason: str) -> bytes:
        request.setResponseCode(code)
        request.setHeader(b"content-type", self.content_type)
        return self.error_body(code, reason)

    def body(self, values: dict[str, Any]) -> bytes:
        raise NotImplementedError

    def error_body(self, code: int, reason: str) -> bytes:
        raise NotImplementedError


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
