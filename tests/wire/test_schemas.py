"""Declarations beside the schemas of Apache Kafka: versions, types, defaults, and what may be null or left out.

Each field becomes a row of text. Defaults and "ignorable" are compared where they matter: in tagged fields, and in
fields that some versions of their struct lack.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from pylogbroker.wire import NO_ID, WireMessage
from pylogbroker.wire.schema import FieldType, fields_of
from tests.peers.maven import jars
from tests.support.oracle_answers import OracleAnswers
from tests.wire.kafka_apis import declared, kafkas_names

NAMES = kafkas_names()
TYPES = {kind: kind.name.lower() for kind in FieldType} | {FieldType.BOOLEAN: "bool", FieldType.ERROR_TEXT: "string"}
ZEROS = {"bool": False, "string": "", "bytes": b"", "uuid": NO_ID, "records": None}
_RACK = "livebrokers.rack string 2-8 null 2-8 ignorable default"
DIFFERENT = {f"{_RACK} ''": f"{_RACK} None"}
"""Rows of Kafka, and what is declared instead: no rack is null here."""


class Range(NamedTuple):
    """Versions, both ends included; empty if the last is below the first."""

    first: int
    last: int

    def within(self, other: Range) -> Range:
        return Range(max(self.first, other.first), min(self.last, other.last))

    @classmethod
    def parse(cls, text: str) -> Range:
        if text == "none":
            return cls(0, -1)
        first, _, last = text.partition("-")
        return cls(int(first.rstrip("+")), int(last) if last else 99 if first.endswith("+") else int(first))


class Row(NamedTuple):
    """A field: what is compared of it."""

    path: str
    type: str
    versions: Range
    nullable: Range
    tag: int | None
    ignorable: bool
    default: Any
    parent: Range

    def __str__(self) -> str:
        words = [self.path, self.type, "{}-{}".format(*self.versions)]
        if self.nullable.first <= self.nullable.last:
            words.append("null {}-{}".format(*self.nullable))
        if self.tag is not None:
            words.append(f"tag {self.tag}")
        if self.versions != self.parent:
            words.append("ignorable" * self.ignorable)
        if self.versions != self.parent or self.tag is not None:
            words.append(f"default {self.default!r}")
        return " ".join(filter(None, words))


def rows_of_kafka() -> dict[str, list[str]]:
    """Return the rows of all messages by name, from the schemas that are in the jar of Kafka's clients."""
    [clients] = (path for path in jars("kafka-3.9") if path.name.startswith("kafka-clients-"))
    with zipfile.ZipFile(clients) as archive:
        texts = {name: archive.read(f"common/message/{name}.json").decode() for name in NAMES}
    schemas = {name: json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M)) for name, text in texts.items()}
    return {name: list(_rows_of_schema(schema)) for name, schema in schemas.items()}


def _rows_of_schema(schema: dict[str, Any]) -> Iterator[str]:
    valid = Range.parse(schema["validVersions"])
    yield f"versions {schema['validVersions']}, flexible {schema['flexibleVersions']}"
    commons = {each["name"]: each["fields"] for each in schema.get("commonStructs", [])}
    yield from map(str, _theirs(schema["fields"], "", valid, commons))


def _theirs(fields: list[dict[str, Any]], path: str, parent: Range, commons: dict[str, Any]) -> Iterator[Row]:
    for field in fields:
        kind = field["type"].removeprefix("[]")
        inner = field.get("fields") or commons.get(kind)
        versions = Range.parse(field["versions"]).within(parent)
        nullable = Range.parse(field.get("nullableVersions", "none")).within(versions)
        name, type = path + field["name"].lower(), "[]" * field["type"].startswith("[]") + ("struct" if inner else kind)
        default = _their_default(type, field.get("default"))
        yield Row(name, type, versions, nullable, field.get("tag"), field.get("ignorable", False), default, parent)
        yield from _theirs(inner or [], name + ".", versions, commons)


def _their_default(type: str, written: Any) -> Any:
    if type == "struct":
        return "null" if written == "null" else "fields'"
    if written == "null":
        return None
    if type.startswith("[]"):
        return []
    if written is None or written == "":
        return ZEROS.get(type, 0)
    if type == "bool":
        return str(written).lower() == "true"
    return written if type == "string" else int(str(written), 0)


def rows_of(message: type[WireMessage]) -> list[str]:
    known = message.versions
    versions = f"{known.first}-{known.last}" if known.last else "0"
    flexible = "none" if known.flexible is None else f"{known.flexible}+"
    rows = _ours(message, "", Range(known.first, known.last))
    return [f"versions {versions}, flexible {flexible}", *map(str, rows)]


def _ours(cls: type, path: str, parent: Range) -> Iterator[Row]:
    for field in fields_of(cls):
        inner = field.kind if isinstance(field.kind, type) else None
        versions = Range(field.since, int(min(field.until, 99))).within(parent)
        nullable = Range(int(min(field.nullable_since, 100)), 99).within(versions)
        name = path + field.name.replace("_", "")
        kind = "struct" if isinstance(field.kind, type) else TYPES[field.kind]
        default: Any = field.default
        if inner is not None and not field.is_array:
            default = "null" if default is None else "fields'"
        yield Row(name, "[]" * field.is_array + kind, versions, nullable, field.tag, field.ignorable, default, parent)
        if inner is not None:
            yield from _ours(inner, name + ".", versions)


@pytest.fixture
def theirs(oracle: OracleAnswers) -> dict[str, list[str]]:
    answer: dict[str, list[str]] = oracle.answer("schemas", "\n".join(NAMES), rows_of_kafka)
    return answer


def test_declarations_are_kafkas(theirs: dict[str, list[str]]) -> None:
    assert theirs.keys() == set(NAMES)
    for name, rows in theirs.items():
        assert rows_of(declared(name)) == [DIFFERENT.get(row, row) for row in rows], name
