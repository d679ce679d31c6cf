"""Requests about subjects and their versions, and checks of compatibility."""

from __future__ import annotations

from typing import Any

from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.guids import guid_of
from pylogbroker.registry.rest.calls import (
    ITEMS_MAX,
    Body,
    Flag,
    Form,
    Most,
    Prefix,
    RegistryCall,
    Skipped,
    number_of,
    page,
    version_fields,
)
from pylogbroker.registry.rest.fields import Registered
from pylogbroker.registry.subjects import ANY_CONTEXT, checked_subject, matches_prefix
from pylogbroker.schemas.values import Version


async def subjects(
    call: RegistryCall,
    deleted: Flag = False,
    deletedOnly: Flag = False,
    subjectPrefix: Prefix = ANY_CONTEXT,
    offset: Skipped = 0,
    limit: Most = None,
) -> list[str]:
    """Return subjects."""
    state = await call.registry.catch_up()
    live = frozenset(state.subjects()) if deletedOnly else frozenset()

    def fits(name: str) -> bool:
        return matches_prefix(name, subjectPrefix) and name not in live and call.caller.sees(name)

    return page(
        await call.registry.chosen(state.subjects(deleted=deleted or deletedOnly), fits), offset, limit, ITEMS_MAX
    )


async def look_up(
    call: RegistryCall,
    subject: str,
    body: Body,
    normalize: Flag = False,
    deleted: Flag = False,
    format: Form = "",
) -> dict[str, Any]:
    """Return the version of a subject that has a schema."""
    name = await _subject(call, subject)
    version = await call.registry.look_up(name, body, normalize=normalize, deleted=deleted)
    return await version_fields(call, version, format)


async def latest_with_metadata(
    call: RegistryCall, subject: str, deleted: Flag = False, format: Form = ""
) -> dict[str, Any]:
    """Return the latest version of a subject whose metadata has properties, given as pairs of key and value."""
    name = await _subject(call, subject)
    properties_asked = dict(zip(call.pairs.get("key", ()), call.pairs.get("value", ()), strict=False))
    versions = call.registry.state.versions(name, deleted=deleted)
    if not versions:
        raise RegistryError.no_subject(name)
    for version in reversed(versions):
        properties = version.schema.as_json().get("metadata", {}).get("properties", {})
        if properties_asked.items() <= properties.items():
            return await version_fields(call, version, format)
    raise RegistryError.no_schema()


async def delete_subject(call: RegistryCall, subject: str, permanent: Flag = False) -> list[int]:
    """Delete a subject, and return its versions."""
    name = checked_subject(subject)
    call.caller.check_delete(name)
    return await call.registry.delete_subject(name, permanent=permanent)


async def versions(
    call: RegistryCall,
    subject: str,
    deleted: Flag = False,
    deletedOnly: Flag = False,
    offset: Skipped = 0,
    limit: Most = None,
) -> list[int]:
    """Return the versions of a subject."""
    name = await _subject(call, subject)
    versions = call.registry.state.versions(name, deleted=deleted or deletedOnly)
    if not versions:
        raise RegistryError.no_subject(name)
    numbers = [version.version for version in versions if version.is_deleted or not deletedOnly]
    return page(numbers, offset, limit, ITEMS_MAX)


async def register(call: RegistryCall, subject: str, body: Body, normalize: Flag = False) -> Registered:
    """Register a schema, and return its id."""
    name = await _resolved(call, checked_subject(subject))
    call.caller.check_register(name)
    version = (await call.registry.register(name, body, normalize=normalize)).version
    if not call.accepts_unknown_members:
        return {"id": version.id}
    return {"id": version.id, "version": version.version, "guid": str(guid_of(version.schema))}


async def version(
    call: RegistryCall, subject: str, version: str, deleted: Flag = False, format: Form = ""
) -> dict[str, Any]:
    """Return a version of a subject."""
    return await version_fields(call, await _version(call, subject, version, deleted), format)


async def delete_version(call: RegistryCall, subject: str, version: str, permanent: Flag = False) -> int:
    """Delete a version of a subject, and return its number."""
    name = checked_subject(subject)
    call.caller.check_delete(name)
    return await call.registry.delete_version(name, number_of(version), permanent=permanent)


async def text_of_version(
    call: RegistryCall, subject: str, version: str, deleted: Flag = False, format: Form = ""
) -> Any:
    """Return the schema of a version alone."""
    shown = await _version(call, subject, version, deleted)
    return (await call.registry.formatted(shown.subject, shown.schema, format)).encode()


async def referenced_by(
    call: RegistryCall, subject: str, version: str, deleted: Flag = False, offset: Skipped = 0, limit: Most = None
) -> list[int]:
    """Return the ids of schemas that refer to a version."""
    referred = await _version(call, subject, version, True)
    ids = {referrer.id for referrer in call.registry.state.referrers(referred, deleted=deleted)}
    return page(sorted(ids), offset, limit, ITEMS_MAX)


async def check(
    call: RegistryCall, subject: str, body: Body, normalize: Flag = False, verbose: Flag = False
) -> dict[str, Any]:
    """Check a schema with the versions of a subject, by its level."""
    name = await _subject(call, subject)
    return await call.registry.check(name, None, body, normalize=normalize, verbose=verbose)


async def check_version(
    call: RegistryCall,
    subject: str,
    version: str,
    body: Body,
    normalize: Flag = False,
    verbose: Flag = False,
) -> dict[str, Any]:
    """Check a schema with one version of a subject."""
    name = await _subject(call, subject)
    return await call.registry.check(name, number_of(version), body, normalize=normalize, verbose=verbose)


async def _subject(call: RegistryCall, subject: str) -> str:
    """Return the subject to read, with its alias replaced."""
    name = await _resolved(call, checked_subject(subject))
    call.caller.check_read(name)
    return name


async def _resolved(call: RegistryCall, subject: str) -> str:
    await call.registry.catch_up()
    return call.registry.alias_of(subject)


async def _version(call: RegistryCall, subject: str, version: str, deleted: bool) -> Version:
    name, number = await _subject(call, subject), number_of(version)
    shown = call.registry.state.version_in_any_context(name, number, deleted=deleted)
    call.caller.check_read(shown.subject)
    return shown
