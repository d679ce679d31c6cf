"""The views of the page: each is a function that returns values of JSON.

    /api/NAME    the values as JSON
    /NAME        the same values as HTML, see `pages`; topics are at / as well
    /api/live    new records as server-sent events, see `live`

Changes are asked for by POST, at the same addresses: by a form as HTML has it, or by JSON.

`visitors` says who may see them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

import attrs
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import Request

from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.web.acl_views import acls, add_acl, delete_acl
from pylogbroker.web.changes import alter_topic, create_topic, delete_topic, produce
from pylogbroker.web.cluster_views import brokers, topic, topics
from pylogbroker.web.fault_port import FaultPort
from pylogbroker.web.fault_views import add_fault, faults, release_fault, remove_fault
from pylogbroker.web.forms import FormTokens, check_origin, json_of
from pylogbroker.web.group_reset import preview_reset, reset_group
from pylogbroker.web.group_views import group, groups
from pylogbroker.web.late_answers import LateAnswers
from pylogbroker.web.live import LiveView
from pylogbroker.web.log_directory_views import log_directory
from pylogbroker.web.query import BadQuery, Query
from pylogbroker.web.quota_views import quotas, set_quota
from pylogbroker.web.record_views import records
from pylogbroker.web.sampler import Sampler
from pylogbroker.web.samples import Samples
from pylogbroker.web.texts import Directory, Page, StaticPage
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
ANSWERS_MAX: Final = 8
"""Answers in preparation at a time."""

Work = Callable[[Visitor, Request], Awaitable[bytes | None]]
View = Callable[[Visitor, Query], Awaitable[dict[str, Any]]]
VIEWS: Final[Mapping[str, View]] = {
    "topics": topics,
    "topic": topic,
    "records": records,
    "groups": groups,
    "group": group,
    "reset-group": preview_reset,
    "brokers": brokers,
    "log-directory": log_directory,
    "users": users,
    "acls": acls,
    "quotas": quotas,
    "transactions": transactions,
    "transaction": transaction,
    "producers": producers,
}
CHANGES: Final[Mapping[str, View]] = {
    "create-topic": create_topic,
    "alter-topic": alter_topic,
    "delete-topic": delete_topic,
    "produce": produce,
    "reset-group": reset_group,
    "set-password": set_password,
    "delete-user": delete_user,
    "add-acl": add_acl,
    "delete-acl": delete_acl,
    "set-quota": set_quota,
    "fence-producer": fence_producer,
    "abort-transaction": abort_transaction,
}
FAULT_VIEWS: Final[Mapping[str, View]] = {"faults": faults}
"""Views of a broker whose testing is on."""
FAULT_CHANGES: Final[Mapping[str, View]] = {
    "add-fault": add_fault,
    "release-fault": release_fault,
    "remove-fault": remove_fault,
}
_NOT_FOUND = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.RESOURCE_NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
)
_FORBIDDEN = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


@attrs.define(eq=False)
class Source:
    """The broker, once it serves, and its answers in preparation."""

    services: Services | None = None
    faults: FaultPort | None = None
    viewers: LateAnswers = attrs.field(factory=lambda: LateAnswers(VIEWERS_MAX), init=False)
    form_tokens: FormTokens = attrs.field(factory=FormTokens, init=False)
    answers: LateAnswers = attrs.field(factory=lambda: LateAnswers(ANSWERS_MAX), init=False)
    samples: Samples = attrs.field(factory=Samples, init=False)
    _sampler: Sampler = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._sampler = Sampler(self.samples)

    @property
    def names(self) -> Collection[str]:
        """Return the names of all views and changes."""
        testing = () if self.faults is None else (*FAULT_VIEWS, *FAULT_CHANGES)
        return dict.fromkeys((*VIEWS, *CHANGES, *testing))

    def start(self, services: Services) -> None:
        self.services = services
        self._sampler.start(services)

    def stop(self) -> None:
        """Serve nothing from now on."""
        self.services = None
        self._sampler.stop()
        self.viewers.cancel()

    def open(self, request: Request, answers: LateAnswers) -> Services:
        """Return the broker; raise NotServed."""
        if self.services is None:
            raise NotServed(503, "the broker starts or stops")
        check_address(request)
        if answers.is_full:
            raise NotServed(503, "too many requests at a time")
        return self.services


class ViewPage(Page):
    """A view, asked for by GET, or a change, asked for by POST; subclasses say what values and errors look like."""

    content_type = b""

    def __init__(self, source: Source, name: str) -> None:
        super().__init__()
        self.source = source
        self.name = name
        self._view = {**VIEWS, **FAULT_VIEWS}.get(name)
        self._change = {**CHANGES, **FAULT_CHANGES}.get(name)

    @property
    def methods(self) -> Sequence[bytes]:
        return (*(super().methods if self._view else ()), *((b"POST",) if self._change else ()))

    def render_GET(self, request: Request) -> bytes | int:
        return self.begin(request, self.source.answers, self._show)

    def render_POST(self, request: Request) -> bytes | int:
        return self.begin(request, self.source.answers, self._do)

    def begin(self, request: Request, answers: LateAnswers, work: Work) -> bytes | int:
        """Let `work` answer, which returns a body or writes the answer itself, or answer why not."""
        try:
            services = self.source.open(request, answers)
        except NotServed as error:
            return self._answer_error(request, error.code, str(error))
        return answers.begin(request, self._answer(request, services, work))

    async def _show(self, visitor: Visitor, request: Request) -> bytes:
        assert self._view is not None
        values = await self._view(visitor, Query.of(request))
        return self.body(visitor, values)

    async def _do(self, visitor: Visitor, request: Request) -> bytes:
        assert self._change is not None
        check_origin(request)
        values = await self._change(visitor, self.fields(visitor, request))
        log.info("{principal} asked for {change} at the page", principal=visitor.principal, change=self.name)
        return self.changed(request, visitor, values)

    async def _answer(self, request: Request, services: Services, work: Work) -> None:
        request.setHeader(b"content-type", self.content_type)
        try:
            body = await work(await visitor_of(services, self.source.samples, self.source.faults, request), request)
        except NotServed as error:
            body = self._answer_error(request, error.code, str(error))
        except BadQuery as error:
            body = self._answer_error(request, 400, str(error))
        except KafkaError as error:
            body = self._answer_error(request, _status(error.code), error.detail)
        except PylogbrokerError as error:
            body = self._answer_error(request, 400, str(error))
        if body is not None:
            request.setHeader(b"content-length", b"%d" % len(body))
            request.write(body)
            request.finish()

    def _answer_error(self, request: Request, code: int, reason: str) -> bytes:
        request.setResponseCode(code)
        request.setHeader(b"content-type", self.content_type)
        if code == 401:
            request.setHeader(b"www-authenticate", b'Basic realm="pylogbroker", charset="UTF-8"')
        return self.error_body(code, reason)

    def fields(self, visitor: Visitor, request: Request) -> Query:
        """Return the fields of a change; raise NotServed or BadQuery."""
        raise NotImplementedError

    def body(self, visitor: Visitor, values: dict[str, Any]) -> bytes:
        raise NotImplementedError

    def changed(self, request: Request, visitor: Visitor, values: dict[str, Any]) -> bytes:
        """Return the answer to a change that is done."""
        raise NotImplementedError

    def error_body(self, code: int, reason: str) -> bytes:
        raise NotImplementedError


def _status(code: ErrorCode) -> int:
    if code in _FORBIDDEN:
        return 403
    return 404 if code in _NOT_FOUND else 503 if code.retriable else 400


class JsonPage(ViewPage):
    content_type = b"application/json"

    def fields(self, visitor: Visitor, request: Request) -> Query:
        return json_of(request)

    def body(self, visitor: Visitor, values: dict[str, Any]) -> bytes:
        return _json(values)

    def changed(self, request: Request, visitor: Visitor, values: dict[str, Any]) -> bytes:
        return _json(values)

    def error_body(self, code: int, reason: str) -> bytes:
        return _json({"error": reason, "status": code})


class LivePage(JsonPage):
    """Stream of events; a request that fails before it begins gets JSON."""

    @property
    def methods(self) -> Sequence[bytes]:
        return (b"GET",)

    def render_GET(self, request: Request) -> bytes | int:
        return self.begin(request, self.source.viewers, self._follow)

    async def _follow(self, visitor: Visitor, request: Request) -> None:
        view = await LiveView.open(visitor, request, Query.of(request))
        await view.run()


def _json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def put_api(root: Resource, source: Source) -> None:
    """Serve views and changes below /api, and their description."""
    api = Directory()
    root.putChild(b"api", api)
    for name in source.names:
        api.putChild(name.encode(), JsonPage(source, name))
    api.putChild(b"live", LivePage(source, "live"))
    api.putChild(b"openapi.json", StaticPage("openapi.json", b"application/json"))
