"""Topics that keep the last record of each key: what clients write to them, and find when the cleaner was there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from tests.clients.adapters.base import Client, Codec
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import admin_client, create_topic
from tests.clients.conftest import CLIENTS
from tests.clients.model import Rec
from tests.support.brokers import Broker

SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "3000",
}
COMPACT = {"cleanup.policy": "compact", "segment.bytes": "2000", "delete.retention.ms": "100"}
KEYS = 10


@pytest.fixture
def broker(new_broker: Callable[..., Broker]) -> Broker:
    """A broker of the test's own, with a cleaner that is not patient."""
    one = new_broker(SETTINGS)
    one.start()
    return one


def rounds(count: int, first: int = 0) -> Iterator[list[Rec]]:
    """Values for all keys, again and again."""
    for number in range(first, first + count):
        yield [Rec(b"value %d of %d" % (number, key) + b"." * 40, key=b"key %d" % key) for key in range(KEYS)]


def read(broker: Broker, topic: str) -> list[Rec]:
    return KafkaPython().read(broker.bootstrap, topic, [0])


def latest(records: list[Rec]) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {record.key: (record.offset, record.value) for record in records}


def until(look: Callable[[], bool], timeout: float = 240) -> None:
    """Wait for the cleaner."""
    deadline = time.monotonic() + timeout
    while not look():
        assert time.monotonic() < deadline, "nothing was compacted"
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("writer", "codec"), [("confluent", "none"), ("kafka-python", "gzip"), ("aiokafka", "zstd"), ("java-3.9", "lz4")]
)
def test_the_last_record_of_each_key_stays_at_its_offset(
    broker: Broker, topic: str, writer: str, codec: Codec, client_named: Callable[[str], Client]
) -> None:
    client = client_named(writer)
    create_topic(broker.bootstrap, topic, configs=COMPACT | {"min.compaction.lag.ms": "3600000"})
    written = [record for records in rounds(30) for record in records]
    for first in range(0, len(written), KEYS):
        client.write(broker.bootstrap, topic, written[first : first + KEYS], codec=codec)
    before = read(broker, topic)
    assert [(record.key, record.value) for record in before] == [(record.key, record.value) for record in written]
    with admin_client(broker.bootstrap) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"min.compaction.lag.ms": "0"})])
    until(lambda: len(read(broker, topic)) < len(before) * 0.7)
    found = read(broker, topic)
    assert latest(found) == latest(before)
    assert {record.offset for record in found} < {record.offset for record in before}
    assert all(record == before[record.offset] for record in found)
    for other in ("confluent", "java-4"):
        assert latest(client_named(other).read(broker.bootstrap, topic, [0])) == latest(before)
    broker.kill()
    broker.start()
    assert latest(read(broker, topic)) == latest(before)


def test_segments_of_which_nothing_is_left(broker: Broker, topic: str, client_named: Callable[[str], Client]) -> None:
    """Clients of all ages go on behind them."""
    create_topic(broker.bootstrap, topic, configs=COMPACT)
    for records in rounds(8):
        KafkaPython().write(broker.bootstrap, topic, records[:5])
        KafkaPython().write(broker.bootstrap, topic, records[5:])
    until(lambda: read(broker, topic)[0].offset >= 4 * KEYS)
    old = [KafkaPython(api_version=release) for release in ((0, 8, 2), (0, 10, 2))]
    for client in [*(client_named(name) for name in CLIENTS if name != "kcat"), *old]:
        found = client.read_from(broker.bootstrap, topic, 0, 0, KEYS)  # so many are left, and maybe some more
        assert len(found) >= KEYS
        assert all(record.offset is not None and record.offset >= 4 * KEYS for record in found)
    assert {key: offset for key, (offset, _) in latest(read(broker, topic)).items()} == {
        b"key %d" % key: 70 + key for key in range(KEYS)
    }


def test_a_deleted_key_is_gone_after_a_while(broker: Broker, topic: str, client_named: Callable[[str], Client]) -> None:
    client = client_named("confluent")
    create_topic(broker.bootstrap, topic, configs=COMPACT)
    for records in rounds(10):
        client.write(broker.bootstrap, topic, records)
    client.write(broker.bootstrap, topic, [Rec(None, key=b"key 3")])
    others = 10

    def is_gone() -> bool:
        nonlocal others
        client.write(broker.bootstrap, topic, [record for record in next(rounds(1, others)) if record.key != b"key 3"])
        others += 1
        return b"key 3" not in latest(read(broker, topic))

    until(is_gone)
    found = latest(read(broker, topic))
    assert {key: value for key, (_, value) in found.items()} == {
        record.key: record.value for record in next(rounds(1, others - 1)) if record.key != b"key 3"
    }


def test_groups_come_back_from_compacted_offsets(
    broker: Broker, topic: str, client_named: Callable[[str], Client]
) -> None:
    create_topic(broker.bootstrap, topic)
    client_named("confluent").write(broker.bootstrap, topic, [Rec(b"v")] * 5)
    directory = broker.partition_dir("__consumer_offsets", 0)

    def size() -> int:
        return sum(file.stat().st_size for file in directory.glob("*" + broker.segment_suffix))

    offsets = [TopicPartition(topic, 0, 4)]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "enable.auto.commit": False})
    try:
        for number in range(400):
            offsets = [TopicPartition(topic, 0, number % 5)]
            consumer.commit(offsets=offsets, asynchronous=False)
        until(lambda: size() < 8000)
        assert consumer.committed(offsets, timeout=60)[0].offset == 399 % 5
    finally:
        consumer.close()
    broker.kill()
    broker.start()
    again = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    try:
        assert again.committed(offsets, timeout=60)[0].offset == 399 % 5
    finally:
        again.close()
