"""Declarations beside the schemas of Apache Kafka: versions, types, defaults, and what may be null or left out.

The schemas of 3.9 and 4.4 are joined, since each has versions that the other lacks. Where both have a version, its
fields must be the same. Each field becomes a row of text. Defaults and "ignorable" are compared where they matter: in
tagged fields, and in fields that some versions of their struct lack.
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
RENAMED = {("TxnOffsetCommitRequest", "generationid"): "generationidormemberepoch"}
"""Fields that have another name since 3.9."""


class Range(NamedTuple):
    """Versions, both ends included; empty if the last is below the first."""

    first: int
    last: int

    def has(self, version: int) -> bool:
        return self.first <= version <= self.last

    def within(self, other: Range) -> Range:
        return Range(max(self.first, other.first), min(self.last, other.last))

    def joined(self, other: Range) -> Range:
        """Return the range from the first to the last version of both."""
        filled = [each for each in (self, other) if each.first <= each.last]
        return Range(min(each.first for each in filled), max(each.last for each in filled)) if filled else self

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
    """Return the rows of all messages by name, from the schemas of both releases."""
    older, newer = Schemas("kafka-3.9"), Schemas("kafka-4.4")
    drafts = {name for name in NAMES if "Share" in name}  # no broker of 3.9 serves them, and their layouts changed
    return {
        name: list(joined_rows(name, None if name in drafts else older.get(name), newer.get(name))) for name in NAMES
    }


class Schemas:
    """The schemas that are in a jar of a release, by default that of its clients."""

    def __init__(self, release: str, jar: str = "kafka-clients-", directory: str = "message") -> None:
        [path] = (path for path in jars(release) if path.name.startswith(jar))
        self._archive = zipfile.ZipFile(path)
        self._directory = directory

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a schema, or None if the release does not have the message, or no version of it."""
        path = f"common/{self._directory}/{name}.json"
        if path not in self._archive.namelist():
            return None
        schema = json.loads(re.sub(r"^\s*//.*$", "", self._archive.read(path).decode(), flags=re.M))
        if name.endswith("Response"):
            request = self.get(f"{name.removesuffix('Response')}Request") or {}
            schema["latestVersionUnstable"] = request.get("latestVersionUnstable")
        return None if schema["validVersions"] == "none" else schema


def joined_rows(name: str, older: dict[str, Any] | None, newer: dict[str, Any] | None) -> Iterator[str]:
    schemas = [schema for schema in (older, newer) if schema is not None]
    flexible = {schema["flexibleVersions"] for schema in schemas}
    assert len(flexible) == 1, name
    ranges = [_valid(schema) for schema in schemas]
    first, last = ranges[0].joined(ranges[-1])
    yield f"versions {first}-{last}, flexible {flexible.pop()}".replace("versions 0-0,", "versions 0,")
    rows = [dict(_their_rows(name, schema)) for schema in schemas]
    yield from map(str, _joined(rows[0], rows[-1], Range(first, last), ranges[0], ranges[-1]))


def _valid(schema: dict[str, Any]) -> Range:
    """Return the stable versions; requests say whether the latest one is not."""
    valid = Range.parse(schema["validVersions"])
    return valid._replace(last=valid.last - 1) if schema.get("latestVersionUnstable") and valid.last else valid


def _their_rows(name: str, schema: dict[str, Any]) -> Iterator[tuple[str, Row]]:
    commons = {each["name"]: each["fields"] for each in schema.get("commonStructs", [])}
    valid = _valid(schema)
    for row in _theirs(schema["fields"], "", valid, commons):
        if row.versions.first <= valid.last and valid.first <= row.versions.last:
            path = RENAMED.get((name, row.path), row.path)
            yield path, row._replace(path=path)


def _joined(
    older: dict[str, Row], newer: dict[str, Row], valid: Range, older_valid: Range, newer_valid: Range
) -> list[Row]:
    """Return the rows of both, each behind the one that it follows in the older schema, or else in the newer one."""
    paths = list(older)
    for number, path in enumerate(newer):
        if path not in older:
            at = paths.index(list(newer)[number - 1]) + 1 if number else 0
            while at < len(paths) and paths[at] not in newer:
                at += 1
            paths.insert(at, path)
    rows: dict[str, Row] = {}
    for path in paths:
        one, two = older.get(path), newer.get(path)
        _check_same_layout(path, one, two, older_valid, newer_valid)
        row = two or one
        assert row is not None
        parent = rows[path.rpartition(".")[0]].versions if "." in path else valid
        others = [each for each in (one, two) if each is not None]
        versions = others[0].versions.joined(others[-1].versions)
        nullable = others[0].nullable.joined(others[-1].nullable)
        rows[path] = row._replace(versions=versions, nullable=nullable, parent=parent)
    return list(rows.values())


def _check_same_layout(path: str, one: Row | None, two: Row | None, older_valid: Range, newer_valid: Range) -> None:
    """Raise AssertionError if a version that both releases have is not the same in both."""
    both = older_valid.within(newer_valid)
    for version in range(both.first, both.last + 1):
        layouts = [
            (row.type, row.tag, row.nullable.has(version)) if row is not None and row.versions.has(version) else None
            for row in (one, two)
        ]
        assert layouts[0] == layouts[1], (path, version)


def _theirs(fields: list[dict[str, Any]], path: str, parent: Range, commons: dict[str, Any]) -> Iterator[Row]:
    for field in fields:
        kind = field["type"].removeprefix("[]")
        inner = field.get("fields") or commons.get(kind)
        versions = Range.parse(field.get("versions") or field["taggedVersions"]).within(parent)
        nullable = Range.parse(field.get("nullableVersions", "none")).within(versions)
        name, type = path + field["name"].lower(), "[]" * field["type"].startswith("[]") + ("struct" if inner else kind)
        default = _their_default(type, field.get("default"))
        tag = int(field["tag"]) if "tag" in field else None
        yield Row(name, type, versions, nullable, tag, field.get("ignorable", False), default, parent)
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
        if field.is_own:
            continue
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
