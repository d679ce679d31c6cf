"""JSON to Avro: numbers at the edges, texts of logical types, branches of unions, and bounded steps."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from pylogbroker.schemas.codecs import SchemaCodec, codec_of
from pylogbroker.schemas.errors import InvalidSchema, Unencodable
from pylogbroker.schemas.framing import FramedContent, zigzag_varint
from pylogbroker.schemas.values import Schema


def avro(schema: Any) -> SchemaCodec:
    return codec_of(Schema(json.dumps(schema)), {})


def decimal(precision: Any, scale: Any, **others: Any) -> Any:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale} | others


def logical(kind: str, name: str) -> Any:
    return {"type": kind, "logicalType": name}


DATE = logical("int", "date")
CLOCK = logical("int", "time-millis")
MOMENT = logical("long", "timestamp-millis")
LOCAL = logical("long", "local-timestamp-micros")
UUID_FIXED = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
DURATION = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}


@pytest.mark.parametrize(
    ("schema", "text", "problem"),
    [
        ("long", "1e999999999", r"1E\+999999999 is outside of long"),
        ("long", "-1e999999999", r"-1E\+999999999 is outside of long"),
        ("long", "1e9999999999999999999", "Infinity is outside of long"),
        ("int", "1e-9999999999999999999", "is given, expected int"),
        ("long", "1e-999999999", "is given, expected long"),
        ("long", "9" * 5000, "outside of long"),
        ("long", "9223372036854775808.0", "outside of long"),
        ("double", "1e999999999", r"1E\+999999999 is too large for double"),
        ("float", "-1e9999999999999999999", "-Infinity is too large for float"),
        ("float", "3.5e38", "too large for float"),
        (decimal(4000, 2), "1e999999999", "more than 4000 digits, which is the schema's precision"),
        (decimal(4000, 2), "1e9999999999999999999", "more than 4000 digits"),
        (decimal(4000, 2), "1e-9999999999999999999", "more than 2 digits behind the point"),
        (decimal(4, 2), "9" * 5000, "more than 4 digits"),
        (decimal(4, 2), '"1_0"', "is no decimal"),
        (decimal(4, 2), '" 1"', "is no decimal"),
        (decimal(4, 2), '"\u0661"', "is no decimal"),
        (decimal(4, 2), '"Infinity"', "is no decimal"),
        (decimal(4, 2), "true", "true is no decimal|True is no decimal"),
        (DATE, '"20261128"', "is no date"),
        (DATE, '"2026-W01-1"', "is no date"),
        (DATE, '"0000-01-01"', "is no date"),
        (DATE, '"10000-01-01"', "is no date"),
        (DATE, '"2026-02-29"', "is no date"),
        (DATE, '"\u0662\u0660\u0662\u0666-01-01"', "is no date"),
        (DATE, '"2026-11-28\\n"', "is no date"),
        (CLOCK, '"09:30:00+02:00"', "is no time of day.* without a zone"),
        (CLOCK, '"24:00:00"', "is no time of day"),
        (CLOCK, '"0930"', "is no time of day"),
        (MOMENT, '"2026-11-28"', "is no time"),
        (MOMENT, '"2026-11-28T07:00:00+24:00"', "is no time"),
        (MOMENT, '"2026-11-28T07:60:00Z"', "is no time"),
        (MOMENT, '"2026-11-28T07:00:00.Z"', "is no time"),
        (LOCAL, '"2026-11-28T07:00:00Z"', "is no local time.* without a zone"),
        (UUID_FIXED, '"{00000000-0000-0000-0000-000000000007}"', "a UUID"),
        (UUID_FIXED, '"0000000_0000000000000000000000007"', "a UUID"),
        ("bytes", '"\u00e9"', "is not Base64"),
        (DURATION, '{"months": 1, "days": 2}', "an object of months"),
        (DURATION, '{"months": 1, "days": 2, "milliseconds": 4294967296}', "an object of months"),
        (DURATION, '{"months": 1, "days": 2, "milliseconds": "x"}', "an object of months"),
        ("string", '"\\ud800"', "half of a character"),
    ],
)
def test_values_that_do_not_fit(schema: Any, text: str, problem: str) -> None:
    with pytest.raises(Unencodable, match=problem) as error:
        avro(schema).encode(text)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("schema", "text", "number"),
    [
        ("long", "0e999999999", 0),
        ("long", "9.223372036854775807e18", 2**63 - 1),
        ("int", "5.000", 5),
        (DATE, '"1970-01-02"', 1),
        (CLOCK, '"00:01"', 60_000),
        (CLOCK, '"00:00:01,5"', 1500),
        (MOMENT, '"1970-01-01T01:00:00+01:00"', 0),
        (MOMENT, '"1970-01-01 00:00:00-0030"', 1_800_000),
        (MOMENT, '"1969-12-31T23:59:59.999000Z"', -1),
        (MOMENT, '"0001-01-01T00:00:00+14"', -62135596800000 - 14 * 3600_000),
        (MOMENT, '"1970-01-01T00:00:01"', 1000),
        (LOCAL, '"1970-01-01t00:00:00.000001"', 1),
    ],
)
def test_numbers_and_times(schema: Any, text: str, number: int) -> None:
    assert avro(schema).encode(text) == zigzag_varint(number)


@pytest.mark.parametrize(
    ("text", "unscaled"),
    [("12.5", 1250), ('"-12.50"', -1250), ("1e1", 1000), ("0.0100", 1), ("0e99999", 0), ("99.99", 9999)],
)
def test_decimals(text: str, unscaled: int) -> None:
    data = avro(decimal(4, 2)).encode(text)
    assert int.from_bytes(data[1:], "big", signed=True) == unscaled


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "bytes", "logicalType": "decimal"},
        decimal(0, 0),
        decimal(True, 0),
        decimal("4", 0),
        decimal(4.0, 0),
        decimal(4, 5),
        decimal(4, -1),
        decimal(4, "2"),
        decimal(4, 10**9),
        logical("bytes", "date"),
        {"type": "bytes", "logicalType": ["decimal"]},
        {"type": "bytes", "logicalType": {}},
    ],
)
def test_invalid_logical_types_are_ignored(schema: Any) -> None:
    codec = avro({"type": "record", "name": "R", "fields": [{"name": "a", "type": schema}]})
    assert codec.encode('{"a": "AQI="}') == b"\x04\1\2"
    assert codec.decode(FramedContent(1, b"\x04\1\2")) == '{"a": "AQI="}'


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 5},
        {"type": "fixed", "name": "F", "size": 2, "logicalType": "uuid"},
        {"type": "fixed", "name": "F", "size": 2, "logicalType": "duration"},
    ],
)
def test_logical_types_of_the_wrong_size_are_ignored(schema: Any) -> None:
    assert avro(schema).encode('"AQI="') == b"\1\2"
    assert avro(schema).decode(FramedContent(1, b"\1\2")) == '"AQI="'


def test_logical_types_of_the_wrong_integer_are_ignored() -> None:
    assert avro(logical("long", "date")).decode(FramedContent(1, b"\2")) == "1"
    with pytest.raises(Unencodable, match="expected int"):
        avro(logical("int", "timestamp-millis")).encode('"2026-11-28T07:00:00Z"')


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (decimal(4001, 0), "decimals of more than 4000 digits are not supported: bytes has the precision 4001"),
        ({"type": "fixed", "name": "F", "size": -1}, "the size of fixed F is no number of bytes"),
        ({"type": "fixed", "name": "F", "size": "2"}, "the size of fixed F"),
        ({"type": "fixed", "name": "F", "size": True}, "the size of fixed F"),
        ({"type": "fixed", "name": "F", "size": 2**31}, "the size of fixed F"),
        ({"type": "fixed", "name": "F"}, "the size of fixed F"),
        ({"type": "enum", "name": "E", "symbols": "ab"}, "the symbols of enum E are no array of texts"),
        ({"type": "enum", "name": "E", "symbols": [5]}, "the symbols of enum E are no array of texts"),
        ({"type": "enum", "name": 5, "symbols": ["A"]}, "no Avro schema"),
        ({"type": "record", "name": "R", "fields": {"a": 5}}, "the fields of record R are no array of objects"),
        ({"type": "record", "name": "R", "fields": [{"name": 5, "type": "int"}]}, "the fields of record R"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}, "two fields of the same name"),
        (["int", ["null"]], "another union as a branch"),
        (5, "no Avro schema"),
        (None, "no Avro schema"),
        ({"type": ["null"]}, "no Avro schema"),
        ({"type": "map", "values": 5}, "no Avro schema"),
    ],
)
def test_schemas_that_are_none(schema: Any, problem: str) -> None:
    with pytest.raises(InvalidSchema, match=problem):
        avro(schema)


@pytest.mark.parametrize(
    ("union", "text", "content"),
    [
        (["float", "double"], "0.1", b"\x02" + struct.pack("<d", 0.1)),
        (["float", "double", "long"], "9007199254740993", b"\x04" + zigzag_varint(9007199254740993)),
        (["double", "int"], "5", b"\x02\x0a"),
        (["double", "int"], "5.5", b"\0" + struct.pack("<d", 5.5)),
        (["double", decimal(30, 2)], "12345678901234567890.10", b"\x02\x12" + (1234567890123456789010).to_bytes(9)),
        (["double", decimal(4, 2)], "0.125", b"\0" + struct.pack("<d", 0.125)),
        (["bytes", "string"], '"AA=="', b"\x02\x08AA=="),
        ([DATE, "string"], '"2026-11-28"', b"\x02\x142026-11-28"),
        ([DATE, "string"], '{"int": "1970-01-02"}', b"\0\x02"),
        (["null", "boolean", "int"], "true", b"\x02\x01"),
        (["long", "int"], "5", b"\0\x0a"),
    ],
)
def test_unions_take_the_branch_that_loses_nothing(union: Any, text: str, content: bytes) -> None:
    assert avro(union).encode(text) == content


def branching(depth: int) -> tuple[Any, str]:
    """Return a union of records that all fit but for the innermost value, and a value of this depth."""
    names = ("A", "B", "C")
    third = {"type": "record", "name": "C", "fields": [{"name": "x", "type": ["null", *names]}]}
    second = {"type": "record", "name": "B", "fields": [{"name": "x", "type": ["null", "A", "B", third]}]}
    first = {"type": "record", "name": "A", "fields": [{"name": "x", "type": ["null", "A", second, "C"]}]}
    return [first, "B", "C"], '{"x": ' * depth + "5" + "}" * depth


def test_nested_unions_are_not_tried_for_ever() -> None:
    union, text = branching(60)
    with pytest.raises(Unencodable, match=r"too many steps: name the branches of unions, like"):
        avro(union).encode(text)
    union, text = branching(3)
    with pytest.raises(Unencodable, match=r"one of|too many"):
        avro(union).encode(text)
    assert avro(union).encode('{"x": {"x": null}}') == b"\0\x02\0"


def test_defaults_within_defaults_do_not_grow_for_ever() -> None:
    schema: Any = {"type": "record", "name": "Level0", "fields": [{"name": "a", "type": "string", "default": "x" * 99}]}
    for level in range(1, 60):
        fields = [
            {"name": "a", "type": schema, "default": {}},
            {"name": "b", "type": f"Level{level - 1}", "default": {}},
        ]
        schema = {"type": "record", "name": f"Level{level}", "fields": fields}
    with pytest.raises(Unencodable, match="too many steps"):
        avro(schema).encode("{}")


def test_defaults_of_bytes_within_records_are_characters() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "data", "type": ["bytes", "null"]}]}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "inner", "type": inner, "default": {"data": "\u00ff"}},
            {"name": "number", "type": ["double", "null"], "default": 0.5},
        ],
    }
    assert avro(schema).encode("{}") == b"\0\x02\xff\0" + struct.pack("<d", 0.5)


def test_long_member_names_do_not_multiply() -> None:
    """Each item's path would have the name: a hundred thousand copies of a megabyte."""
    name = "x" * 1_000_000
    codec = avro({"type": "map", "values": {"type": "array", "items": "int"}})
    text = json.dumps({name: [0] * 100_000})
    assert len(codec.encode(text)) > 1_100_000
    with pytest.raises(Unencodable) as error:
        codec.encode(text.replace("0]", "null]"))
    assert str(error.value) == f"field {'x' * 60}…[99999]: null is given, expected int"
