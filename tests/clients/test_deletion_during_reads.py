"""Segments that are deleted while somebody reads them: the reader gets all that it was promised."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.clients.admin import create_topic, eventually
from tests.support.brokers import Broker

SEGMENT = 24 << 20  # much more than sockets buffer
VALUE = bytes(range(256)) * 400
SETTINGS = {"log.segment.delete.delay.ms": "0"}


def fill(bootstrap: str, topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 1_000_000})
    for _ in range(size // len(VALUE)):
        producer.produce(topic, VALUE, partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0


def keep_little(bootstrap: str, topic: str) -> None:
    change = [ConfigEntry("retention.bytes", "1", incremental_operation=AlterConfigOpType.SET)]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=change)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(60)


class SlowReader:
    """Asks for one large piece of a log, Fetch version 4, and takes it from the socket when the test asks for it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(120)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, _, port = bootstrap.rpartition(":")
        self.socket.connect((host, int(port)))
        self._head = 4 + 4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8
        name = struct.pack(">h", len(topic)) + topic.encode()
        body = struct.pack(">hhihiiiibi", 1, 4, 1, -1, -1, 500, 1, SEGMENT, 0, 1) + name
        body += struct.pack(">iiqi", 1, 0, 0, SEGMENT)
        self._request = struct.pack(">i", len(body)) + body

    def ask(self) -> int:
        """Ask for offset 0; the error that the answer begins with. What follows stays in the socket."""
        self.socket.sendall(self._request)
        head = self.take(self._head)
        return int(struct.unpack_from(">h", head, self._head - 18)[0])

    def records(self) -> bytes:
        """The rest of the answer: no aborted transactions, and the records."""
        assert struct.unpack(">i", self.take(4))[0] in (-1, 0)
        return self.take(struct.unpack(">i", self.take(4))[0])

    def take(self, size: int) -> bytes:
        parts = []
        while size:
            parts.append(self.socket.recv(min(size, 1 << 16)))
            assert parts[-1], "the broker closed the connection"
            size -= len(parts[-1])
        return b"".join(parts)


def test_a_slow_reader_of_a_deleted_segment_finishes(
    new_broker: Callable[..., Broker], topic: str, against: str
) -> None:
    if against:
        pytest.skip("Apache Kafka closes the file, and then the reader's connection: it needs the delay of a minute")
    broker = new_broker(SETTINGS)
    broker.start()
    create_topic(broker.bootstrap, topic, configs={"segment.bytes": str(SEGMENT), "retention.ms": "-1"})
    fill(broker.bootstrap, topic, SEGMENT * 5 // 4)
    directory = broker.partition_dir(topic, 0)
    first = Path(directory, f"{0:020}{broker.segment_suffix}")
    written = first.read_bytes()
    assert len(written) > SEGMENT * 3 // 4

    reader = SlowReader(broker.bootstrap, topic)
    with reader.socket:
        assert reader.ask() == 0
        keep_little(broker.bootstrap, topic)
        eventually(lambda: [path.name for path in directory.iterdir() if path.name.startswith(first.stem)], [])
        assert reader.records() == written
        assert reader.ask() == 1  # OFFSET_OUT_OF_RANGE
