"""The only disk is full: the broker still starts, and topics are deleted and changed, which is how space is freed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.clients.admin import create_topic
from tests.disks.produce_socket import Sender
from tests.disks.small_disk import SmallDisk
from tests.disks.test_small_disk import CAPACITY_BYTES, SETTINGS, STORAGE_ERROR, fill_up
from tests.support.broker_process import BrokerProcess

TOPIC, OTHER = "t", "other"
PARTITIONS = 12


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", 2 * CAPACITY_BYTES) as disk:
        yield disk


@pytest.fixture
def broker(tmp_path: Path, small: SmallDisk) -> Iterator[BrokerProcess]:
    """One that has written until its disk was full to the last byte."""
    broker = BrokerProcess(tmp_path, {**SETTINGS, "log.dirs": str(small.path)}, prefix=small.prefix)
    broker.start()
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    create_topic(broker.bootstrap, OTHER, 1)
    with Sender(broker.bootstrap, OTHER) as sender:
        assert sender.produce(b"kept") == (0, 0)
    fill_up(small.content / "filler")
    yield broker
    broker.kill()


def write(broker: BrokerProcess) -> int:
    with Sender(broker.bootstrap, TOPIC) as sender:
        return sender.produce(bytes(30_000))[0]


def delete(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    [done] = admin.delete_topics([topic]).values()
    done.result(60)


def alter(broker: BrokerProcess, topic: str, **settings: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    [done] = admin.incremental_alter_configs([resource]).values()
    done.result(60)


def test_a_killed_broker_restarts_on_a_full_disk(broker: BrokerProcess, small: SmallDisk) -> None:
    assert write(broker) == STORAGE_ERROR
    for _ in range(3):
        broker.kill()
        fill_up(small.content / "filler")
        broker.start()
    assert write(broker) == STORAGE_ERROR
    (small.content / "filler").unlink()
    assert write(broker) == 0
    with Sender(broker.bootstrap, OTHER) as sender:
        assert sender.produce(b"next") == (0, 1)


def test_a_stopped_broker_restarts_on_a_full_disk(broker: BrokerProcess, small: SmallDisk) -> None:
    for _ in range(3):
        broker.stop()
        fill_up(small.content / "filler")
        broker.start()
    assert write(broker) == STORAGE_ERROR


def test_topics_are_changed_and_deleted(broker: BrokerProcess, small: SmallDisk) -> None:
    for number in range(20):
        alter(broker, OTHER, retention_ms=str(number + 1000))
    delete(broker, TOPIC)
