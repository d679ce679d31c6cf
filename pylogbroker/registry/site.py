"""The registry by HTTP. As Confluent's registry, it ignores unknown parameters, and checks bodies itself."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import quote, unquote

import attrs
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from pylogbroker.background import run_in_background
from pylogbroker.long_loops import over
from pylogbroker.registry.callers import RegistryCaller
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.registry import SchemaRegistry
from pylogbroker.registry.rest.calls import RegistryCall
from pylogbroker.registry.rest.routes import CONTENT_TYPE, DESCRIPTION, NOT_SERVED, ROUTES, registry_document
from pylogbroker.registry.subjects import ANY_CONTEXT, normalized_context
from pylogbroker.web.router import BadRequest, HttpRoute, HttpRouter, MethodNotAllowed, NoRoute
from pylogbroker.web.router.requests import content_of, content_type_of

log = Logger()

_TEXT_BYTES_MAX: Final = 64 * 1024
_INLINE_BYTES: Final = 64 * 1024
"""Larger bodies are parsed in a worker thread."""
_NEW_MEMBERS: Final = "confluent-accept-unknown-properties"
_JSON_TYPES: Final = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
_ANY_TYPES: Final = ("", "*", "application/*")
_BODY_TYPES: Final = (*_JSON_TYPES, "", "application/octet-stream", "application/x-www-form-urlencoded")
"""Types of bodies: clients that give none, as curl without a header, send JSON, too."""
_NO_CONTENT: Final = 204
_CONTEXTS: Final = "contexts"
_SETTINGS: Final = ("config", "mode")
_LISTS: Final = (["schemas"], ["subjects"])


@attrs.frozen
class RegistryRequest:
    """A request without HTTP: its path is still encoded, and has no query."""

    method: str
    path: str
    query: Mapping[str, list[str]] = attrs.field(factory=dict)
    content: bytes = b""
    accepts_unknown_members: bool = False


@attrs.frozen
class RegistryAnswer:
    status: int
    content: bytes
    allowed: str = ""
    """Methods of the path, if the request had another one."""


@attrs.frozen(eq=False, repr=False)
class RegistryApi:
    """Routes requests to their handlers, and makes errors answers."""

    _registry: SchemaRegistry
    _cluster_id: str
    _router: HttpRouter = attrs.field(
        factory=lambda: HttpRouter(
            (*ROUTES, HttpRoute("GET", DESCRIPTION, _describe, hidden=frozenset({"call"}))), DESCRIPTION
        ),
        init=False,
    )

    async def answer(self, request: RegistryRequest, caller: RegistryCaller) -> RegistryAnswer:
        try:
            value = await self._value(request, caller)
        except MethodNotAllowed as error:
            failure = RegistryError(405, "HTTP 405 Method Not Allowed")
            return attrs.evolve(error_answer(failure), allowed=", ".join(error.allowed))
        except RegistryError as error:
            return error_answer(error)
        except Exception:
            log.failure("{method} {path} failed", method=request.method, path=request.path)
            return error_answer(RegistryError.backend_failed("see the log of the registry"))
        if value is None:
            return RegistryAnswer(_NO_CONTENT, b"")
        if isinstance(value, list):
            return RegistryAnswer(200, await self._registry.in_slices(_list_content(value)))
        return RegistryAnswer(200, value if isinstance(value, bytes) else json.dumps(value).encode())

    async def _body(self, content: bytes) -> Mapping[str, Any]:
        """Return the members of a body; raise RegistryError."""
        if len(content) <= _INLINE_BYTES:
            return _body(content)
        body: Mapping[str, Any] = await self._registry.in_thread(_body, content)
        return body

    async def _value(self, request: RegistryRequest, caller: RegistryCaller) -> Any:
        """Return what a handler answers; raise RegistryError or MethodNotAllowed."""
        path, query = _without_context(request)
        first = path.partition("/")[2].partition("/")[0].partition(":")[0]
        if first in NOT_SERVED:
            raise RegistryError(404, f"HTTP 404 Not Found: {NOT_SERVED[first]}")
        try:
            route, parts = self._router.find(request.method, path)
            declared = route.parameters.by_name
            texts = {name: values[-1] for name, values in query.items() if name in declared}
            arguments = route.parameters.read(texts | parts, {})
        except NoRoute:
            raise RegistryError(404, "HTTP 404 Not Found") from None
        except BadRequest as error:
            raise RegistryError(400, str(error)) from None
        arguments["call"] = RegistryCall(
            self._registry, caller, request.accepts_unknown_members, query, self._cluster_id
        )
        if route.body is not None:
            arguments["body"] = await self._body(request.content)
        answer = route.handle(**arguments)
        return await answer if isawaitable(answer) else answer


def _describe(call: RegistryCall) -> dict[str, Any]:
    return registry_document()


def _without_context(request: RegistryRequest) -> tuple[str, dict[str, list[str]]]:
    """Return path and query with the context of a path like `/contexts/.staging/subjects` before subjects.

    Raise RegistryError.
    """
    parts = [part for part in request.path.split("/") if part]
    query = dict(request.query)
    if len(parts) < 2 or parts[0] != _CONTEXTS or (len(parts) == 2 and request.method == "DELETE"):
        return f"/{'/'.join(parts)}", query
    prefix = normalized_context(unquote(parts[1]))
    rest = parts[2:]
    if not rest:
        return f"/{_CONTEXTS}", query
    if rest[0] in _SETTINGS:
        rest = [rest[0], quote(_in_context(prefix, unquote("/".join(rest[1:]))), safe="")]
        rest = [part for part in rest if part]
    elif "subjects" in rest[:-1]:
        place = rest.index("subjects") + 1
        rest[place] = quote(_in_context(prefix, unquote(rest[place])), safe="")
    elif rest in _LISTS:
        query["subjectPrefix"] = [_in_context(prefix, *query.get("subjectPrefix", [""])[-1:])]
    elif rest[:2] == ["schemas", "ids"]:
        query["subject"] = [_in_context(prefix, *query.get("subject", [""])[-1:])]
    return f"/{'/'.join(rest)}", query


def _in_context(prefix: str, subject: str) -> str:
    return subject if subject.startswith((":.", ANY_CONTEXT)) else prefix + subject


async def _list_content(items: list[Any]) -> bytes:
    """Return a list as JSON; a thousand schemas may be long."""
    return f"[{', '.join([json.dumps(item) async for item in over(items)])}]".encode()


def error_answer(error: RegistryError) -> RegistryAnswer:
    content = json.dumps({"error_code": error.code, "message": str(error)}).encode()
    return RegistryAnswer(error.status, content)


def error_content(path: bytes, status: int, reason: str) -> tuple[str, bytes]:
    """Return type and content of the answer to a request that breaks a bound."""
    return CONTENT_TYPE, error_answer(RegistryError(status, reason)).content


def _body(content: bytes) -> Mapping[str, Any]:
    """Return the members of a body; raise RegistryError."""
    try:
        members = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, f"the body is no JSON: {error}") from error
    if not isinstance(members, dict):
        raise RegistryError(400, "the body is no JSON object")
    return members


Respond = Callable[[RegistryRequest, Request], Awaitable[RegistryAnswer]]
"""`respond(request, http)` checks who sent a request, and returns the answer."""


class RegistryResource(Resource):
    """Answers requests of HTTP."""

    isLeaf = True

    def __init__(self, respond: Respond) -> None:
        super().__init__()
        self._respond = respond

    def render(self, request: Request) -> int:
        problem = "{method} {uri} was not answered"
        run_in_background(log, self._answer(request), problem, method=request.method, uri=request.uri)
        return NOT_DONE_YET

    async def _answer(self, request: Request) -> None:
        gone: list[object] = []
        request.notifyFinish().addErrback(gone.append)
        media = _accepted(request)
        try:
            if media is None:
                raise RegistryError(406, "HTTP 406 Not Acceptable")
            answer = await self._respond(_request_of(request), request)
        except RegistryError as error:
            answer = error_answer(error)
        except Exception:
            log.failure("{method} {path} failed", method=request.method, path=request.path)
            answer = error_answer(RegistryError.backend_failed("see the log of the registry"))
        if gone:
            return
        request.setResponseCode(answer.status)
        if answer.allowed:
            request.setHeader(b"allow", answer.allowed.encode())
        if answer.status == 401:
            request.setHeader(b"www-authenticate", b'Basic realm="schema registry", charset="UTF-8"')
        if answer.status != _NO_CONTENT:
            request.setHeader(b"content-type", (media or CONTENT_TYPE).encode())
            request.setHeader(b"content-length", b"%d" % len(answer.content))
            if request.method != b"HEAD":
                request.write(answer.content)
        request.finish()


def _request_of(request: Request) -> RegistryRequest:
    """Return the request without HTTP; raise RegistryError."""
    if request.method in (b"POST", b"PUT") and content_type_of(request) not in _BODY_TYPES:
        raise RegistryError(415, "HTTP 415 Unsupported Media Type")
    query: dict[str, list[str]] = {}
    for name, values in (request.args or {}).items():
        try:
            query[name.decode()] = [value.decode() for value in values]
        except UnicodeDecodeError:
            raise RegistryError(400, "a parameter is not UTF-8") from None
        if any(len(value) > _TEXT_BYTES_MAX for value in values):
            raise RegistryError(400, f"a parameter has more than {_TEXT_BYTES_MAX} bytes")
    path = request.uri.decode("ascii", "replace").partition("?")[0]
    accepts = (request.getHeader(_NEW_MEMBERS) or "").lower() == "true"
    return RegistryRequest(request.method.decode("ascii", "replace"), path, query, content_of(request), accepts)


def _accepted(request: Request) -> str | None:
    """Return the type of the answer that a client asks for, by default Confluent's; None if none is served."""
    media_types = [part.partition(";")[0].strip().lower() for part in (request.getHeader("accept") or "").split(",")]
    if any(media in _ANY_TYPES or media.startswith("*/") for media in media_types):
        return CONTENT_TYPE
    return next((media for media in media_types if media in _JSON_TYPES), None)
