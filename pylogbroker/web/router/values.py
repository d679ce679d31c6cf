"""Values of declared types: read from JSON and from text, checked, and described as JSON Schema.

| type                  | JSON                  | text of an address or a form            |
|-----------------------|-----------------------|-----------------------------------------|
| str                   | a text                | the text                                |
| int, float            | a number              | its digits                              |
| bool                  | true or false         | true, 1 or on; false, 0 or empty        |
| None                  | null                  | -                                       |
| Literal, StrEnum      | one of its texts      | the same                                |
| Sequence[X], tuple    | a list                | with `Lines`, one pair in each line     |
| Mapping[str, X]       | an object             | with `Lines`, one member in each line   |
| X or Y                | one of them           | X, or Y if X is null                    |
| Any                   | anything              | the text                                |
| TypedDict             | an object             | -                                       |

`Annotated` adds a description, which is a text, and the rules `Capped`, `OneOf`, `OnlyTrue`, `Trimmed` and `Lines`.
"""

from __future__ import annotations

import functools
import json
import operator
import types
from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import isfinite, nan
from typing import Annotated, Any, Final, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints
from typing import is_typeddict as is_typed_dict

import attrs

from pylogbroker.java.text import is_digits

NUMBER_MAX: Final = 2**63 - 1
_DIGITS_MAX: Final = len(str(NUMBER_MAX))
_SHOWN_CHARACTERS_MAX: Final = 60
_TRUE: Final = ("true", "1", "on")
_FALSE: Final = ("false", "0", "")
_NULL: Final = types.NoneType


class BadValue(ValueError):
    """A value is not of its type; the text goes on after the value's name."""


@attrs.frozen
class Capped:
    """A number of at least 0; one above `greatest` becomes it."""

    greatest: int = NUMBER_MAX


@attrs.frozen
class OneOf:
    """One of some texts, where a Literal cannot name them."""

    choices: tuple[str, ...]


class OnlyTrue:
    """A flag that every text but "true" leaves off."""


class Trimmed:
    """A text without the space around it."""


@attrs.frozen
class Lines:
    """Lines of text, with names and values and this between them, are an object or pairs."""

    separator: str


def whole_number(text: str) -> int | None:
    """Return the number that a text has as digits, perhaps after a minus sign; None for any other text.

    Java's long has up to 19 digits, and Python takes longer and longer for more.
    """
    digits = text.strip().removeprefix("-")
    if not is_digits(digits) or len(digits) > _DIGITS_MAX:
        return None
    return int(text)


def from_json(kind: Any, value: Any, name: str) -> Any:
    """Return a value of JSON as one of its type; raise BadValue."""
    kind, rules = _plain(kind)
    for alternative in _alternatives(kind):
        if _has_form(alternative, value):
            return _ruled(_inner(alternative, value, name), rules, name)
    raise BadValue(f"{name} must be {words(kind, rules)}, not {_shown(value)}")


def from_text(kind: Any, text: str, name: str) -> Any:
    """Return a text of an address or a form as a value of its type; raise BadValue."""
    kind, rules = _plain(kind)
    kind = next(alternative for alternative in _alternatives(kind) if alternative is not _NULL)
    kind, more = _plain(kind)
    rules = (*rules, *more)
    return _ruled(_read(kind, rules, text, name), rules, name)


def is_text(kind: Any) -> bool:
    """Return whether an empty text is a value of a type: of others it is none at all, as in an empty field."""
    kind, rules = _plain(kind)
    return _one_of(rules) is None and any(_plain(alternative)[0] in (str, Any) for alternative in _alternatives(kind))


