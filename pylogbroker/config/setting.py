"""One row of the table of settings."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import attrs

from pylogbroker.config.value_kinds import ConfigType, Value, ValueKind


class Scope(StrEnum):
    """What a setting belongs to."""

    BROKER = "broker"
    TOPIC = "topic"


class Importance(StrEnum):
    """How likely a reader of the table needs the setting."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Mode(StrEnum):
    """How a broker's setting can be changed while the broker runs."""

    READ_ONLY = "read-only"  # by the file or the command line, and a restart
    PER_BROKER = "per-broker"  # for one broker or for the whole cluster
    CLUSTER_WIDE = "cluster-wide"  # for the whole cluster, or for one broker to try it out


class ConfigSource(IntEnum):
    """Where a value came from, by its number in a DescribeConfigs response."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@attrs.frozen
class Synonym:
    """Another setting that speaks when this one is silent, and what its number is multiplied by."""

    name: str
    factor: int = 1


@attrs.frozen
class Setting:
    """A setting: its name, what it may hold, what it holds unless told otherwise, and what it means."""

    name: str
    kind: ValueKind
    default: Value
    importance: Importance
    doc: str
    scope: Scope = Scope.BROKER
    mode: Mode = Mode.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()  # broker settings, by falling priority
    internal: bool = False  # left out of DescribeConfigs
    no_effect: str = ""  # why the broker does not use the setting, if it does not

    @property
    def sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.kind.type is ConfigType.PASSWORD

    @property
    def dynamic(self) -> bool:
        """Whether the value can be changed while the broker runs."""
        return self.scope is Scope.TOPIC or self.mode is not Mode.READ_ONLY
