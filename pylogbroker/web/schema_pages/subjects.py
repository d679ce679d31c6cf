"""Subjects of the registry, a subject with its versions, and forms that change levels of compatibility."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypedDict
from urllib.parse import quote

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.json_text import indented
from pylogbroker.schemas.codecs import TITLES
from pylogbroker.schemas.names import topic_of
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.hosted_registry import HostedRegistry, ShownVersion, SubjectBrowser, SubjectSummary
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Index, Name, Search
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import Trimmed
from pylogbroker.web.schema_pages.differences import SHOWN_CHARACTERS_MAX, DiffLine, difference, shown_text
from pylogbroker.web.visitors import Visitor

NO_REGISTRY: Final = (
    "this broker is no schema registry: schema.registry.listeners=http://127.0.0.1:8081 makes it one, after a restart"
)
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_UNAVAILABLE: Final = 500
_CONTRACT_CHARACTERS_MAX: Final = 64 * 1024

Level = Annotated[str, Trimmed, "level of compatibility, empty for the default"]
VersionNumber = Annotated[Index, "number of a version, by default the latest"]


Elsewhere = Annotated[str, "address of the registry that schema.registry.url names, empty for the broker's own"]


class SubjectRow(TypedDict):
    """Subject with the topic whose rights protect it, which is empty if there is none, or none that is seen."""

    summary: SubjectSummary
    title: str
    topic: str


class SubjectTable(Paged):
    search: str
    all_subjects: int
    subjects: list[SubjectRow]
    level: str
    levels: Sequence[str]
    may_configure: bool
    elsewhere: Elsewhere


class ShownDifference(TypedDict):
    """Lines that differ from a version; None for texts that are too long to compare."""

    against: int
    lines: Sequence[DiffLine] | None


class SubjectPage(SubjectRow):
    shown: ShownVersion
    text: str
    is_cut: bool
    versions: Sequence[tuple[int, int]]
    before: int | None
    difference: ShownDifference | None
    metadata: str
    rule_set: str
    levels: Sequence[str]
    may_configure: bool
    elsewhere: Elsewhere


class ChangedLevel(TypedDict):
    subject: str


async def subject_table(visitor: Visitor, search: Search = "", page: PageNumber = 1) -> SubjectTable:
    """Return a page of subjects whose names contain a text."""
    registry = _browser(visitor)
    sender = visitor.registry_sender
    every = await registry.subjects(sender)
    matching = await registry.subjects(sender, search) if search else every
    values, names = paged(page, "", matching)
    return {
        "search": search,
        "all_subjects": len(every),
        **values,
        "subjects": [_row(visitor, summary) for summary in await registry.summaries(sender, names)],
        "level": await registry.default_level(),
        "levels": registry.levels,
        "may_configure": _may_configure(visitor, ""),
        "elsewhere": _elsewhere(visitor),
    }


async def subject_page(
    visitor: Visitor, subject: Name, version: VersionNumber | None = None, against: VersionNumber | None = None
) -> SubjectPage:
    """Return a version of a subject; with `against`, what has changed since another one."""
    registry, sender = _browser(visitor), visitor.registry_sender
    every = await registry.versions(sender, subject)
    number = every.summary.version if version is None else version
    shown = await registry.version(sender, subject, number)
    in_thread = visitor.services.runtime.in_thread
    text: str = await in_thread(shown_text, shown.schema)
    compared: ShownDifference | None = None
    if against is not None:
        other = await registry.version(sender, subject, against)
        lines = await in_thread(lambda: difference(shown_text(other.schema), text))
        compared = {"against": against, "lines": lines}
    return {
        **_row(visitor, every.summary),
        "shown": shown,
        "text": text[:SHOWN_CHARACTERS_MAX],
        "is_cut": len(text) > SHOWN_CHARACTERS_MAX,
        "versions": every.versions,
        "before": max((earlier for earlier, _ in every.versions if earlier < number), default=None),
        "difference": compared,
        "metadata": _contract(shown.schema.metadata),
        "rule_set": _contract(shown.schema.rule_set),
        "levels": registry.levels,
        "may_configure": _may_configure(visitor, subject),
        "elsewhere": _elsewhere(visitor),
    }


async def set_default_level(visitor: Visitor, level: Level = "") -> ChangedLevel:
    """Set the level of all subjects that have none of their own."""
    await _set_level(visitor, "", level)
    return {"subject": ""}


async def set_subject_level(visitor: Visitor, subject: Name, level: Level = "") -> ChangedLevel:
    """Set the level of a subject; an empty one lets it have the default."""
    await _set_level(visitor, subject, level)
    return {"subject": subject}


async def subjects_of_topic(visitor: Visitor, topic: str) -> Sequence[SubjectSummary] | None:
    """Return the subjects of a topic's keys and values; None without a registry here, or if it does not answer."""
    if visitor.schemas is None or visitor.schemas.own is None:
        return None
    try:
        return await visitor.schemas.own.summaries(visitor.registry_sender, (f"{topic}-key", f"{topic}-value"))
    except KafkaError:
        return None


