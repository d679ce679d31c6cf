"""Records in JSON, both ways.

    {"key": "c-3", "value": {"amount": 129.90}, "headers": [{"name": "source", "value": "web"}],
     "partition": 4, "timestamp": 1764314899117}

| in JSON                                | bytes of the key, the value or a header            |
|----------------------------------------|----------------------------------------------------|
| a text                                 | the text in UTF-8                                  |
| an object, array, number, true, false  | its JSON as it was written                         |
| null, or nothing                       | none: no key, a tombstone                          |
| `key_base64`, `value_base64`           | any bytes                                          |

A record that is read has the same form. Bytes that are a JSON object or array are that, with line breaks between tokens
as spaces; other UTF-8 is a text, and all else is base64. So what is read can be written again. In the format `schema`,
content of a schema registry's serializers is the JSON that it stands for, with `key_schema` or `value_schema`, or stays
as it is, with `key_problem` or `value_problem`.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from difflib import get_close_matches
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]  # typeshed does not have it
from typing import Any, Final, Literal, get_args

import attrs

from pylogbroker.json_text import NumberText, is_json, reject_constant
from pylogbroker.records import Header, Record
from pylogbroker.schemas.framing import Field
from pylogbroker.web.parameters import INT32_MAX, milliseconds
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import whole_number
from pylogbroker.web.schema_store import DecodedContent

Format = Literal["auto", "text", "base64", "schema"]
FORMATS: Final[tuple[str, ...]] = get_args(Format)
RECORDS_MAX: Final = 5000
"""Records of a body that is one JSON object."""
HEADERS_MAX: Final = 1000
"""Headers of a record that is written."""

_MEMBERS: Final = ("key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp")
_HEADER_MEMBERS: Final = ("name", "value", "value_base64")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = JSONDecoder(parse_int=NumberText, parse_float=NumberText, parse_constant=reject_constant)


class BadRecord(ValueError):
    """A record in JSON is wrong; the message says what, and what is expected."""


@attrs.frozen
class JsonMember:
    """Value of JSON with its text."""

    value: Any
    text: str


@attrs.frozen
class NewRecord:
    """Record that a request brings; without a timestamp, it gets the time of the append."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the content, about."""
        headers = sum(len(name) + len(value or b"") + 4 for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + 20


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
    if text[place : place + 1] != "{":
        raise BadRecord(f'expected a JSON object, such as {{"value": ...}}, not {_begin_of(text, place)}')
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
            raise BadRecord(f"{_shown(name)} is given twice")
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


def record_of(members: Mapping[str, JsonMember]) -> NewRecord:
    """Return the record of an object; raise BadRecord."""
    check_names(members, _MEMBERS)
    return NewRecord(
        _content(members, "key"),
        _content(members, "value"),
        _headers(members["headers"].value) if "headers" in members else (),
        partition_of(members.get("partition"), "partition"),
        timestamp_of(members.get("timestamp")),
    )


def check_names(members: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Raise BadRecord for a member with another name."""
    for name in members:
        if name not in names:
            likely = get_close_matches(name, names, 1)
            hint = f"did you mean {likely[0]}?" if likely else f"a record has {', '.join(names)}"
            raise BadRecord(f"there is no member {_shown(name)}: {hint}")


def _content(members: Mapping[str, JsonMember], name: str) -> bytes | None:
    member, in_base64 = members.get(name), members.get(f"{name}_base64")
    if member is not None and in_base64 is not None:
        raise BadRecord(f"{name} and {name}_base64 are both given: one of them says what to write")
    if in_base64 is not None:
        return None if in_base64.value is None else bytes_of_base64(in_base64.value, f"{name}_base64")
    if member is None or member.value is None:
        return None
    is_text = isinstance(member.value, str) and not isinstance(member.value, NumberText)
    return encoded(member.value if is_text else member.text, name)


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


def _headers(value: Any) -> tuple[Header, ...]:
    if isinstance(value, dict):
        value = [{"name": name, "value": text} for name, text in value.items()]
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadRecord('headers must be a list of {"name": ..., "value": ...}, or an object of names and texts')
    if len(value) > HEADERS_MAX:
        raise BadRecord(f"a record has at most {HEADERS_MAX} headers")
    return tuple(_header(row, number) for number, row in enumerate(value))


def _header(row: Any, number: int) -> Header:
    place = f"headers[{number}]"
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or isinstance(row["name"], NumberText):
        raise BadRecord(f'{place} must be {{"name": ..., "value": ...}} with a text as the name')
    try:
        check_names(row, _HEADER_MEMBERS)
    except BadRecord as error:
        raise BadRecord(f"{place}: {error}") from None
    name = row["name"]
    encoded(name, f"{place}.name")
    if "value_base64" in row:
        if "value" in row:
            raise BadRecord(f"{place} has value and value_base64: one of them says what to write")
        return name, bytes_of_base64(row["value_base64"], f"{place}.value_base64")
    text = row.get("value")
    if text is not None and (not isinstance(text, str) or isinstance(text, NumberText)):
        raise BadRecord(f"{place}.value must be a text or null, not {_shown(text)}")
    return name, None if text is None else encoded(text, f"{place}.value")


def partition_of(member: JsonMember | None, name: str) -> int | None:
    """Return the number of a partition, None without one; raise BadRecord."""
    if member is None or member.value is None:
        return None
    number = whole_number(member.value) if isinstance(member.value, NumberText) else None
    if number is None or not 0 <= number <= INT32_MAX:
        raise BadRecord(f"{name} must be a number of at least 0, not {_shown(member.text)}")
    return number


def timestamp_of(member: JsonMember | None) -> int | None:
    """Return milliseconds since 1970, None without a time; raise BadRecord."""
    if member is None or member.value is None:
        return None
    number = whole_number(member.value) if isinstance(member.value, NumberText) else None
    is_text = isinstance(member.value, str) and not isinstance(member.value, NumberText)
    if is_text and whole_number(member.value) is None:
        try:
            return milliseconds(member.value)
        except BadRequest:
            number = None
    if number is None or not 0 <= number < 2**63:
        raise BadRecord(
            f"timestamp must be milliseconds since 1970, or a text like 2026-01-31T12:00, not {_shown(member.value)}"
        )
    return number


def _skipped(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


def _not_json(error: Exception) -> BadRecord:
    if isinstance(error, RecursionError):
        return BadRecord("this JSON is nested too deeply")
    return BadRecord(f"this is not JSON: {error}")


def _begin_of(text: str, place: int) -> str:
    return _shown(text[place : place + 40]) if text[place:] else "nothing"


def _shown(value: object) -> str:
    text = json.dumps(str(value), ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."


def record_text(
    partition: int, record: Record, format: Format = "auto", decoded: Mapping[Field, DecodedContent] | None = None
) -> str:
    """Return a record as JSON in one line; `decoded` has contents that name a schema."""
    headers = ",".join(
        f'{{"name":{json.dumps(name, ensure_ascii=False)},{_member("value", value, format, is_plain=True)}}}'
        for name, value in record.headers
    )
    key, value = _member("key", record.key, format), _member("value", record.value, format)
    if decoded:
        key, value = _with_schema("key", key, decoded), _with_schema("value", value, decoded)
    return (
        f'{{"partition":{partition},"offset":{record.offset},"timestamp":{record.timestamp},'
        f'{key},{value},"headers":[{headers}]}}'
    )


def _with_schema(field: Field, stored: str, decoded: Mapping[Field, DecodedContent]) -> str:
    """Return the member of decoded content with its schema, or the stored one with the reason for it."""
    content = decoded.get(field)
    if content is None:
        return stored
    if content.text is None:
        return f'{stored},"{field}_problem":{json.dumps(content.problem, ensure_ascii=False)}'
    return f'"{field}":{content.text},"{field}_schema":{json.dumps(content.label, ensure_ascii=False)}'


def _member(name: str, content: bytes | None, format: Format, is_plain: bool = False) -> str:
    if content is None:
        return f'"{name}":null'
    if format != "base64":
        try:
            text = str(content, "utf-8")
        except UnicodeDecodeError:
            pass
        else:
            if format != "text" and not is_plain and is_json(text):
                return f'"{name}":' + text.replace("\n", " ").replace("\r", " ")
            return f'"{name}":{json.dumps(text, ensure_ascii=False)}'
    return f'"{name}_base64":"{b64encode(content).decode()}"'
