"""Typed access to the values of settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pylogbroker.config.value_kinds import Value


class Values:
    """Settings by their names, each in its own type: `config.integer("num.partitions")`.

    Asking for a name that is not in the table is a KeyError, and in another type a TypeError: both are mistakes in the
    code that asks. Where a setting is silent (None) and others speak for it, the value is theirs, in its unit.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def by_name(self) -> Mapping[str, Value]:
        """All values, which cannot be changed, by their names."""
        return MappingProxyType(dict(self._values))

    def integer(self, name: str) -> int:
        """The value of a setting that is a whole number."""
        value = self._values[name]
        if not isinstance(value, int) or isinstance(value, bool):
            raise _mistyped(name, value)
        return value

    def number(self, name: str) -> float:
        """The value of a setting that is a number."""
        value = self._values[name]
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _mistyped(name, value)
        return value

    def boolean(self, name: str) -> bool:
        """The value of a setting that is true or false."""
        value = self._values[name]
        if not isinstance(value, bool):
            raise _mistyped(name, value)
        return value

    def text(self, name: str) -> str:
        """The value of a setting that is a text."""
        value = self._values[name]
        if not isinstance(value, str):
            raise _mistyped(name, value)
        return value

    def optional_text(self, name: str) -> str | None:
        """The value of a setting that is a text, or None while it is not set."""
        return None if self._values[name] is None else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """The value of a setting that is a list."""
        value = self._values[name]
        if not isinstance(value, tuple):
            raise _mistyped(name, value)
        return value


def _mistyped(name: str, value: Value) -> TypeError:
    return TypeError(f"{name} is of another type: {value!r}")
