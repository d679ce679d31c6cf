"""Kinds of values.

| type     | Python value      | text                                |
|----------|-------------------|-------------------------------------|
| BOOLEAN  | bool              | true, false (any case)              |
| STRING   | str               | as it is                            |
| INT ...  | int               | decimal, within 16, 32 or 64 bits   |
| DOUBLE   | float             | decimal or hexadecimal              |
| LIST     | tuple of str      | separated by commas; may be empty   |
| CLASS    | str               | as it is                            |
| PASSWORD | str, never shown  | as it is                            |

Texts are read as Java reads them (`pylogbroker.java.text`), without outer whitespace of ASCII.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Generic, TypeVar, overload

import attrs

from pylogbroker.java.text import parse_boolean, parse_double, parse_whole, render_double, split_list, trim

Value = bool | int | float | str | tuple[str, ...] | None
T = TypeVar("T", bound=bool | int | float | str | tuple[str, ...])


class ConfigType(IntEnum):
    """Numbers of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_TYPE_NAMES = {
    ConfigType.STRING: "a text",
    ConfigType.INT: "a whole number",
    ConfigType.SHORT: "a whole number",
    ConfigType.LONG: "a whole number",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a list separated by commas",
    ConfigType.CLASS: "the name of a class",
    ConfigType.PASSWORD: "a password",
}

NEW_PARTITIONS_MAX = 10_000
"""Kafka's limit for one request, and for a topic's start."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class NotAccepted(ValueError):
    """Invalid value with a reason more precise than `ValueKind.expected`."""


@attrs.frozen
class ValueKind:
    type: ConfigType
    low: float | None = None
    high: float | None = None
    also: int | None = None  # allowed outside the bounds
    choices: tuple[str, ...] = ()
    required: bool = False  # not empty
    check: Callable[[str], object] | None = None  # raises ValueError
    words: str = ""  # replaces the words of `expected`
    verbatim: bool = False  # outer whitespace belongs to the value

    def parse(self, text: str) -> Value:
        """Return the value of a text; raise ValueError."""
        text = text if self.verbatim else trim(text)
        value = _PARSERS[self.type](self, text)
        if self.required and not value and isinstance(value, str | tuple):
            raise ValueError("empty")
        if self.check is not None:
            self.check(text)
        return value

    @property
    def expected(self) -> str:
        """Valid values, for a sentence's end."""
        if self.words:
            return self.words
        if self.type is ConfigType.BOOLEAN:
            return "true or false"
        if self.choices:
            what = "any of" if self.type is ConfigType.LIST else "one of"
            return f"{what} {', '.join(self.choices)}"
        return _TYPE_NAMES[self.type] + self._bounds()

    def _bounds(self) -> str:
        low, high = self.low, self.high
        if self.type in _BITS:
            limit = 2 ** (_BITS[self.type] - 1)
            low, high = -limit if low is None else low, limit - 1 if high is None else high
        if low is None and high is None:
            return ""
        also = "" if self.also is None else f" or {self.also}"
        return f" from {low} to {high}{also}"

    def _in_bounds(self, value: float) -> bool:
        if value == self.also:
            return True
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


@attrs.frozen
class TypedKind(ValueKind, Generic[T]):
    """Kind of values of one type of Python's: `TypedKind[str](ConfigType.STRING)`."""


def render(value: Value) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return render_double(value)
        case _:
            return str(value)


def _parse_boolean(kind: ValueKind, text: str) -> Value:
    return parse_boolean(text)


def _parse_whole(kind: ValueKind, text: str) -> Value:
    value = parse_whole(text, _BITS[kind.type])
    if not kind._in_bounds(value):
        raise ValueError("out of range")
    return value


def _parse_double(kind: ValueKind, text: str) -> Value:
    value = parse_double(text)
    if value != value or not kind._in_bounds(value):
        raise ValueError("out of range")
    return value


def _parse_string(kind: ValueKind, text: str) -> Value:
    if kind.choices and text not in kind.choices:
        raise ValueError("not one of the choices")
    return text


def _parse_list(kind: ValueKind, text: str) -> Value:
    items = split_list(text)
    if kind.choices and not set(items) <= set(kind.choices):
        raise ValueError("not one of the choices")
    return items


_PARSERS: dict[ConfigType, Callable[[ValueKind, str], Value]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: _parse_string,
    ConfigType.INT: _parse_whole,
    ConfigType.SHORT: _parse_whole,
    ConfigType.LONG: _parse_whole,
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: _parse_string,
    ConfigType.PASSWORD: _parse_string,
}

BOOLEAN = TypedKind[bool](ConfigType.BOOLEAN)
TEXT = TypedKind[str](ConfigType.STRING)
LIST = TypedKind[tuple[str, ...]](ConfigType.LIST)
PASSWORD = TypedKind[str](ConfigType.PASSWORD)
VERBATIM_PASSWORD = TypedKind[str](ConfigType.PASSWORD, verbatim=True)
INT = TypedKind[int](ConfigType.INT)
SHORT = TypedKind[int](ConfigType.SHORT)
LONG = TypedKind[int](ConfigType.LONG)


def at_least(low: int, kind: TypedKind[int] = INT) -> TypedKind[int]:
    return attrs.evolve(kind, low=low)


@overload
def between(low: float, high: float, *, also: int | None = None) -> TypedKind[int]: ...
@overload
def between(low: float, high: float, kind: TypedKind[T], also: int | None = None) -> TypedKind[T]: ...
def between(low: float, high: float, kind: ValueKind = INT, also: int | None = None) -> ValueKind:
    return attrs.evolve(kind, low=low, high=high, also=also)


NEW_PARTITIONS = between(1, NEW_PARTITIONS_MAX)


def one_of(*choices: str) -> TypedKind[str]:
    return attrs.evolve(TEXT, choices=choices)


def any_of(*choices: str) -> TypedKind[tuple[str, ...]]:
    return attrs.evolve(LIST, choices=choices, required=True)
