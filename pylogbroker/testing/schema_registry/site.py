"""The registry by HTTP: paths, query, and answers as Confluent's registry has them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from pylogbroker.background import run_in_background
from pylogbroker.testing.schema_registry.errors import RegistryError
from pylogbroker.testing.schema_registry.registry import SchemaRegistry
from pylogbroker.testing.schema_registry.state import LATEST
from pylogbroker.testing.schema_registry.values import TYPES, Version

log = Logger()

CONTENT_TYPE: Final = b"application/vnd.schemaregistry.v1+json"
_VERSION_MAX: Final = 2**31 - 1


@attrs.frozen(eq=False)
class RegistryRequest:
    """A request without HTTP: parts of its path, query, body."""

    query: Mapping[str, list[str]]
    content: bytes

    def flag(self, name: str) -> bool:
        return self.query.get(name, ["false"])[-1].lower() == "true"

    @property
    def prefix(self) -> str:
        return self.query.get("subjectPrefix", [""])[-1]

    def body(self) -> Mapping[str, Any]:
        try:
            found = json.loads(self.content)
        except ValueError as error:
            raise RegistryError(400, f"the body is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise RegistryError(400, "the body is no JSON object")
        return found


Handler = Callable[..., Any]


@attrs.define(eq=False)
class RegistryRoutes:
    """Handlers of the registry by method and path; a handler gets the question and the parts in braces."""

    _registry: SchemaRegistry
    _table: list[tuple[str, re.Pattern[str], Handler]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        for method, path, handler in self._routes():
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
            self._table.append((method, re.compile(pattern), handler))

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, str]]:
        """Return the handler and what it gets of the path; raise RegistryError."""
        found = [(known, each.fullmatch(path), handler) for known, each, handler in self._table]
        matching = [(known, match, handler) for known, match, handler in found if match is not None]
        for known, match, handler in matching:
            if known == method:
                return handler, {name: unquote(value) for name, value in match.groupdict().items()}
        if matching:
            raise RegistryError(405, "HTTP 405 Method Not Allowed")
        raise RegistryError(404, "HTTP 404 Not Found")

    def _routes(self) -> list[tuple[str, str, Handler]]:
        registry = self._registry
        return [
            ("GET", "/?", lambda q: {}),
            ("GET", "/subjects/?", self._subjects),
            ("POST", "/subjects/{subject}", self._look_up),
            ("DELETE", "/subjects/{subject}", self._delete_subject),
            ("GET", "/subjects/{subject}/versions", self._versions),
            ("POST", "/subjects/{subject}/versions", self._register),
            ("GET", "/subjects/{subject}/versions/{version}", lambda q, **of: self._version(q, **of).as_json()),
            ("DELETE", "/subjects/{subject}/versions/{version}", self._delete_version),
            ("GET", "/subjects/{subject}/versions/{version}/schema", self._text_of_version),
            ("GET", "/subjects/{subject}/versions/{version}/referencedby", self._referenced_by),
            ("POST", "/compatibility/subjects/{subject}/versions", self._check),
            ("POST", "/compatibility/subjects/{subject}/versions/{version}", self._check),
            ("GET", "/schemas/types/?", lambda q: list(TYPES)),
            ("GET", "/schemas/?", self._schemas),
            ("GET", "/schemas/ids/{id}", self._schema),
            ("GET", "/schemas/ids/{id}/schema", lambda q, id: registry.state.schema(_id(id)).text.encode()),
            ("GET", "/schemas/ids/{id}/subjects", lambda q, id: sorted({e.subject for e in self._of_id(q, id)})),
            ("GET", "/schemas/ids/{id}/versions", self._versions_of_id),
            ("GET", "/config/?", lambda q: registry.level(None)),
            ("PUT", "/config/?", lambda q: registry.set_level(None, q.body())),
            ("DELETE", "/config/?", lambda q: registry.delete_level(None)),
            ("GET", "/config/{s}", lambda q, s: registry.level(s, default_to_global=q.flag("defaultToGlobal"))),
            ("PUT", "/config/{s}", lambda q, s: registry.set_level(s, q.body())),
            ("DELETE", "/config/{s}", lambda q, s: registry.delete_level(s)),
            ("GET", "/mode/?", lambda q: registry.mode(None)),
            ("PUT", "/mode/?", lambda q: registry.set_mode(None, q.body(), force=q.flag("force"))),
            ("GET", "/mode/{s}", lambda q, s: registry.mode(s, default_to_global=q.flag("defaultToGlobal"))),
            ("PUT", "/mode/{s}", lambda q, s: registry.set_mode(s, q.body(), force=q.flag("force"))),
            ("DELETE", "/mode/{s}", lambda q, s: registry.delete_mode(s)),
        ]

    # subjects

    def _subjects(self, q: RegistryRequest) -> list[str]:
        state = self._registry.state
        found = state.subjects(deleted=q.flag("deleted") or q.flag("deletedOnly"))
        live = set(state.subjects()) if q.flag("deletedOnly") else ()
        return [each for each in found if each.startswith(q.prefix) and each not in live]

    def _look_up(self, q: RegistryRequest, subject: str) -> Any:
        flags = {"normalize": q.flag("normalize"), "deleted": q.flag("deleted")}
        return self._registry.look_up(subject, q.body(), **flags)

    def _delete_subject(self, q: RegistryRequest, subject: str) -> Any:
        return self._registry.delete_subject(subject, permanent=q.flag("permanent"))

    def _versions(self, q: RegistryRequest, subject: str) -> Any:
        found = self._registry.state.versions(subject, deleted=q.flag("deleted"))
        if not found:
            raise RegistryError.no_subject(subject)
        return [each.version for each in found]

    def _register(self, q: RegistryRequest, subject: str) -> Any:
        return self._registry.register(subject, q.body(), normalize=q.flag("normalize"))

    def _version(self, q: RegistryRequest, subject: str, version: str) -> Version:
        return self._registry.state.version(subject, _number(version), deleted=q.flag("deleted"))

    def _delete_version(self, q: RegistryRequest, subject: str, version: str) -> Any:
        return self._registry.delete_version(subject, _number(version), permanent=q.flag("permanent"))

    def _text_of_version(self, q: RegistryRequest, subject: str, version: str) -> bytes:
        return self._version(q, subject, version).schema.text.encode()

    def _referenced_by(self, q: RegistryRequest, subject: str, version: str) -> list[int]:
        found = self._version(q, subject, version)
        return sorted({each.id for each in self._registry.state.referrers(subject, found.version)})

    def _check(self, q: RegistryRequest, subject: str, version: str | None = None) -> Any:
        number = None if version is None else _number(version)
        flags = {"normalize": q.flag("normalize"), "verbose": q.flag("verbose")}
        return self._registry.check(subject, number, q.body(), **flags)

    # schemas

    def _schemas(self, q: RegistryRequest) -> Any:
        every = self._registry.state.all_versions(deleted=q.flag("deleted"))
        found = [each for each in every if each.subject.startswith(q.prefix)]
        if q.flag("latestOnly"):
            found = list({each.subject: each for each in found}.values())
        return [each.as_json() for each in found]

    def _schema(self, q: RegistryRequest, id: str) -> Any:
        state = self._registry.state
        fields = state.schema(_id(id)).as_json()
        return {**fields, "maxId": state.id_max} if q.flag("fetchMaxId") else fields

    def _of_id(self, q: RegistryRequest, id: str) -> list[Version]:
        state = self._registry.state
        state.schema(_id(id))
        return [each for each in state.all_versions(deleted=q.flag("deleted")) if each.id == _id(id)]

    def _versions_of_id(self, q: RegistryRequest, id: str) -> Any:
        return [{"subject": each.subject, "version": each.version} for each in self._of_id(q, id)]


def _number(text: str) -> int:
    """Return a version's number; raise RegistryError."""
    if text in ("latest", str(LATEST)):
        return LATEST
    if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= _VERSION_MAX:
        raise RegistryError.invalid_version(text)
    return int(text)


