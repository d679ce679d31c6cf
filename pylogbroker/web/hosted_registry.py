"""The schema registry that is a part of this broker, as the web UI and the HTTP API ask it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from pylogbroker.broker.security.access import Access
from pylogbroker.schemas.registry_client import Answer
from pylogbroker.schemas.values import Schema


@attrs.frozen(repr=False)
class RegistrySender:
    """Visitor in whose name a request is sent; without `access`, there are no rules."""

    principal: str
    access: Access | None = None
    authorization: str = ""
    """Header Authorization of the visitor's request, for the broker that makes changes."""


@attrs.frozen
class SubjectSummary:
    """A subject by its latest version."""

    name: str
    kind: str
    version: int
    id: int
    versions: int
    level: str
    """Level of compatibility that holds for the subject."""
    default_level: str
    """Level that it has without one of its own."""
    has_own_level: bool
    mode: str


@attrs.frozen
class SubjectVersions:
    """Versions of a subject from the oldest, each with its id."""

    summary: SubjectSummary
    versions: Sequence[tuple[int, int]]


@attrs.frozen
class ShownVersion:
    """A version of a subject; `referrers` has subjects and versions that refer to it."""

    version: int
    id: int
    guid: str
    schema: Schema
    references: Sequence[tuple[str, str, int]]
    """Names, and the subjects and versions that these stand for."""
    referrers: Sequence[tuple[str, int]]


class SubjectBrowser(Protocol):
    """Subjects of a registry. All methods raise KafkaError, also for what the sender may not see."""

    @property
    def levels(self) -> Sequence[str]:
        """Names of the levels of compatibility that can be set."""

    async def subjects(self, sender: RegistrySender, search: str = "") -> Sequence[str]:
        """Return the subjects that a sender may see, and whose names contain a text, in order."""

    async def summaries(self, sender: RegistrySender, subjects: Sequence[str]) -> Sequence[SubjectSummary]:
        """Return those of some subjects that there are, and that a sender may see."""

    async def versions(self, sender: RegistrySender, subject: str) -> SubjectVersions: ...

    async def version(self, sender: RegistrySender, subject: str, number: int) -> ShownVersion: ...

    async def default_level(self) -> str:
        """Return the level of compatibility of subjects that have none of their own."""


class HostedRegistry(SubjectBrowser, Protocol):
    """The registry of this broker."""

    async def ask(self, method: str, path: str, content: bytes | None) -> Answer:
        """Return the answer to a question of the broker itself, which may read everything."""

    async def ask_for(self, sender: RegistrySender, method: str, path: str, content: bytes | None) -> Answer:
        """Return the answer to a visitor's request, whose rights decide; a change is made by the leader."""
