"""Confluent's serializers against the schema registry, its records in `_schemas`, and a restart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pylogbroker.testing import Broker

RECORD = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
OBJECT = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'


def pass_on(broker: Broker, topic: str, serializer: Any, deserializer: Any, value: Any) -> Any:
    """Send a value through a topic with Confluent's client, and return what comes out."""
    broker.create_topic(topic, 1)
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, serializer(value, context))
    assert producer.flush(120) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(120)
        assert message is not None
        assert message.error() is None
        return deserializer(message.value(), context)
    finally:
        consumer.close()


def test_confluent_serializers_and_a_restart(tmp_path: Path) -> None:
    with Broker(schema_registry=True, data_dir=str(tmp_path)) as broker:
        client = SchemaRegistryClient({"url": broker.schema_registry.url})
        avro = AvroSerializer(client, RECORD), AvroDeserializer(client)
        assert pass_on(broker, "avro", *avro, {"id": 2**40}) == {"id": 2**40}
        checked = JSONSerializer(OBJECT, client), JSONDeserializer(OBJECT, schema_registry_client=client)
        assert pass_on(broker, "json", *checked, {"id": 7}) == {"id": 7}
        reference = SchemaReference("Order", "avro-value", 1)
        orders = Schema('{"type":"array","items":"Order"}', "AVRO", [reference])
        client.register_schema("orders", orders)
        client.set_compatibility("orders", "FULL")
        client.register_schema("gone", Schema('"string"', "AVRO"))
        client.delete_subject("gone")
        client.delete_subject("gone", permanent=True)
        client.register_schema("hidden", Schema('"string"', "AVRO"))
        client.delete_subject("hidden")
        client.update_mode("json-value", "READONLY")
        before = [client.get_latest_version(each) for each in client.get_subjects()]
    with Broker(schema_registry=True, data_dir=str(tmp_path)) as broker:
        client = SchemaRegistryClient({"url": broker.schema_registry.url})
        assert [client.get_latest_version(each) for each in client.get_subjects()] == before
        assert [each.subject for each in before] == ["avro-value", "json-value", "orders"]
        assert (client.get_compatibility("orders"), client.get_mode("json-value")) == ("FULL", "READONLY")
        assert client.get_subjects(deleted=True) == ["avro-value", "hidden", "json-value", "orders"]
        with pytest.raises(SchemaRegistryError, match="incompatible") as error:
            client.register_schema("avro-value", Schema('"string"', "AVRO"))
        assert error.value.http_status_code == 409


def test_records_as_confluent_writes_them() -> None:
    with Broker(schema_registry=True) as broker:
        client = SchemaRegistryClient({"url": broker.schema_registry.url})
        client.register_schema("s", Schema('"string"', "AVRO"))
        client.register_schema("j", Schema("{}", "JSON"))
        client.set_compatibility("s", "NONE")
        client.set_compatibility(level="FULL")
        client.delete_version("j", 1)
        client.delete_subject("s")
        client.delete_subject("s", permanent=True)
        found = [(json.loads(each.key), json.loads(each.value or "null")) for each in broker.records("_schemas")]
    key = {"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}
    value = {"subject": "s", "version": 1, "id": 1, "schema": '"string"', "deleted": False}
    other = {"subject": "j", "version": 1, "id": 2, "schema": "{}", "schemaType": "JSON", "deleted": False}
    assert found == [
        (key, value),
        (key | {"subject": "j"}, other),
        ({"keytype": "CONFIG", "subject": "s", "magic": 0}, {"subject": "s", "compatibilityLevel": "NONE"}),
        ({"keytype": "CONFIG", "subject": None, "magic": 0}, {"subject": None, "compatibilityLevel": "FULL"}),
        (key | {"subject": "j"}, other | {"deleted": True}),
        ({"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}, {"subject": "s", "version": 1}),
        (key, None),
        ({"keytype": "CONFIG", "subject": "s", "magic": 0}, None),
    ]


def test_brokers_without_a_registry_do_not_import_its_libraries() -> None:
    program = (
        "import sys; from pylogbroker.testing import Broker\n"
        "with Broker(): pass\n"
        "sys.exit(bool(sys.modules.keys() & {'fastavro', 'jsonschema', 'referencing'}))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=600).returncode == 0
    with Broker() as broker, pytest.raises(RuntimeError, match="schema_registry=True"):
        _ = broker.schema_registry
