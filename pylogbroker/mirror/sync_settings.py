"""Settings of what follows the records of a mirror: groups, settings of topics, ACLs, heartbeats.

In files they have the names of MirrorMaker 2:

| setting                                                       | meaning                                         |
|---------------------------------------------------------------|-------------------------------------------------|
| `groups`, `groups.exclude`                                    | groups whose offsets follow                     |
| `emit.checkpoints.enabled`, `.interval.seconds`               | whether and how often offsets are translated    |
| `sync.group.offsets.enabled`                                  | whether these are committed in the target       |
| `sync.group.offsets.back.enabled`                             | and in the source, when a group has moved       |
| `sync.topic.configs.enabled`, `.interval.seconds`             | settings of topics                              |
| `config.properties.exclude`                                   | settings that do not follow                     |
| `sync.topic.acls.enabled`, `.interval.seconds`                | ACLs of topics; by default they do not follow   |
| `emit.heartbeats.enabled`, `.interval.seconds`                | heartbeats                                      |
| `emit.offset-syncs.enabled`                                   | whether offsets in both clusters are stored     |
| `offset-syncs.topic.location`                                 | `source` or `target`                            |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from pylogbroker.errors import ConfigError
from pylogbroker.java.text import parse_whole
from pylogbroker.mirror.group_sync import EXCLUDED_GROUPS
from pylogbroker.mirror.settings_sync import EXCLUDED as EXCLUDED_SETTINGS

_ACLS_SECONDS: Final = 600.0

NAMES: Final = frozenset(
    {
        "groups",
        "groups.exclude",
        "groups.blacklist",
        "emit.checkpoints.enabled",
        "emit.checkpoints.interval.seconds",
        "sync.group.offsets.enabled",
        "sync.group.offsets.back.enabled",
        "sync.topic.configs.enabled",
        "sync.topic.configs.interval.seconds",
        "config.properties.exclude",
        "config.properties.blacklist",
        "sync.topic.acls.enabled",
        "sync.topic.acls.interval.seconds",
        "emit.heartbeats.enabled",
        "emit.heartbeats.interval.seconds",
        "emit.offset-syncs.enabled",
        "offset-syncs.topic.location",
    }
)


@attrs.frozen
class SyncSettings:
    """Intervals in seconds; 0: never."""

    offset_syncs: bool = True
    """Whether offsets of records in both clusters are written to the offset syncs topic."""

    offset_syncs_at_source: bool = True
    """Whether that topic is in the source, as with MirrorMaker 2, or in the target."""

    checkpoints_interval: float = 5.0
    """How often offsets of groups are translated."""

    group_offsets: bool = True
    """Whether translated offsets are committed in the target, for groups without members there."""

    group_offsets_back: bool = True
    """Whether offsets of groups that moved to the target are committed in the source, to let them move back."""

    groups: tuple[str, ...] = (".*",)
    groups_excluded: tuple[str, ...] = EXCLUDED_GROUPS
    topic_settings_interval: float = 60.0
    settings_excluded: tuple[str, ...] = EXCLUDED_SETTINGS
    topic_acls_interval: float = 0.0
    heartbeats_interval: float = 1.0
    replication_factor: int = -1
    """Of the topics for syncs, checkpoints and heartbeats; -1: the cluster's default."""

    @classmethod
    def of(cls, names: Mapping[str, str]) -> SyncSettings:
        """Return the settings of a file; raise ConfigError for a value that is not accepted."""
        texts = _Texts(names)
        return cls(
            offset_syncs=texts.flag("emit.offset-syncs.enabled", True),
            offset_syncs_at_source=texts.choice("offset-syncs.topic.location", "source", "target") == "source",
            checkpoints_interval=texts.interval("emit.checkpoints", True, cls().checkpoints_interval),
            group_offsets=texts.flag("sync.group.offsets.enabled", True),
            group_offsets_back=texts.flag("sync.group.offsets.back.enabled", True),
            groups=texts.listed("groups", cls().groups),
            groups_excluded=texts.listed("groups.exclude", EXCLUDED_GROUPS, "groups.blacklist"),
            topic_settings_interval=texts.interval("sync.topic.configs", True, cls().topic_settings_interval),
            settings_excluded=texts.listed(
                "config.properties.exclude", EXCLUDED_SETTINGS, "config.properties.blacklist"
            ),
            topic_acls_interval=texts.interval("sync.topic.acls", False, _ACLS_SECONDS),
            heartbeats_interval=texts.interval("emit.heartbeats", True, cls().heartbeats_interval),
        )

    def with_groups(self, expressions: str) -> SyncSettings:
        """Return settings with other groups; commas separate expressions."""
        return attrs.evolve(self, groups=_Texts({"groups": expressions}).listed("groups", ()))

    def with_acls(self) -> SyncSettings:
        """Return settings with which ACLs of topics follow, too."""
        return attrs.evolve(self, topic_acls_interval=self.topic_acls_interval or _ACLS_SECONDS)


@attrs.frozen
class _Texts:
    """Reads values of a file."""

    _names: Mapping[str, str]

    def choice(self, name: str, *choices: str) -> str:
        value = self._names.get(name, choices[0]).strip().lower()
        if value not in choices:
            raise ConfigError(f"{name}: {self._names[name]!r} is not accepted; expected {' or '.join(choices)}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        choices = ("true", "false") if default else ("false", "true")
        return self.choice(name, *choices) == "true"

    def interval(self, name: str, default: bool, seconds: float) -> float:
        """Return seconds; 0 if the task is disabled. A negative number disables it, too, as in MirrorMaker 2."""
        if not self.flag(f"{name}.enabled", default):
            return 0.0
        text = self._names.get(f"{name}.interval.seconds")
        if text is None:
            return seconds
        try:
            return float(max(parse_whole(text.strip(), 32), 0))
        except ValueError:
            raise ConfigError(f"{name}.interval.seconds: {text!r} is not accepted; expected seconds") from None

    def listed(self, name: str, default: tuple[str, ...], older_name: str = "") -> tuple[str, ...]:
        text = self._names.get(name, self._names.get(older_name))
        if text is None:
            return default
        return tuple(part.strip() for part in text.split(",") if part.strip())