def _browser(visitor: Visitor) -> SubjectBrowser:
    """Return the registry of this broker, or the one that its settings name; raise KafkaError."""
    schemas = visitor.schemas
    if schemas is None:
        raise KafkaError(NO_REGISTRY, ErrorCode.RESOURCE_NOT_FOUND)
    browser = schemas.browser
    if browser is None:
        raise KafkaError(
            f"the registry of schema.registry.url is not asked: {schemas.reason}", ErrorCode.RESOURCE_NOT_FOUND
        )
    return browser


def _registry(visitor: Visitor) -> HostedRegistry:
    """Return the registry of this broker, in which levels are set; raise KafkaError."""
    schemas = visitor.schemas
    if schemas is not None and schemas.own is not None:
        return schemas.own
    where = _elsewhere(visitor)
    if not where:
        raise KafkaError(NO_REGISTRY, ErrorCode.RESOURCE_NOT_FOUND)
    raise KafkaError(
        f"levels of the registry at {where} are not set here: `pylogbroker schema config -r {where}` sets them",
        ErrorCode.INVALID_REQUEST,
    )


def _elsewhere(visitor: Visitor) -> str:
    schemas = visitor.schemas
    return "" if schemas is None or schemas.own is not None else schemas.where


def _row(visitor: Visitor, summary: SubjectSummary) -> SubjectRow:
    topic = topic_of(summary.name)
    is_seen = topic in visitor.services.metadata.topics and visitor.sees_topic(topic)
    return {"summary": summary, "title": TITLES.get(summary.kind, summary.kind), "topic": topic if is_seen else ""}


def _may_configure(visitor: Visitor, subject: str) -> bool:
    if _elsewhere(visitor):
        return False
    if not subject:
        return visitor.allows(AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME)
    return visitor.allows(AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC, topic_of(subject))


def _contract(text: str) -> str:
    """Return metadata or rules on lines, empty for none."""
    return indented(text, _CONTRACT_CHARACTERS_MAX) or text[:_CONTRACT_CHARACTERS_MAX] if text else ""


async def _set_level(visitor: Visitor, subject: str, level: str) -> None:
    registry = _registry(visitor)
    if level and level not in registry.levels:
        raise BadRequest(f"a level is {', '.join(registry.levels)}, or empty for the default", "level")
    path = f"/config/{quote(subject, safe='')}" if subject else "/config"
    change: Any = ("PUT", path, json.dumps({"compatibility": level}).encode()) if level else ("DELETE", path, None)
    answer = await registry.ask_for(visitor.registry_sender, *change)
    if 200 <= answer.status < 300 or (not level and answer.status == _NOT_FOUND):
        return
    reason = str(json.loads(answer.body).get("message", "the registry fails"))
    if answer.status == _FORBIDDEN:
        raise KafkaError(reason, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if answer.status >= _UNAVAILABLE:
        raise KafkaError(reason, ErrorCode.BROKER_NOT_AVAILABLE)
    raise BadRequest(reason, "level")
