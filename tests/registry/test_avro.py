"""Compatibility of Avro schemas: the rules of Avro's specification, and the levels of Confluent's documentation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pylogbroker.registry.avro import AvroSchema
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.levels import problems


def avro(schema: Any) -> AvroSchema:
    return AvroSchema.parse(json.dumps(schema), {})


def record(*fields: Any, name: str = "R", **more: Any) -> Any:
    """Make a record of fields: name, type, and pairs of other attributes."""
    made = [{"name": field, "type": kind, **dict(others)} for field, kind, *others in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def enum(*symbols: str, **more: Any) -> Any:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


DEFAULT = ("default", 0)
A, B, B_DEFAULT = ("a", "int"), ("b", "int"), ("b", "int", DEFAULT)
LIST = record(("value", "int"), ("next", ["null", "R"]))
LONG_LIST = record(("value", "long"), ("next", ["null", "R"]))
LIST_WITH_MORE = record(("value", "int"), ("next", ["null", "R"]), B)

RESOLUTION = [
    # reader, writer, the problem
    *((reader, writer, "") for reader, writer in (
        ("int", "int"), ("long", "int"), ("float", "int"), ("double", "int"), ("float", "long"), ("double", "long"),
        ("double", "float"), ("bytes", "string"), ("string", "bytes"),
    )),
    *((reader, writer, "TYPE_MISMATCH") for reader, writer in (
        ("int", "long"), ("long", "float"), ("float", "double"), ("int", "string"), ("boolean", "int"),
        ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}), ("null", "int"),
    )),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, ""),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "TYPE_MISMATCH at /items/"),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, "TYPE_MISMATCH at /values/"),
    (["null", "int"], "int", ""),
    (["null", "long"], ["int", "null"], ""),
    ("int", ["int"], ""),
    ("int", ["int", "null"], "TYPE_MISMATCH"),
    (["int", "null"], ["int", "string"], "MISSING_UNION_BRANCH"),
    (["null", "string"], "int", "MISSING_UNION_BRANCH"),
    (enum("x", "y"), enum("x"), ""),
    (enum("x"), enum("x", "y"), "MISSING_ENUM_SYMBOLS"),
    (enum("x", default="x"), enum("x", "y"), ""),
    ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 4}, ""),
    ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 8}, "FIXED_SIZE_MISMATCH"),
    ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "G", "size": 4}, "NAME_MISMATCH"),
    (record(A), record(A, name="S"), "NAME_MISMATCH"),
    (record(A, aliases=["S"]), record(A, name="S"), ""),
    (record(A, namespace="one"), record(A, namespace="two"), ""),
    (record(A), record(A, B), ""),
    (record(A, B), record(A), "READER_FIELD_MISSING_DEFAULT_VALUE at /b"),
    (record(A, B_DEFAULT), record(A), ""),
    (record(("b", "int", ("aliases", ["a"]))), record(A), ""),
    (record(("a", record(B, name="Inner"))), record(("a", record(A, name="Inner"))), "DEFAULT_VALUE at /a/b"),
    (LONG_LIST, LIST, ""),
    (LIST, LONG_LIST, "TYPE_MISMATCH at /value/"),
    (["null", LIST_WITH_MORE, record(A, name="Other", aliases=["R"])], LIST, "MISSING_UNION_BRANCH"),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer", "problem"), RESOLUTION)
def test_resolution(reader: Any, writer: Any, problem: str) -> None:
    found = avro(reader).problems(avro(writer))
    assert (len(found), problem in "".join(found)) == (1 if problem else 0, True)


OPTIONAL = record(A, B_DEFAULT)
LEVELS = [
    # Confluent's table of allowed changes: older schemas, new schema, levels that allow it
    ([record(A, B)], record(A), "BACKWARD BACKWARD_TRANSITIVE"),  # delete a field
    ([record(A)], record(A, B), "FORWARD FORWARD_TRANSITIVE"),  # add a field
    ([record(A)], OPTIONAL, "BACKWARD FORWARD FULL BACKWARD_TRANSITIVE FORWARD_TRANSITIVE FULL_TRANSITIVE"),
    ([OPTIONAL], record(A), "BACKWARD FORWARD FULL BACKWARD_TRANSITIVE FORWARD_TRANSITIVE FULL_TRANSITIVE"),
    ([record(A)], record(("a", "string")), ""),
    # the newest alone may be followed: the default is gone that readers of the oldest need
    ([record(A), OPTIONAL], record(A, B), "BACKWARD FORWARD FULL FORWARD_TRANSITIVE"),
    ([record(A, B), OPTIONAL], record(A), "BACKWARD FORWARD FULL BACKWARD_TRANSITIVE"),
    ([], record(A), "BACKWARD FORWARD FULL BACKWARD_TRANSITIVE FORWARD_TRANSITIVE FULL_TRANSITIVE"),
]


@pytest.mark.parametrize(("old", "new", "allowing"), LEVELS)
def test_levels(old: list[Any], new: Any, allowing: str) -> None:
    every = [f"{each}{suffix}" for suffix in ("", "_TRANSITIVE") for each in ("BACKWARD", "FORWARD", "FULL")]
    older = [(number, avro(each)) for number, each in enumerate(old, 1)]
    assert [level for level in every if not problems(level, avro(new), older)] == allowing.split()
    assert problems("NONE", avro(new), older) == []


@pytest.mark.parametrize(
    "text", ["", "{", '"strin"', '{"type": "record"}', '{"type": "enum", "name": "E"}', "7", "{}", "null"]
)
def test_bad_schemas(text: str) -> None:
    with pytest.raises(RegistryError) as error:
        AvroSchema.parse(text, {})
    assert error.value.code == 42201


def test_canonical_text() -> None:
    assert AvroSchema.parse('{ "type": "string" }', {}).text == '"string"'
    written = '{"name": "R", "type": "record", "fields": [{"name": "a", "type": {"type": "int"}}]}'
    assert AvroSchema.parse(written, {}).text == '{"name":"R","type":"record","fields":[{"name":"a","type":"int"}]}'
    swapped = '{"type":"record","name":"R","fields":[{"type":"int","name":"a"}]}'
    texts = {AvroSchema.parse(each, {}, normalize=True).text for each in (written, swapped)}
    assert len(texts) == 1


def test_numbers_of_a_schema_stay_as_they_are() -> None:
    text = '{"type":"record","name":"r","fields":[{"name":"a","type":"double","default":12345678901234567890.12}]}'
    assert AvroSchema.parse(text, {}).text == text
    with pytest.raises(RegistryError, match="Invalid schema"):
        AvroSchema.parse(text.replace("12345678901234567890.12", "NaN"), {})
