"""Settings in force for a topic: overrides, and the broker's settings."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Final, NamedTuple

import attrs

from pylogbroker.config import parsing, table
from pylogbroker.config.formats import is_by_position, magic_of
from pylogbroker.config.topic_settings import TopicRows
from pylogbroker.config.value_kinds import LONG_MAX, Value
from pylogbroker.errors import ConfigError

_LEAST_LAG: Final = "min.compaction.lag.ms"
_MOST_LAG: Final = "max.compaction.lag.ms"
_FORMAT: Final = "message.format.version"
_AS_RETENTION: Final = -2
_AS_LOCAL_RETENTION: Final = -1
_KEPT_MAX: Final = 4096
_OLD_CODECS: Final = ("producer", "uncompressed", "gzip", "snappy")


class CopyLag(NamedTuple):
    """Delay of the copies of an archived topic: an age of a sealed segment, or a size of what is behind it.

    0 stands for "at once", -1 for "never by this".
    """

    ms: int = 0
    bytes: int = _AS_LOCAL_RETENTION

    @property
    def is_none(self) -> bool:
        """Return whether each segment is copied at once."""
        return not self.ms or not self.bytes

    def is_over(self, age_ms: int, newer_bytes: int) -> bool:
        """Return whether one of both is reached. A record of the future, whose age is negative, delays nothing."""
        is_old = self.ms > 0 and not 0 <= age_ms < self.ms
        return self.is_none or is_old or 0 < self.bytes <= newer_bytes


AT_ONCE: Final = CopyLag()


class TopicConfig(TopicRows):
    """Settings in force for a topic; immutable. `overrides` are its own, as text."""

    __slots__ = ("__weakref__", "overrides")

    def __init__(self, values: Mapping[str, Value], overrides: Mapping[str, str]) -> None:
        super().__init__(values)
        self.overrides = overrides

    @property
    def magic(self) -> int:
        """Magic of the message format, 0 to 2; 0 if byte-addressed."""
        return 0 if self.byte_addressed else magic_of(self.message_format_version)

    @property
    def byte_addressed(self) -> bool:
        return is_by_position(self.message_format_version)

    @property
    def compacts(self) -> bool:
        """True if only each key's newest record is kept; then every record needs a key."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def timestamp_before_max_ms(self) -> int:
        """Largest age of a timestamp."""
        return self._timestamp_bound("message.timestamp.before.max.ms")

    @property
    def timestamp_after_max_ms(self) -> int:
        """Largest lead of a timestamp."""
        return self._timestamp_bound("message.timestamp.after.max.ms")

    def local(self) -> TopicConfig:
        """Return the settings with the retention of an archived topic's local segments as the whole retention."""
        values = dict(self._values)
        for name in ("retention.ms", "retention.bytes"):
            local = values[f"local.{name}"]
            if local != _AS_RETENTION:
                values[name] = local
        return TopicConfig(values, self.overrides)

    def copy_lag(self) -> CopyLag:
        ms, size = self.remote_copy_lag_ms, self.remote_copy_lag_bytes
        local = self.local()
        return CopyLag(
            local.retention_ms if ms == _AS_LOCAL_RETENTION else ms,
            local.retention_bytes if size == _AS_LOCAL_RETENTION else size,
        )

    def _timestamp_bound(self, name: str) -> int:
        bound = self.integer(name)
        return bound if bound != LONG_MAX else self.message_timestamp_difference_max_ms


TopicCheck = Callable[[TopicConfig, Container[str], TopicConfig | None], object]


def parse_overrides(overrides: Mapping[str, str | None]) -> dict[str, Value]:
    """Raise ConfigError for an unknown or invalid override."""
    return {name: _parse(name, text) for name, text in overrides.items()}


def _parse(name: str, text: str | None) -> Value:
    setting = table.TOPIC.get(name)
    if setting is None:
        near = parsing.closest(name, table.TOPIC)
        raise ConfigError(f"{name}: there is no such topic setting" + (f"; did you mean {near}?" if near else ""))
    if text is None:
        raise ConfigError(f"{name}: no value; expected {setting.kind.expected}")
    return parsing.parse(setting, text)


def check_together(config: TopicConfig) -> None:
    least, most = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if least > most:
        least_name, most_name = _written(_LEAST_LAG, config), _written(_MOST_LAG, config)
        if _MOST_LAG in config.overrides and _LEAST_LAG not in config.overrides:
            raise ConfigError(f"{most_name}: {most} is not accepted; expected at least {least_name}, {least}")
        raise ConfigError(f"{least_name}: {least} is not accepted; expected at most {most_name}, {most}")


def check_format(config: TopicConfig, before: TopicConfig | None) -> None:
    """Raise ConfigError for settings that the message format excludes, and for a change of addressing."""
    if before is not None and before.byte_addressed != config.byte_addressed:
        raise ConfigError(
            f"{_FORMAT}: {config.message_format_version} is not accepted; "
            "a topic is of format 0.7 from its creation on or never"
        )
    if not config.byte_addressed:
        return
    if config.compacts:
        raise ConfigError("cleanup.policy: compact is not accepted; messages of format 0.7 have no keys")
    codec = config.compression_type
    if codec not in _OLD_CODECS:
        raise ConfigError(f"compression.type: {codec} is not accepted; format 0.7 has gzip and snappy")


def _written(name: str, config: TopicConfig) -> str:
    return name if name in config.overrides else table.TOPIC[name].synonyms[0].name


@attrs.define
class TopicDefaults:
    """Broker's values for all topics, and the settings of topics with overrides.

    Topics with equal overrides share a TopicConfig: ten thousand plain topics cost one. The cache is bounded: rejected
    and validate-only requests add to it.
    """

    _values: dict[str, Value]
    _made: dict[tuple[tuple[str, str], ...], TopicConfig] = attrs.field(init=False, factory=dict)

    def resolve(self, overrides: Mapping[str, str]) -> TopicConfig:
        key = tuple(sorted(overrides.items()))
        made = self._made.get(key)
        if made is None:
            made = TopicConfig(self._values | parse_overrides(overrides), dict(overrides))
            check_together(made)
            if len(self._made) >= _KEPT_MAX:
                self._made.clear()
            self._made[key] = made
        return made
