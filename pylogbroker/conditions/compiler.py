"""Compiler of conditions: from trees to closures that take a Subject."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any as Anything
from typing import Final

import attrs

from pylogbroker.conditions.needles import Needles, needles_of
from pylogbroker.conditions.scanner import BadCondition
from pylogbroker.conditions.subject import MISSING, Subject, text_of
from pylogbroker.conditions.syntax import (
    MIRRORED,
    All,
    Any,
    Comparison,
    Exists,
    Literal,
    Node,
    Not,
    Operand,
    Path,
    parse,
)

Test = Callable[[Subject], bool]
Getter = Callable[[Subject], Anything]
_ORDERS: Final[Mapping[str, Callable[[Anything, Anything], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SCALARS: Final = (str, int, Decimal, bool, type(None))


@attrs.frozen
class RecordCondition:
    """A compiled condition; `needles` are None if any record may fulfil it."""

    text: str
    tree: Node
    is_met_by: Test
    needles: Needles | None


def compile_condition(text: str) -> RecordCondition:
    """Raise BadCondition for a text that is no condition."""
    tree = parse(text)
    return RecordCondition(text, tree, _test(tree), needles_of(tree))


def _test(node: Node) -> Test:
    match node:
        case Comparison():
            return _comparison(node)
        case Exists(path):
            return _exists(path)
        case Not(inner):
            test = _test(inner)
            return lambda subject: not test(subject)
        case All(parts):
            return reduce(_both, map(_test, parts))
        case Any(parts):
            return reduce(_either, map(_test, parts))


def _both(first: Test, second: Test) -> Test:
    return lambda subject: first(subject) and second(subject)


def _either(first: Test, second: Test) -> Test:
    return lambda subject: first(subject) or second(subject)


def _exists(path: Path) -> Test:
    get = getter(path)
    if path.steps:
        return lambda subject: get(subject) is not MISSING
    return lambda subject: get(subject) is not None


def _comparison(node: Comparison) -> Test:
    mark, left, right = node.mark, node.left, node.right
    if isinstance(left, Literal):
        mark, left, right = MIRRORED.get(mark, mark), right, left
    get = getter(left)
    if isinstance(right, Path):
        return _of_two(mark, get, getter(right))
    constant = _time(right) if isinstance(left, Path) and left.field == "time" else right.constant
    if mark in ("==", "!="):
        equals = _equals(get, constant)
        return equals if mark == "==" else lambda subject: not equals(subject)
    if mark == "~":
        return _contains(get, str(constant).casefold())
    return _ordered(get, _ORDERS[mark], constant)


def _equals(get: Getter, constant: Anything) -> Test:
    if constant is None or isinstance(constant, bool):
        return lambda subject: get(subject) is constant
    if isinstance(constant, str):
        return lambda subject: bool(get(subject) == constant)

    def equals_number(subject: Subject) -> bool:
        value = get(subject)
        return type(value) in (int, Decimal) and value == constant

    return equals_number


def _contains(get: Getter, small: str) -> Test:
    def contains(subject: Subject) -> bool:
        value = get(subject)
        return type(value) is str and small in value.casefold()

    return contains


def _ordered(get: Getter, order: Callable[[Anything, Anything], bool], constant: Anything) -> Test:
    kinds = (str,) if isinstance(constant, str) else (int, Decimal)

    def is_ordered(subject: Subject) -> bool:
        value = get(subject)
        return type(value) in kinds and order(value, constant)

    return is_ordered


def _of_two(mark: str, get: Getter, get_other: Getter) -> Test:
    def equal(subject: Subject) -> bool:
        value, other = get(subject), get_other(subject)
        return _kind(value) == _kind(other) != "" and bool(value == other)

    if mark == "==":
        return equal
    if mark == "!=":
        return lambda subject: not equal(subject)
    order = _ORDERS[mark]

    def is_ordered(subject: Subject) -> bool:
        value, other = get(subject), get_other(subject)
        return _kind(value) == _kind(other) in ("text", "number") and order(value, other)

    return is_ordered


def _kind(value: Anything) -> str:
    """Return the kind of a value that can be compared, else the empty text."""
    kind = type(value)
    if kind in (int, Decimal):
        return "number"
    return "text" if kind is str else kind.__name__ if kind in _SCALARS else ""


def getter(operand: Operand) -> Getter:
    """Return what gets a part of a record: a text, a number, true, false, None, a dict, a list, or MISSING."""
    if isinstance(operand, Literal):
        constant = operand.constant
        return lambda subject: constant
    field, steps = operand.field, operand.steps
    if field == "headers":
        name = str(steps[0])
        return lambda subject: subject.header(name)
    if field in ("key", "value"):
        return _content_getter(field, steps)
    return operator.attrgetter(field)


def _content_getter(field: str, steps: tuple[str | int, ...]) -> Getter:
    if not steps:
        content = operator.attrgetter(field)
        return lambda subject: text_of(content(subject))
    parsed = Subject.value_json if field == "value" else Subject.key_json

    def part(subject: Subject) -> Anything:
        node = parsed(subject)
        for step in steps:
            if type(step) is str:
                if type(node) is not dict:
                    return MISSING
                node = node.get(step, MISSING)
            elif type(node) is list and step < len(node):  # type: ignore[operator]
                node = node[step]  # type: ignore[index]
            else:
                return MISSING
        return node

    return part


def _time(literal: Literal) -> Anything:
    """Return milliseconds of a time, which is UTC unless it says; raise BadCondition."""
    if not isinstance(literal.constant, str):
        return literal.constant
    try:
        time = datetime.fromisoformat(literal.constant.strip())
        return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        what = f'"{literal.constant}" is no time'
        raise BadCondition(literal.position, what, 'Write a time like "2026-11-28T07:00"') from None
