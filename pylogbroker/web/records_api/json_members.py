"""Objects of JSON with the texts of their members, and checks of these.

members_at('{"key": 1.50}')    {"key": JsonMember(NumberText("1.50"), "1.50")}
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode
from collections.abc import Mapping
from difflib import get_close_matches
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]  # typeshed does not have it
from typing import Any, Final

import attrs

from pylogbroker.json_text import NumberText, reject_constant

RECORDS_MAX: Final = 5000
"""Records of a body that is one JSON object."""

_BYTE_ORDER_MARK: Final = "\ufeff"
_SHOWN_MAX: Final = 60
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = JSONDecoder(parse_int=NumberText, parse_float=NumberText, parse_constant=reject_constant)


class BadRecord(ValueError):
    """A record in JSON is wrong; the message says what, and what is expected."""

    def __init__(self, reason: str, status: int = 400, code: int | None = None) -> None:
        """Make an error with the status of its answer, and a code of Confluent's REST API if that says more."""
        super().__init__(reason)
        self.status = status
        self.code = status if code is None else code

    def in_part(self, part: str) -> BadRecord:
        """Return the error with the part of the request that has it."""
        return BadRecord(f"{part}: {self}", self.status, self.code)


@attrs.frozen
class JsonMember:
    """Value of JSON with its text."""

    value: Any
    text: str


def decoded(data: bytes) -> str:
    """Return a text in UTF-8; raise BadRecord."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadRecord(f"this is not UTF-8: byte {error.start} is {data[error.start]:#04x}") from None


def members_at(text: str, place: int = 0, array: str = "") -> tuple[dict[str, JsonMember], int]:
    """Return the members of an object, which begins at a place or behind it, and the place behind it.

    If the member named `array` is one, its value is a list of the members of its objects.
    """
    place = _skipped(text, place)
    if text.startswith(_BYTE_ORDER_MARK, place):
        raise BadRecord("this begins with a byte order mark: write UTF-8 without one")
    if text[place : place + 1] != "{":
        many = ', or {"records": [...]} for many' if array and text[place : place + 1] == "[" else ""
        raise BadRecord(f'expected a JSON object, such as {{"value": ...}}{many}, not {_begin_of(text, place)}')
    members: dict[str, JsonMember] = {}
    place = _skipped(text, place + 1)
    if text[place : place + 1] == "}":
        return members, place + 1
    while True:
        if text[place : place + 1] != '"':
            raise BadRecord(f"this is not JSON: expected a name in quotes at character {place + 1}")
        try:
            name, place = scanstring(text, place + 1, True)
        except ValueError as error:
            raise _not_json(error) from None
        place = _skipped(text, place)
        if text[place : place + 1] != ":":
            raise BadRecord(f"this is not JSON: expected a colon at character {place + 1}")
        begin = _skipped(text, place + 1)
        is_array = name == array and text[begin : begin + 1] == "["
        value, place = _elements_at(text, begin) if is_array else value_at(text, begin)
        if name in members:
            raise BadRecord(f"{shown(name)} is given twice")
        members[name] = JsonMember(value, text[begin:place])
        place, is_last = _behind_separator(text, place, "}")
        if is_last:
            return members, place


def _elements_at(text: str, place: int) -> tuple[list[dict[str, JsonMember]], int]:
    """Return the members of each object of an array, one after the other: to parse all at once would take long."""
    elements: list[dict[str, JsonMember]] = []
    place = _skipped(text, place + 1)
    if text[place : place + 1] == "]":
        return elements, place + 1
    while True:
        try:
            members, place = members_at(text, place)
        except BadRecord as error:
            raise BadRecord(f"record {len(elements) + 1}: {error}") from None
        elements.append(members)
        if len(elements) > RECORDS_MAX:
            raise BadRecord(f"a body has at most {RECORDS_MAX:,} records: send more as lines, application/x-ndjson")
        place, is_last = _behind_separator(text, place, "]")
        if is_last:
            return elements, place


def _behind_separator(text: str, place: int, end: str) -> tuple[int, bool]:
    """Return the place behind a comma or an end, and whether it is the end."""
    place = _skipped(text, place)
    mark = text[place : place + 1]
    if mark == end:
        return place + 1, True
    if mark != ",":
        raise BadRecord(f"this is not JSON: expected a comma or {end} at character {place + 1}")
    return _skipped(text, place + 1), False


def value_at(text: str, place: int) -> tuple[Any, int]:
    """Return a value of JSON, with a NumberText for each number, and the place behind it."""
    try:
        value: tuple[Any, int] = _DECODER.raw_decode(text, place)
        return value
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from None


def whole(text: str, array: str = "") -> dict[str, JsonMember]:
    """Return the members of a text that is one object; `array` as for `members_at`."""
    members, place = members_at(text, 0, array)
    rest = _skipped(text, place)
    if rest < len(text):
        raise BadRecord(f"there is more behind the JSON object: {_begin_of(text, rest)}")
    return members


def check_names(members: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Raise BadRecord for a member with another name."""
    for name in members:
        if name not in names:
            likely = get_close_matches(name, names, 1)
            hint = f"did you mean {likely[0]}?" if likely else f"a record has {', '.join(names)}"
            raise BadRecord(f"there is no member {shown(name)}: {hint}")


def encoded(text: str, name: str) -> bytes:
    """Return a text in UTF-8; raise BadRecord."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadRecord(f"{name} has half of a surrogate pair, which is no character: write it as base64") from None


def bytes_of_base64(text: Any, name: str) -> bytes:
    """Return bytes that are written as base64; raise BadRecord."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise BadRecord(f"{name} is not base64: it has letters, digits, + and /, and = at its end") from None


def _skipped(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


def _not_json(error: Exception) -> BadRecord:
    if isinstance(error, RecursionError):
        return BadRecord("this JSON is nested too deeply")
    return BadRecord(f"this is not JSON: {error}")


def _begin_of(text: str, place: int) -> str:
    return shown_text(text[place : place + _SHOWN_MAX + 1]) or "nothing"


def shown_text(text: str) -> str:
    """Return the begin of a text of JSON as it is: it has its own quotes."""
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def shown(value: object) -> str:
    return shown_text(json.dumps(str(value), ensure_ascii=False))
