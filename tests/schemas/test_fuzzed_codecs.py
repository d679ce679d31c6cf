"""Random schemas, contents and JSON: only the package's own errors come out, and what was written is read again."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pylogbroker.schemas import protobuf_codec
from pylogbroker.schemas.codecs import SchemaCodec, codec_of
from pylogbroker.schemas.errors import InvalidSchema, Undecodable, Unencodable
from pylogbroker.schemas.framing import FramedContent, zigzag_varint
from pylogbroker.schemas.limits import JsonBudget
from pylogbroker.schemas.protobuf_codec import ProtobufCodec
from pylogbroker.schemas.values import AVRO, JSON, PROTOBUF, Schema

BUDGET = 20_000
bounded = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES = st.sampled_from(["A", "B", "C", "D"])
PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
LOGICAL = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["int", "long", "bytes", "string"]),
        "logicalType": st.sampled_from(
            [
                "date",
                "time-millis",
                "time-micros",
                "timestamp-millis",
                "timestamp-nanos",
                "local-timestamp-micros",
                "decimal",
                "uuid",
                "duration",
                "unknown",
            ]
        ),
        "precision": st.sampled_from([0, 1, 4, 40, 4000, 4001, "4", None]),
        "scale": st.sampled_from([0, 2, 4000, -1, "2"]),
    }
)
NAMED = st.one_of(
    st.fixed_dictionaries({"type": st.just("fixed"), "name": NAMES, "size": st.sampled_from([0, 1, 12, 16, -1, "1"])}),
    st.fixed_dictionaries(
        {
            "type": st.just("fixed"),
            "name": NAMES,
            "size": st.sampled_from([0, 2, 12, 16]),
            "logicalType": st.sampled_from(["decimal", "uuid", "duration"]),
            "precision": st.sampled_from([1, 4, 4000]),
        }
    ),
    st.fixed_dictionaries({"type": st.just("enum"), "name": NAMES, "symbols": st.sampled_from([["X", "Y"], [], "XY"])}),
)


def records(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    field = st.fixed_dictionaries(
        {"name": st.sampled_from("abc"), "type": types},
        optional={"default": st.sampled_from([None, 0, "", [], {}, "x"])},
    )
    return st.fixed_dictionaries({"type": st.just("record"), "name": NAMES, "fields": st.lists(field, max_size=3)})


AVRO_SCHEMAS = st.recursive(
    st.one_of(PRIMITIVES, LOGICAL, NAMED, NAMES),
    lambda types: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": types}),
        st.fixed_dictionaries({"type": st.just("map"), "values": types}),
        st.lists(types, max_size=3),
        records(types),
    ),
    max_leaves=8,
)
NUMBERS = st.sampled_from(
    "0 -1 5 1.5 2147483648 9223372036854775808 1e400 -1e999999999 1e-999999999 1e9999999999999999999 0.1 1.0 0e99999"
    f" 1e-9999999999999999999 {'9' * 4500}".split()
)
TEXTS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        [
            "2026-11-28",
            "2026-11-28T07:00:00Z",
            "09:30:00.5",
            "12.50",
            "AAEC",
            "NaN",
            "X",
            "1_0",
            "\ud800",
            "00000000-0000-0000-0000-000000000007",
            "9999-12-31T23:59:59.999+23:59",
            "0001-01-01T00:00:00+14:00",
        ]
    ),
).map(json.dumps)
MEMBERS = st.sampled_from(["a", "b", "c", "long", "A", "months", "@type", "seconds", "text", "tree", "packed", "é"])
JSONS = st.recursive(
    st.one_of(st.sampled_from(["null", "true", "false", "NaN", "", "{"]), NUMBERS, TEXTS),
    lambda values: st.one_of(
        st.lists(values, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(MEMBERS, values, max_size=3).map(
            lambda members: "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in members.items()) + "}"
        ),
    ),
    max_leaves=8,
)
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.lists(
        st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3), st.integers(-(10**6), 10**6)).map(
            zigzag_varint
        ),
        max_size=12,
    ).map(b"".join),
)


def check_text(error: Exception) -> None:
    """Fail for an error that only the last defence named, and for a text that is long."""
    assert re.match(r"(field [^:]*: )?[A-Z][A-Za-z]*(Error|Exception|Operation): ", str(error)) is None
    assert len(str(error)) < 2000


def decoded(codec: SchemaCodec, content: bytes) -> str | None:
    """Return JSON that is within the budget; None for content that does not fit."""
    try:
        text = codec.decode(FramedContent(1, content), JsonBudget(BUDGET))
    except Undecodable as error:
        check_text(error)
        return None
    assert len(text) <= BUDGET
    json.loads(text, parse_int=str)
    assert "\n" not in text
    return text


def encoded(codec: SchemaCodec, text: str) -> bytes | None:
    try:
        return codec.encode(text)
    except (Unencodable, InvalidSchema) as error:
        check_text(error)
        return None


@bounded
@given(AVRO_SCHEMAS, CONTENTS, JSONS)
def test_avro(schema: Any, content: bytes, text: str) -> None:
    try:
        codec = codec_of(Schema(json.dumps(schema), AVRO), {})
    except InvalidSchema:
        return
    decoded(codec, content)
    written = encoded(codec, text)
    if written is not None:
        again = decoded(codec, written)
        if again is not None:
            assert again == decoded(codec, codec.encode(again))


TREE = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
message Tree {
  repeated bool a = 1;
  repeated Tree tree = 2;
  google.protobuf.Timestamp seconds = 3;
  google.protobuf.Value b = 4;
  map<string, Tree> months = 5;
  Letter c = 6;
  bytes long = 7;
  string text = 8;
  google.protobuf.Any packed = 9;
  double A = 10;
}
enum Letter { X = 0; }
"""
FIELDS = st.lists(st.tuples(st.integers(1, 11), st.sampled_from([0, 1, 2, 5]), st.binary(max_size=12)), max_size=5).map(
    lambda fields: b"".join(
        bytes([number << 3 | kind]) + (bytes([len(data)]) if kind == 2 else b"") + data for number, kind, data in fields
    )
)


