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
as it is, with `key_problem` or `value_problem`. A record that has `value_schema` is written by that schema.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args
from uuid import UUID

import attrs

from pylogbroker.json_text import NumberText, is_json
from pylogbroker.records import Header, Record
from pylogbroker.schemas.framing import Field
from pylogbroker.web.parameters import INT32_MAX, milliseconds
from pylogbroker.web.records_api.json_members import (
    BadRecord,
    JsonMember,
    bytes_of_base64,
    check_names,
    encoded,
    shown,
    shown_text,
)
from pylogbroker.web.records_api.schema_choices import Choices, UnencodedData, choice_of
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import whole_number
from pylogbroker.web.schema_store import DecodedContent

Format = Literal["auto", "text", "base64", "schema"]
FORMATS: Final[tuple[str, ...]] = get_args(Format)
FIELDS: Final[tuple[Field, Field]] = ("key", "value")
HEADERS_MAX: Final = 1000
"""Headers of a record that is written."""

_OF_SCHEMAS: Final = frozenset(f"{field}_{part}" for field in FIELDS for part in ("schema", "problem"))
_MEMBERS: Final = ("key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp", *_OF_SCHEMAS)
_HEADER_MEMBERS: Final = ("name", "value", "value_base64")


@attrs.frozen
class NewRecord:
    """Record that a request brings; without a timestamp, it gets the time of the append."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp: int | None = None
    unencoded: Mapping[Field, UnencodedData] = attrs.field(factory=dict)
    """Keys and values that are still to be encoded by schemas."""

    @property
    def size(self) -> int:
        """Bytes of the content, about."""
        headers = sum(len(name) + len(value or b"") + 4 for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + 20


def record_of(members: Mapping[str, JsonMember], choices: Choices | None = None) -> NewRecord:
    """Return the record of an object; `choices` has schemas for records that name none. Raise BadRecord."""
    check_names(members, _MEMBERS)
    unencoded = {} if not choices and _OF_SCHEMAS.isdisjoint(members) else _all_unencoded(members, choices or {})
    return NewRecord(
        None if "key" in unencoded else _content(members, "key"),
        None if "value" in unencoded else _content(members, "value"),
        _headers(members["headers"].value) if "headers" in members else (),
        partition_of(members.get("partition"), "partition"),
        timestamp_of(members.get("timestamp")),
        unencoded,
    )


def _all_unencoded(members: Mapping[str, JsonMember], choices: Choices) -> dict[Field, UnencodedData]:
    """Return keys and values that have schemas; raise BadRecord."""
    pairs = ((field, _unencoded(members, field, choices)) for field in FIELDS)
    return {field: data for field, data in pairs if data is not None}


def _unencoded(members: Mapping[str, JsonMember], field: Field, choices: Choices) -> UnencodedData | None:
    """Return a key or value that has a schema; raise BadRecord."""
    own, content = members.get(f"{field}_schema"), members.get(field)
    has_bytes = f"{field}_base64" in members
    if own is not None and own.value is not None:
        if has_bytes:
            raise BadRecord(f"{field}_base64 are bytes as they are, and {field}_schema is for {field}: leave one out")
        return UnencodedData(choice_of(own.value, f"{field}_schema"), None if content is None else content.text)
    if field not in choices or has_bytes or content is None or content.value is None:
        return None
    return UnencodedData(choices[field], content.text)


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
        raise BadRecord(f"{place}.value must be a text or null, not {shown(text)}")
    return name, None if text is None else encoded(text, f"{place}.value")


def partition_of(member: JsonMember | None, name: str) -> int | None:
    """Return the number of a partition, None without one; raise BadRecord."""
    if member is None or member.value is None:
        return None
    number = whole_number(member.value) if isinstance(member.value, NumberText) else None
    if number is None or not 0 <= number <= INT32_MAX:
        raise BadRecord(f"{name} must be a number of at least 0, not {shown_text(member.text)}")
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
            f"timestamp must be milliseconds since 1970, or a text like 2026-01-31T12:00, not {shown_text(member.text)}"
        )
    return number


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
    schema = json.dumps(_schema_row(field, content), ensure_ascii=False, separators=(",", ":"))
    return f'"{field}":{content.text},"{field}_schema":{schema}'


def _schema_row(field: Field, content: DecodedContent) -> dict[str, Any]:
    """Return the schema of decoded content, as a record names it that is written."""
    schema = content.schema
    if schema is None:
        return {}
    row: dict[str, Any] = {"type": schema.kind, "guid" if isinstance(schema.key, UUID) else "id": schema.key}
    if isinstance(schema.key, UUID):
        row["guid"] = str(schema.key)
    version = schema.version_for(content.topic, field)
    if version is not None:
        row |= {"subject": version[0], "version": version[1]}
    return row | ({"message": content.message} if content.message else {})


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
