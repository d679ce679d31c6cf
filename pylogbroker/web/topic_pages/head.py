"""Head of all pages of a topic: its facts in one line, the numbers of its tabs, and what the visitor may do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

import attrs

from pylogbroker.errors import KafkaError
from pylogbroker.metadata.image import NO_LEADER, TopicImage
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.cluster_views import TopicRow, topic_row
from pylogbroker.web.hosted_registry import SubjectSummary
from pylogbroker.web.offsets import Key, times_at
from pylogbroker.web.schema_pages.subjects import subjects_of_topic
from pylogbroker.web.topic_table import Kept, kept
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_offsets import MAX_TIMESTAMP

_PARTITIONS_MAX: Final = 64
"""Partitions that are asked for their oldest and newest record."""
_OLDEST: Final = 0


@attrs.frozen
class TopicRights:
    """Rights of the visitor on a topic, besides seeing that it exists."""

    read: bool
    write: bool
    alter: bool
    delete: bool
    see_settings: bool
    alter_settings: bool

    @classmethod
    def of(cls, visitor: Visitor, topic: str) -> TopicRights:
        operations = (
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.ALTER,
            AclOperation.DELETE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        )
        return cls(*(visitor.allows(operation, AclResourceType.TOPIC, topic) for operation in operations))


@attrs.frozen
class TopicHead:
    """Times are in milliseconds since 1970, None if no record has one or nobody answers.

    Without the right to see settings, `kept` and `own_settings` are None.
    """

    row: TopicRow
    rights: TopicRights
    principal: str
    oldest_ms: int | None
    newest_ms: int | None
    now_ms: int
    kept: Kept | None
    groups: int
    own_settings: int | None
    create_command: str
    schemas: Sequence[SubjectSummary] | None
    """Subjects of keys and values; None without a schema registry here."""

    @property
    def name(self) -> str:
        return self.row["name"]

    def needs(self, operation: str) -> str:
        """Return the sentence for what the visitor may not do."""
        return f"{self.principal} needs {operation} on the topic."


class TopicPage(TypedDict):
    head: TopicHead


async def topic_head(visitor: Visitor, name: str) -> TopicHead:
    """Raise KafkaError for a topic that there is not, or that the visitor may not see."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    services = visitor.services
    image = services.metadata.require_topic(name)
    settings = services.metadata.topic_settings(name)
    rights = TopicRights.of(visitor, name)
    return TopicHead(
        await topic_row(visitor, image),
        rights,
        visitor.principal,
        await _time(visitor, image, _OLDEST),
        await _time(visitor, image, MAX_TIMESTAMP),
        services.runtime.now_ms(),
        kept(visitor, settings) if rights.see_settings else None,
        sum(map(visitor.sees_group, visitor.samples.group_lags.topics.get(name, ()))),
        len(settings) if rights.see_settings else None,
        _create_command(image, settings if rights.see_settings else {}),
        await subjects_of_topic(visitor, name),
    )


async def _time(visitor: Visitor, topic: TopicImage, timestamp: int) -> int | None:
    """Return the time of the oldest or the newest record."""
    keys: list[Key] = [(topic.name, index) for index, state in topic.partitions.items() if state.leader != NO_LEADER]
    if len(topic.partitions) > _PARTITIONS_MAX:
        return None
    try:
        times = [time for time in (await times_at(visitor, keys, timestamp)).values() if time >= 0]
    except KafkaError:
        return None
    return (max if timestamp == MAX_TIMESTAMP else min)(times, default=None)


def _create_command(topic: TopicImage, settings: Mapping[str, str]) -> str:
    """Return the command that creates such a topic."""
    options = "".join(f" -c {shlex.quote(f'{name}={value}')}" for name, value in sorted(settings.items()))
    name = shlex.quote(topic.name)
    return f"pylogbroker topic create {name} -p {len(topic.partitions)} -r {topic.replication_factor}{options}"
