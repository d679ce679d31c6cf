"""Requests about schemas by their ids and GUIDs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final
from uuid import UUID

from pylogbroker.long_loops import over
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.guids import guid_of
from pylogbroker.registry.rest.calls import (
    ITEMS_MAX,
    Flag,
    Form,
    Most,
    Prefix,
    RegistryCall,
    Skipped,
    page,
    version_fields,
)
from pylogbroker.registry.rest.fields import ContextId, SubjectVersion
from pylogbroker.registry.subjects import ANY_CONTEXT, matches_prefix
from pylogbroker.schemas.subjects import QualifiedSubject
from pylogbroker.schemas.values import TYPES, Schema, Version

SCHEMAS_MAX: Final = 1000
LIST_CHARACTERS_MAX: Final = 16 * 1024 * 1024
_EMPTY_SUBJECT: Final = "__EMPTY"


def types(call: RegistryCall) -> list[str]:
    """Return the types of schemas."""
    return list(TYPES)


async def schemas(
    call: RegistryCall,
    deleted: Flag = False,
    latestOnly: Flag = False,
    subjectPrefix: Prefix = ANY_CONTEXT,
    offset: Skipped = 0,
    limit: Most = None,
) -> list[dict[str, Any]]:
    """Return versions of subjects, at most 1,000 at a time."""
    state = await call.registry.catch_up()

    def fits(name: str) -> bool:
        return matches_prefix(name, subjectPrefix) and call.caller.sees(name)

    names = await call.registry.chosen(state.subjects(deleted=deleted), fits)
    versions = (
        version
        for name in names
        for version in (
            state.versions(name, deleted=deleted)[-1:] if latestOnly else state.versions(name, deleted=deleted)
        )
    )
    most = SCHEMAS_MAX if limit is None or not 0 <= limit <= SCHEMAS_MAX else limit
    return await call.registry.in_slices(_listed(call, islice(versions, offset, offset + most)))  # type: ignore[no-any-return]


async def _listed(call: RegistryCall, versions: Iterator[Version]) -> list[dict[str, Any]]:
    """Return the fields of versions; raise RegistryError if their schemas are too long for one answer."""
    rows: list[dict[str, Any]] = []
    characters = 0
    async for version in over(versions):
        characters += len(version.schema.text)
        if characters > LIST_CHARACTERS_MAX:
            raise RegistryError(
                400, f"these schemas have more than {LIST_CHARACTERS_MAX:,} characters: ask for fewer by limit"
            )
        rows.append(await version_fields(call, version))
    return rows


async def schema(
    call: RegistryCall,
    id: str,
    subject: str = "",
    format: Form = "",
    fetchMaxId: Flag = False,
    includeSubjects: Flag = False,
) -> dict[str, Any]:
    """Return a schema by its id. Karapace's serializers need its subjects."""
    versions = await _versions_of_id(call, id, subject)
    fields = await _schema_fields(call, versions[0].subject, versions[0].schema, format)
    if fetchMaxId:
        fields["maxId"] = call.registry.state.id_max(versions[0].subject)
    if includeSubjects:
        fields["subjects"] = _subjects(call, versions)[:ITEMS_MAX]
    return fields


async def text_of_schema(call: RegistryCall, id: str, subject: str = "", format: Form = "") -> Any:
    """Return a schema by its id, alone."""
    version = (await _versions_of_id(call, id, subject))[0]
    return (await call.registry.formatted(version.subject, version.schema, format)).encode()


async def subjects_of_id(
    call: RegistryCall,
    id: str,
    subject: str = "",
    deleted: Flag = False,
    offset: Skipped = 0,
    limit: Most = None,
) -> list[str]:
    """Return the subjects that have a schema."""
    versions = await _versions_of_id(call, id, subject)
    return page(_subjects(call, versions, deleted=deleted), offset, limit, ITEMS_MAX)


async def versions_of_id(
    call: RegistryCall,
    id: str,
    subject: str = "",
    deleted: Flag = False,
    offset: Skipped = 0,
    limit: Most = None,
) -> list[SubjectVersion]:
    """Return the subjects and versions that have a schema."""
    versions = await _versions_of_id(call, id, subject)
    rows: Iterator[SubjectVersion] = (
        {"subject": version.subject, "version": version.version}
        for version in versions
        if (deleted or not version.is_deleted) and call.caller.sees(version.subject)
    )
    return page(rows, offset, limit, ITEMS_MAX)


async def schema_of_guid(call: RegistryCall, guid: str, format: Form = "") -> dict[str, Any]:
    """Return a schema by its GUID."""
    _, versions = await _places_of_guid(call, guid)
    return await _schema_fields(call, versions[0].subject, versions[0].schema, format)


async def ids_of_guid(call: RegistryCall, guid: str) -> list[ContextId]:
    """Return the ids of a schema, each with its context, by its GUID."""
    places, _ = await _places_of_guid(call, guid)
    return [{"context": context, "id": schema_id} for context, schema_id in places]


async def _places_of_guid(call: RegistryCall, guid: str) -> tuple[Sequence[tuple[str, int]], Sequence[Version]]:
    """Return contexts and ids of a schema, and its versions, of which the caller may read one; raise RegistryError."""
    state, key = await call.registry.catch_up(), _guid(guid)
    places = state.ids_of_guid(key)
    versions = [
        version
        for context, schema_id in places
        for version in state.versions_of_id(schema_id, str(QualifiedSubject(context, "")), deleted=True)
    ]
    call.caller.check_any_read((version.subject for version in versions), key)
    return places, versions


async def _versions_of_id(call: RegistryCall, id: str, subject: str) -> list[Version]:
    """Return the versions that have an id, also soft-deleted ones; raise RegistryError."""
    state = await call.registry.catch_up()
    name = "" if subject == _EMPTY_SUBJECT else subject
    versions = state.versions_of_id(_id(id), name, deleted=True)
    call.caller.check_any_read((version.subject for version in versions), id)
    return versions


async def _schema_fields(call: RegistryCall, subject: str, schema: Schema, form: str) -> dict[str, Any]:
    fields = {**schema.as_json(), "schema": await call.registry.formatted(subject, schema, form)}
    return {**fields, "guid": str(guid_of(schema))} if call.accepts_unknown_members else fields


def _subjects(call: RegistryCall, versions: Sequence[Version], *, deleted: bool = False) -> list[str]:
    """Return the subjects of versions that the caller may read."""
    return call.caller.visible(sorted({version.subject for version in versions if deleted or not version.is_deleted}))


def _id(text: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", text):
        raise RegistryError(404, "HTTP 404 Not Found")
    return int(text)


def _guid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise RegistryError.no_schema(text[:100]) from None
