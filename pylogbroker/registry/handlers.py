"""Handlers of the registry's routes: parameters and answers as Confluent's registry has them.

Newer versions of Confluent's interface have more members in answers: `guid`, and the `version` of a registration. Older
clients reject unknown members. So only clients get them that send the header Confluent-Accept-Unknown-Properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Annotated, Any, Final, NotRequired, TypedDict, TypeVar
from uuid import UUID

import attrs

from pylogbroker.registry.callers import RegistryCaller
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.guids import guid_of
from pylogbroker.registry.registry import SchemaRegistry
from pylogbroker.registry.state import LATEST
from pylogbroker.registry.subject_settings import SubjectSettings
from pylogbroker.registry.subjects import ANY_CONTEXT, checked_subject, matches_prefix, settings_subject
from pylogbroker.schemas.subjects import QualifiedSubject
from pylogbroker.schemas.values import TYPES, Schema, Version
from pylogbroker.web.router import ApiDescription, HttpRoute, document
from pylogbroker.web.router.values import Capped, OnlyTrue

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
DESCRIPTION: Final = "/openapi.json"
_VERSION_MAX: Final = 2**31 - 1
_SUBJECTS_MAX: Final = 20_000
_SCHEMAS_MAX: Final = 1000
_EMPTY_SUBJECT: Final = "__EMPTY"
_Flag = Annotated[bool, OnlyTrue]
T = TypeVar("T")
Prefix = Annotated[str, "first characters of a subject"]
Form = Annotated[str, "resolved for Avro, serialized for Protobuf; by default as registered"]
Skipped = Annotated[int, Capped(), "first items of the answer to leave out"]
Most = Annotated[int | None, "items of the answer at most"]
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
    metadata: dict[str, Any]
    ruleSet: dict[str, Any]
    id: int
    version: int


class SettingsFields(TypedDict, total=False):
    compatibility: str
    normalize: bool
    alias: str
    compatibilityGroup: str
    defaultMetadata: dict[str, Any]
    overrideMetadata: dict[str, Any]
    defaultRuleSet: dict[str, Any]
    overrideRuleSet: dict[str, Any]


class ModeFields(TypedDict):
    mode: str


class RegistryFailure(TypedDict):
    error_code: Annotated[int, "the first three digits are the status"]
    message: str


class SubjectVersion(TypedDict):
    subject: str
    version: int


class ContextId(TypedDict):
    context: str
    id: int


class Registered(TypedDict):
    id: int
    version: NotRequired[int]
    guid: NotRequired[str]


@attrs.frozen(eq=False, repr=False)
class RegistryCall:
    """A request: who sent it, and what parameters cannot say."""

    caller: RegistryCaller
    accepts_unknown_members: bool = False
    pairs: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    """Parameters of the query that may occur several times."""


@attrs.define(eq=False, repr=False)
class RegistryHandlers:
    """Handlers of the routes."""

    registry: SchemaRegistry
    settings: SubjectSettings = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.settings = SubjectSettings(self.registry)

    def root(self) -> dict[str, Any]:
        """Return an empty object."""
        return {}

    # subjects

    async def subjects(
        self,
        call: RegistryCall,
        deleted: _Flag = False,
        deletedOnly: _Flag = False,
        subjectPrefix: Prefix = ANY_CONTEXT,
        offset: Skipped = 0,
        limit: Most = None,
    ) -> list[str]:
        """Return subjects."""
        state = await self.registry.catch_up()
        subjects = state.subjects(deleted=deleted or deletedOnly)
        live = set(state.subjects()) if deletedOnly else ()
        chosen = [name for name in subjects if matches_prefix(name, subjectPrefix) and name not in live]
        return _page(call.caller.visible(chosen), offset, limit, _SUBJECTS_MAX)

    async def look_up(
        self,
        call: RegistryCall,
        subject: str,
        body: Body,
        normalize: _Flag = False,
        deleted: _Flag = False,
        format: Form = "",
    ) -> dict[str, Any]:
        """Return the version of a subject that has a schema."""
        name = await self._subject(call, subject)
        version = await self.registry.look_up(name, body, normalize=normalize, deleted=deleted)
        return await self._version_fields(call, version, format)

    async def latest_with_metadata(
        self, call: RegistryCall, subject: str, deleted: _Flag = False, format: Form = ""
    ) -> dict[str, Any]:
        """Return the latest version of a subject whose metadata has properties, given as pairs of key and value."""
        name = await self._subject(call, subject)
        properties_asked = dict(zip(call.pairs.get("key", ()), call.pairs.get("value", ()), strict=False))
        versions = self.registry.state.versions(name, deleted=deleted)
        if not versions:
            raise RegistryError.no_subject(name)
        for version in reversed(versions):
            properties = version.schema.as_json().get("metadata", {}).get("properties", {})
            if properties_asked.items() <= properties.items():
                return await self._version_fields(call, version, format)
        raise RegistryError.no_schema()

    async def delete_subject(self, call: RegistryCall, subject: str, permanent: _Flag = False) -> list[int]:
        """Delete a subject, and return its versions."""
        name = checked_subject(subject)
        call.caller.check_delete(name)
        return await self.registry.delete_subject(name, permanent=permanent)

    async def versions(
        self,
        call: RegistryCall,
        subject: str,
        deleted: _Flag = False,
        deletedOnly: _Flag = False,
        offset: Skipped = 0,
        limit: Most = None,
    ) -> list[int]:
        """Return the versions of a subject."""
        name = await self._subject(call, subject)
        versions = self.registry.state.versions(name, deleted=deleted or deletedOnly)
        if not versions:
            raise RegistryError.no_subject(name)
        numbers = [version.version for version in versions if version.is_deleted or not deletedOnly]
        return _page(numbers, offset, limit, _SUBJECTS_MAX)

    async def register(self, call: RegistryCall, subject: str, body: Body, normalize: _Flag = False) -> Registered:
        """Register a schema, and return its id."""
        name = await self._resolved(checked_subject(subject))
        call.caller.check_register(name)
        version = (await self.registry.register(name, body, normalize=normalize)).version
        if not call.accepts_unknown_members:
            return {"id": version.id}
        return {"id": version.id, "version": version.version, "guid": str(guid_of(version.schema))}

    async def version(
        self, call: RegistryCall, subject: str, version: str, deleted: _Flag = False, format: Form = ""
    ) -> dict[str, Any]:
        """Return a version of a subject."""
        return await self._version_fields(call, await self._version(call, subject, version, deleted), format)

    async def delete_version(self, call: RegistryCall, subject: str, version: str, permanent: _Flag = False) -> int:
        """Delete a version of a subject, and return its number."""
        name = checked_subject(subject)
        call.caller.check_delete(name)
        return await self.registry.delete_version(name, _number(version), permanent=permanent)

    async def text_of_version(
        self, call: RegistryCall, subject: str, version: str, deleted: _Flag = False, format: Form = ""
    ) -> Any:
        """Return the schema of a version alone."""
        found_version = await self._version(call, subject, version, deleted)
        return (await self.registry.formatted(found_version.subject, found_version.schema, format)).encode()

    async def referenced_by(self, call: RegistryCall, subject: str, version: str, deleted: _Flag = False) -> list[int]:
        """Return the ids of schemas that refer to a version."""
        referred = await self._version(call, subject, version, True)
        return sorted({referrer.id for referrer in self.registry.state.referrers(referred, deleted=deleted)})

    async def check(
        self, call: RegistryCall, subject: str, body: Body, normalize: _Flag = False, verbose: _Flag = False
    ) -> dict[str, Any]:
        """Check a schema with the versions of a subject, by its level."""
        name = await self._subject(call, subject)
        return await self.registry.check(name, None, body, normalize=normalize, verbose=verbose)

    async def check_version(
        self,
        call: RegistryCall,
        subject: str,
        version: str,
        body: Body,
        normalize: _Flag = False,
        verbose: _Flag = False,
    ) -> dict[str, Any]:
        """Check a schema with one version of a subject."""
        name = await self._subject(call, subject)
        return await self.registry.check(name, _number(version), body, normalize=normalize, verbose=verbose)

    async def _subject(self, call: RegistryCall, subject: str) -> str:
        """Return the subject to read, with its alias replaced."""
        name = await self._resolved(checked_subject(subject))
        call.caller.check_read(name)
        return name

    async def _resolved(self, subject: str) -> str:
        await self.registry.catch_up()
        return self.registry.alias_of(subject)

    async def _version(self, call: RegistryCall, subject: str, version: str, deleted: bool) -> Version:
        name, number = await self._subject(call, subject), _number(version)
        found_version = self.registry.state.version_in_any_context(name, number, deleted=deleted)
        call.caller.check_read(found_version.subject)
        return found_version

    async def _version_fields(self, call: RegistryCall, version: Version, form: str = "") -> dict[str, Any]:
        fields = {**version.as_json(), "schema": await self.registry.formatted(version.subject, version.schema, form)}
        if call.accepts_unknown_members:
            fields["guid"] = str(guid_of(version.schema))
            fields |= {"deleted": True} if version.is_deleted else {}
        return fields

    # schemas

    def types(self) -> list[str]:
        """Return the types of schemas."""
        return list(TYPES)

    async def schemas(
        self,
        call: RegistryCall,
        deleted: _Flag = False,
        latestOnly: _Flag = False,
        subjectPrefix: Prefix = ANY_CONTEXT,
        offset: Skipped = 0,
        limit: Most = None,
    ) -> list[dict[str, Any]]:
        """Return versions of subjects, at most 1,000 at a time."""
        state = await self.registry.catch_up()
        names = [name for name in state.subjects(deleted=deleted) if matches_prefix(name, subjectPrefix)]
        versions = (
            version
            for name in call.caller.visible(names)
            for version in (
                state.versions(name, deleted=deleted)[-1:] if latestOnly else state.versions(name, deleted=deleted)
            )
        )
        most = _SCHEMAS_MAX if limit is None or not 0 <= limit <= _SCHEMAS_MAX else limit
        return [await self._version_fields(call, version) for version in islice(versions, offset, offset + most)]

    async def schema(
        self, call: RegistryCall, id: str, subject: str = "", format: Form = "", fetchMaxId: _Flag = False
    ) -> dict[str, Any]:
        """Return a schema by its id."""
        versions = await self._versions_of_id(call, id, subject)
        fields = await self._schema_fields(call, versions[0].subject, versions[0].schema, format)
        return {**fields, "maxId": self.registry.state.id_max(versions[0].subject)} if fetchMaxId else fields

    async def text_of_schema(self, call: RegistryCall, id: str, subject: str = "", format: Form = "") -> Any:
        """Return a schema by its id, alone."""
        version = (await self._versions_of_id(call, id, subject))[0]
        return (await self.registry.formatted(version.subject, version.schema, format)).encode()

    async def subjects_of_id(self, call: RegistryCall, id: str, subject: str = "", deleted: _Flag = False) -> list[str]:
        """Return the subjects that have a schema."""
        versions = await self._versions_of_id(call, id, subject)
        names = {version.subject for version in versions if deleted or not version.is_deleted}
        return call.caller.visible(sorted(names))

    async def versions_of_id(
        self, call: RegistryCall, id: str, subject: str = "", deleted: _Flag = False
    ) -> list[SubjectVersion]:
        """Return the subjects and versions that have a schema."""
        versions = await self._versions_of_id(call, id, subject)
        return [
            {"subject": version.subject, "version": version.version}
            for version in versions
            if (deleted or not version.is_deleted) and call.caller.sees(version.subject)
        ]

    async def schema_of_guid(self, call: RegistryCall, guid: str, format: Form = "") -> dict[str, Any]:
        """Return a schema by its GUID."""
        state, key = await self.registry.catch_up(), _guid(guid)
        places = state.ids_of_guid(key)
        versions = [
            version
            for context, schema_id in places
            for version in state.versions_of_id(schema_id, str(QualifiedSubject(context, "")), deleted=True)
        ]
        call.caller.check_any_read((version.subject for version in versions), key)
        return await self._schema_fields(call, versions[0].subject, versions[0].schema, format)

    async def ids_of_guid(self, call: RegistryCall, guid: str) -> list[ContextId]:
        """Return the ids of a schema, each with its context, by its GUID."""
        places = (await self.registry.catch_up()).ids_of_guid(_guid(guid))
        return [{"context": context, "id": schema_id} for context, schema_id in places]

    async def _versions_of_id(self, call: RegistryCall, id: str, subject: str) -> list[Version]:
        """Return the versions that have an id, also soft-deleted ones; raise RegistryError."""
        state = await self.registry.catch_up()
        name = "" if subject == _EMPTY_SUBJECT else subject
        versions = state.versions_of_id(_id(id), name, deleted=True)
        call.caller.check_any_read((version.subject for version in versions), id)
        return versions

    async def _schema_fields(self, call: RegistryCall, subject: str, schema: Schema, form: str) -> dict[str, Any]:
        fields = {**schema.as_json(), "schema": await self.registry.formatted(subject, schema, form)}
        return {**fields, "guid": str(guid_of(schema))} if call.accepts_unknown_members else fields

    # contexts

    async def contexts(self, call: RegistryCall, offset: Skipped = 0, limit: Most = None) -> list[str]:
        """Return the contexts."""
        return _page((await self.registry.catch_up()).contexts, offset, limit, _SUBJECTS_MAX)

    async def delete_context(self, call: RegistryCall, context: str) -> None:
        """Delete a context without subjects."""
        name = str(QualifiedSubject.parse(context))
        call.caller.check_configure(name)
        await self.registry.delete_context(name)

    # levels of compatibility, and modes

    async def level(self, call: RegistryCall, defaultToGlobal: _Flag = False) -> dict[str, Any]:
        """Return the level of compatibility of all subjects."""
        return await self.settings.settings(None, default_to_global=defaultToGlobal)

    async def set_level(self, call: RegistryCall, body: Body) -> dict[str, Any]:
        """Set the level of compatibility of all subjects."""
        call.caller.check_configure(None)
        return await self.settings.change_settings(None, body)

    async def delete_level(self, call: RegistryCall) -> dict[str, Any]:
        """Restore the level of compatibility of all subjects."""
        call.caller.check_configure(None)
        return await self.settings.delete_settings(None)

    async def level_of(self, call: RegistryCall, subject: str, defaultToGlobal: _Flag = False) -> dict[str, Any]:
        """Return the level of compatibility of a subject."""
        name = _readable(call, subject)
        return await self.settings.settings(name, default_to_global=defaultToGlobal)

    async def set_level_of(self, call: RegistryCall, subject: str, body: Body) -> dict[str, Any]:
        """Set the level of compatibility of a subject."""
        name = _configurable(call, subject)
        return await self.settings.change_settings(name, body)

    async def delete_level_of(self, call: RegistryCall, subject: str) -> dict[str, Any]:
        """Restore the level of compatibility of a subject."""
        name = _configurable(call, subject)
        return await self.settings.delete_settings(name)

    async def mode(self, call: RegistryCall, defaultToGlobal: _Flag = False) -> dict[str, Any]:
        """Return the mode of all subjects."""
        return await self.settings.mode(None, default_to_global=defaultToGlobal)

    async def set_mode(self, call: RegistryCall, body: Body, force: _Flag = False) -> dict[str, Any]:
        """Set the mode of all subjects."""
        call.caller.check_configure(None)
        return await self.settings.set_mode(None, body, force=force)

    async def delete_mode(self, call: RegistryCall, recursive: _Flag = False) -> dict[str, Any]:
        """Restore the mode of all subjects."""
        call.caller.check_configure(None)
        return await self.settings.delete_mode(None, recursive=recursive)

    async def mode_of(self, call: RegistryCall, subject: str, defaultToGlobal: _Flag = False) -> dict[str, Any]:
        """Return the mode of a subject."""
        name = _readable(call, subject)
        return await self.settings.mode(name, default_to_global=defaultToGlobal)

    async def set_mode_of(self, call: RegistryCall, subject: str, body: Body, force: _Flag = False) -> dict[str, Any]:
        """Set the mode of a subject."""
        name = _configurable(call, subject)
        return await self.settings.set_mode(name, body, force=force)

    async def delete_mode_of(self, call: RegistryCall, subject: str, recursive: _Flag = False) -> dict[str, Any]:
        """Restore the mode of a subject."""
        name = _configurable(call, subject)
        return await self.settings.delete_mode(name, recursive=recursive)


def _route(method: str, path: str, handle: Any, body: Any = None) -> HttpRoute:
    hidden = frozenset({"self", "call", "body"})
    return HttpRoute(method, path, handle, media=CONTENT_TYPE, hidden=hidden, body=body)


_SUBJECT: Final = "/subjects/{subject}"
_VERSION: Final = f"{_SUBJECT}/versions/{{version}}"
_COMPATIBILITY: Final = f"/compatibility{_SUBJECT}/versions"
_BY_ID: Final = "/schemas/ids/{id}"
ROUTES: Final = (
    _route("GET", "/", RegistryHandlers.root),
    _route("GET", "/subjects", RegistryHandlers.subjects),
    _route("POST", _SUBJECT, RegistryHandlers.look_up, SchemaFields),
    _route("DELETE", _SUBJECT, RegistryHandlers.delete_subject),
    _route("GET", f"{_SUBJECT}/metadata", RegistryHandlers.latest_with_metadata),
    _route("GET", f"{_SUBJECT}/versions", RegistryHandlers.versions),
    _route("POST", f"{_SUBJECT}/versions", RegistryHandlers.register, SchemaFields),
    _route("GET", _VERSION, RegistryHandlers.version),
    _route("DELETE", _VERSION, RegistryHandlers.delete_version),
    _route("GET", f"{_VERSION}/schema", RegistryHandlers.text_of_version),
    _route("GET", f"{_VERSION}/referencedby", RegistryHandlers.referenced_by),
    _route("POST", _COMPATIBILITY, RegistryHandlers.check, SchemaFields),
    _route("POST", f"{_COMPATIBILITY}/{{version}}", RegistryHandlers.check_version, SchemaFields),
    _route("GET", "/schemas", RegistryHandlers.schemas),
    _route("GET", "/schemas/types", RegistryHandlers.types),
    _route("GET", _BY_ID, RegistryHandlers.schema),
    _route("GET", f"{_BY_ID}/schema", RegistryHandlers.text_of_schema),
    _route("GET", f"{_BY_ID}/subjects", RegistryHandlers.subjects_of_id),
    _route("GET", f"{_BY_ID}/versions", RegistryHandlers.versions_of_id),
    _route("GET", "/schemas/guids/{guid}", RegistryHandlers.schema_of_guid),
    _route("GET", "/schemas/guids/{guid}/ids", RegistryHandlers.ids_of_guid),
    _route("GET", "/contexts", RegistryHandlers.contexts),
    _route("DELETE", "/contexts/{context}", RegistryHandlers.delete_context),
    _route("GET", "/config", RegistryHandlers.level),
    _route("PUT", "/config", RegistryHandlers.set_level, SettingsFields),
    _route("DELETE", "/config", RegistryHandlers.delete_level),
    _route("GET", "/config/{subject}", RegistryHandlers.level_of),
    _route("PUT", "/config/{subject}", RegistryHandlers.set_level_of, SettingsFields),
    _route("DELETE", "/config/{subject}", RegistryHandlers.delete_level_of),
    _route("GET", "/mode", RegistryHandlers.mode),
    _route("PUT", "/mode", RegistryHandlers.set_mode, ModeFields),
    _route("DELETE", "/mode", RegistryHandlers.delete_mode),
    _route("GET", "/mode/{subject}", RegistryHandlers.mode_of),
    _route("PUT", "/mode/{subject}", RegistryHandlers.set_mode_of, ModeFields),
    _route("DELETE", "/mode/{subject}", RegistryHandlers.delete_mode_of),
)
API: Final = ApiDescription(
    "Schema registry of pylogbroker",
    "The REST interface of Confluent's schema registry, as far as docs/schema-registry.md says. All paths also exist "
    "below /contexts/{context}.",
    RegistryFailure,
    (400, 401, 403, 404, 409, 422, 500),
    media=CONTENT_TYPE,
    security={"basic": {"type": "http", "scheme": "basic"}},
)


@cache
def registry_document() -> dict[str, Any]:
    return document(API, ROUTES)


def _readable(call: RegistryCall, subject: str) -> str | None:
    """Return the key of the settings of a subject that the caller may read; raise RegistryError."""
    name = settings_subject(subject)
    if name is not None and not QualifiedSubject.parse(name).is_context:
        call.caller.check_read(name)
    return name


def _configurable(call: RegistryCall, subject: str) -> str | None:
    name = settings_subject(subject)
    call.caller.check_configure(name)
    return name


def _page(items: Iterable[T], offset: int, limit: int | None, most: int) -> list[T]:
    """Return a part of a list; a negative limit, as in Confluent's interface, means as many as there may be."""
    count = most if limit is None or not 0 <= limit <= most else limit
    return list(islice(items, offset, offset + count))


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


def _guid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise RegistryError.no_schema(text[:100]) from None
