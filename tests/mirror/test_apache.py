"""Mirrors with Apache Kafka on either side, and its clients' records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet import reactor

from pylogbroker.client import AdminClient, Producer, SimpleConsumer
from pylogbroker.client.admin import NewTopic
from pylogbroker.mirror.mirror import Mirror
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from tests.cluster.members import Place
from tests.cluster.members import apache as make_apache
from tests.conftest import make_broker
from tests.mirror.conftest import copy_all
from tests.peers import available as java_available
from tests.peers.processes import free_ports
from tests.support.brokers import Broker, KafkaProcess
from tests.support.shared_zookeeper import fresh_chroot, shared_zookeeper

_ALONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
OLD = "kafka-2.7"
RELEASES = (OLD, "kafka-3.9", "kafka-4.4")


@pytest.fixture(scope="module", params=RELEASES)
def apache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if not java_available():
        pytest.skip("Java and Maven are not installed")
    directory = tmp_path_factory.mktemp("apache")
    if request.param != OLD:
        broker = KafkaProcess(directory, {}, release=request.param)
        broker.start()
        yield broker
        broker.stop()
        return
    with fresh_chroot(shared_zookeeper(request.config), "mirror") as chroot:
        old = make_apache(Place(1, chroot, directory, _ALONE, free_ports(1)[0]), release=OLD)
        old.start()
        yield old
        old.stop()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = make_broker("", tmp_path_factory.mktemp("ours"), {})
    broker.start()
    yield broker
    broker.stop()


async def produce(broker: Broker, topic: str) -> None:
    """Write plain, compressed and transactional records to two partitions."""
    admin = AdminClient(broker.bootstrap)
    await admin.topics.create([NewTopic(topic, 2, 1)])
    await admin.close()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(broker.bootstrap, compression_type=codec)
        for number in range(40):
            producer.send(topic, f"{codec} {number}".encode() * 20, b"key", partition=number % 2, headers=[("h", b"1")])
        await producer.close()
    producer = Producer(broker.bootstrap, transactional_id=topic)
    for number in range(4):
        await producer.begin()
        producer.send(topic, b"transaction %d" % number, partition=0)
        await producer.flush()
        await (producer.commit() if number % 2 else producer.abort())
    await producer.close()


async def read(broker: Broker, topic: str) -> list[list[tuple[Any, ...]]]:
    host, _, port = broker.bootstrap.rpartition(":")
    consumer = SimpleConsumer(host, int(port), isolation_level="read_committed")
    partitions: list[list[tuple[Any, ...]]] = []
    for partition in range(2):
        offset, rows = 0, list[tuple[Any, ...]]()
        while True:
            messages = await consumer.fetch(topic, partition, offset)
            rows += [(row.timestamp, row.key, row.value, row.headers) for row in messages]
            if messages.next_offset == offset:
                break
            offset = messages.next_offset
        partitions.append(rows)
    await consumer.close()
    return partitions


async def mirror(source: Broker, target: Broker, topic: str) -> None:
    clusters = MirroredCluster(source.bootstrap, "east"), MirroredCluster(target.bootstrap, "offline")
    status = await copy_all(Mirror(MirrorSettings(*clusters, (topic,), commit_interval=0.01), reactor))
    assert status.stopped == {}


async def test_from_apache(apache: Broker, ours: Broker, request: pytest.FixtureRequest) -> None:
    topic = f"from-{request.node.callspec.id}"
    await produce(apache, topic)
    await mirror(apache, ours, topic)
    expected = await read(apache, topic)
    assert [len(rows) for rows in expected] == [102, 100]
    assert await read(ours, topic) == expected


async def test_to_apache(apache: Broker, ours: Broker, request: pytest.FixtureRequest) -> None:
    topic = f"to-{request.node.callspec.id}"
    await produce(ours, topic)
    await mirror(ours, apache, topic)
    await mirror(ours, apache, topic)  # continues: nothing is doubled
    expected = await read(ours, topic)
    assert [len(rows) for rows in expected] == [102, 100]
    assert await read(apache, topic) == expected
