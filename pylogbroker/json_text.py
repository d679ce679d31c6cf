"""JSON of others that is shown or written again: its numbers stay the texts that they are.

Python's own parser rounds long decimals, makes `Infinity` of 1e400, which is no JSON, and drops all but the last member
of the same name.

    is_json('{"a": NaN}')             False: Python would accept it
    indented('{"a":1e400,"a":-0}')    the tokens, on lines of their own
    written(tokens_of(text))          the same value, without whitespace
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]|[^\s][^\s"\][{}:,]*')
_INDENTATION: Final = "  "
_ENDS: Final = {"{": "}", "[": "]"}


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object or array. One that is nested deeper than Python parses is not."""
    if not text.lstrip().startswith(("{", "[")):  # numbers and words are texts as well
        return False
    try:
        json.loads(text, parse_float=_ignored, parse_int=_ignored, parse_constant=_reject_constant)
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
        parse_constant=_reject_constant,
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


def _ignored(number: str) -> Any:
    """Convert no number: it is only of interest that it is one."""


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON, although Python reads it")
