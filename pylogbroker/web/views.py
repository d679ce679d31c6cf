"""The views of the page, and the changes: a table of routes, and what every answer goes through.

    /api/...     the API in JSON, which /openapi.json describes
    /NAME        the same views as HTML, see `pages`; topics are at / as well

`visitors` says who may see them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict

import attrs
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import Request

from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.web.acl_views import acls, add_acl, delete_acl
from pylogbroker.web.changes import create_topic, delete_topic, restore_setting, set_setting
from pylogbroker.web.cluster_views import brokers, topic, topics
from pylogbroker.web.fault_port import FaultPort
from pylogbroker.web.fault_views import add_fault, faults, release_fault, remove_fault
from pylogbroker.web.follower_counts import FollowedTopics
from pylogbroker.web.forms import FormTokens, check_origin, json_of
from pylogbroker.web.group_reset import preview_reset, reset_group
from pylogbroker.web.group_views import group, groups
from pylogbroker.web.late_answers import LateAnswers
from pylogbroker.web.live import Ended, NewRecords, live
from pylogbroker.web.log_directory_views import log_directory
from pylogbroker.web.mirror_views import mirrors
from pylogbroker.web.page_routes import Preview
from pylogbroker.web.quota_views import quotas, remove_quota, set_quota
from pylogbroker.web.record_views import records
from pylogbroker.web.router import (
    BadRequest,
    HttpRoute,
    HttpRouter,
    MethodNotAllowed,
    NoRoute,
)
from pylogbroker.web.router.requests import texts_of
from pylogbroker.web.router.routes import EVENTS, FILE, HTML, JSON
from pylogbroker.web.sampler import Sampler
from pylogbroker.web.samples import Samples
from pylogbroker.web.schema_store import SchemaSource
from pylogbroker.web.share_group_views import share_group
from pylogbroker.web.transaction_views import (
    abort_transaction,
    fence_producer,
    producers,
    transaction,
    transactions,
)
from pylogbroker.web.user_views import delete_user, set_password, users
from pylogbroker.web.visitors import NotServed, Visitor, check_address, visitor_of

log = Logger()

VIEWERS_MAX: Final = 8
"""Viewers who follow new records at a time."""
OPEN_PAGES_MAX: Final = 32
"""Pages whose figures are sent as they change, at a time."""
ANSWERS_MAX: Final = 8
"""Answers in preparation at a time."""
_READING: Final = ("GET", "HEAD")
_STREAMED: Final = (EVENTS, FILE)
"""Answers that their handlers write, as long as there is something to write."""
_DESCRIPTION: Final = "openapi.json"

ROUTES: Final = (
    HttpRoute("GET", "/api/topics", topics),
    HttpRoute("POST", "/api/topics", create_topic),
    HttpRoute("GET", "/api/topics/{name}", topic),
    HttpRoute("DELETE", "/api/topics/{name}", delete_topic),
    HttpRoute("PUT", "/api/topics/{name}/settings/{setting}", set_setting),
    HttpRoute("DELETE", "/api/topics/{name}/settings/{setting}", restore_setting),
    HttpRoute("GET", "/api/topics/{topic}/preview", records),
    HttpRoute("GET", "/api/topics/{topic}/preview/live", live, media=EVENTS, answer=NewRecords | Ended),
    HttpRoute("GET", "/api/topics/{topic}/producers", producers),
    HttpRoute("POST", "/api/topics/{topic}/producers/{producer_id}/abort", abort_transaction),
    HttpRoute("GET", "/api/groups", groups),
    HttpRoute("GET", "/api/groups/{id}", group),
    HttpRoute("GET", "/api/groups/{id}/reset", preview_reset),
    HttpRoute("POST", "/api/groups/{id}/reset", reset_group),
    HttpRoute("GET", "/api/share-groups/{id}", share_group),
    HttpRoute("GET", "/api/transactions", transactions),
    HttpRoute("GET", "/api/transactions/{id}", transaction),
    HttpRoute("POST", "/api/transactions/{id}/fence", fence_producer),
    HttpRoute("GET", "/api/mirrors", mirrors),
    HttpRoute("GET", "/api/brokers", brokers),
    HttpRoute("GET", "/api/brokers/{broker}/log-directory", log_directory),
    HttpRoute("GET", "/api/users", users),
    HttpRoute("PUT", "/api/users/{name}/password", set_password),
    HttpRoute("DELETE", "/api/users/{name}", delete_user),
    HttpRoute("GET", "/api/acls", acls),
    HttpRoute("POST", "/api/acls", add_acl),
    HttpRoute("DELETE", "/api/acls", delete_acl),
    HttpRoute("GET", "/api/quotas", quotas),
    HttpRoute("PUT", "/api/quotas", set_quota),
    HttpRoute("DELETE", "/api/quotas", remove_quota),
)
FAULT_ROUTES: Final = (
    HttpRoute("GET", "/api/faults", faults),
    HttpRoute("POST", "/api/faults", add_fault),
    HttpRoute("POST", "/api/faults/{id}/release", release_fault),
    HttpRoute("DELETE", "/api/faults/{id}", remove_fault),
)
"""Routes of a broker whose testing is on."""


class PageError(TypedDict):
    error: str
    status: int


_NOT_FOUND = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.RESOURCE_NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
)
_BROKER_FAILED = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)
_FORBIDDEN = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


@attrs.define(eq=False, repr=False)
class Source:
    """The broker, once it serves, and its answers in preparation."""

    services: Services | None = None
    faults: FaultPort | None = None
    viewers: LateAnswers = attrs.field(factory=lambda: LateAnswers(VIEWERS_MAX), init=False)
    open_pages: LateAnswers = attrs.field(factory=lambda: LateAnswers(OPEN_PAGES_MAX), init=False)
    form_tokens: FormTokens = attrs.field(factory=FormTokens, init=False)
    answers: LateAnswers = attrs.field(factory=lambda: LateAnswers(ANSWERS_MAX), init=False)
    schemas: SchemaSource = attrs.field(factory=SchemaSource, init=False)
    following: FollowedTopics | None = attrs.field(default=None, init=False)
    """None before the records API is there."""
    _sampler: Sampler = attrs.field(factory=Sampler)
    _stops: list[Callable[[], None]] = attrs.field(factory=list, init=False)

    def on_stop(self, action: Callable[[], None]) -> None:
        """Call an action when nothing is served any more."""
        self._stops.append(action)

    @property
    def samples(self) -> Samples:
        return self._sampler.samples

    def start(self, services: Services) -> None:
        self.services = services
        self._sampler.start(services)

    def stop(self) -> None:
        """Serve nothing from now on."""
        self.services = None
        self._sampler.stop()
        self.viewers.cancel()
        self.open_pages.cancel()
        for stop in self._stops:
            stop()

    def answers_of(self, route: HttpRoute) -> LateAnswers:
        """Return the answers that count with those of a route."""
        if route.is_shared:
            return self.open_pages
        return self.viewers if route.media in _STREAMED else self.answers

    def open(self, request: Request, answers: LateAnswers) -> Services:
        """Return the broker; raise NotServed."""
        if self.services is None:
            raise NotServed(503, "the broker starts or stops")
        check_address(request)
        if answers.is_full:
            raise NotServed(503, "too many requests at a time")
        return self.services


@attrs.frozen
class AskedChange:
    """A change as a request asks for it: parts of the path, and texts of a form."""

    route: HttpRoute
    parts: Mapping[str, str]
    texts: Mapping[str, str]


class Presentation:
    """Form of requests and answers: JSON here, HTML in `pages`."""

    content_type = JSON.encode()

    def parameters(self, source: Source, visitor: Visitor, request: Request) -> tuple[dict[str, str], dict[str, Any]]:
        """Return the texts and the members of a change; raise NotServed or BadRequest."""
        return texts_of(request), {} if request.method == b"DELETE" else json_of(request)

    async def body(
        self, request: Request, source: Source, visitor: Visitor, route: HttpRoute, values: Mapping[str, Any]
    ) -> bytes:
        return _json(values)

    def changed(self, request: Request, route: HttpRoute, values: Mapping[str, Any]) -> bytes:
        """Return the answer to a change that is done."""
        return _json(values)

    async def rejected(
        self, request: Request, source: Source, visitor: Visitor, change: AskedChange, error: Exception
    ) -> bytes:
        """Return the answer to a change that is wrong, or only to be previewed; by default, raise the error."""
        raise error

    def error_body(self, request: Request, source: Source, code: int, reason: str) -> bytes:
        return _json({"error": reason, "status": code})


class ViewResource(Resource):
    """Answers what a router finds: views asked for by GET, changes by other methods."""

    isLeaf = True

    def __init__(
        self,
        source: Source,
        routes: Sequence[HttpRoute],
        presentations: Mapping[str, Presentation],
        others: Sequence[HttpRoute] = (),
    ) -> None:
        """Answer routes; `others` have another resource, and are only named as hints."""
        super().__init__()
        self._source = source
        self._router = HttpRouter(routes, f"/{_DESCRIPTION}", others)
        self._presentations = presentations

    def render(self, request: Request) -> bytes | int:
        """Return the body, or NOT_DONE_YET."""
        path = request.path.decode("ascii", "replace")
        is_page = not path.startswith("/api") and HTML in (request.getHeader("accept") or "")
        shown = self._presentations[HTML if is_page else JSON]
        try:
            route, parts = self._router.find(request.method.decode("ascii", "replace"), path)
            shown = self._presentations[route.media]
            answers = self._source.answers_of(route)
            services = self._source.open(request, answers)
        except NoRoute as error:
            return self._answer_error(request, shown, 404, str(error))
        except MethodNotAllowed as error:
            request.setHeader(b"allow", ", ".join(error.allowed).encode())
            return self._answer_error(request, shown, 405, str(error))
        except NotServed as error:
            return self._answer_error(request, shown, error.code, str(error))
        return answers.begin(request, self._answer(request, services, route, parts))

    async def _answer(self, request: Request, services: Services, route: HttpRoute, parts: dict[str, str]) -> None:
        shown = self._presentations[route.media]
        request.setHeader(b"content-type", shown.content_type)
        try:
            schemas = self._source.schemas.store(services.config, services.runtime)
            visitor = await visitor_of(services, self._source.samples, self._source.faults, schemas, request)
            visitor = attrs.evolve(visitor, following=self._source.following)
            body = await self._asked(request, visitor, route, parts)
        except NotServed as error:
            body = self._answer_error(request, shown, error.code, str(error))
        except (BadRequest, PylogbrokerError) as error:
            body = self._answer_error(request, shown, status_of(error), str(error))
        if body is not None:
            request.setHeader(b"content-length", b"%d" % len(body))
            request.write(body)
            request.finish()

    async def _asked(self, request: Request, visitor: Visitor, route: HttpRoute, parts: dict[str, str]) -> bytes | None:
        """Return the body, or None if the handler has written the answer."""
        shown = self._presentations[route.media]
        is_change = request.method.decode("ascii", "replace") not in _READING
        if is_change:
            check_origin(request)
            texts, members = shown.parameters(self._source, visitor, request)
        else:
            texts, members = texts_of(request), dict[str, Any]()
        if route.media in _STREAMED:
            await route.handle(visitor, request, **route.arguments(parts, texts, members))
            return None
        try:
            values = await route.handle(visitor, **route.arguments(parts, texts, members))
        except (BadRequest, PylogbrokerError, Preview) as error:
            if not is_change:
                raise
            return await shown.rejected(request, self._source, visitor, AskedChange(route, parts, texts), error)
        if not is_change:
            return await shown.body(request, self._source, visitor, route, values)
        log.info("{principal} asked for {change} at the page", principal=visitor.principal, change=route.name)
        return shown.changed(request, route, values)

    def _answer_error(self, request: Request, shown: Presentation, code: int, reason: str) -> bytes:
        request.setResponseCode(code)
        request.setHeader(b"content-type", shown.content_type)
        if code == 401:
            request.setHeader(b"www-authenticate", b'Basic realm="pylogbroker", charset="UTF-8"')
        return shown.error_body(request, self._source, code, reason)


def status_of(error: Exception) -> int:
    """Return the status of the answer to a request that fails so."""
    if not isinstance(error, KafkaError):
        return 400
    code = error.code
    if code in _FORBIDDEN:
        return 403
    if code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return 409
    return 404 if code in _NOT_FOUND else 503 if code.retriable or code in _BROKER_FAILED else 400


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
