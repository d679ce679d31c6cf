"""Clients of others read archived topics from the first record on, from a directory and from S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.peers.tools import tool
from tests.support.broker_process import BrokerProcess
from tests.support.s3 import KEYS, running_s3
from tests.support.waiting import wait_until

TOPIC = "archived"
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "0",
}
ARCHIVED = {"remote.storage.enable": "true", "segment.bytes": "20000", "local.retention.bytes": "1"}
COUNT = 2000
pytestmark = pytest.mark.process


@pytest.fixture
def s3_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Place of an S3-like store on the loopback interface."""
    for name, text in KEYS.items():
        monkeypatch.setenv(name, text)
    with running_s3() as store:
        yield store.place


def started(tmp_path: Path, place: str = "") -> BrokerProcess:
    """A broker with an archive, by default in a directory, and the topic."""
    if not place:
        (tmp_path / "archive").mkdir()
        place = f"directory:{tmp_path / 'archive'}"
    broker = BrokerProcess(tmp_path / "broker", SETTINGS | {"remote.log.storage": place})
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    [created] = admin.create_topics([NewTopic(TOPIC, 1, 1, config=ARCHIVED)]).values()
    created.result(60)
    return broker


def produce(broker: BrokerProcess, count: int = COUNT) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for number in range(count):
        producer.produce(TOPIC, f"{number}".rjust(100), timestamp=1_700_000_000_000 + number)
        if number % 20 == 0:
            producer.flush()
    assert producer.flush(60) == 0


def local_bytes(broker: BrokerProcess) -> int:
    return sum(path.stat().st_size for path in broker.data_dir.glob(f"{TOPIC}_0/*.kafka"))


def wait_until_archived(broker: BrokerProcess) -> None:
    wait_until(lambda: local_bytes(broker) < 40_000)


def read_all(broker: BrokerProcess, count: int, **settings: str) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "readers", "enable.auto.commit": False, **settings}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[int] = []
    for _ in range(120):
        if len(found) >= count:
            break
        for message in consumer.consume(500, 1):
            if message.error() is not None:
                raise KafkaException(message.error())
            found.append(int(message.value()))
    consumer.close()
    return found


def offset_at(broker: BrokerProcess, timestamp: int) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    [by_time] = consumer.offsets_for_times([TopicPartition(TOPIC, 0, timestamp)], 60)
    consumer.close()
    offset: int = by_time.offset
    return offset


def test_librdkafka_reads_an_archive_in_s3(tmp_path: Path, s3_place: str) -> None:
    broker = started(tmp_path, s3_place)
    try:
        produce(broker)
        wait_until_archived(broker)
        assert read_all(broker, COUNT) == list(range(COUNT))
        assert [offset_at(broker, 1_700_000_000_000 + number) for number in (0, 7, 1999)] == [0, 7, 1999]
        broker.kill()
        broker.start()
        assert read_all(broker, COUNT) == list(range(COUNT))
    finally:
        broker.stop()
    assert broker.unexpected_errors() == []


def test_aborted_transactions_in_the_archive_are_not_read(tmp_path: Path) -> None:
    broker = started(tmp_path)
    try:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "writer"})
        producer.init_transactions(60)
        for number in range(40):
            producer.begin_transaction()
            for part in range(20):
                producer.produce(TOPIC, f"{number * 20 + part}".rjust(100))
            producer.flush()
            if number % 3:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
        committed = [number * 20 + part for number in range(40) if number % 3 for part in range(20)]
        wait_until_archived(broker)
        assert read_all(broker, len(committed), **{"isolation.level": "read_committed"}) == committed
        assert read_all(broker, 800, **{"isolation.level": "read_uncommitted"}) == list(range(800))
    finally:
        broker.stop()


@pytest.mark.kafka
@pytest.mark.parametrize("release", ["kafka-3.9", "kafka-4.4"])
def test_kafkas_own_consumer_reads_over_the_seam(tmp_path: Path, release: str) -> None:
    broker = started(tmp_path)
    try:
        produce(broker)
        wait_until_archived(broker)
        server, bounds = ("--bootstrap-server", broker.bootstrap), ("--from-beginning", "--max-messages", str(COUNT))
        done = tool("kafka-console-consumer", *server, "--topic", TOPIC, *bounds, release=release)
        assert list(map(int, done.stdout.splitlines())) == list(range(COUNT))
    finally:
        broker.stop()
