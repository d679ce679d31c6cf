"""Contents by a schema registry as columns: Confluent's serializers write, tables read."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pylogbroker.schemas.blocking import blocking_client
from pylogbroker.schemas.codecs import codec_of
from pylogbroker.schemas.endpoint import RegistryEndpoint
from pylogbroker.schemas.errors import RegistryUnavailable
from pylogbroker.schemas.framing import framed
from pylogbroker.schemas.registry_client import blocking
from pylogbroker.schemas.values import PROTOBUF, Schema
from pylogbroker.table import UndecodableRecord, read_batches, read_table
from pylogbroker.testing import Broker
from tests.spark.topics import Rec, Topics

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "raw", "type": "bytes"},
        {"name": "ratio", "type": "double"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}
ORDER_ROW = {
    "id": 2**60,
    "user": "ä",
    "price": Decimal("1234567.89"),
    "at": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    "day": date(2026, 1, 2),
    "clock": time(1, 2, 3, 4),
    "uid": UUID(int=5),
    "raw": b"\x00\xff",
    "ratio": float("inf"),
    "kind": "OLD",
    "tags": ["a", "b"],
    "counts": {"x": 1},
}
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1;
  uint64 big = 2;
  bytes raw = 3;
  enum Kind { NEW = 0; OLD = 1; }
  Kind kind = 4;
  repeated Item items = 5;
  map<string, double> ratios = 6;
  google.protobuf.Timestamp at = 7;
  google.protobuf.Int64Value maybe = 8;
  Order parent = 9;
}
message Item { string name = 1; }
"""


@pytest.fixture
def registry(broker: Broker) -> str:
    return str(broker.schema_registry.url)


def avro(registry: str, topic: str, schema: Any, *values: Any) -> list[Rec]:
    client = SchemaRegistryClient({"url": registry})
    serialize = AvroSerializer(client, json.dumps(schema))
    return [Rec(serialize(value, SerializationContext(topic, MessageField.VALUE))) for value in values]


def test_avro(topics: Topics, place: dict[str, Any], registry: str) -> None:
    topic = topics.make()
    topics.fill(topic, avro(registry, topic, ORDER, ORDER_ROW, {**ORDER_ROW, "user": None}))
    for read in (read_table, lambda *names, **options: read_batches(*names, **options).read_all()):
        table = read(topic, **place, value="avro", schema_registry=registry, columns=["value"])
        row, other = table.column("value").to_pylist()
        assert row == {**ORDER_ROW, "uid": str(UUID(int=5)), "counts": [("x", 1)]}
        assert other["user"] is None
    kinds = {field.name: field.type for field in table.schema.field("value").type}
    assert kinds["price"] == pa.decimal128(9, 2)
    assert kinds["at"] == pa.timestamp("us", tz="UTC")


def test_versions_of_a_schema_have_all_their_fields(topics: Topics, place: dict[str, Any], registry: str) -> None:
    topic = topics.make()
    first = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    added = {"name": "b", "type": ["null", "string"], "default": None}
    second = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, added]}
    topics.fill(topic, avro(registry, topic, first, {"a": 1}))
    topics.fill(topic, avro(registry, topic, second, {"a": 2**40, "b": "x"}))
    table = read_table(topic, **place, value="avro", schema_registry=registry, columns=["value"])
    assert table.column("value").to_pylist() == [{"a": 1, "b": None}, {"a": 2**40, "b": "x"}]


def test_a_record_within_itself_is_json(topics: Topics, place: dict[str, Any], registry: str) -> None:
    topic = topics.make()
    node = {"type": "record", "name": "Node", "fields": [{"name": "n", "type": "int"}]}
    node["fields"].append({"name": "next", "type": ["null", "Node"]})  # type: ignore[attr-defined]
    topics.fill(topic, avro(registry, topic, node, {"n": 1, "next": {"n": 2, "next": None}}))
    [row] = read_table(topic, **place, value="avro", schema_registry=registry).column("value").to_pylist()
    assert row["n"] == 1
    assert json.loads(row["next"]) == {"n": 2, "next": None}


