"""The registry by HTTP: paths, query, and answers as Confluent's registry has them.

It has the router of all HTTP interfaces. As Confluent's registry, it ignores unknown parameters, checks bodies itself,
and has Confluent's codes of errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from inspect import isawaitable
from typing import Annotated, Any, Final, TypedDict

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from pylogbroker.background import run_in_background
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.registry import SchemaRegistry
from pylogbroker.registry.state import LATEST
from pylogbroker.schemas.values import TYPES, Version
from pylogbroker.web.router import (
    ApiDescription,
    BadRequest,
    HttpRoute,
    HttpRouter,
    MethodNotAllowed,
    NoRoute,
    document,
)
from pylogbroker.web.router.requests import content_of, texts_of
from pylogbroker.web.router.values import OnlyTrue

log = Logger()

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_VERSION_MAX: Final = 2**31 - 1
_DESCRIPTION: Final = "/openapi.json"
_TEXT_BYTES_MAX: Final = 64 * 1024
_Flag = Annotated[bool, OnlyTrue]
Prefix = Annotated[str, "first characters of a subject"]
Body = Mapping[str, Any]


class ReferenceFields(TypedDict):
    name: str
    subject: str
    version: int


class SchemaFields(TypedDict, total=False):
    """A schema that is given."""

    schema: str
    schemaType: Annotated[str, "AVRO, JSON or PROTOBUF; by default AVRO"]
    references: list[ReferenceFields]
    id: int
    version: int


class LevelFields(TypedDict):
    compatibility: str


class ModeFields(TypedDict):
    mode: str


class RegistryFailure(TypedDict):
    error_code: Annotated[int, "the first three digits are the status"]
    message: str


class SubjectVersion(TypedDict):
    subject: str
    version: int


@attrs.define(eq=False, repr=False)
class RegistryHandlers:
    """Handlers of the routes."""

    registry: SchemaRegistry

    def root(self) -> dict[str, Any]:
        """Return an empty object."""
        return {}

    # subjects

    def subjects(self, deleted: _Flag = False, deletedOnly: _Flag = False, subjectPrefix: Prefix = "") -> list[str]:
        """Return subjects."""
        state = self.registry.state
        subjects = state.subjects(deleted=deleted or deletedOnly)
        live = set(state.subjects()) if deletedOnly else ()
        return [subject for subject in subjects if subject.startswith(subjectPrefix) and subject not in live]

    def look_up(self, subject: str, body: Body, normalize: _Flag = False, deleted: _Flag = False) -> Any:
        """Return the version of a subject that has a schema."""
        return self.registry.look_up(subject, body, normalize=normalize, deleted=deleted)

    def delete_subject(self, subject: str, permanent: _Flag = False) -> Any:
        """Delete a subject, and return its versions."""
        return self.registry.delete_subject(subject, permanent=permanent)

    def versions(self, subject: str, deleted: _Flag = False) -> list[int]:
        """Return the versions of a subject."""
        versions = self.registry.state.versions(subject, deleted=deleted)
        if not versions:
            raise RegistryError.no_subject(subject)
        return [version.version for version in versions]

    def register(self, subject: str, body: Body, normalize: _Flag = False) -> Any:
        """Register a schema, and return its id."""
        return self.registry.register(subject, body, normalize=normalize)

    def version(self, subject: str, version: str, deleted: _Flag = False) -> dict[str, Any]:
        """Return a version of a subject."""
        return self._version(subject, version, deleted).as_json()

    def delete_version(self, subject: str, version: str, permanent: _Flag = False) -> Any:
        """Delete a version of a subject, and return its number."""
        return self.registry.delete_version(subject, _number(version), permanent=permanent)

    def text_of_version(self, subject: str, version: str, deleted: _Flag = False) -> Any:
        """Return the schema of a version alone."""
        return self._version(subject, version, deleted).schema.text.encode()

    def referenced_by(self, subject: str, version: str, deleted: _Flag = False) -> list[int]:
        """Return the ids of schemas that refer to a version."""
        referred = self._version(subject, version, deleted)
        return sorted({referrer.id for referrer in self.registry.state.referrers(subject, referred.version)})

    def check(self, subject: str, body: Body, normalize: _Flag = False, verbose: _Flag = False) -> Any:
        """Check a schema with the versions of a subject, by its level."""
        return self.registry.check(subject, None, body, normalize=normalize, verbose=verbose)

    def check_version(
        self, subject: str, version: str, body: Body, normalize: _Flag = False, verbose: _Flag = False
    ) -> Any:
        """Check a schema with one version of a subject."""
        return self.registry.check(subject, _number(version), body, normalize=normalize, verbose=verbose)

    def _version(self, subject: str, version: str, deleted: bool) -> Version:
        return self.registry.state.version(subject, _number(version), deleted=deleted)

    # schemas

    def types(self) -> list[str]:
        """Return the types of schemas."""
        return list(TYPES)

    def schemas(
        self, deleted: _Flag = False, latestOnly: _Flag = False, subjectPrefix: Prefix = ""
    ) -> list[dict[str, Any]]:
        """Return all versions of subjects."""
        every = self.registry.state.all_versions(deleted=deleted)
        chosen = [version for version in every if version.subject.startswith(subjectPrefix)]
        if latestOnly:
            chosen = list({version.subject: version for version in chosen}.values())
        return [version.as_json() for version in chosen]

    def schema(self, id: str, fetchMaxId: _Flag = False) -> dict[str, Any]:
        """Return a schema by its id."""
        state = self.registry.state
        fields = state.schema(_id(id)).as_json()
        return {**fields, "maxId": state.id_max} if fetchMaxId else fields

    def text_of_schema(self, id: str) -> Any:
        """Return a schema by its id, alone."""
        return self.registry.state.schema(_id(id)).text.encode()

    def subjects_of_id(self, id: str, deleted: _Flag = False) -> list[str]:
        """Return the subjects that have a schema."""
        return sorted({version.subject for version in self._of_id(id, deleted)})

    def versions_of_id(self, id: str, deleted: _Flag = False) -> list[SubjectVersion]:
        """Return the subjects and versions that have a schema."""
        return [{"subject": version.subject, "version": version.version} for version in self._of_id(id, deleted)]

    def _of_id(self, text: str, deleted: bool) -> list[Version]:
        state = self.registry.state
        state.schema(_id(text))
        return [version for version in state.all_versions(deleted=deleted) if version.id == _id(text)]

    # levels of compatibility, and modes

    def level(self) -> Any:
        """Return the level of compatibility of all subjects."""
        return self.registry.level(None)

    def set_level(self, body: Body) -> Any:
        """Set the level of compatibility of all subjects."""
        return self.registry.set_level(None, body)

    def delete_level(self) -> Any:
        """Restore the level of compatibility of all subjects."""
        return self.registry.delete_level(None)

    def level_of(self, subject: str, defaultToGlobal: _Flag = False) -> Any:
        """Return the level of compatibility of a subject."""
        return self.registry.level(subject, default_to_global=defaultToGlobal)

    def set_level_of(self, subject: str, body: Body) -> Any:
        """Set the level of compatibility of a subject."""
        return self.registry.set_level(subject, body)

    def delete_level_of(self, subject: str) -> Any:
        """Restore the level of compatibility of a subject."""
        return self.registry.delete_level(subject)

    def mode(self) -> Any:
        """Return the mode of all subjects."""
        return self.registry.mode(None)

    def set_mode(self, body: Body, force: _Flag = False) -> Any:
        """Set the mode of all subjects."""
        return self.registry.set_mode(None, body, force=force)

    def mode_of(self, subject: str, defaultToGlobal: _Flag = False) -> Any:
        """Return the mode of a subject."""
        return self.registry.mode(subject, default_to_global=defaultToGlobal)

    def set_mode_of(self, subject: str, body: Body, force: _Flag = False) -> Any:
        """Set the mode of a subject."""
        return self.registry.set_mode(subject, body, force=force)

    def delete_mode_of(self, subject: str) -> Any:
        """Restore the mode of a subject."""
        return self.registry.delete_mode(subject)


def _route(method: str, path: str, handle: Any, body: Any = None) -> HttpRoute:
    hidden = frozenset({"self", "body"})
    return HttpRoute(method, path, handle, media=CONTENT_TYPE, hidden=hidden, body=body)


_VERSION: Final = "/subjects/{subject}/versions/{version}"
_COMPATIBILITY: Final = "/compatibility/subjects/{subject}/versions"
ROUTES: Final = (
    _route("GET", "/", RegistryHandlers.root),
    _route("GET", "/subjects", RegistryHandlers.subjects),
    _route("POST", "/subjects/{subject}", RegistryHandlers.look_up, SchemaFields),
    _route("DELETE", "/subjects/{subject}", RegistryHandlers.delete_subject),
    _route("GET", "/subjects/{subject}/versions", RegistryHandlers.versions),
    _route("POST", "/subjects/{subject}/versions", RegistryHandlers.register, SchemaFields),
    _route("GET", _VERSION, RegistryHandlers.version),
    _route("DELETE", _VERSION, RegistryHandlers.delete_version),
    _route("GET", f"{_VERSION}/schema", RegistryHandlers.text_of_version),
    _route("GET", f"{_VERSION}/referencedby", RegistryHandlers.referenced_by),
    _route("POST", _COMPATIBILITY, RegistryHandlers.check, SchemaFields),
    _route("POST", f"{_COMPATIBILITY}/{{version}}", RegistryHandlers.check_version, SchemaFields),
    _route("GET", "/schemas", RegistryHandlers.schemas),
    _route("GET", "/schemas/types", RegistryHandlers.types),
    _route("GET", "/schemas/ids/{id}", RegistryHandlers.schema),
    _route("GET", "/schemas/ids/{id}/schema", RegistryHandlers.text_of_schema),
    _route("GET", "/schemas/ids/{id}/subjects", RegistryHandlers.subjects_of_id),
    _route("GET", "/schemas/ids/{id}/versions", RegistryHandlers.versions_of_id),
    _route("GET", "/config", RegistryHandlers.level),
    _route("PUT", "/config", RegistryHandlers.set_level, LevelFields),
    _route("DELETE", "/config", RegistryHandlers.delete_level),
    _route("GET", "/config/{subject}", RegistryHandlers.level_of),
    _route("PUT", "/config/{subject}", RegistryHandlers.set_level_of, LevelFields),
    _route("DELETE", "/config/{subject}", RegistryHandlers.delete_level_of),
    _route("GET", "/mode", RegistryHandlers.mode),
    _route("PUT", "/mode", RegistryHandlers.set_mode, ModeFields),
    _route("GET", "/mode/{subject}", RegistryHandlers.mode_of),
    _route("PUT", "/mode/{subject}", RegistryHandlers.set_mode_of, ModeFields),
    _route("DELETE", "/mode/{subject}", RegistryHandlers.delete_mode_of),
)
API: Final = ApiDescription(
    "Schema registry of a pylogbroker test broker",
    "The REST interface of Confluent's schema registry, as far as docs/testing.md says.",
    RegistryFailure,
    (400, 404, 409, 422, 500),
    media=CONTENT_TYPE,
)


@cache
def registry_document() -> dict[str, Any]:
    return document(API, ROUTES)


def _describe(handlers: RegistryHandlers) -> dict[str, Any]:
    return registry_document()


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
        self._handlers = RegistryHandlers(registry)
        description = HttpRoute("GET", _DESCRIPTION, _describe, hidden=frozenset({"handlers"}))
        self._router = HttpRouter((*ROUTES, description), _DESCRIPTION)
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
            request.setHeader(b"content-type", CONTENT_TYPE.encode())
            request.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
            request.finish()

    async def _answer(self, request: Request) -> Any:
        """Return the answer; raise RegistryError."""
        path = request.uri.decode("ascii", "replace").partition("?")[0]
        try:
            route, parts = self._router.find(request.method.decode("ascii", "replace"), path.rstrip("/") or "/")
            declared = route.parameters.by_name
            texts = {name: text for name, text in texts_of(request, _TEXT_BYTES_MAX).items() if name in declared}
            arguments = route.parameters.read(texts | parts, {})
        except NoRoute:
            raise RegistryError(404, "HTTP 404 Not Found") from None
        except MethodNotAllowed as error:
            request.setHeader(b"allow", ", ".join(error.allowed).encode())
            raise RegistryError(405, "HTTP 405 Method Not Allowed") from None
        except BadRequest as error:
            raise RegistryError(400, str(error)) from None
        if route.body is not None:
            arguments["body"] = _body(content_of(request))
        answer = route.handle(self._handlers, **arguments)
        return await answer if isawaitable(answer) else answer


def _body(content: bytes) -> Body:
    """Return the members of a body; raise RegistryError."""
    try:
        members = json.loads(content)
    except ValueError as error:
        raise RegistryError(400, f"the body is no JSON: {error}") from error
    if not isinstance(members, dict):
        raise RegistryError(400, "the body is no JSON object")
    return members


def registry_site(reactor: Any, registry: SchemaRegistry) -> Site:
    site = Site(RegistryResource(registry), reactor=reactor)
    site.noisy = False
    return site
