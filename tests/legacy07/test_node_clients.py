"""Clients of Kafka 0.7's own time, for Node, against a running broker; kafka-python reads what they wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.legacy07 import message_sets
from tests.legacy07.conftest import SimpleBroker
from tests.legacy07.message_sets import message, read_set
from tests.legacy07.test_requests_in_process import read_by_kafka_python
from tests.peers import node, node_available

pytestmark = pytest.mark.skipif(not node_available(), reason="needs Node and npm")
SCRIPTS = Path(__file__).with_name("node")


def stored(broker: SimpleBroker, topic: str) -> bytes:
    [file] = broker.partition_dir(topic, 0).glob("*.kafka")
    return file.read_bytes()


def test_prozess(running: SimpleBroker) -> None:
    host, port = running.address
    output = node.run(SCRIPTS / "prozess.js", host, str(port), "prozess", "300")
    payloads, places = (json.loads(line) for line in output.splitlines())
    assert payloads == ["first é", *(f"message {number}" for number in range(299))]
    data = stored(running, "prozess")
    assert [payload.decode() for _, payload in read_set(data)] == payloads
    assert places == ["0", str(len(data)), str(len(data))]
    read = read_by_kafka_python(running, "prozess", 300)
    assert [value.decode() for _, value in read] == payloads
    assert [offset for offset, _ in read] == [position for position, _ in read_set(data)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_franz_kafka(running: SimpleBroker, compression: str) -> None:
    host, port = running.address
    topic = f"franz-{compression}"
    output = node.run(SCRIPTS / "franz.js", host, str(port), topic, "100", compression)
    payloads = json.loads(output)
    assert sorted(payloads) == sorted(f"message {number}" for number in range(100))  # it compresses several at once
    data = stored(running, topic)
    codec = {"none": 0, "gzip": message_sets.GZIP, "snappy": message_sets.SNAPPY}[compression]
    assert {data[position + 5] for position, _ in read_set(data)} == {codec}
    if compression == "none":
        assert data == b"".join(message(payload.encode()) for payload in payloads)
    assert sorted(value.decode() for _, value in read_by_kafka_python(running, topic, 100)) == sorted(payloads)
