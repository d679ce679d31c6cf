"""Kafka's nodes: the values as Kafka documents them, read and written."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import attrs
import pytest

from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.image import broker_resource
from pylogbroker.metadata.zk_schema import BadNode, BrokerNode, PartitionNode, ProducerIdBlock, TopicNode

ID = uuid.UUID("8a9ff14c-1d7f-4d4c-9b7f-53a4d4f2a7f1")
ID_TEXT = "ip_xTB1_TUybf1Ok1PKn8Q"


def test_only_brokers_with_a_remote_storage_say_so() -> None:
    node = BrokerNode(("PLAINTEXT://a:1",), {"PLAINTEXT": "PLAINTEXT"}, port=1)
    assert "remote_log_storage" not in json.loads(zk_schema.encode_broker(node, 1))
    archiving = zk_schema.encode_broker(attrs.evolve(node, has_archive=True), 1)
    assert json.loads(archiving)["remote_log_storage"] is True
    assert zk_schema.decode_broker(archiving).has_archive
    assert not zk_schema.decode_broker(zk_schema.encode_broker(node, 1)).has_archive


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert zk_schema.id_text(ID) == ID_TEXT
    assert zk_schema.parse_id(ID_TEXT) == ID
    assert zk_schema.id_text(uuid.UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (zk_schema.encode_cluster_id("xyz"), {"version": "1", "id": "xyz"}),
        (
            zk_schema.encode_topic(TopicNode(ID, {1: (2,), 0: (1, 2)})),
            {
                "version": 3,
                "partitions": {"0": [1, 2], "1": [2]},
                "topic_id": ID_TEXT,
                "adding_replicas": {},
                "removing_replicas": {},
            },
        ),
        (
            zk_schema.encode_partition(PartitionNode(leader=1, leader_epoch=4, isr=(1, 2), controller_epoch=9)),
            {"controller_epoch": 9, "leader": 1, "version": 1, "leader_epoch": 4, "isr": [1, 2]},
        ),
        (zk_schema.encode_directories({"/a": ID_TEXT}), {"version": 1, "directories": {"/a": ID_TEXT}}),
        (zk_schema.encode_config({"retention.ms": "5"}), {"version": 1, "config": {"retention.ms": "5"}}),
        (
            zk_schema.encode_broker(
                BrokerNode(("PLAINTEXT://a:9092",), {"PLAINTEXT": "PLAINTEXT"}, "r1", "a", 9092), now_ms=123
            ),
            {
                "version": 5,
                "host": "a",
                "port": 9092,
                "jmx_port": -1,
                "timestamp": "123",
                "endpoints": ["PLAINTEXT://a:9092"],
                "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
                "rack": "r1",
                "features": {},
            },
        ),
        (
            zk_schema.encode_producer_ids(ProducerIdBlock(3, 1000, 1999)),
            {"version": 1, "broker": 3, "block_start": "1000", "block_end": "1999"},
        ),
    ],
)
def test_values_are_kafkas(written: bytes, value: object) -> None:
    assert json.loads(written) == value


def test_new_ids_do_not_look_like_options(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [uuid.UUID(int=first << 122 | 1) for first in (62, 62, 63)]
    assert [zk_schema.id_text(each)[0] for each in ids] == ["-", "-", "_"]
    left = iter(ids)
    monkeypatch.setattr(uuid, "uuid4", lambda: next(left))
    assert zk_schema.new_id() == ids[2]


def test_encoded_nodes_are_decoded() -> None:
    topic = TopicNode(ID, {0: (1, 2), 11: (2,)})
    state = PartitionNode(leader=-1, leader_epoch=4, isr=())
    broker = BrokerNode(("PLAINTEXT://a:1", "IN://[::1]:2"), {"PLAINTEXT": "PLAINTEXT", "IN": "PLAINTEXT"})
    assert zk_schema.decode_cluster_id(zk_schema.encode_cluster_id("x")) == "x"
    assert zk_schema.decode_topic(zk_schema.encode_topic(topic)) == topic
    assert zk_schema.decode_partition(zk_schema.encode_partition(state)) == state
    assert zk_schema.decode_config(zk_schema.encode_config({"a": "b"})) == {"a": "b"}
    assert zk_schema.decode_directories(zk_schema.encode_directories({"/a": "b"})) == {"/a": "b"}
    assert zk_schema.decode_broker(zk_schema.encode_broker(broker, 1)) == broker
    assert zk_schema.decode_producer_ids(zk_schema.encode_producer_ids(ProducerIdBlock(1, 0, 9))) == ProducerIdBlock(
        1, 0, 9
    )


def test_older_and_empty_nodes_are_read() -> None:
    assert zk_schema.decode_topic(b'{"version":1,"partitions":{"0":[1]}}') == TopicNode(uuid.UUID(int=0), {0: (1,)})
    assert zk_schema.decode_config(b"") == {}
    assert zk_schema.decode_producer_ids(b"") is None


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (zk_schema.decode_cluster_id, b""),
        (zk_schema.decode_cluster_id, b"[]"),
        (zk_schema.decode_cluster_id, b"{}"),
        (zk_schema.decode_topic, b'{"partitions":[]}'),
        (zk_schema.decode_topic, b'{"partitions":{"x":[1]}}'),
        (zk_schema.decode_topic, b'{"partitions":{"0":1}}'),
        (zk_schema.decode_topic, b'{"partitions":{"0":["x"]}}'),
        (zk_schema.decode_topic, b'{"partitions":{},"topic_id":"short"}'),
        (zk_schema.decode_partition, b'{"leader":1}'),
        (zk_schema.decode_partition, b"\xff"),
        (zk_schema.decode_config, b'{"config":null}'),
        (zk_schema.decode_broker, b'{"endpoints":[]}'),
        (zk_schema.decode_producer_ids, b'{"broker":1,"block_start":null,"block_end":"5"}'),
    ],
)
def test_a_strange_node_is_named_as_one(decode: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(BadNode):
        decode(data)


def test_paths() -> None:
    assert zk_paths.broker(3) == "/brokers/ids/3"
    assert zk_paths.topic("t") == "/brokers/topics/t"
    assert zk_paths.partitions("t") == "/brokers/topics/t/partitions"
    assert zk_paths.partition("t", 2) == "/brokers/topics/t/partitions/2"
    assert zk_paths.partition_state("t", 2) == "/brokers/topics/t/partitions/2/state"
    assert zk_paths.topic_config("t") == "/config/topics/t"
    assert zk_paths.config(*broker_resource(3)) == "/config/brokers/3"
    assert zk_paths.config(*broker_resource(None)) == "/config/brokers/<default>"
    assert zk_paths.deleted_topic("t") == "/admin/delete_topics/t"
