"""Records that are written by HTTP with schemas, as Confluent's deserializers and HTTP read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message_factory import GetMessageClass
from twisted.internet.threads import deferToThread

from pylogbroker.schemas.protobuf_codec import files_of, pool_of
from pylogbroker.tap.service import BrokerService
from tests.registry.hosted import RegistryUser
from tests.registry.test_hosted import port_of, with_registry

ORDER: Final = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"n","type":"double"}]}'
OBJECT: Final = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'
PROTO: Final = 'syntax = "proto3"; package shop; message Order { int64 id = 1; string customer = 2; }'
DATA: Final[dict[str, Any]] = {
    "AVRO": {"id": 2**60 + 1, "n": 0.1},
    "JSONSCHEMA": {"id": 2**60 + 1},
    "PROTOBUF": {"id": str(2**60 + 1), "customer": "c-3"},
}
TEXTS: Final = {"AVRO": ORDER, "JSONSCHEMA": OBJECT, "PROTOBUF": PROTO}


def ask(url: str, body: Any = None) -> Any:
    """Return the JSON of an answer. Blocks."""
    content = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, content, {"Content-Type": "application/json"}), timeout=60) as answer:
        return json.loads(answer.read())


def consumed(port: int, topic: str) -> bytes:
    """Return the first value of a topic, as librdkafka reads it. Blocks."""
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(120)
        assert message is not None
        assert message.error() is None
        value: bytes = message.value()
        return value
    finally:
        consumer.close()


def deserialized(kind: str, registry_url: str, content: bytes) -> Any:
    """Return what Confluent's deserializer makes of content. Blocks."""
    client, context = SchemaRegistryClient({"url": registry_url}), SerializationContext("t", MessageField.VALUE)
    if kind == "AVRO":
        return AvroDeserializer(client)(content, context)
    if kind == "JSONSCHEMA":
        return JSONDeserializer(OBJECT, schema_registry_client=client)(content, context)
    _, file = pool_of(files_of(PROTO, {}))
    assert isinstance(file, FileDescriptor)
    message_type = GetMessageClass(file.message_types_by_name["Order"])
    message = ProtobufDeserializer(message_type, {"use.deprecated.format": False}, client)(content, context)
    assert message is not None
    return {"id": str(message.id), "customer": message.customer}


def test_confluent_deserializers_read_what_http_writes(tmp_path: Path) -> None:
    def write_and_read(base: str, port: int, registry_url: str) -> None:
        [cluster] = ask(f"{base}/v3/clusters")["data"]
        for kind, data in DATA.items():
            topic = kind.lower()
            ask(f"{base}/api/topics", {"name": topic, "partitions": 1})
            value = {"type": kind, "schema": TEXTS[kind], "data": data}
            answer = ask(f"{base}/v3/clusters/{cluster['cluster_id']}/topics/{topic}/records", {"value": value})
            assert (answer["error_code"], answer["value"]["type"]) == (200, kind), answer
            assert (answer["value"]["subject"], answer["value"]["schema_version"]) == (f"{topic}-value", 1)
            content = consumed(port, topic)
            assert len(content) == answer["value"]["size"]
            assert deserialized(kind, registry_url, content) == data
            own = f"{base}/api/topics/{topic}/records"
            ask(f"{own}?value_schema=latest", {"value": data})
            rows = ask(f"{own}?format=schema")["records"]
            assert [row["value"] for row in rows] == [data, data]
            assert {row["value_schema"]["id"] for row in rows} == {answer["value"]["schema_id"]}

    async def work(service: BrokerService, user: RegistryUser) -> None:
        [address] = service.http_addresses
        await deferToThread(write_and_read, str(address).rstrip("/"), await port_of(service), user.url)

    with_registry(tmp_path, work, **{"http.listeners": "http://127.0.0.1:0"})
