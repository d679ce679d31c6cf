"""`flush.messages=1`: an acknowledgement comes after the sync, and appends that wait share one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.admin import create_topic, eventually
from tests.disks.disk_layer import DiskLayer
from tests.disks.produce_socket import Sender
from tests.storage.support import records_in
from tests.support.broker_process import BrokerProcess

FLUSHED = {"flush.messages": "1"}
HELD_SECONDS = 0.3
CONNECTIONS = 64


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> DiskLayer:
    return DiskLayer(tmp_path_factory.mktemp("flush"))


@pytest.fixture(scope="module")
def broker(layer: DiskLayer) -> Iterator[BrokerProcess]:
    running = layer.broker(layer.place / "broker", {})
    running.start()
    yield running
    running.kill()
    assert running.unexpected_errors() == []


def log_file(broker: BrokerProcess, topic: str) -> Path:
    return broker.partition_dir(topic, 0) / f"{0:020}.kafka"


@pytest.mark.parametrize("settings", [{"acks": "1"}, {"acks": "all"}, {"enable.idempotence": True}], ids=str)
def test_acknowledged_records_are_synced(
    broker: BrokerProcess, topic: str, layer: DiskLayer, settings: dict[str, str]
) -> None:
    create_topic(broker.bootstrap, topic, configs=FLUSHED)
    path = log_file(broker, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **settings})
    synced: list[int] = []
    for number in range(10):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: synced.append(layer.synced(path)))
        assert producer.flush(120) == 0
        assert synced[number:] == [path.stat().st_size]
        assert [value for _, value in records_in(path.read_bytes())][-1] == b"%d" % number


def test_without_flush_settings_nothing_is_synced(broker: BrokerProcess, topic: str, layer: DiskLayer) -> None:
    create_topic(broker.bootstrap, topic)
    with Sender(broker.bootstrap, topic) as sender:
        assert [sender.produce(b"%d" % number) for number in range(10)] == [(0, number) for number in range(10)]
    assert layer.syncs(log_file(broker, topic)) == []


def test_a_sync_follows_every_flush_messages_records(broker: BrokerProcess, topic: str, layer: DiskLayer) -> None:
    create_topic(broker.bootstrap, topic, configs={"flush.messages": "5"})
    with Sender(broker.bootstrap, topic) as sender:
        for number in range(15):
            assert sender.produce(b"%d" % number) == (0, number)
            assert len([sync for sync in layer.syncs(log_file(broker, topic)) if sync.done]) == (number + 1) // 5


def test_unsynced_records_are_neither_acknowledged_nor_visible(
    broker: BrokerProcess, topic: str, layer: DiskLayer
) -> None:
    create_topic(broker.bootstrap, topic, configs=FLUSHED)
    create_topic(broker.bootstrap, f"other-{topic}")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    with Sender(broker.bootstrap, topic) as sender, Sender(broker.bootstrap, f"other-{topic}") as other:
        layer.hold()
        size = sender.send(b"held")
        eventually(lambda: log_file(broker, topic).stat().st_size, size)  # it is written, but not acknowledged
        assert not sender.is_answered(HELD_SECONDS)
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 120) == (0, 0)
        assert consumer.consume(1, HELD_SECONDS) == []
        assert other.produce(b"free") == (0, 0)  # nobody else waits
        layer.release()
        assert sender.answer() == (0, 0)
        assert layer.synced(log_file(broker, topic)) == size
        assert [record.value() for record in consumer.consume(1, 120)] == [b"held"]
    consumer.close()


def test_appends_that_wait_share_a_sync(broker: BrokerProcess, topic: str, layer: DiskLayer) -> None:
    create_topic(broker.bootstrap, topic, configs=FLUSHED)
    path = log_file(broker, topic)
    with ExitStack() as stack:
        senders = [stack.enter_context(Sender(broker.bootstrap, topic)) for _ in range(CONNECTIONS)]
        layer.hold()
        size = sum(sender.send(b"%02d" % number) for number, sender in enumerate(senders))
        eventually(lambda: path.stat().st_size, size)
        layer.release()
        answers = sorted(sender.answer() for sender in senders)
    assert answers == [(0, offset) for offset in range(CONNECTIONS)]
    done = [sync for sync in layer.syncs(path) if sync.done]
    assert len(done) <= 2  # the one that was held, and one for all that came meanwhile
    assert done[-1].size == size
