"""JSON of others that is shown or written again: its numbers stay the texts that they are.

Python's own parser rounds long decimals, makes `Infinity` of 1e400, which is no JSON, and drops all but the last member
of the same name.

    is_json('{"a": NaN}')             False: Python would accept it
    indented('{"a":1e400,"a":-0}')    the tokens, on lines of their own
    written(tokens_of(text))          the same value, without whitespace
    exact_number("1e99999999999999999999")    Infinity: Python raises an error
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import MIN_ETINY, Decimal, InvalidOperation
from typing import Any, Final, NoReturn

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]|[^\s][^\s"\][{}:,]*')
_INDENTATION: Final = "  "
_ENDS: Final = {"{": "}", "[": "]"}
_INT_CHARACTERS_MAX: Final = 4000
"""Below the limit above which Python converts no text to an int, since that takes quadratic time."""


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object or array. One that is nested deeper than Python parses is not."""
    if not text.lstrip().startswith(("{", "[")):  # numbers and words are texts as well
        return False
    try:
        json.loads(text, parse_float=_ignored, parse_int=_ignored, parse_constant=reject_constant)
    except (ValueError, RecursionError):
        return False
    return True


def indented(text: str, characters_max: int) -> str | None:
    """Return JSON with its tokens on indented lines, None if that would be longer: it may be nested deeply."""
    tokens = _TOKEN.findall(text)
    parts: list[str] = []
    line, length, last = "\n", 0, ""
    for token in tokens:
        if token in "}]":
            line = line[: -len(_INDENTATION)]
            part = token if _ENDS.get(last) == token else line + token
        elif last in _ENDS or last == ",":
            part = line + token
        else:
            part = f" {token}" if last == ":" else token
        if token in _ENDS:
            line += _INDENTATION
        parts.append(part)
        length += len(part)
        if length > characters_max:
            return None
        last = token
    return "".join(parts)


class MemberTwice(ValueError):
    """An object of JSON has two members of the same name."""


class NumberText(str):
    """A number of JSON as it was written."""


def tokens_of(text: str | bytes, members: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return a value with a NumberText for each number; `members` makes objects of names and values.

    Raise ValueError, or RecursionError for deep nesting.
    """
    return json.loads(
        text,
        parse_float=NumberText,
        parse_int=NumberText,
        parse_constant=reject_constant,
        object_pairs_hook=members,
    )


def written(value: Any, sort_keys: bool = False) -> str:
    """Return a value as JSON without whitespace; a NumberText is written as it is."""
    match value:
        case NumberText():
            return str(value)
        case dict():
            names = sorted(value) if sort_keys else value
            return "{" + ",".join(f"{json.dumps(name)}:{written(value[name], sort_keys)}" for name in names) + "}"
        case list():
            return "[" + ",".join(written(element, sort_keys) for element in value) + "]"
    return json.dumps(value, allow_nan=False)


def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's members; raise ValueError for a name that is given twice, since one value would get lost."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise MemberTwice(f"{twice} is given twice")
    return members


def exact_number(number: str) -> Decimal:
    """Return a number; one whose exponent no decimal can hold becomes infinite, or the smallest that there is."""
    try:
        return Decimal(number)
    except InvalidOperation:
        digits, _, exponent = number.lower().partition("e")
        is_negative = number.startswith("-")
        if not digits.strip("-0."):
            return Decimal(0)
        if exponent.startswith("-"):
            return Decimal((int(is_negative), (1,), MIN_ETINY))
        return Decimal("-Infinity" if is_negative else "Infinity")


def exact_integer(number: str) -> int | Decimal:
    """Return an int; a decimal if it has so many digits that Python rejects it."""
    return int(number) if len(number) <= _INT_CHARACTERS_MAX else exact_number(number)


def reject_constant(constant: str) -> NoReturn:
    """Raise ValueError: `parse_constant` of Python's parser."""
    raise ValueError(f"{constant} is no JSON, although Python reads it")


def _ignored(number: str) -> Any:
    """Convert no number: it is only of interest that it is one."""