def words(kind: Any, rules: Sequence[Any] = ()) -> str:
    """Return a type in words, as in "must be ..."."""
    kind, more = _plain(kind)
    rules = (*rules, *more)
    alternatives = _alternatives(kind)
    if len(alternatives) > 1:
        return " or ".join(words(alternative, rules) for alternative in alternatives)
    if (choices := _one_of(rules) or _choices(kind)) is not None:
        return f"one of {', '.join(map(str, choices))}"
    if kind is int:
        return "a number of at least 0" if _capped(rules) else "a number without a fraction"
    if get_origin(kind) is tuple:
        return f"a list of {' and '.join(words(item) for item in get_args(kind))}"
    return {str: "a text", float: "a number", bool: "true or false", _NULL: "null", Any: "any value"}.get(
        kind, "an object" if _is_object(kind) else "a list"
    )


def description(kind: Any) -> str:
    """Return the outermost description of a type."""
    return next((rule for rule in reversed(_plain(kind)[1]) if isinstance(rule, str)), "")


def given(kind: Any) -> Any:
    """Return a type without null, which no text is."""
    plain, rules = _plain(kind)
    others = tuple(alternative for alternative in _alternatives(plain) if alternative is not _NULL)
    union: Any = functools.reduce(operator.or_, others)
    return Annotated[(union, *rules)] if rules else union


def schema(kind: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a type; `named` gets those of its TypedDicts."""
    kind, rules = _plain(kind)
    described = _schema(kind, named)
    if _capped(rules):
        described["minimum"] = 0
    if (choices := _one_of(rules)) is not None:
        described["enum"] = [*choices]
    return described


def _plain(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without its annotations, and these."""
    rules: tuple[Any, ...] = ()
    while get_origin(kind) in (Annotated, NotRequired, Required):
        kind, *more = get_args(kind)
        rules = (*rules, *more)
    return kind, rules


def _capped(rules: Sequence[Any]) -> Capped | None:
    return next((rule for rule in rules if isinstance(rule, Capped)), None)


def _one_of(rules: Sequence[Any]) -> tuple[str, ...] | None:
    return next((rule.choices for rule in rules if isinstance(rule, OneOf)), None)


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _choices(kind: Any) -> tuple[Any, ...] | None:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(kind) if isinstance(kind, type) and issubclass(kind, StrEnum) else None


def _is_object(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return is_typed_dict(kind) or (isinstance(origin, type) and issubclass(origin, Mapping))


def _has_form(kind: Any, value: Any) -> bool:
    """Return whether a value of JSON has the outer form of a type."""
    kind, _ = _plain(kind)
    if kind is Any:
        return True
    if (choices := _choices(kind)) is not None:
        return isinstance(value, str) and value in choices
    if kind is _NULL:
        return value is None
    if kind in (int, float):
        accepted = int if kind is int else (int, float)
        return isinstance(value, accepted) and not isinstance(value, bool) and isfinite(value)
    if kind in (str, bool):
        return isinstance(value, kind)
    if _is_object(kind):
        return isinstance(value, dict)
    if get_origin(kind) is tuple:
        return isinstance(value, list) and len(value) == len(get_args(kind))
    return isinstance(value, list)


def _inner(kind: Any, value: Any, name: str) -> Any:
    kind, rules = _plain(kind)
    if isinstance(value, dict) and kind is not Any:
        if is_typed_dict(kind):
            members = get_type_hints(kind, include_extras=True)
            return {
                key: from_json(members.get(key, Any), member_value, f"{name}.{key}")
                for key, member_value in value.items()
            }
        [_, member] = get_args(kind)
        return {key: from_json(member, member_value, f"{name}.{key}") for key, member_value in value.items()}
    if isinstance(value, list) and kind is not Any:
        items = get_args(kind) if get_origin(kind) is tuple else (get_args(kind)[0],) * len(value)
        values = [
            from_json(item, element, f"{name}[{at}]")
            for at, (item, element) in enumerate(zip(items, value, strict=True))
        ]
        return tuple(values) if get_origin(kind) is tuple else values
    if kind is float or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        return kind(value)
    return _ruled(value, rules, name)


def _ruled(value: Any, rules: Sequence[Any], name: str) -> Any:
    capped = _capped(rules)
    if capped is not None and isinstance(value, int):
        if value < 0:
            raise BadValue(f"{name} must be {words(int, rules)}, not {value}")
        return min(value, capped.greatest)
    if isinstance(value, str):
        value = value.strip() if Trimmed in rules else value
        if (choices := _one_of(rules)) is not None and value not in choices:
            raise BadValue(f"{name} must be {words(str, rules)}, not {_shown(value)}")
    return value


def _read(kind: Any, rules: Sequence[Any], text: str, name: str) -> Any:
    if kind in (str, Any):
        return text
    if isinstance(lines := next((rule for rule in rules if isinstance(rule, Lines)), None), Lines):
        pairs = _pairs(lines.separator, text, name)
        return _members(pairs, name) if _is_object(kind) else pairs
    value: Any = None
    word = text.strip()
    if kind is int:
        value = whole_number(word)
    elif kind is float:
        try:
            number = float(word)
        except ValueError:
            number = nan
        value = number if isfinite(number) else None
    elif kind is bool and OnlyTrue in rules:
        value = word.lower() == "true"
    elif kind is bool:
        value = True if word.lower() in _TRUE else False if word.lower() in _FALSE else None
    elif (choices := _choices(kind)) is not None:
        value = next((choice for choice in choices if choice == word), None)
    if value is None:
        raise BadValue(f"{name} must be {words(kind, rules)}, not {_shown(text)}")
    return value


def _pairs(separator: str, text: str, name: str) -> list[tuple[str, str]]:
    pairs = []
    for line in filter(str.strip, text.splitlines()):
        left, mark, right = line.partition(separator)
        if not mark:
            raise BadValue(f"{name}: expected lines like name{separator}value")
        pairs.append((left.strip(), right.strip()))
    return pairs


def _members(pairs: Sequence[tuple[str, str]], name: str) -> dict[str, str]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [left for left, _ in pairs]
        twice = next(left for left in names if names.count(left) > 1)
        raise BadValue(f"{name}: {twice} is given twice")
    return members


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}..."


_SCHEMAS: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    _NULL: {"type": "null"},
    Any: {},
}


