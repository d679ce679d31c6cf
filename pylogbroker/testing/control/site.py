"""HTTP server of the control. Commands run in worker threads: some wait for requests of clients."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final
from urllib.parse import unquote

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from pylogbroker.background import run_in_background
from pylogbroker.client.sync.background import TimedOut
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.json_text import named_once
from pylogbroker.testing.clock import NotSettled
from pylogbroker.testing.control.commands import Command, Commands, NotFound
from pylogbroker.testing.errors import NotRunning
from pylogbroker.testing.faults import FaultNotFired

log = Logger()

THREADS_MAX: Final = 40
OPENAPI: Final = "openapi.json"
_PLACE: Final = "{}"
_JSON: Final = b"application/json"
_STATUS: Final = (
    (FaultNotFired, 409),
    (NotFound, 404),
    (NotRunning, 503),
    ((NotSettled, TimedOut), 504),
    ((ValueError, TypeError, LookupError, KafkaError, ConfigError), 400),
)


class ControlResource(Resource):
    """Answers each request by the command of its method and path."""

    isLeaf = True

    def __init__(self, reactor: Any, commands: Commands) -> None:
        super().__init__()
        self._reactor = reactor
        self._table = {(method, _template(path)): command for (method, path), command in _all(commands)}

    def render(self, request: Request) -> int:
        problem = "{method} {path} was not answered"
        run_in_background(log, self._respond(request), problem, method=request.method, path=request.path)
        return NOT_DONE_YET

    async def _respond(self, request: Request) -> None:
        gone: list[Failure] = []
        request.notifyFinish().addErrback(gone.append)
        try:
            _reject_web_page(request)
            command, body = self._command(request), _body(request)
            result = await deferToThreadPool(self._reactor, self._reactor.getThreadPool(), command, **body)
            status = 200
        except Exception as error:
            status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
            result = _described(error)
            if status == 500:
                log.failure("{method} {path} failed", method=request.method, path=request.path)
        if not gone:
            _answer(request, status, result)

    def _command(self, request: Request) -> Command:
        method, path = request.method.decode(), tuple(request.path.decode().split("/")[1:])
        if (method, path) in self._table:
            return self._table[method, path]
        named = (path[0], _PLACE, *path[2:])
        if len(path) > 1 and (method, named) in self._table:
            command, name = self._table[method, named], unquote(path[1])
            return lambda **body: command(name, **body)
        raise NotFound(f"there is no {method} {request.path.decode()}: see /{OPENAPI}")


def _template(path: str) -> tuple[str, ...]:
    """Return the parts of a path, with one text for all those in braces."""
    return tuple(_PLACE if part.startswith("{") else part for part in path.split("/")[1:])


def _all(commands: Commands) -> list[tuple[tuple[str, str], Command]]:
    description: Callable[[], Any] = openapi
    return [*commands.table().items(), (("GET", f"/{OPENAPI}"), description)]


def openapi() -> Any:
    return json.loads(files(__package__).joinpath(OPENAPI).read_text())


def _described(error: Exception) -> dict[str, str]:
    code = {"code": error.code.name} if isinstance(error, KafkaError) else {}
    return {"error": str(error), "type": type(error).__name__} | code


def _reject_web_page(request: Request) -> None:
    """Raise ValueError for a change that a page in a browser asks for: any page may post to this address."""
    if request.method != b"GET" and request.getHeader("origin") is not None:
        raise ValueError("requests of web pages are not accepted: send no Origin header")


def _body(request: Request) -> dict[str, Any]:
    """Return the fields of the body, or of a query; raise ValueError."""
    content = request.content.read() if request.content is not None else b""
    if not content:
        return {name.decode(): values[0].decode() for name, values in (request.args or {}).items()}
    content_type = str(request.getHeader("content-type") or "").partition(";")[0]  # a charset may follow
    if content_type.strip().lower() != _JSON.decode():
        raise ValueError("the body has another content type than application/json")  # as forms of web pages have
    body = json.loads(content, object_pairs_hook=named_once)
    if not isinstance(body, dict):
        raise ValueError("the body is no JSON object")
    return body


def _answer(request: Request, status: int, result: Any) -> None:
    request.setResponseCode(status)
    request.setHeader(b"content-type", _JSON)
    request.write(json.dumps(result).encode())
    request.finish()


def control_site(reactor: Any, commands: Commands) -> Site:
    reactor.suggestThreadPoolSize(THREADS_MAX)
    return Site(ControlResource(reactor, commands), reactor=reactor)