def test_protobuf(topics: Topics, place: dict[str, Any], registry: str) -> None:
    topic = topics.make()
    endpoint = RegistryEndpoint.of({"schema.registry.url": registry})
    assert endpoint is not None
    schema = Schema(PROTO, PROTOBUF)
    schema_id = blocking(blocking_client(endpoint).register(f"{topic}-value", schema))
    value = {
        "id": "-5",
        "big": str(2**64 - 1),
        "raw": "AP8=",
        "kind": "OLD",
        "items": [{"name": "x"}],
        "ratios": {"a": 0.5},
        "at": "2026-01-02T03:04:05.000001Z",
        "maybe": "7",
        "parent": {"id": "1"},
    }
    topics.fill(topic, [Rec(framed(schema_id, codec_of(schema, {}).encode(json.dumps(each)))) for each in (value, {})])
    table = read_table(topic, **place, value="protobuf", schema_registry=registry, columns=["value"])
    row, empty = table.column("value").to_pylist()
    assert json.loads(row.pop("parent"))["id"] == "1"
    assert row == {
        "id": -5,
        "big": 2**64 - 1,
        "raw": b"\x00\xff",
        "kind": "OLD",
        "items": [{"name": "x"}],
        "ratios": [("a", 0.5)],
        "at": datetime(2026, 1, 2, 3, 4, 5, 1, UTC),
        "maybe": 7,
    }
    assert (empty["id"], empty["kind"], empty["at"], empty["maybe"]) == (0, "NEW", None, None)


def test_json_schema(topics: Topics, place: dict[str, Any], registry: str) -> None:
    topic = topics.make()
    schema = {"title": "T", "type": "object", "properties": {"a": {"type": "integer"}}}
    serialize = JSONSerializer(json.dumps(schema), SchemaRegistryClient({"url": registry}))
    content = serialize({"a": 5}, SerializationContext(topic, MessageField.VALUE))
    topics.fill(topic, [Rec(content)])
    table = read_table(topic, **place, value="json-schema", schema_registry=registry, columns=["value.a"])
    assert table.to_pylist() == [{"value.a": 5}]


def test_auto_decodes_what_names_a_schema(topics: Topics, place: dict[str, Any], registry: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    framed_topic, text_topic, binary_topic, mixed_topic = (topics.make() for _ in range(4))
    topics.fill(framed_topic, avro(registry, framed_topic, schema, {"a": 1}))
    topics.fill(text_topic, [Rec(b"plain"), Rec(None)])
    topics.fill(binary_topic, [Rec(b"\xff"), Rec(b"text")])
    topics.fill(mixed_topic, [Rec(b"plain"), *avro(registry, mixed_topic, schema, {"a": 1})])
    options: dict[str, Any] = {**place, "value": "auto", "schema_registry": registry}
    assert read_table(framed_topic, **options).column("value").to_pylist() == [{"a": 1}]
    assert read_table(text_topic, **options).column("value").to_pylist() == ["plain", None]
    assert read_table(binary_topic, **options).column("value").to_pylist() == [b"\xff", b"text"]
    assert read_table(mixed_topic, **options).column("value").to_pylist() == ["plain", '{"a": 1}']


def test_contents_that_do_not_fit_are_named_or_null(topics: Topics, place: dict[str, Any], registry: str) -> None:
    topic = topics.make()
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    [record] = avro(registry, topic, schema, {"a": 1})
    assert record.value is not None
    odd = [b"plain", record.value + b"more", b"\0\xff\xff\xff\xff\1", b"\0", b""]
    for content, reason in zip(
        odd, ["no schema", "bytes are left", "schema 4294967295", "no schema", "no schema"], strict=True
    ):
        topic = topics.make()
        topics.fill(topic, [record, Rec(content)])
        with pytest.raises(UndecodableRecord, match=f"{topic}/0, offset 1: the value cannot be decoded: .*{reason}"):
            read_table(topic, **place, value="avro", schema_registry=registry)
        table = read_table(topic, **place, value="avro", schema_registry=registry, on_error="null")
        assert table.column("value").to_pylist() == [{"a": 1}, None]
    with pytest.raises(UndecodableRecord, match="is of Avro, not Protobuf"):
        read_table(topic, **place, value="protobuf", schema_registry=registry)


def test_a_registry_that_is_away_is_an_error_and_no_null(topics: Topics, place: dict[str, Any], registry: str) -> None:
    topic = topics.make()
    topics.fill(topic, avro(registry, topic, ORDER, ORDER_ROW))
    with pytest.raises(RegistryUnavailable):
        read_table(topic, **place, value="avro", schema_registry="http://127.0.0.1:1", on_error="null")


def test_durations_and_local_times(topics: Topics, place: dict[str, Any], registry: str) -> None:
    topic = topics.make()
    local = {"type": "long", "logicalType": "local-timestamp-millis"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "at", "type": local}]}
    at = datetime(2026, 1, 2, 3, 4, 5)
    topics.fill(topic, avro(registry, topic, schema, {"at": at}))
    table = read_table(topic, **place, value="avro", schema_registry=registry, columns=["value.at"])
    assert table.column("value.at").to_pylist() == [at + timedelta()]
