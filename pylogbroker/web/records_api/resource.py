"""Resource of the records API: checks addresses, logins and origins of pages, and bounds each kind of request.

OPTIONS    what pages of other sites may do
GET        reads; those that wait for records count, followers do not (`followers` bounds these)
POST       writes and commits
"""

from __future__ import annotations

from typing import Final

import attrs
from twisted.web.resource import Resource

from pylogbroker.broker.services import Services
from pylogbroker.errors import KafkaError
from pylogbroker.web.late_answers import LateAnswers
from pylogbroker.web.records_api.calls import HttpCall, Shared, json_line
from pylogbroker.web.records_api.confluent import confluent_error, is_confluent
from pylogbroker.web.records_api.cross_origin import CrossOriginRules
from pylogbroker.web.records_api.errors import RecordError, Rejected, status_of_error
from pylogbroker.web.records_api.feeds import Feeds
from pylogbroker.web.records_api.followers import retry_later, wants_events
from pylogbroker.web.records_api.json_members import BadRecord
from pylogbroker.web.records_api.news import TopicChanges
from pylogbroker.web.records_api.routes import ROUTES
from pylogbroker.web.router import BadRequest, HttpRoute, HttpRouter, MethodNotAllowed, NoRoute
from pylogbroker.web.router.requests import texts_of
from pylogbroker.web.router.routes import EVENTS, JSON
from pylogbroker.web.site import CheckedRequest
from pylogbroker.web.views import Source
from pylogbroker.web.visitors import NotServed, visitor_of

WRITERS_MAX: Final = 64
READERS_MAX: Final = 256
_CLIENT_ID: Final = "pylogbroker-http"
_TEXT_BYTES_MAX: Final = 12_000
"""Bytes of a parameter: positions of many partitions are long."""
_GET: Final = "GET"
_UNAUTHORIZED: Final = 401
_UNAVAILABLE: Final = 503


class RecordsResource(Resource):
    isLeaf = True

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._router = HttpRouter(ROUTES)
        changes = TopicChanges()
        self._shared = Shared(Feeds(changes), changes)
        self.readers, self.writers = LateAnswers(READERS_MAX), LateAnswers(WRITERS_MAX)
        source.following = self._shared.feeds
        source.on_stop(self.stop)

    @property
    def feeds(self) -> Feeds:
        return self._shared.feeds

    def serves(self, path: bytes) -> bool:
        """Return whether a path is one of the records API, or below those of Confluent's, whose errors have a form."""
        return is_confluent(path) or self._router.has_path(path.decode("ascii", "replace"))

    def error_content(self, path: bytes, status: int, reason: str) -> tuple[str, bytes]:
        """Return type and content of an answer that has an error, in the form of its path."""
        row: RecordError = {"error": reason, "status": status}
        return JSON, json_line(confluent_error(row) if is_confluent(path) else row)

    def stop(self) -> None:
        self._shared.feeds.stop()
        self.readers.cancel()
        self.writers.cancel()

    def render(self, request: CheckedRequest) -> bytes | int:
        """Return the body, or NOT_DONE_YET."""
        method, path = request.method.decode("ascii", "replace"), request.path.decode("ascii", "replace")
        answers = self.readers if method in ("GET", "HEAD") else self.writers
        try:
            services = self._source.open(request, answers)
            rules = CrossOriginRules.of(services.config)
            if method == "OPTIONS":
                rules.mark_preflight(request)
                request.setHeader(b"allow", b"GET, HEAD, OPTIONS, POST")
                request.setResponseCode(204)
                return b""
            rules.mark(request)
            route, parts = self._router.find(method, path)
        except (NotServed, NoRoute, MethodNotAllowed) as error:
            return self._failed(request, error)
        return answers.begin(request, self._answer(request, services, rules, route, parts))

    async def _answer(
        self,
        request: CheckedRequest,
        services: Services,
        rules: CrossOriginRules,
        route: HttpRoute,
        parts: dict[str, str],
    ) -> None:
        try:
            if route.method != _GET:
                rules.check(request)
            schemas = self._source.schemas.store(services.config, services.runtime)
            visitor = await visitor_of(services, self._source.samples, None, schemas, request)
            context = attrs.evolve(visitor.context, client_id=_CLIENT_ID)
            call = HttpCall(attrs.evolve(visitor, context=context), request, self._shared, rules)
            await route.handle(call, **route.arguments(parts, texts_of(request, _TEXT_BYTES_MAX), {}))
        except (BadRecord, BadRequest, KafkaError, NotServed, Rejected) as error:
            if request.startedWriting:  # what was sent so far is no whole answer
                request.loseConnection()
                return
            body = self._failed(request, error)
            request.setHeader(b"content-length", b"%d" % len(body))
            request.write(body)
            request.finish()

    def _failed(self, request: CheckedRequest, error: Exception) -> bytes:
        """Return the body of an answer that has an error, and set its head."""
        status = _status(error)
        if status == _UNAVAILABLE and wants_events(request):
            request.setHeader(b"content-type", EVENTS.encode())
            return retry_later(str(error))
        request.setResponseCode(status)
        request.setHeader(b"content-type", JSON.encode())
        if isinstance(error, MethodNotAllowed):
            request.setHeader(b"allow", ", ".join(error.allowed).encode())
        if status == _UNAUTHORIZED:
            request.setHeader(b"www-authenticate", b'Basic realm="pylogbroker", charset="UTF-8"')
        return self.error_content(request.path, status, str(error))[1]


def _status(error: Exception) -> int:
    match error:
        case NotServed():
            return error.code
        case NoRoute():
            return 404
        case MethodNotAllowed():
            return 405
    return status_of_error(error)
