"""Subjects, versions and schemas of the registry, as the web UI shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.registry.callers import RegistryCaller
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.guids import guid_of
from pylogbroker.registry.registry import SchemaRegistry
from pylogbroker.registry.state import RegistryState
from pylogbroker.schemas.values import Reference
from pylogbroker.web.hosted_registry import ShownVersion, SubjectSummary, SubjectVersions

_CODES = {403: ErrorCode.TOPIC_AUTHORIZATION_FAILED, 404: ErrorCode.RESOURCE_NOT_FOUND}


@attrs.frozen(eq=False, repr=False)
class RegistryBrowser:
    """Answers in the name of a caller; all methods raise KafkaError."""

    _registry: SchemaRegistry
    _caller: RegistryCaller

    async def subjects(self, search: str) -> Sequence[str]:
        state = await self._state()
        return await self._registry.chosen(state.subjects(), lambda name: search in name and self._caller.sees(name))

    async def summaries(self, subjects: Sequence[str]) -> Sequence[SubjectSummary]:
        state = await self._state()
        return [_summary(state, name) for name in subjects if state.has_subject(name) and self._caller.sees(name)]

    async def versions(self, subject: str) -> SubjectVersions:
        state = await self._checked(subject)
        versions = [(version.version, version.id) for version in state.versions(subject)]
        return SubjectVersions(_summary(state, subject), versions)

    async def version(self, subject: str, number: int) -> ShownVersion:
        state = await self._checked(subject)
        with _as_kafka_error():
            version = state.version(subject, number)
        schema = version.schema
        references = [_reference(state, subject, reference) for reference in schema.references]
        referrers = [
            (referrer.subject, referrer.version)
            for referrer in state.referrers(version)
            if self._caller.sees(referrer.subject)
        ]
        return ShownVersion(version.version, version.id, str(guid_of(schema)), schema, references, referrers)

    async def default_level(self) -> str:
        return (await self._state()).level("")

    async def _state(self) -> RegistryState:
        with _as_kafka_error():
            return await self._registry.catch_up()

    async def _checked(self, subject: str) -> RegistryState:
        """Return the state, in which there is a subject that the caller may read."""
        state = await self._state()
        with _as_kafka_error():
            self._caller.check_read(subject)
            if not state.has_subject(subject):
                raise RegistryError.no_subject(subject)
        return state


@contextmanager
def _as_kafka_error() -> Iterator[None]:
    try:
        yield
    except RegistryError as error:
        raise KafkaError(str(error), _CODES.get(error.status, ErrorCode.BROKER_NOT_AVAILABLE)) from error


def _summary(state: RegistryState, subject: str) -> SubjectSummary:
    versions = state.versions(subject)
    latest = versions[-1]
    own = state.settings.get(subject, {})
    return SubjectSummary(
        subject,
        latest.schema.kind,
        latest.version,
        latest.id,
        len(versions),
        state.level(subject),
        state.default_level(subject),
        "compatibilityLevel" in own,
        state.mode(subject),
    )


def _reference(state: RegistryState, subject: str, reference: Reference) -> tuple[str, str, int]:
    return (reference.name, *state.referred(subject, reference))
