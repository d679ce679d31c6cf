"""Schemas that requests name for the keys and values that they bring.

value_schema: {"id": 17}                                    this schema
value_schema: {"subject": "orders-value", "version": 3}     a version of a subject, the latest without a number
value_schema: {"type": "AVRO", "schema": "..."}             this text, which is registered if it is new
?value_schema=17, =latest, =orders-value:3                  for all records of a request
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypedDict
from uuid import UUID

import attrs

from pylogbroker.json_text import NumberText
from pylogbroker.schemas.framing import Field
from pylogbroker.schemas.values import AVRO, INT_MAX, JSON, PROTOBUF
from pylogbroker.web.parameters import Index
from pylogbroker.web.records_api.json_members import BadRecord, check_names, shown
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import whole_number

KINDS: Final = {"AVRO": AVRO, "JSON": JSON, "JSONSCHEMA": JSON, "PROTOBUF": PROTOBUF}
"""Types of schemas as requests name them; JSONSCHEMA is Confluent's name in its REST API."""
STRATEGIES: Final = {"TOPIC_NAME": "topic", "RECORD_NAME": "record", "TOPIC_RECORD_NAME": "topic-record"}
LATEST: Final = "latest"

_MEMBERS: Final = ("type", "id", "guid", "subject", "version", "schema", "message")
_TEXT_MAX: Final = 1000
_VERSION: Final = re.compile(r"(.+):(latest|[0-9]{1,10})", re.DOTALL)
_ID: Final = re.compile(r"[0-9]{1,10}")


class SchemaOfContent(TypedDict, total=False):
    """Schema of a key or value: its id, a version of a subject, by default the latest, or a text."""

    type: Literal["AVRO", "JSON", "PROTOBUF"]
    id: Index
    guid: str
    subject: Annotated[str, "by default TOPIC-key or TOPIC-value"]
    version: Index
    schema: Annotated[str, "text, which is registered if the subject does not have it"]
    message: Annotated[str, "name of a message of Protobuf, by default the first"]


@attrs.frozen
class ChosenSchema:
    """Schema as a request names it.

    By id, GUID, text, or version; without these, it is the latest version of a subject.
    """

    subject: str = ""
    """Empty for the one that the strategy derives."""
    strategy: str = ""
    """Empty for that of the topic's name, or for any subject that has the id."""
    id: int | None = None
    guid: UUID | None = None
    version: int | None = None
    text: str = ""
    kind: str = ""
    """Type that the schema must have; empty for any."""
    message: str = ""
    """Message of Protobuf, by default the first."""

    @property
    def is_latest(self) -> bool:
        return self.id is None and self.guid is None and self.version is None and not self.text


@attrs.frozen
class UnencodedData:
    """Key or value as JSON, with the schema to encode it by; without JSON, it is a null."""

    choice: ChosenSchema
    text: str | None


Choices = Mapping[Field, ChosenSchema]


def choice_of(value: Any, name: str) -> ChosenSchema:
    """Return the schema of a record's member; raise BadRecord."""
    if not isinstance(value, dict):
        raise BadRecord(f'{name} must be an object such as {{"id": 17}}, not {shown(value)}')
    check_names(value, _MEMBERS)
    kind = text_in(value, "type", name)
    if kind and kind not in KINDS:
        raise BadRecord(f"{name}.type must be one of {', '.join(KINDS)}")
    choice = ChosenSchema(
        subject=text_in(value, "subject", name),
        id=number_in(value, "id", name),
        guid=_guid(text_in(value, "guid", name), name),
        version=_version(value, name),
        text=text_in(value, "schema", name, characters_max=None),
        kind=KINDS.get(kind, ""),
        message=text_in(value, "message", name),
    )
    if choice.text and (choice.id is not None or choice.guid is not None or choice.version is not None):
        raise BadRecord(f"{name} has a schema and an id or a version: one of them says what to write by")
    if choice.text and not choice.kind:
        raise BadRecord(f"{name}.type is missing: a schema is AVRO, JSON or PROTOBUF")
    return choice


def choice_of_parameter(text: str, name: str) -> ChosenSchema:
    """Return the schema that a parameter names; raise BadRequest."""
    if text == LATEST:
        return ChosenSchema()
    if _ID.fullmatch(text) and int(text) <= INT_MAX:
        return ChosenSchema(id=int(text))
    match = _VERSION.fullmatch(text)
    if match is None or len(text) > _TEXT_MAX or (match[2] != LATEST and not 1 <= int(match[2]) <= INT_MAX):
        raise BadRequest(f"{name} must be an id such as 17, latest, SUBJECT:latest or SUBJECT:3", name)
    return ChosenSchema(match[1], version=None if match[2] == LATEST else int(match[2]))


def text_in(members: Mapping[str, Any], member: str, name: str, characters_max: int | None = _TEXT_MAX) -> str:
    """Return a text, empty without one; raise BadRecord."""
    value = members.get(member)
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, NumberText):
        raise BadRecord(f"{name}.{member} must be a text, not {shown(value)}")
    if characters_max is not None and len(value) > characters_max:
        raise BadRecord(f"{name}.{member} has more than {characters_max} characters")
    return value


def number_in(members: Mapping[str, Any], member: str, name: str, least: int = 0) -> int | None:
    """Return an id or a version, None without one; raise BadRecord."""
    value = members.get(member)
    if value is None:
        return None
    number = whole_number(value) if isinstance(value, NumberText) else None
    if number is None or not least <= number <= INT_MAX:
        raise BadRecord(f"{name}.{member} must be a number from {least} to {INT_MAX}, not {shown(value)}")
    return number


def _version(members: Mapping[str, Any], name: str) -> int | None:
    value = members.get("version")
    is_latest = value == LATEST and not isinstance(value, NumberText)
    return None if is_latest else number_in(members, "version", name, 1)


def _guid(text: str, name: str) -> UUID | None:
    if not text:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise BadRecord(f"{name}.guid is no GUID: {shown(text)}") from None
