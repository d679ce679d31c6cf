"""Settings of mirrored topics follow those of the source.

A setting of a topic in the source is set in the target, and one that the source does not set is removed there. Defaults
of brokers are not copied. Some settings belong to a cluster, not to its records: `EXCLUDED` has those of MirrorMaker 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.client import AdminClient
from pylogbroker.client.admin.configs import ConfigEntry, ConfigResource, Configs
from pylogbroker.client.admin.routing import ItemsFailed
from pylogbroker.config.changes import ConfigOperation, SettingChange
from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.java.pattern import Pattern, TooManySteps
from pylogbroker.java.pattern_syntax import PatternError

log = Logger()

EXCLUDED: Final = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
    r"remote\..*",  # archives and policies of deletion have places, which are those of one cluster
    r"local\.retention\..*",
    r"delete\.policies",
)
TOPICS_AT_ONCE: Final = 30
"""Topics of one request, whose answer has some dozens of settings for each."""
_OF_TOPIC: Final = "topic"


@attrs.frozen(eq=False, repr=False)
class NameFilter:
    """Chooses whole names by expressions of Java."""

    _included: tuple[Pattern, ...]
    _excluded: tuple[Pattern, ...] = ()

    @classmethod
    def of(cls, setting: str, included: Iterable[str], excluded: Iterable[str] = ()) -> NameFilter:
        """Raise ConfigError for an invalid expression."""
        return cls(_patterns(setting, included), _patterns(f"{setting}.exclude", excluded))

    def matches(self, name: str) -> bool:
        return _matches(self._included, name) and not _matches(self._excluded, name)


def settings_of_new(source: Configs, excluded: NameFilter) -> dict[str, str]:
    """Return the settings of a topic that the target does not have yet."""
    return {entry.name: entry.value or "" for entry in _own(source, excluded)}


def changes_for(source: Configs, target: Configs, excluded: NameFilter) -> list[SettingChange]:
    """Return what makes the target's topic like the source's. Settings that the target does not know are left out."""
    following = {name: value for name, value in settings_of_new(source, excluded).items() if name in target}
    current = {entry.name: entry.value for entry in _own(target, excluded)}
    changes = [
        SettingChange(name, ConfigOperation.SET, value)
        for name, value in sorted(following.items())
        if current.get(name) != value
    ]
    removed = [name for name in sorted(current) if name in source and name not in following]
    return changes + [SettingChange(name, ConfigOperation.DELETE) for name in removed]


@attrs.define(eq=False, repr=False)
class SettingsSync:
    """Lets the settings of topics follow, by the target's name of each source topic."""

    _source: AdminClient
    _target: AdminClient
    _excluded: NameFilter
    _rejected: set[tuple[str, SettingChange]] = attrs.field(factory=set)
    """Changes that the target has rejected: they are logged once."""

    async def run(self, topics: Mapping[str, str]) -> int:
        """Return how many settings were changed."""
        changed = 0
        names = sorted(topics)
        for start in range(0, len(names), TOPICS_AT_ONCE):
            changed += await self._follow({name: topics[name] for name in names[start : start + TOPICS_AT_ONCE]})
        return changed

    async def of_new(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the settings of source topics that the target does not have yet."""
        described = await self._described(self._source, topics)
        return {topic: settings_of_new(configs, self._excluded) for topic, configs in described.items()}

    async def _follow(self, topics: Mapping[str, str]) -> int:
        of_source = await self._described(self._source, topics)
        of_target = await self._described(self._target, topics.values())
        changes: dict[ConfigResource, Sequence[SettingChange]] = {}
        for topic, target_topic in topics.items():
            if topic in of_source and target_topic in of_target:
                listed = changes_for(of_source[topic], of_target[target_topic], self._excluded)
                if listed:
                    changes[ConfigResource.topic(target_topic)] = listed
        return await self._alter(changes) if changes else 0

    async def _described(self, admin: AdminClient, topics: Iterable[str]) -> dict[str, Configs]:
        """Return the settings of topics, without those that were deleted meanwhile."""
        resources = [ConfigResource.topic(topic) for topic in topics]
        try:
            described = await admin.configs.describe(resources)
        except ItemsFailed as failed:
            described = failed.results
        return {resource.name: configs for resource, configs in described.items()}

    async def _alter(self, changes: Mapping[ConfigResource, Sequence[SettingChange]]) -> int:
        count = sum(map(len, changes.values()))
        try:
            await self._target.configs.alter(changes)
        except ItemsFailed as failed:
            for resource in failed.errors:
                count -= len(changes[resource])
                count += await self._alter_each(resource, changes[resource])
        return count

    async def _alter_each(self, resource: ConfigResource, changes: Sequence[SettingChange]) -> int:
        """Make those changes that the target accepts: it rejects all of a topic because of one."""
        count = 0
        for change in changes:
            try:
                await self._target.configs.alter({resource: [change]})
                count += 1
            except PylogbrokerError as error:
                self._warn(resource.name, change, error)
        return count

    def _warn(self, topic: str, change: SettingChange, error: PylogbrokerError) -> None:
        if (topic, change) in self._rejected:
            return
        self._rejected.add((topic, change))
        log.warn(
            "{name}={value} of a mirrored topic was not set for {topic} in the target, which rejects it: {error};"
            " exclude it with config.properties.exclude, or set it in the target",
            name=change.name,
            value=change.value,
            topic=topic,
            error=str(error),
        )


def _own(configs: Configs, excluded: NameFilter) -> Iterator[ConfigEntry]:
    """Yield the settings that a topic has of its own."""
    for entry in configs.values():
        is_copied = entry.source == _OF_TOPIC and not entry.is_sensitive and not entry.is_read_only
        if is_copied and not excluded.matches(entry.name):
            yield entry


def _patterns(setting: str, expressions: Iterable[str]) -> tuple[Pattern, ...]:
    stripped = [expression.strip() for expression in expressions]
    try:
        return tuple(Pattern.compile(expression) for expression in stripped if expression)
    except PatternError as error:
        raise ConfigError(f"{setting}: {','.join(stripped)!r} is not a regular expression: {error}") from None


def _matches(patterns: tuple[Pattern, ...], name: str) -> bool:
    try:
        return any(pattern.full_match(name) is not None for pattern in patterns)
    except TooManySteps:
        raise ConfigError(f"an expression takes too many steps for the name {name!r:.200}: simplify it") from None
