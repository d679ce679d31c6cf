"""HTTP server of the control. Commands run in worker threads: some wait for requests of clients."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NotRequired, TypedDict

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from pylogbroker.background import run_in_background
from pylogbroker.client.sync.background import TimedOut
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.testing.clock import NotSettled
from pylogbroker.testing.control.commands import ROUTES, Commands, NotFound
from pylogbroker.testing.errors import NotRunning
from pylogbroker.testing.faults import FaultNotFired
from pylogbroker.web.router import (
    ApiDescription,
    HttpRoute,
    HttpRouter,
    MethodNotAllowed,
    NoRoute,
    document,
)
from pylogbroker.web.router.requests import content_of, content_type_of, members_of, texts_of
from pylogbroker.web.router.routes import JSON

log = Logger()

_THREADS_MAX: Final = 40
_DESCRIPTION: Final = "/openapi.json"
_STATUS: Final = (
    (FaultNotFired, 409),
    ((NotFound, NoRoute), 404),
    (MethodNotAllowed, 405),
    (NotRunning, 503),
    ((NotSettled, TimedOut), 504),
    ((ValueError, TypeError, LookupError, KafkaError, ConfigError), 400),
)


class ControlError(TypedDict):
    """Reason of an error; 503 while the broker is down, 504 if the work takes too long."""

    error: str
    type: str
    code: NotRequired[str]


API: Final = ApiDescription(
    "Control of a pylogbroker test broker",
    "Faults of a broker that programs are tested with. Bodies are JSON objects.",
    ControlError,
    (400, 404, 409, 500, 503, 504),
)


def control_document() -> dict[str, Any]:
    return document(API, ROUTES)


def _describe(commands: Commands) -> dict[str, Any]:
    return control_document()


class ControlResource(Resource):
    """Answers each request by the command of its method and path."""

    isLeaf = True

    def __init__(self, reactor: Any, commands: Commands, routes: Sequence[HttpRoute] = ROUTES) -> None:
        super().__init__()
        self._reactor = reactor
        self._commands = commands
        description = HttpRoute("GET", _DESCRIPTION, _describe, hidden=frozenset({"commands"}))
        self._router = HttpRouter((*routes, description), _DESCRIPTION)

    def render(self, request: Request) -> int:
        problem = "{method} {path} was not answered"
        run_in_background(log, self._respond(request), problem, method=request.method, path=request.path)
        return NOT_DONE_YET

    async def _respond(self, request: Request) -> None:
        gone: list[Failure] = []
        request.notifyFinish().addErrback(gone.append)
        try:
            _reject_web_page(request)
            route, parts = self._router.find(request.method.decode("ascii", "replace"), request.path.decode("ascii"))
            arguments = route.arguments(parts, texts_of(request), _members(request))
            pool = self._reactor.getThreadPool()
            result = await deferToThreadPool(self._reactor, pool, route.handle, self._commands, **arguments)
            status = 200
        except Exception as error:
            status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
            result = _described(error)
            if isinstance(error, MethodNotAllowed):
                request.setHeader(b"allow", ", ".join(error.allowed).encode())
            if status == 500:
                log.failure("{method} {path} failed", method=request.method, path=request.path)
        if not gone:
            _answer(request, status, result)


def _described(error: Exception) -> dict[str, str]:
    code = {"code": error.code.name} if isinstance(error, KafkaError) else {}
    return {"error": str(error), "type": type(error).__name__} | code


def _reject_web_page(request: Request) -> None:
    """Raise ValueError for a change that a page in a browser asks for: any page may post to this address."""
    if request.method != b"GET" and request.getHeader("origin") is not None:
        raise ValueError("requests of web pages are not accepted: send no Origin header")


def _members(request: Request) -> dict[str, Any]:
    """Return the members of the body, none without one; raise ValueError."""
    content = content_of(request)
    if content and content_type_of(request) != JSON:
        raise ValueError("the body has another content type than application/json")  # as forms of web pages have
    return members_of(content)


def _answer(request: Request, status: int, result: Any) -> None:
    request.setResponseCode(status)
    request.setHeader(b"content-type", JSON.encode())
    request.write(json.dumps(result).encode())
    request.finish()


def control_site(reactor: Any, commands: Commands) -> Site:
    reactor.suggestThreadPoolSize(_THREADS_MAX)
    return Site(ControlResource(reactor, commands), reactor=reactor)
