"""Conditions as trees, and the parser that makes them.

condition   = all ("or" all)*
all         = negated ("and" negated)*
negated     = "not" negated | "(" condition ")" | "exists" path | operand comparison operand
operand     = path | constant
path        = field step*
step        = "." name | "[" text "]" | "[" number "]"
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Final, TypeAlias

import attrs

from pylogbroker.conditions.scanner import BadCondition, Token, tokens_of
from pylogbroker.java.text import is_digits

DEPTH_MAX: Final = 32
NUMBERS: Final = ("partition", "offset", "time", "size")
_FIELDS: Final = ("value", "key", "headers", *NUMBERS)
COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=", "~")
MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparisons whose operands change sides."""
_WORDS: Final = {"true": True, "false": False, "null": None}
_KEYWORDS: Final = ("and", "or", "not", "exists")
_INDEX_DIGITS_MAX: Final = 9
_EXAMPLE: Final = 'Write a condition like value.status == "paid"'

Constant: TypeAlias = str | int | Decimal | bool | None


@attrs.frozen
class Path:
    """Part of a record; the first step of `headers` is the header's name."""

    field: str
    steps: tuple[str | int, ...] = ()
    position: int = attrs.field(default=0, eq=False)

    def __str__(self) -> str:
        return self.field + "".join(_step_text(step) for step in self.steps)


@attrs.frozen
class Literal:
    constant: Constant
    position: int = attrs.field(default=0, eq=False)


Operand: TypeAlias = Path | Literal


@attrs.frozen
class Comparison:
    mark: str
    left: Operand
    right: Operand


@attrs.frozen
class Exists:
    path: Path


@attrs.frozen
class Not:
    inner: Node


@attrs.frozen
class All:
    parts: tuple[Node, ...]


@attrs.frozen
class Any:
    parts: tuple[Node, ...]


Node: TypeAlias = Comparison | Exists | Not | All | Any


def parse(condition: str) -> Node:
    """Return a condition as a tree; raise BadCondition."""
    parser = _Parser(tokens_of(condition))
    node = parser.condition()
    parser.end()
    return node


def parse_path(text: str) -> Path:
    """Return a path that stands alone, such as `value.status`; raise BadCondition."""
    parser = _Parser(tokens_of(text))
    path = parser.path()
    parser.end()
    return path


