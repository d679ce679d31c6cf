"""The move from a cluster with ZooKeeper to one of KRaft controllers, by the steps of `docs/kraft.md`."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from pylogbroker.testing import Broker, kafka_cluster
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until
from tests.testing.test_kraft_engine import installation

pytestmark = [pytest.mark.kafka, pytest.mark.process]
ROOT = Path(__file__).parents[2]
GROUP = "billing"


def command(number: int) -> list[str]:
    """Return a line of the steps, the first one is 1, as a list of words."""
    text = (ROOT / "docs" / "kraft.md").read_text().partition("## Move from ZooKeeper")[2]
    lines: list[str] = re.findall(r"^        (pylogbroker .*)$", text, re.MULTILINE)
    return lines[number - 1].split()


def words(number: int, old: Broker, new: Broker) -> list[str]:
    given = {"old1:9092": old.bootstrap, "new1:9092": new.bootstrap, "pylogbroker": ""}
    return [sys.executable, "-m", "pylogbroker.cli", *filter(None, (given.get(word, word) for word in command(number)))]


def write(broker: Broker, values: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    for value in values:
        producer.produce("orders", b"%d" % value, key=b"%d" % value)
    assert producer.flush(120) == 0


class GroupReader:
    """A consumer of the group that commits what it has read, and leaves."""

    def __init__(self, broker: Broker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "log_level": 0}
        self._consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        self._consumer.subscribe(["orders"])
        self.values: list[int] = []

    def read(self, count: int) -> None:
        """Read so many records more, and commit."""
        goal = len(self.values) + count

        def has_read() -> bool:
            message = self._consumer.poll(0.5)
            if message is not None and message.error() is None:
                self.values.append(int(message.value()))
                self._consumer.commit(message, asynchronous=False)
            return len(self.values) >= goal

        wait_until(has_read, 120, lambda: self.values)

    def leave(self) -> list[int]:
        self._consumer.close()
        return self.values


def run(number: int, old: Broker, new: Broker) -> str:
    done = subprocess.run(words(number, old, new), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def stop(mirror: LineProcess) -> None:
    mirror.signal(signal.SIGINT)
    mirror.wait()


def test_topics_groups_and_producers_move_by_the_steps(tmp_path: Path) -> None:
    home = installation(tmp_path, "kafka-4.4")
    with Broker(brokers=2) as old, kafka_cluster(2, engine="kraft", kafka_home=home) as new:
        old.create_topic("orders", 3, replication_factor=2, retention_ms=123_456_789)
        write(old, range(30))
        before = GroupReader(old)
        before.read(10)
        mirror = LineProcess(words(1, old, new))
        try:
            wait_until(lambda: new.topics.get("orders") == 3 and len(new.records("orders")) == 30, 120)
            read = before.leave()  # the group's consumers stop in the old cluster
            stop(mirror)
            run(2, old, new)
            after = GroupReader(new)
            after.read(20)
            mirror = LineProcess(words(1, old, new))
            write(old, range(30, 40))
            after.read(10)
            stop(mirror)  # the producers have stopped
            run(2, old, new)
            write(new, range(40, 45))
            after.read(5)
        finally:
            mirror.kill()
        status = run(3, old, new)
        assert re.search(r"^100000 +leader ", status, re.MULTILINE)
        read += after.leave()
        assert sorted(read) == list(range(45))
        admin = AdminClient({"bootstrap.servers": new.bootstrap, "log_level": 0})
        [settings] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "orders")]).values()
        assert settings.result(120)["retention.ms"].value == "123456789"
        places = admin.list_topics("orders", timeout=120).topics["orders"].partitions
        assert {len(partition.replicas) for partition in places.values()} == {2}
        consumer = Consumer({"bootstrap.servers": new.bootstrap, "group.id": GROUP, "log_level": 0})
        committed = consumer.committed([TopicPartition("orders", number) for number in range(3)], 120)
        lasts = {record.partition: record.next_offset for record in new.records("orders")}
        assert {partition.partition: partition.offset for partition in committed} == lasts
        consumer.close()
