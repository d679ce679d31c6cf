"""Avro against Confluent's serializers, in both directions, and content that does not fit its schema."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pylogbroker.schemas.codecs import SchemaCodec, codec_of
from pylogbroker.schemas.errors import InvalidSchema, Undecodable, Unencodable
from pylogbroker.schemas.framing import FramedContent, frame_of, framed
from pylogbroker.schemas.registry_client import RegistryClient, blocking
from pylogbroker.schemas.values import Schema

CONTEXT = SerializationContext("orders", MessageField.VALUE)
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
#: Schema of a field, a value of Confluent's serializer, and the JSON that stands for it.
FIELDS: list[tuple[Any, Any, str]] = [
    ("long", 2**63 - 1, "9223372036854775807"),
    ("long", -(2**63), "-9223372036854775808"),
    ("int", -5, "-5"),
    ("boolean", True, "true"),
    ("string", 'é"\n\0', '"é\\"\\n\\u0000"'),
    ("bytes", b"\0\xff", '"AP8="'),
    ("float", 0.1, "0.1"),
    ("float", struct.unpack("<f", b"\xff\xff\x7f\x7f")[0], "3.4028235e+38"),
    ("double", 1e-300, "1e-300"),
    ("double", float("nan"), '"NaN"'),
    ("double", float("-inf"), '"-Infinity"'),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc", '"YWJj"'),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", '"B"'),
    ({"type": "array", "items": "int"}, [1, 2, 3], "[1, 2, 3]"),
    ({"type": "array", "items": "int"}, [], "[]"),
    ({"type": "map", "values": "long"}, {"a b": 1}, '{"a b": 1}'),
    (["null", "string", "long"], 5, "5"),
    (["null", "string", "long"], None, "null"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}, Decimal("-0.05"), "-0.05"),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2},
        Decimal("12345678901234567890.10"),
        "12345678901234567890.10",
    ),
    (
        {"type": "fixed", "name": "D", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 0},
        Decimal(-7),
        "-7",
    ),
    ({"type": "int", "logicalType": "date"}, date(1969, 12, 31), '"1969-12-31"'),
    ({"type": "int", "logicalType": "time-millis"}, time(1, 2, 3, 4000), '"01:02:03.004"'),
    ({"type": "long", "logicalType": "time-micros"}, time(1, 2, 3, 4), '"01:02:03.000004"'),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
        '"1969-12-31T23:59:59.999Z"',
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        datetime(2026, 11, 28, 7, 0, 0, 123456, UTC),
        '"2026-11-28T07:00:00.123456Z"',
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        datetime(1, 1, 1, 7, 0),
        '"0001-01-01T07:00:00.000"',
    ),
    ({"type": "string", "logicalType": "uuid"}, UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
]


def codec(schema: Any) -> SchemaCodec:
    return codec_of(Schema(json.dumps(schema)), {})


def decoded(schema: Any, payload: bytes) -> str:
    return codec(schema).decode(FramedContent(1, payload))


@pytest.mark.parametrize(("schema", "value", "text"), FIELDS)
def test_confluent_s_serializer_and_back(
    theirs: SchemaRegistryClient, ours: RegistryClient, schema: Any, value: Any, text: str
) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "f", "type": schema}]}
    theirs.set_compatibility("orders-value", "NONE")
    content = AvroSerializer(theirs, json.dumps(record))({"f": value}, CONTEXT)
    assert content is not None
    frame = frame_of(content, (), "value")
    assert frame is not None
    resolved = blocking(ours.by_key(frame.schema))
    own = codec_of(resolved.schema, resolved.references)
    assert own.decode(frame) == f'{{"f": {text}}}'
    assert own.record_name == "R"
    assert isinstance(frame.schema, int)
    again = framed(frame.schema, own.encode(f'{{"f": {text}}}'))
    assert again == content
    returned = AvroDeserializer(theirs)(again, CONTEXT)["f"]  # type: ignore[index]
    assert returned == value or value != value or isinstance(value, float)


def test_references_between_schemas(theirs: SchemaRegistryClient, ours: RegistryClient) -> None:
    theirs.register_schema("money", TheirSchema('{"type":"fixed","name":"shop.Money","size":2}', "AVRO"))
    line = '{"type":"record","name":"shop.Line","fields":[{"name":"price","type":"shop.Money"}]}'
    theirs.register_schema("line", TheirSchema(line, "AVRO", [SchemaReference("shop.Money", "money", 1)]))
    lines = '{"type":"array","items":"shop.Line"}'
    schema_id = theirs.register_schema("lines", TheirSchema(lines, "AVRO", [SchemaReference("shop.Line", "line", 1)]))
    resolved = blocking(ours.by_id(schema_id))
    assert list(resolved.references) == ["shop.Money", "shop.Line"]
    own = codec_of(resolved.schema, resolved.references)
    assert own.decode(FramedContent(schema_id, b"\x02\0\1\0")) == '[{"price": "AAE="}]'


def test_moments_outside_of_the_calendar_stay_numbers() -> None:
    far = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    assert decoded({"type": "long", "logicalType": "timestamp-millis"}, far) == "-9223372036854775808"
    assert decoded({"type": "int", "logicalType": "date"}, b"\x80\x80\x80\x80\x08") == "1073741824"
    assert decoded({"type": "long", "logicalType": "timestamp-nanos"}, b"\x02") == '"1970-01-01T00:00:00.000000001Z"'
    assert decoded({"type": "long", "logicalType": "of-tomorrow"}, b"\x02") == "1"


@pytest.mark.parametrize(
    ("schema", "payload", "problem"),
    [
        (NODE, b"\x02" * 1_000_000, "nested too deeply"),
        ("long", b"\x80" * 11, "longer than 64 bits"),
        ("long", b"", "is cut"),
        ("string", b"\x04a", "2 bytes are expected at byte 1 of 2"),
        ("string", b"\x01", "is cut"),
        ("string", b"\x02\xff", "utf-8"),
        ("string", b"\x02ab", "1 bytes are left: it was written by another schema"),
        ("boolean", b"\x02", "2 as a boolean"),
        (["null", "long"], b"\x04", "branch 2 of a union of 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "symbol 1 of an enum of 1"),
        ({"type": "array", "items": "long"}, b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "its JSON would have more"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4000, "scale": 0},
            b"\xa0\x1f" + b"\x7f" * 2000,
            "more than 4000 digits",
        ),
    ],
)
def test_content_that_does_not_fit(schema: Any, payload: bytes, problem: str) -> None:
    with pytest.raises(Undecodable, match=problem):
        decoded(schema, payload)


RECORD = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "items", "type": {"type": "array", "items": {"type": "map", "values": "int"}}, "default": []},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 0},
        {"name": "data", "type": "bytes", "default": "\u00ff"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "ratio", "type": ["double", "null"], "default": 0.5},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "default": "\x01",
        },
    ],
}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"id": "x"}', "field id: 'x' is given, expected long"),
        ('{"id": true}', "field id: true is given, expected long"),
        ('{"id": 1.5}', "field id: 1.5 is given, expected long"),
        ('{"id": 9223372036854775808}', "field id: 9223372036854775808 is outside of long: -2^63 to 2^63 - 1"),
        ("{}", "field id: it is missing, and has no default"),
        ('{"id": 1, "itmes": []}', "field itmes: the record Order has no such field: did you mean items?"),
        ('{"id": 1, "items": [{}, {"a": 1, "b": null}]}', "field items[1].b: null is given, expected int"),
        ('{"id": 1, "at": "noon"}', "field at: 'noon' is no time: expected a text like \"2026-11-28T07:00:00Z\""),
        (
            '{"id": 1, "at": "2026-11-28T07:00:00.1234Z"}',
            "field at: '2026-11-28T07:00:00.1234Z' has more than 3 digits of a second: some would get lost",
        ),
        ('{"id": 1, "day": "2026-13-01"}', "field day: '2026-13-01' is no date: expected a text like \"2026-11-28\""),
        ('{"id": 1, "data": "*"}', "field data: '*' is not Base64: Only base64 data is allowed"),
        ('{"id": 1, "note": 5}', "field note: 5 is given, expected a text"),
        (
            '{"id": 1, "price": 1.234}',
            "field price: 1.234 has more than 2 digits behind the point, which is the schema's scale",
        ),
        ('{"id": 1, "price": 123}', "field price: 123 has more than 4 digits, which is the schema's precision"),
        ('{"id": 1, "id": 2}', "this is no JSON: id is given twice"),
        ('{"id": NaN}', 'this is no JSON: NaN is a text in JSON: "NaN"'),
        ("[", "this is no JSON: Expecting value: line 1 column 2 (char 1)"),
        ("[]", "an array is given, expected an object for the record Order"),
    ],
)
def test_json_that_does_not_fit_names_field_and_reason(text: str, problem: str) -> None:
    with pytest.raises(Unencodable) as error:
        codec(RECORD).encode(text)
    assert str(error.value) == problem


def test_defaults_and_named_branches() -> None:
    own = codec(RECORD)
    body = own.encode('{"id": 1}')
    assert json.loads(own.decode(FramedContent(1, body))) == {
        "id": 1,
        "items": [],
        "at": "1970-01-01T00:00:00.000Z",
        "day": "1970-01-01",
        "data": "/w==",
        "note": None,
        "ratio": 0.5,
        "price": 0.01,
    }
    assert codec(["string", "bytes"]).encode('{"bytes": "AA=="}') == b"\x02\x02\0"
    assert codec(["string", "bytes"]).encode('"AA=="') == b"\0\x08AA=="
    assert codec(["int", "long"]).encode("2147483648") == b"\x02\x80\x80\x80\x80\x10"


def test_texts_that_are_no_schema() -> None:
    for text in ("", "{}", '"nothing"', '{"type":"record"}', '{"type":"record","name":"R","fields":[{}]}'):
        with pytest.raises(InvalidSchema, match="this is no Avro schema"):
            codec_of(Schema(text), {})
    with pytest.raises(InvalidSchema, match="expected AVRO, JSON or PROTOBUF"):
        codec_of(Schema("", "THRIFT"), {})