@attrs.define
class _Parser:
    _tokens: list[Token]
    _at: int = 0
    _depth: int = 0

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> Token | None:
        """Return the token if it is a mark or a word out of `texts`, and go on behind it."""
        token = self._token
        if token.kind not in ("mark", "name") or token.text not in texts:
            return None
        self._at += 1
        return token

    def end(self) -> None:
        token = self._token
        if token.kind == "end":
            return
        if token.text == ")":
            raise BadCondition(token.position, "there is ) without its (", "Remove it, or write ( before")
        if token.text.lower() in _KEYWORDS:
            raise BadCondition(token.position, token.shown, f"Write {token.text.lower()} in small letters")
        raise BadCondition(token.position, token.shown, 'Between two conditions, write "and" or "or"')

    def condition(self) -> Node:
        parts = [self._all()]
        while self._take("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Any(tuple(parts))

    def _all(self) -> Node:
        parts = [self._negated()]
        while self._take("and"):
            parts.append(self._negated())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _negated(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            what = f"conditions are nested more than {DEPTH_MAX} deep"
            raise BadCondition(self._token.position, what, "Write fewer parentheses")
        node = self._simple()
        self._depth -= 1
        return node

    def _simple(self) -> Node:
        if self._take("not"):
            return Not(self._negated())
        if opening := self._take("("):
            node = self.condition()
            if not self._take(")"):
                what = f"the parenthesis of character {opening.position} is open, and {self._token.shown}"
                raise BadCondition(self._token.position, what, "Write ) behind the condition")
            return node
        if self._take("exists"):
            return Exists(self.path())
        return self._comparison()

    def _comparison(self) -> Node:
        left = self._operand()
        token = self._token
        if (mark := self._take(*COMPARISONS)) is None:
            remedy = "To compare, write =="
            if isinstance(left, Path):
                remedy += f"; for records that have it, exists {left}"
            raise BadCondition(token.position, token.shown, remedy)
        right = self._operand()
        return _checked(mark, left, right)

    def _operand(self) -> Operand:
        token = self._token
        if token.kind == "text":
            self._at += 1
            return Literal(token.text, token.position)
        if token.kind == "number":
            self._at += 1
            return Literal(_number(token), token.position)
        if token.kind == "name" and token.text in _WORDS:
            self._at += 1
            return Literal(_WORDS[token.text], token.position)
        return self.path()

    def path(self) -> Path:
        token = self._token
        if token.kind != "name" or token.text not in _FIELDS:
            raise _no_field(token, self._tokens[self._at - 1] if self._at else None)
        self._at += 1
        steps: list[str | int] = []
        while (step := self._step()) is not None:
            steps.append(step)
        if token.text == "headers" and (len(steps) != 1 or not isinstance(steps[0], str)):
            raise BadCondition(token.position, "headers are looked up by one name", 'Write headers["name"]')
        if token.text in NUMBERS and steps:
            raise BadCondition(token.position, f"{token.text} is a number, without parts", f"Write {token.text}")
        return Path(token.text, tuple(steps), token.position)

    def _step(self) -> str | int | None:
        if self._take("."):
            token = self._token
            if token.kind != "name":
                raise BadCondition(token.position, token.shown, 'Write a name behind the dot, or ["a name"]')
            self._at += 1
            return token.text
        if self._take("["):
            return self._bracketed()
        return None

    def _bracketed(self) -> str | int:
        token = self._token
        self._at += token.kind != "end"
        is_index = token.kind == "number" and re.fullmatch(rf"[0-9]{{1,{_INDEX_DIGITS_MAX}}}", token.text)
        if token.kind != "text" and not is_index:
            raise BadCondition(token.position, token.shown, 'Write a number from 0 on, or a name in quotes: ["name"]')
        if not self._take("]"):
            raise BadCondition(self._token.position, self._token.shown, "Write ]")
        return int(token.text) if is_index else token.text


def _number(token: Token) -> int | Decimal:
    try:
        return int(token.text) if is_digits(token.text.removeprefix("-")) else Decimal(token.text)
    except InvalidOperation:
        raise BadCondition(token.position, f"{token.text} is too large or too small", "Write another number") from None


def _no_field(token: Token, before: Token | None) -> BadCondition:
    if token.kind == "end":
        return BadCondition(token.position, token.shown, _EXAMPLE)
    if token.kind != "name":
        return BadCondition(token.position, token.shown, _EXAMPLE)
    if token.text.lower() in (*_KEYWORDS, *_WORDS, *_FIELDS) and not token.text.islower():
        return BadCondition(token.position, token.shown, f"Write {token.text.lower()} in small letters")
    if before is not None and before.text in COMPARISONS:
        return BadCondition(token.position, token.shown, f'For a text, write "{token.text}"')
    if token.text in _KEYWORDS:
        return BadCondition(token.position, token.shown, _EXAMPLE)
    [*likely] = get_close_matches(token.text, (*_FIELDS, "header"), 1)
    if likely:
        name = 'headers["name"]' if likely[0].startswith("header") else likely[0]
        return BadCondition(token.position, f"{token.text} is not known", f"Write {name}")
    return BadCondition(
        token.position, f"{token.text} is not known", f"For a member of the value, write value.{token.text}"
    )


def _checked(mark: Token, left: Operand, right: Operand) -> Comparison:
    """Return a comparison; raise BadCondition for one that no record could fulfil."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Path) and one.field in NUMBERS and isinstance(other, Literal):
            _check_number(mark, one, other)
    if isinstance(left, Literal) and isinstance(right, Literal):
        raise BadCondition(left.position, "two constants are compared", _EXAMPLE)
    if mark.text == "~" and not (isinstance(right, Literal) and isinstance(right.constant, str) and right.constant):
        raise BadCondition(mark.position, "~ looks for a text", 'Write a text behind it: ~ "text"')
    if mark.text in ("<", "<=", ">", ">="):
        for operand in (left, right):
            if isinstance(operand, Literal) and (operand.constant is None or isinstance(operand.constant, bool)):
                word = {None: "null", True: "true", False: "false"}[operand.constant]
                raise BadCondition(operand.position, f"{word} has no order", "Write == or !=")
    return Comparison(mark.text, left, right)


def _check_number(mark: Token, path: Path, other: Literal) -> None:
    constant = other.constant
    if mark.text == "~":
        raise BadCondition(mark.position, f"{path.field} is a number", "Write ==, !=, <, <=, > or >=")
    is_number = isinstance(constant, int | Decimal) and not isinstance(constant, bool)
    if not is_number and not (path.field == "time" and isinstance(constant, str)):
        remedy = 'Write a time like "2026-11-28T07:00"' if path.field == "time" else "Write a number, without quotes"
        raise BadCondition(other.position, f"{path.field} is compared with something else", remedy)


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if re.fullmatch(r"[^\W\d][\w$@-]*|[$@][\w$@-]*", step):
        return f".{step}"
    return "[" + _quoted(step) + "]"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
