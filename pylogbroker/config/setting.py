"""One row of the table of settings."""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum
from typing import Any, Final, Generic, TypeVar, overload

import attrs

from pylogbroker.config.value_kinds import ConfigType, T, TypedKind, Value, ValueKind
from pylogbroker.config.values import Values

S = TypeVar("S", bound=Value)


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
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


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


@attrs.frozen
class TypedSetting(Setting, Generic[S]):
    """Setting that is an attribute of its table: `config.num_partitions` has the value in force, with its type."""

    @overload
    def __get__(self, values: None, table: type) -> TypedSetting[S]: ...
    @overload
    def __get__(self, values: Values, table: type) -> S: ...
    def __get__(self, values: Values | None, table: type) -> TypedSetting[S] | S:
        if values is None:
            return self
        return values._values[self.name]  # type: ignore[return-value]  # the kind has parsed it


class BySynonym(Enum):
    """Default of a setting whose last synonym has one."""

    BY_SYNONYM = None


_IMPORTANCE = {"high": Importance.HIGH, "medium": Importance.MEDIUM, "low": Importance.LOW}


@attrs.frozen
class _MakeRow:
    """Makes rows of settings that are changed in one way. The type of the default is that of the kind, or None."""

    _mode: Mode

    @overload
    def __call__(
        self,
        name: str,
        kind: TypedKind[T],
        default: T | BySynonym,
        importance: str,
        doc: str,
        *,
        synonyms: tuple[Synonym, ...] = (),
        internal: bool = False,
    ) -> TypedSetting[T]: ...
    @overload
    def __call__(
        self,
        name: str,
        kind: TypedKind[T],
        default: None,
        importance: str,
        doc: str,
        *,
        synonyms: tuple[Synonym, ...] = (),
        internal: bool = False,
    ) -> TypedSetting[T | None]: ...
    def __call__(
        self,
        name: str,
        kind: ValueKind,
        default: Value | BySynonym,
        importance: str,
        doc: str,
        *,
        synonyms: tuple[Synonym, ...] = (),
        internal: bool = False,
    ) -> TypedSetting[Any]:
        return TypedSetting(
            name=name,
            kind=kind,
            default=None if isinstance(default, BySynonym) else default,
            importance=_IMPORTANCE[importance],
            doc=doc,
            mode=self._mode,
            synonyms=synonyms,
            internal=internal,
        )


fixed: Final = _MakeRow(Mode.READ_ONLY)
per_broker: Final = _MakeRow(Mode.PER_BROKER)
cluster_wide: Final = _MakeRow(Mode.CLUSTER_WIDE)
BY_SYNONYM: Final = BySynonym.BY_SYNONYM


def rows_of(table: type[Values]) -> tuple[Setting, ...]:
    """Return the rows that a table declares, in their order."""
    return tuple(row for row in vars(table).values() if isinstance(row, Setting))
