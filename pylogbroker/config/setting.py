"""One row of the table of settings."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from functools import partial

import attrs

from pylogbroker.config.value_kinds import ConfigType, Value, ValueKind


class Scope(StrEnum):
    BROKER = "broker"
    TOPIC = "topic"


class Importance(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Mode(StrEnum):
    """Ways to change a broker's setting."""

    READ_ONLY = "read-only"  # file or command line, and a restart
    PER_BROKER = "per-broker"  # one broker or the whole cluster
    CLUSTER_WIDE = "cluster-wide"  # the whole cluster, or one broker for a trial


class ConfigSource(IntEnum):
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@attrs.frozen
class Synonym:
    """Setting that replaces a missing value, times `factor`."""

    name: str
    factor: int = 1


@attrs.frozen
class Setting:
    name: str
    kind: ValueKind
    default: Value
    importance: Importance
    doc: str
    scope: Scope = Scope.BROKER
    mode: Mode = Mode.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()  # broker settings, by falling priority
    internal: bool = False  # not in DescribeConfigs
    no_effect: str = ""  # why the setting is unused

    @property
    def sensitive(self) -> bool:
        return self.kind.type is ConfigType.PASSWORD

    @property
    def dynamic(self) -> bool:
        return self.scope is Scope.TOPIC or self.mode is not Mode.READ_ONLY


_IMPORTANCE = {"high": Importance.HIGH, "medium": Importance.MEDIUM, "low": Importance.LOW}


def _row(
    mode: Mode,
    name: str,
    kind: ValueKind,
    default: Value,
    importance: str,
    doc: str,
    *,
    synonyms: tuple[Synonym, ...] = (),
    internal: bool = False,
) -> Setting:
    return Setting(
        name=name,
        kind=kind,
        default=default,
        importance=_IMPORTANCE[importance],
        doc=doc,
        mode=mode,
        synonyms=synonyms,
        internal=internal,
    )


fixed = partial(_row, Mode.READ_ONLY)
per_broker = partial(_row, Mode.PER_BROKER)
cluster_wide = partial(_row, Mode.CLUSTER_WIDE)
