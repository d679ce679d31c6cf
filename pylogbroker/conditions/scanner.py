"""Tokens of a condition, each with its place."""

from __future__ import annotations

import json
import re
from typing import Final, Literal

import attrs

from pylogbroker.java.text import is_digits

CHARACTERS_MAX: Final = 2000
_SHOWN_CHARACTERS_MAX: Final = 30

Kind = Literal["name", "text", "number", "mark", "end"]

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.]))
    |(?P<name>[^\W\d][\w$@-]*|[$@][\w$@-]*)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<mark>==(?!=)|!=|<=|>=|[()\[\].]|[<>~](?![=>~]))""",
    re.VERBOSE | re.DOTALL,
)
_INSTEAD: Final = (
    ("===", "To compare, write =="),
    ("=~", "To look for a text, write ~"),
    ("<>", "To compare, write !="),
    ("=", "To compare, write =="),
    ("&", 'Between two conditions, write "and"'),
    ("|", 'Between two conditions, write "or"'),
    ("!", 'Before a condition, write "not"; to compare, write !='),
    ('"', 'A text ends with "'),
    ("'", "A text ends with '"),
    ("/", 'To look for a text, write ~ "text"'),
    ("*", "A path names one member or element: value.items[0]"),
    (",", 'Between two conditions, write "and" or "or"'),
)
"""Operators of other languages, and what to write instead."""


class BadCondition(ValueError):
    """A condition is not understood; `position` is the place of a character, from 1 on."""

    def __init__(self, position: int, what: str, remedy: str) -> None:
        super().__init__(f"The condition is not understood at character {position}: {what}. {remedy}.")
        self.position = position


@attrs.frozen
class Token:
    """Part of a condition; `text` of a text is what its quotes and escapes stand for."""

    kind: Kind
    text: str
    position: int

    @property
    def shown(self) -> str:
        if self.kind == "end":
            return "it ends here"
        text = json.dumps(self.text, ensure_ascii=False) if self.kind == "text" else self.text
        return f"there is {text[:_SHOWN_CHARACTERS_MAX]}"


def tokens_of(condition: str) -> list[Token]:
    """Return the tokens, the last one of the kind `end`; raise BadCondition."""
    if len(condition) > CHARACTERS_MAX:
        what = f"it has {len(condition):,} characters"
        raise BadCondition(CHARACTERS_MAX + 1, what, f"Write at most {CHARACTERS_MAX:,}")
    tokens: list[Token] = []
    at = 0
    while at < len(condition):
        match = _TOKEN.match(condition, at)
        if match is None:
            raise _not_understood(condition, at)
        if match.lastgroup == "text":
            tokens.append(Token("text", _unquoted(match[0], at + 1), at + 1))
        elif match.lastgroup in ("name", "number", "mark"):
            tokens.append(Token(match.lastgroup, match[0], at + 1))  # type: ignore[arg-type]
        at = match.end()
    tokens.append(Token("end", "", len(condition) + 1))
    return tokens


def _unquoted(quoted: str, position: int) -> str:
    """Return a text with the escapes of JSON, also between single quotes."""
    inner = quoted[1:-1]
    if "\\" not in inner:
        return inner
    if quoted[0] == "'":
        inner = re.sub(r"\\'|\"", lambda match: "'" if match[0] == "\\'" else '\\"', inner)
    try:
        return str(json.loads(f'"{inner}"', strict=False))
    except ValueError:
        raise BadCondition(position, "an escape in this text is unknown", r"For a backslash, write \\") from None


def _not_understood(condition: str, at: int) -> BadCondition:
    for begin, remedy in _INSTEAD:
        if condition.startswith(begin, at):
            return BadCondition(at + 1, f"there is {begin}", remedy)
    if is_digits(condition[at]) or condition[at] == "-":
        word = re.match(r"[^\s()]{1,30}", condition[at:])
        return BadCondition(at + 1, f"{word[0] if word else '-'} is no number", "Write digits, or a text in quotes")
    return BadCondition(at + 1, f"there is {condition[at]}", 'Write a condition like value.status == "paid"')
