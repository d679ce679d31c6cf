"""Subjects of the registry that `schema.registry.url` names, as pages show them.

The broker asks with its own credentials, in a worker thread. What a visitor sees is decided as for a registry of the
broker itself: a subject needs DESCRIBE on its topic. Levels are shown, and not changed.

A page has a bounded time: rows of subjects that are not asked for within it have their names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

import attrs

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.schemas.errors import InvalidSchema, SchemaError, UnknownSchema
from pylogbroker.schemas.names import topic_of
from pylogbroker.schemas.registry_client import RegistryClient, version_name
from pylogbroker.schemas.values import Schema, name_in, number_in
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.hosted_registry import RegistrySender, ShownVersion, SubjectSummary, SubjectVersions

T = TypeVar("T")
SUBJECTS_MAX: Final = 100_000
ROWS_SECONDS: Final = 3.0
"""Time for the rows of a page."""
_REFERRERS_MAX: Final = 20
_VERSIONS_MAX: Final = 10_000
_DEFAULT_LEVEL: Final = "BACKWARD"
_DEFAULT_MODE: Final = "READWRITE"


class AsksRegistry(Protocol):
    async def __call__(
        self, sender: RegistrySender, question: Callable[[RegistryClient], Coroutine[Any, Any, T]], /
    ) -> T:
        """Return what a question gets from the registry; raise SchemaError."""


@attrs.frozen(eq=False, repr=False)
class RemoteRegistry:
    """A SubjectBrowser; all methods raise KafkaError."""

    _runtime: Runtime
    _ask: AsksRegistry

    @property
    def levels(self) -> Sequence[str]:
        """No level can be chosen here."""
        return ()

    async def subjects(self, sender: RegistrySender, search: str = "") -> Sequence[str]:
        names = await self._answer(sender, _subjects)
        return [name async for name in self._runtime.slices.over(names) if search in name and _sees(sender, name)]

    async def summaries(self, sender: RegistrySender, subjects: Sequence[str]) -> Sequence[SubjectSummary]:
        visible = [name for name in subjects if _sees(sender, name)]
        ends_at = self._runtime.clock.seconds() + ROWS_SECONDS
        return await self._answer(sender, lambda client: self._rows(client, visible, ends_at))

    async def _rows(self, client: RegistryClient, names: Sequence[str], ends_at: float) -> list[SubjectSummary]:
        rows = []
        for name in names:
            if self._runtime.clock.seconds() >= ends_at:
                rows.append(SubjectSummary(name, "", 0, 0, 0, "", "", False, _DEFAULT_MODE))
                continue
            with suppress(UnknownSchema, InvalidSchema):  # deleted meanwhile
                rows.append(_summary(await _version(client, name, "latest"), 0, "", is_own=False, mode=_DEFAULT_MODE))
        return rows

    async def versions(self, sender: RegistrySender, subject: str) -> SubjectVersions:
        _check(sender, subject)
        return await self._answer(sender, lambda client: _subject(client, subject))

    async def version(self, sender: RegistrySender, subject: str, number: int) -> ShownVersion:
        _check(sender, subject)
        shown: ShownVersion = await self._answer(sender, lambda client: _shown(client, subject, number))
        return attrs.evolve(shown, referrers=[row for row in shown.referrers if _sees(sender, row[0])])

    async def default_level(self) -> str:
        return await self._answer(RegistrySender(""), lambda client: _level(client, "/config"))

    async def _answer(self, sender: RegistrySender, question: Callable[[RegistryClient], Coroutine[Any, Any, T]]) -> T:
        try:
            return await self._ask(sender, question)
        except UnknownSchema as error:
            raise KafkaError(str(error), ErrorCode.RESOURCE_NOT_FOUND) from error
        except (SchemaError, KeyError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, SchemaError) else f"its answer is not understood: {error!r:.200}"
            raise KafkaError(reason, ErrorCode.BROKER_NOT_AVAILABLE) from error


def _sees(sender: RegistrySender, subject: str) -> bool:
    access = sender.access
    return access is None or access.allows(
        AclOperation.DESCRIBE, AclResourceType.TOPIC, topic_of(subject), quietly=True
    )


def _check(sender: RegistrySender, subject: str) -> None:
    if not _sees(sender, subject):
        raise KafkaError(
            f"{sender.principal} has no right to DESCRIBE on topic {topic_of(subject)}, which protects {subject}",
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )


# questions, which block in a worker thread


async def _subjects(client: RegistryClient) -> list[str]:
    names = await client.ask("GET", "/subjects?subjectPrefix=%3A*%3A", "subjects", "")
    if not isinstance(names, list):
        raise TypeError("it has no list of subjects")
    return sorted(name_in({"subject": name}, "subject") for name in names[:SUBJECTS_MAX])


async def _version(client: RegistryClient, subject: str, number: str) -> Mapping[str, Any]:
    path = f"{_path(subject)}/versions/{number}"
    version = await client.ask("GET", path, version_name(subject, number), "")
    if not isinstance(version, dict):
        raise TypeError("it has no version")
    return {**version, "version": number_in(version, "version"), "id": number_in(version, "id")}


async def _subject(client: RegistryClient, subject: str) -> SubjectVersions:
    numbers = await client.ask("GET", f"{_path(subject)}/versions", f"subject {subject}", "")
    versions = sorted(number_in({"version": number}, "version") for number in numbers[-_VERSIONS_MAX:])
    latest = await _version(client, subject, "latest")
    try:
        level, is_own = await _level(client, f"/config/{quote(subject, safe='')}"), True
    except UnknownSchema:
        level, is_own = await _level(client, "/config"), False
    mode = _DEFAULT_MODE
    with suppress(UnknownSchema):
        answer = await client.ask("GET", f"/mode/{quote(subject, safe='')}?defaultToGlobal=true", "mode", "")
        mode = name_in(answer, "mode")
    summary = _summary(latest, len(versions), level, is_own=is_own, mode=mode)
    return SubjectVersions(summary, [(number, 0) for number in versions])


async def _shown(client: RegistryClient, subject: str, number: int) -> ShownVersion:
    version = await _version(client, subject, str(number))
    schema = Schema.from_json(version)
    references = [(reference.name, reference.subject, reference.version) for reference in schema.references]
    guid = version.get("guid")
    ids: Any = []
    with suppress(UnknownSchema):  # an older registry
        ids = await client.ask("GET", f"{_path(subject)}/versions/{number}/referencedby", "references", "")
    referrers: list[tuple[str, int]] = []
    for schema_id in ids[:_REFERRERS_MAX]:
        referrers += await client.versions_of(number_in({"id": schema_id}, "id"))
    return ShownVersion(
        number, version["id"], guid if isinstance(guid, str) else "", schema, references, sorted(set(referrers))
    )


async def _level(client: RegistryClient, path: str) -> str:
    answer = await client.ask("GET", path, "level of compatibility", "")
    return name_in(answer, "compatibilityLevel") if answer.get("compatibilityLevel") else _DEFAULT_LEVEL


def _summary(version: Mapping[str, Any], versions: int, level: str, *, is_own: bool, mode: str) -> SubjectSummary:
    """Return a summary by the latest version; versions are 0 and the level is empty where they are not asked for."""
    kind = Schema.from_json(version).kind
    return SubjectSummary(
        name_in(version, "subject"), kind, version["version"], version["id"], versions, level, level, is_own, mode
    )


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"