def _id(text: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", text):
        raise RegistryError(404, "HTTP 404 Not Found")
    return int(text)


class RegistryResource(Resource):
    """Answers requests one after the other, so that each sees what the last one has changed."""

    isLeaf = True

    def __init__(self, registry: SchemaRegistry) -> None:
        super().__init__()
        self._routes = RegistryRoutes(registry)
        self._lock = DeferredLock()

    def render(self, request: Request) -> int:
        problem = "{method} {uri} was not answered"
        run_in_background(log, self._respond(request), problem, method=request.method, uri=request.uri)
        return NOT_DONE_YET

    async def _respond(self, request: Request) -> None:
        gone: list[object] = []
        request.notifyFinish().addErrback(gone.append)
        try:
            status, answer = 200, await self._lock.run(lambda: ensureDeferred(self._answer(request)))
        except RegistryError as error:
            status, answer = error.status, {"error_code": error.code, "message": str(error)}
        except Exception as error:
            log.failure("{method} {uri} failed", method=request.method, uri=request.uri)
            status, answer = 500, {"error_code": 50001, "message": f"Error in the backend datastore: {error}"}
        if not gone:
            request.setResponseCode(status)
            request.setHeader(b"content-type", CONTENT_TYPE)
            request.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
            request.finish()

    async def _answer(self, request: Request) -> Any:
        path, _, query = request.uri.decode("ascii", "replace").partition("?")
        handler, parts = self._routes.find(request.method.decode("ascii", "replace"), path)
        content = b"" if request.content is None else request.content.read()
        answer = handler(RegistryRequest(parse_qs(query), content), **parts)
        return await answer if isawaitable(answer) else answer


def registry_site(reactor: Any, registry: SchemaRegistry) -> Site:
    site = Site(RegistryResource(registry), reactor=reactor)
    site.noisy = False
    return site
