"""Protobuf against Confluent's serializers, schemas as source and as they register them, and wrong ones."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from pylogbroker.schemas.codecs import SchemaCodec, codec_of
from pylogbroker.schemas.errors import InvalidSchema, Undecodable, Unencodable
from pylogbroker.schemas.framing import FramedContent, encoded_indexes, frame_of, framed
from pylogbroker.schemas.protobuf_codec import ProtobufCodec
from pylogbroker.schemas.registry_client import RegistryClient, blocking
from pylogbroker.schemas.values import PROTOBUF

CONTEXT = SerializationContext("orders", MessageField.VALUE)
MONEY = 'syntax = "proto3"; package shop; message Money { int64 units = 1; string currency = 2; }'
ORDER = """
syntax = "proto3";
package shop;
import "shop/money.proto";
import "google/protobuf/timestamp.proto";
message Other { bool flag = 1; }
message Order {
  message Line { double weight = 1; bytes data = 2; }
  enum Status { NEW = 0; PAID = 1; }
  int64 id = 1;
  uint64 big = 2;
  Money price = 3;
  repeated Line line_items = 4;
  google.protobuf.Timestamp at = 5;
  Status status = 6;
  map<string, int32> counts = 7;
  oneof choice { string text = 8; int32 number = 9; }
  optional string note = 10;
}
"""
FULL: dict[str, Any] = {
    "id": "9223372036854775807",
    "big": "18446744073709551615",
    "price": {"units": "5", "currency": "EUR"},
    "line_items": [{"weight": "NaN", "data": "AP8="}],
    "at": "2026-11-28T07:00:00.500Z",
    "status": "PAID",
    "counts": {"a": 1},
    "number": 0,
}
REFERENCES = {"shop/money.proto": MONEY}
#: Messages of ORDER with a value, and their indexes.
MESSAGES = [
    ("shop.Order", FULL, b"\x02\x02"),
    ("shop.Order.Line", {"weight": 0.1, "data": ""}, b"\x04\x02\0"),
    ("shop.Other", {"flag": False}, b"\0"),
]


def own_codec(message: str = "") -> SchemaCodec:
    return SchemaCodec(ProtobufCodec.of(ORDER, REFERENCES, message))


@pytest.mark.parametrize(("name", "value", "indexes"), MESSAGES)
def test_confluent_s_serializer_and_back(
    theirs: SchemaRegistryClient, ours: RegistryClient, name: str, value: Any, indexes: bytes
) -> None:
    theirs.set_compatibility("orders-value", "NONE")
    message_class = GetMessageClass(ProtobufCodec.of(ORDER, REFERENCES, name)._message)
    message = ParseDict(value, message_class())
    content = ProtobufSerializer(message_class, theirs)(message, CONTEXT)
    assert content is not None
    frame = frame_of(content, (), "value")
    assert frame is not None
    assert isinstance(frame.schema, int)
    assert frame.payload.startswith(indexes)
    resolved = blocking(ours.by_key(frame.schema))
    assert resolved.schema.kind == PROTOBUF
    own = codec_of(resolved.schema, resolved.references, name)
    assert own.record_name == name
    text = own.decode(frame)
    assert json.loads(text) == value
    again = framed(frame.schema, own.encode(text))
    assert again == content
    assert ProtobufDeserializer(message_class, {})(again, CONTEXT) == message


def test_source_of_a_registry_with_references(theirs: SchemaRegistryClient, ours: RegistryClient) -> None:
    theirs.register_schema("money", TheirSchema(MONEY, PROTOBUF))
    reference = SchemaReference("shop/money.proto", "money", 1)
    schema_id = theirs.register_schema("source-value", TheirSchema(ORDER, PROTOBUF, [reference]))
    resolved = blocking(ours.by_id(schema_id))
    own = SchemaCodec(ProtobufCodec.of(resolved.schema.text, resolved.references, "Order"))
    assert json.loads(own.decode(FramedContent(schema_id, own.encode(json.dumps(FULL))))) == FULL


def test_fields_without_a_value_are_shown() -> None:
    text = own_codec().decode(FramedContent(1, b"\x02\x02"))
    assert json.loads(text) == {
        **{"id": "0", "big": "0", "line_items": [], "status": "NEW", "counts": {}},
    }


def test_indexes_may_stand_in_a_header() -> None:
    assert own_codec().decode(FramedContent(1, b"\x08\x01", encoded_indexes([0]))) == '{"flag": true}'


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"", "is cut"),
        (b"\x02\x06", r"message \[3\], which the schema does not have"),
        (b"\x01", "-1 message indexes"),
        (b"\x02\x02\xff", "it is no shop.Order"),
        (b"\x80" * 12, "longer than 64 bits"),
    ],
)
def test_content_that_does_not_fit(payload: bytes, problem: str) -> None:
    with pytest.raises(Undecodable, match=problem):
        own_codec().decode(FramedContent(1, payload))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"flga": true}', 'has no field named "flga"'),
        ('{"flag": 5}', "Failed to parse flag field"),
        ("{", "this is no JSON"),
        ('{"flag": true, "flag": true}', "flag is given twice"),
        ("[]", "an object is expected for the message shop.Other"),
        ("5", "an object is expected for the message shop.Other"),
        ("", "an object is expected for the message shop.Other"),
    ],
)
def test_json_that_does_not_fit(text: str, problem: str) -> None:
    with pytest.raises(Unencodable, match=problem) as error:
        own_codec().encode(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        '{"id": 1e999999999}',
        '{"id": 1e9999999999999999999}',
        '{"id": 1' + "0" * 5000 + "}",
        '{"id": "1e999999999"}',
        '{"at": 5}',
        '{"at": "99999-01-01T00:00:00Z"}',
        '{"counts": {"a": null}}',
        '{"counts": 5}',
        '{"line_items": [null]}',
        '{"line_items": ' + "[" * 2000 + "]" * 2000 + "}",
        '{"text": "\\ud800"}',
        '{"price": 5}',
    ],
)
def test_values_of_the_wrong_kind(text: str) -> None:
    with pytest.raises(Unencodable) as error:
        own_codec("shop.Order").encode(text)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"line_items": [{}, {"data": "\u00e9"}]}', r"field line_items\[1\].data: .*expected a text in Base64"),
        ('{"lineItems": [{"data": "A A="}]}', r"field lineItems\[0\].data: .*expected a text in Base64"),
        ('{"line_items": [{"data": 5}]}', "expected a text in Base64"),
        ('{"line_items": [{"weight": true}]}', "expected a number"),
        ('{"line_items": [{"weight": "1_0"}]}', "expected a number"),
        ('{"line_items": [{"weight": "1e999"}]}', "expected a number that is not too large"),
        ('{"line_items": [{"weight": 1e999999999999999999999}]}', "expected a number that is not too large"),
        ('{"id": "1_0"}', "field id: .*expected an integer"),
        ('{"id": "\u0661"}', "expected an integer"),
        ('{"id": 9007199254740993.0}', "'9007199254740993.0' is given, expected an integer"),
        ('{"status": 0.5}', "expected an integer"),
        ('{"counts": {"a": "1_0"}}', "field counts.a: .*expected an integer"),
        ('{"price": {"units": "+5"}}', "field price.units: .*expected an integer"),
    ],
)
def test_values_that_protobuf_would_change(text: str, problem: str) -> None:
    with pytest.raises(Unencodable, match=problem):
        own_codec("shop.Order").encode(text)


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ('{"id": 5.0}', {"id": "5"}),
        ('{"id": 1e3}', {"id": "1000"}),
        ('{"lineItems": [{"weight": "1.5", "data": "-_8="}]}', {"line_items": [{"weight": 1.5, "data": "+/8="}]}),
        ('{"status": 1, "id": null}', {"status": "PAID"}),
        ('{"line_items": [{"weight": "-Infinity"}]}', {"line_items": [{"weight": "-Infinity", "data": ""}]}),
    ],
)
def test_other_ways_to_write_a_value(text: str, again: dict[str, Any]) -> None:
    own = own_codec("shop.Order")
    empty = {"id": "0", "big": "0", "line_items": [], "status": "NEW", "counts": {}}
    assert json.loads(own.decode(FramedContent(1, own.encode(text)))) == empty | again


def test_times_that_json_cannot_show() -> None:
    own = own_codec("shop.Order")
    with pytest.raises(Undecodable, match="Failed to serialize at field: Timestamp is not valid"):
        own.decode(FramedContent(1, encoded_indexes([1]) + b"\x2a\x0b\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"))


@pytest.mark.parametrize(
    ("source", "references", "message", "problem"),
    [
        (ORDER, {}, "", "shop/money.proto: File not found"),
        ("syntax", {}, "", 'cannot be compiled: line 1:7: Expected "="'),
        (ORDER, {"shop/money.proto": "x"}, "", "cannot be compiled: shop/money.proto:1:1"),
        (ORDER, {"/etc/money.proto": MONEY}, "", "is no path of a .proto file"),
        (ORDER, {"../money.proto": MONEY}, "", "is no path of a .proto file"),
        (ORDER, {"grpc_tools/protoc.py": "raise SystemExit"}, "", "is no path of a .proto file"),
        (ORDER, {"a\0.proto": MONEY}, "", "is no path of a .proto file"),
        (ORDER, {"a\ud800.proto": MONEY}, "", "is no path of a .proto file"),
        (ORDER, {f"{'a' * 300}.proto": MONEY}, "", "cannot be stored: File name too long"),
        (ORDER, {"a.proto": MONEY, "a.proto/b.proto": MONEY}, "", "a.proto/b.proto cannot be stored: "),
        (ORDER, {"a/b.proto/c.proto": MONEY, "a/b.proto": MONEY}, "", "a/b.proto cannot be stored: Is a directory"),
        (ORDER, {"a.proto": "\ud800"}, "", "a.proto cannot be stored: it is not UTF-8"),
        (ORDER + "\ud800", REFERENCES, "", "cannot be stored: it is not UTF-8"),
        (ORDER, REFERENCES, "Ordr", "has no message Ordr: it has shop.Other, shop.Order, shop.Order.Line"),
        ('syntax = "proto3";', {}, "", "has no message"),
    ],
)
def test_wrong_schemas(source: str, references: dict[str, str], message: str, problem: str) -> None:
    with pytest.raises(InvalidSchema, match=problem):
        ProtobufCodec.of(source, references, message)


@pytest.mark.parametrize(("package", "project"), [("google.protobuf", "protobuf"), ("grpc_tools", "grpcio-tools")])
def test_a_missing_package_is_named_like_its_project(package: str, project: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from pylogbroker.extras import MissingExtra\n"
        "from pylogbroker.schemas.codecs import codec_of\n"
        "from pylogbroker.schemas.values import Schema\n"
        "try:\n    codec_of(Schema('message A {}', 'PROTOBUF'), {})\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.startswith(
        f"Protobuf by a schema registry needs {project}, which is not installed (extra registry): "
    )
