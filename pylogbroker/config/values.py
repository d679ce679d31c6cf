"""Typed access to values of settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pylogbroker.config.value_kinds import Value


class Values:
    """Values by setting: `config.integer("num.partitions")`.

    KeyError for an unknown name and TypeError for another type: both are mistakes of the caller. A setting without a
    value of its own has that of its synonym, in its own unit.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def by_name(self) -> Mapping[str, Value]:
        """Return a read-only view of all values."""
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
        """Return a text, or None if it is not set."""
        return None if self._values[name] is None else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list as a tuple."""
        value = self._values[name]
        if not isinstance(value, tuple):
            raise _mistyped(name, value)
        return value


def _mistyped(name: str, value: Value) -> TypeError:
    return TypeError(f"{name} is of another type: {value!r}")
