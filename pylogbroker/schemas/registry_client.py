"""Requests to a schema registry. How they travel is the exchange's affair: it may block, or be asynchronous.

client = RegistryClient(BlockingExchange(endpoint))
schema = blocking(client.by_id(17))
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote
from uuid import UUID

import attrs

from pylogbroker.schemas.errors import InvalidSchema, RegistryDenied, RegistryUnavailable, UnknownSchema
from pylogbroker.schemas.values import Reference, Schema, Version, name_in, number_in

LATEST: Final = "latest"
_NOT_FOUND: Final = 404
_DENIED: Final = (401, 403)
_REJECTED: Final = (409, 422)
_REFERENCES_MAX: Final = 200
_REFERENCES_CHARACTERS_MAX: Final = 16 * 1024 * 1024
_VERSIONS_MAX: Final = 1000
_DETAIL_MAX: Final = 500
LOOKUP_SECONDS: Final = 30.0
"""Time within which the last request for a schema and its references begins."""
_Result = TypeVar("_Result")


@attrs.frozen
class Answer:
    status: int
    body: bytes


@attrs.define
class _Lookup:
    """References of a schema as they are collected."""

    ends_at: float
    texts: dict[str, str] = attrs.field(factory=dict)
    seen: set[Reference] = attrs.field(factory=set)
    characters: int = 0


Exchange = Callable[[str, str, bytes | None], Awaitable[Answer]]
"""`exchange(method, path, body)` returns the answer; it raises RegistryUnavailable."""


@attrs.frozen
class ResolvedSchema:
    """A schema with the texts of its references, each after those that it needs itself."""

    schema: Schema
    references: Mapping[str, str]


@attrs.frozen(eq=False, repr=False)
class RegistryClient:
    """All methods raise SchemaError; `where` names the registry in errors."""

    _exchange: Exchange
    where: str
    _lookup_seconds: float = LOOKUP_SECONDS
    _now: Callable[[], float] = time.monotonic
    denied_remedy: str = ": see schema.registry.basic.auth.user.info and schema.registry.bearer.auth.token"

    async def by_id(self, schema_id: int) -> ResolvedSchema:
        what = f"schema {schema_id}"
        remedy = "it was deleted, or another registry has it"
        return await self._resolved(await self.ask("GET", f"/schemas/ids/{schema_id}", what, remedy))

    async def by_guid(self, guid: UUID) -> ResolvedSchema:
        remedy = "it was deleted, another registry has it, or this one does not know GUIDs"
        return await self._resolved(await self.ask("GET", f"/schemas/guids/{guid}", f"schema {guid}", remedy))

    async def by_key(self, key: int | UUID) -> ResolvedSchema:
        return await (self.by_id(key) if isinstance(key, int) else self.by_guid(key))

    async def version(self, subject: str, number: int | str) -> Version:
        """Return a version, also `latest`."""
        what = version_name(subject, number)
        remedy = f"`curl {self.where}/subjects` lists subjects" if "://" in self.where else ""
        return _version(await self.ask("GET", f"{_subject_path(subject)}/versions/{number}", what, remedy))

    async def versions_of(self, schema_id: int) -> list[tuple[str, int]]:
        """Return subjects and versions that have a schema; none from registries without such requests."""
        try:
            versions = await self.ask("GET", f"/schemas/ids/{schema_id}/versions", "versions", "")
            if not isinstance(versions, list):
                return []
            first = versions[:_VERSIONS_MAX]
            return [(name_in(version, "subject"), number_in(version, "version")) for version in first]
        except (UnknownSchema, TypeError, KeyError, ValueError):
            return []

    async def look_up(self, subject: str, schema: Schema) -> int:
        """Return the id of a schema that a subject has."""
        what = f"such schema in subject {subject}"
        remedy = "register it by --register"
        return _id(await self.ask("POST", _subject_path(subject), what, remedy, schema.as_json()))

    async def find(self, subject: str, schema: Schema) -> Version:
        """Return the version of a subject that has a schema."""
        what = f"such schema in subject {subject}"
        return _version(await self.ask("POST", _subject_path(subject), what, "", schema.as_json()))

    async def ids_of_guid(self, guid: UUID) -> list[int]:
        """Return the ids of a schema, those of the default context first."""
        remedy = "it was deleted, another registry has it, or this one does not know GUIDs"
        rows = await self.ask("GET", f"/schemas/guids/{guid}/ids", f"schema {guid}", remedy)
        try:
            contexts = sorted((name_in(row, "context") != ".", number_in(row, "id")) for row in rows[:_VERSIONS_MAX])
        except (KeyError, TypeError, ValueError) as error:
            raise _not_understood(error) from error
        if not contexts:
            raise UnknownSchema(f"the schema registry at {self.where} has no schema {guid}")
        return [schema_id for _, schema_id in contexts]

    async def register(self, subject: str, schema: Schema) -> int:
        path = f"{_subject_path(subject)}/versions"
        return _id(await self.ask("POST", path, f"subject {subject}", "", schema.as_json()))

    async def resolve(self, schema: Schema) -> ResolvedSchema:
        """Return a schema with the texts of its references."""
        lookup = _Lookup(self._now() + self._lookup_seconds)
        await self._add_references(schema, lookup)
        return ResolvedSchema(schema, lookup.texts)

    async def _resolved(self, fields: Any) -> ResolvedSchema:
        return await self.resolve(_schema(fields))

    async def _add_references(self, schema: Schema, lookup: _Lookup) -> None:
        for reference in schema.references:
            if reference in lookup.seen:
                continue
            lookup.seen.add(reference)
            if len(lookup.seen) > _REFERENCES_MAX:
                raise InvalidSchema(f"a schema refers to more than {_REFERENCES_MAX} others")
            if self._now() > lookup.ends_at:
                raise RegistryUnavailable(
                    f"the schema registry at {self.where} took more than {self._lookup_seconds:g} s for the references"
                    " of a schema"
                )
            used = (await self.version(reference.subject, reference.version)).schema
            lookup.characters += len(used.text)
            if lookup.characters > _REFERENCES_CHARACTERS_MAX:
                raise InvalidSchema(
                    f"the references of a schema have more than {_REFERENCES_CHARACTERS_MAX} characters"
                )
            await self._add_references(used, lookup)
            lookup.texts[reference.name] = used.text

    async def ask(self, method: str, path: str, what: str, remedy: str, body: Any = None) -> Any:
        """Return the JSON of an answer; raise SchemaError."""
        answer = await self._exchange(method, path, None if body is None else json.dumps(body).encode())
        try:
            content = json.loads(answer.body)
        except (ValueError, RecursionError):
            content = None
        detail = str(content.get("message", ""))[:_DETAIL_MAX] if isinstance(content, dict) else ""
        if answer.status in _DENIED:
            reason = (
                "the credentials are wrong, or missing"
                if answer.status == _DENIED[0]
                else detail or "the user has no right"
            )
            raise RegistryDenied(
                f"the schema registry at {self.where} rejects the request: {reason}{self.denied_remedy}"
            )
        if answer.status == _NOT_FOUND:
            if content is None or (isinstance(content, dict) and "error_code" not in content):
                raise RegistryUnavailable(f"there is no schema registry at {self.where}: {path} gets status 404")
            raise UnknownSchema(f"the schema registry at {self.where} has no {what}{f': {remedy}' if remedy else ''}")
        if answer.status in _REJECTED:
            raise InvalidSchema(f"the schema registry rejects {what}: {detail}")
        if not 200 <= answer.status < 300:
            reason = f": {detail}" if detail else ""
            raise RegistryUnavailable(f"the schema registry at {self.where} failed with status {answer.status}{reason}")
        if content is None:
            raise RegistryUnavailable(f"there is no schema registry at {self.where}: its answer is no JSON")
        return content


def version_name(subject: str, number: int | str) -> str:
    """Return how errors name a version that a registry does not have: without a latest one, there is no subject."""
    return f"subject {subject}" if number == LATEST else f"version {number} of subject {subject}"


def _subject_path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _schema(fields: Any) -> Schema:
    try:
        return Schema.from_json(fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _not_understood(error) from error


def _version(fields: Any) -> Version:
    schema = _schema(fields)
    try:
        return Version(name_in(fields, "subject"), number_in(fields, "version"), number_in(fields, "id"), schema)
    except (KeyError, TypeError, ValueError) as error:
        raise _not_understood(error) from error


def _id(fields: Any) -> int:
    try:
        return number_in(fields, "id")
    except (KeyError, TypeError, ValueError) as error:
        raise _not_understood(error) from error


def _not_understood(error: Exception) -> RegistryUnavailable:
    return RegistryUnavailable(f"the schema registry's answer is not understood: {repr(error)[:_DETAIL_MAX]}")


def blocking(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return the result of work whose exchange blocks: it never waits for anything else."""
    try:
        work.send(None)
    except StopIteration as end:
        result: _Result = end.value
        return result
    work.close()
    raise RuntimeError("the exchange does not block")