def _schema(kind: Any, named: dict[str, Any]) -> dict[str, Any]:
    if kind in _SCHEMAS:
        return dict(_SCHEMAS[kind])
    if (choices := _choices(kind)) is not None:
        return {"type": "string", "enum": [str(choice) for choice in choices]}
    if is_typed_dict(kind):
        _name(kind, named)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    alternatives = _alternatives(kind)
    if len(alternatives) > 1:
        return _union([schema(alternative, named) for alternative in alternatives])
    if _is_object(kind):
        return {"type": "object", "additionalProperties": schema(get_args(kind)[1], named)}
    if get_origin(kind) is tuple:
        items = [schema(item, named) for item in get_args(kind)]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    return {"type": "array", "items": schema(get_args(kind)[0], named)}


def _union(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one schema for several; simple types become a list of types."""
    if all(described.keys() == {"type"} for described in schemas):
        return {"type": [described["type"] for described in schemas]}
    return {"anyOf": [*schemas]}


def _is_required(kind: Any, name: str, member: Any) -> bool:
    """Return whether a TypedDict always has a member: its class sees NotRequired in texts of annotations as nothing."""
    return name in kind.__required_keys__ and get_origin(member) is not NotRequired


def _name(kind: Any, named: dict[str, Any]) -> None:
    """Describe a TypedDict once."""
    if kind.__name__ in named:
        return
    named[kind.__name__] = {}  # it may contain itself
    members = get_type_hints(kind, include_extras=True)
    properties = {}
    for name, member in members.items():
        text = description(member)
        properties[name] = schema(member, named) | ({"description": text} if text else {})
    named[kind.__name__] = {
        "type": "object",
        "properties": properties,
        "required": [name for name in members if _is_required(kind, name, members[name])],
        "additionalProperties": False,
    }