@pytest.fixture(scope="module")
def tree() -> SchemaCodec:
    return SchemaCodec(ProtobufCodec.of(TREE, {}, ""))


@bounded
@given(content=st.one_of(FIELDS.map(lambda fields: b"\0" + fields), CONTENTS), text=JSONS)
def test_protobuf(tree: SchemaCodec, content: bytes, text: str) -> None:
    decoded(tree, content)
    written = encoded(tree, text)
    if written is not None:
        decoded(tree, written)


PATTERNS = st.sampled_from(["^a", "(a+)+$", "\\p{L}", "(", "(?=a)", "(a)\\1", "[^a]*", ""])
JSON_SCHEMAS = st.recursive(
    st.one_of(
        st.booleans(),
        st.sampled_from([{"$ref": "#"}, {"$ref": "x"}, {"$ref": "http://127.0.0.1:1/x"}, {"type": 5}]),
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["integer", "number", "string", "object", "array", "null", ["null", "string"]]),
                "pattern": PATTERNS,
                "multipleOf": st.sampled_from([1, 0.01, 1e-300, 0, "1"]),
                "maximum": st.sampled_from([1, 0.1, 1e300]),
                "minLength": st.sampled_from([1, 2.0, -1]),
                "enum": st.sampled_from([[1], [{"a": 1}], [None, "a"]]),
                "const": st.sampled_from([1, 0.1, [], {}]),
                "uniqueItems": st.booleans(),
                "required": st.sampled_from([["a"], "a"]),
            },
        ),
    ),
    lambda schemas: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(MEMBERS, schemas, max_size=2),
            "patternProperties": st.dictionaries(PATTERNS, schemas, max_size=2),
            "additionalProperties": schemas,
            "items": schemas,
            "anyOf": st.lists(schemas, min_size=1, max_size=3),
            "not": schemas,
        },
    ),
    max_leaves=6,
)


@bounded
@given(JSON_SCHEMAS, st.one_of(CONTENTS, JSONS.map(lambda text: text.encode())), JSONS)
def test_json_schema(schema: Any, content: bytes, text: str) -> None:
    codec = codec_of(Schema(json.dumps(schema), JSON), {})
    decoded(codec, content)
    written = encoded(codec, text)
    assert written is None or written == text.encode()


@bounded
@given(
    st.one_of(st.text(max_size=30), st.binary(max_size=30).map(lambda data: data.hex())), st.sampled_from([AVRO, JSON])
)
def test_texts_of_schemas(text: str, kind: str) -> None:
    try:
        decoded(codec_of(Schema(text, kind), {}), b"")
    except InvalidSchema as error:
        check_text(error)


FILE = FileDescriptorProto(name="a.proto", package="p", syntax="proto3")
FILE.message_type.add(name="A").field.add(name="a", number=1, type=9, label=1)
FILE.enum_type.add(name="E").value.add(name="X", number=0)
FILE_BYTES = FILE.SerializeToString()


@bounded
@given(st.lists(st.tuples(st.integers(0, len(FILE_BYTES) - 1), st.integers(0, 255)), max_size=3))
def test_serialized_files_of_protobuf(edits: list[tuple[int, int]]) -> None:
    data = bytearray(FILE_BYTES)
    for place, byte in edits:
        data[place] = byte
    text = b64encode(data).decode()
    if protobuf_codec._serialized(text) is None:  # the compiler would take it for source
        return
    try:
        decoded(codec_of(Schema(text, PROTOBUF), {}), b"\0\x0a\x01a")
    except InvalidSchema:
        return
