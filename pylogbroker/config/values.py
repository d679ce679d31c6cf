"""Typed access to values of settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pylogbroker.config.value_kinds import Value


class Values:
    """Values by setting: `config.integer("num.partitions")`.

    Raise KeyError for an unknown name, TypeError for another type. A synonym replaces a missing value, in its own unit.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def by_name(self) -> Mapping[str, Value]:
        return MappingProxyType(dict(self._values))

    def integer(self, name: str) -> int:
        value = self._values[name]
        if not isinstance(value, int) or isinstance(value, bool):
            raise _mistyped(name, value)
        return value

    def number(self, name: str) -> float:
        value = self._values[name]
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _mistyped(name, value)
        return value

    def boolean(self, name: str) -> bool:
        value = self._values[name]
        if not isinstance(value, bool):
            raise _mistyped(name, value)
        return value

    def text(self, name: str) -> str:
        value = self._values[name]
        if not isinstance(value, str):
            raise _mistyped(name, value)
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._values[name] is None else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        if not isinstance(value, tuple):
            raise _mistyped(name, value)
        return value


def _mistyped(name: str, value: Value) -> TypeError:
    return TypeError(f"{name} is of another type: {value!r}")
