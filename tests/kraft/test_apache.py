"""Brokers of this project in clusters of Apache Kafka's controllers, 3.9 and 4.4."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from tests.kraft.apache import KraftCluster
from tests.peers.tools import tool
from tests.support.budget import Budget
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.process]
PARTITIONS = 6
SECONDS = 120
RELEASES = ("kafka-3.9", "kafka-4.4")


def of_copies(count: int) -> dict[str, str]:
    """Return settings for internal topics with so many replicas."""
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    return {
        **dict.fromkeys(names, str(count)),
        "transaction.state.log.min.isr": "1",
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
    }


def create(cluster: KraftCluster, topic: str, partitions: int = PARTITIONS) -> None:
    cluster.admin.create_topics([NewTopic(topic, partitions, min(3, cluster.brokers))])[topic].result(SECONDS)
    wait_until(lambda: cluster.is_in_sync(topic), SECONDS)


def leaders(cluster: KraftCluster, topic: str) -> set[int]:
    return {part.leader for part in cluster.admin.list_topics(topic).topics[topic].partitions.values()}


def read(cluster: KraftCluster, topic: str, count: int) -> list[Message]:
    """Return the records of all partitions, `count` at least."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "check", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0})
    partitions = cluster.admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[Message] = []

    def has_read() -> bool:
        some = consumer.consume(1000, 0.2)
        found.extend(message for message in some if message.error() is None)
        return not some and len(found) >= count

    wait_until(has_read, SECONDS, lambda: len(found), meanwhile=lambda: None)
    consumer.close()
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_beside_apache_kafka(tmp_path: Path, release: str) -> None:
    """A broker of ours leads, follows, coordinates, and passes on what only the controller can do."""
    with KraftCluster(tmp_path, release, apaches=1, brokers=2, settings=of_copies(2)) as cluster:
        create(cluster, "orders")
        wait_until(lambda: leaders(cluster, "orders") == {1, 2}, SECONDS, lambda: leaders(cluster, "orders"))
        producer = Producer({"bootstrap.servers": cluster.address(2), "transactional.id": "t", "log_level": 0})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for number in range(100):
            producer.produce("orders", b"%d" % number)
        producer.commit_transaction(SECONDS)
        assert sorted(int(message.value()) for message in read(cluster, "orders", 100)) == list(range(100))
        resource = ConfigResource(ResourceType.TOPIC, "orders", set_config={"retention.ms": "12345678"})
        for outcome in cluster.admin.alter_configs([resource]).values():
            outcome.result(SECONDS)
        described = tool(
            "kafka-configs", "--bootstrap-server", cluster.address(2), "--describe", "--topic", "orders"
        ).stdout
        assert "retention.ms=12345678" in described
        status = tool("kafka-metadata-quorum", "--bootstrap-server", cluster.address(2), "describe", "--status").stdout
        assert re.search(r"^LeaderId: +100$", status, re.MULTILINE)
        cluster.admin.delete_topics(["orders"])["orders"].result(SECONDS)
        wait_until(lambda: not list(cluster.own[2].data_dir.glob("orders_*")), SECONDS)
        assert cluster.own[2].stop() == 0
        wait_until(lambda: cluster.registered() == {1}, SECONDS, cluster.registered)
        cluster.start(2)
        wait_until(lambda: cluster.registered() == {1, 2}, SECONDS, cluster.registered)


@attrs.define
class Writer:
    """Writes numbered records with acks=all until `end`."""

    cluster: KraftCluster
    topic: str
    acknowledged: dict[bytes, tuple[int, int]] = attrs.field(factory=dict)
    failed: list[KafkaError] = attrs.field(factory=list)
    _ends: threading.Event = attrs.field(factory=threading.Event)

    def run(self) -> None:
        settings = {"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5}
        producer = Producer({**settings, "message.timeout.ms": 1000 * SECONDS, "log_level": 0})
        numbers = itertools.count()
        while not self._ends.is_set():
            for number in itertools.islice(numbers, 50):
                value = b"%d" % number
                producer.produce(self.topic, value, on_delivery=self._note(value))
            producer.poll(0.05)
        assert producer.flush(SECONDS) == 0

    def _note(self, value: bytes) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acknowledged[value] = message.partition(), message.offset()
            else:
                self.failed.append(error)

        return note

    def wait_for_more(self, count: int = 100) -> None:
        least = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= least, SECONDS, lambda: len(self.acknowledged))

    def end(self, thread: threading.Thread) -> None:
        self._ends.set()
        thread.join(SECONDS)


@pytest.mark.parametrize(("release", "apaches"), [("kafka-3.9", 0), ("kafka-4.4", 2)])
def test_nothing_acknowledged_is_lost_under_kills(tmp_path: Path, release: str, apaches: int, budget: Budget) -> None:
    """Our brokers are killed, stopped and paused, the controller is killed: all records keep their places."""
    chance = budget.chance(f"kills {release} {apaches}")
    with KraftCluster(tmp_path, release, apaches) as cluster:
        create(cluster, "orders")
        writer = Writer(cluster, "orders")
        thread = threading.Thread(target=writer.run)
        thread.start()
        for _ in range(budget.of(4, 50)):
            writer.wait_for_more()
            disturb(cluster, chance)
            wait_until(lambda: cluster.is_in_sync("orders"), SECONDS)
        writer.end(thread)
        records = read(cluster, "orders", len(writer.acknowledged))
        errors = {number: broker.unexpected_errors() for number, broker in cluster.own.items()}
    places = {message.value(): (message.partition(), message.offset()) for message in records}
    assert len(places) == len(records)
    assert {value: places.get(value) for value in writer.acknowledged} == writer.acknowledged
    assert writer.failed == []
    assert not any(errors.values()), errors


def disturb(cluster: KraftCluster, chance: random.Random) -> None:
    """Kill, stop or pause one of our brokers for a while, or kill the controller."""
    number = chance.choice(sorted(cluster.own))
    broker, until_fenced = cluster.own[number], chance.random() < 0.5
    match chance.choice(("kill", "kill", "stop", "pause", "controller")):
        case "kill":
            broker.kill()
            wait_for_fence(cluster, number, until_fenced)
            cluster.start(number)
        case "stop":
            assert broker.stop() == 0
            cluster.start(number)
        case "pause":
            broker.pause()
            wait_for_fence(cluster, number, until_fenced)
            broker.resume()
        case "controller":
            cluster.controller.kill()
            cluster.controller.start()


def wait_for_fence(cluster: KraftCluster, number: int, until_fenced: bool) -> None:
    if until_fenced:
        wait_until(lambda: number not in cluster.registered(), SECONDS, cluster.registered)


def test_joining_a_cluster_whose_log_begins_with_a_snapshot(tmp_path: Path, budget: Budget) -> None:
    if not budget.thorough:
        pytest.skip("a controller looks for old parts of its log once a minute: --thorough")
    cluster = KraftCluster(tmp_path, "kafka-3.9", apaches=0, brokers=1, settings=of_copies(1))
    with cluster:
        create(cluster, "before", 3)
        cluster.controller.stop()
        cluster.controller.settings = {
            **cluster.controller.settings,
            "metadata.log.max.record.bytes.between.snapshots": "200",
            "metadata.log.segment.bytes": "1048576",
            "metadata.log.segment.min.bytes": "1048576",
            "metadata.max.retention.bytes": "1",
            "metadata.log.segment.ms": "1000",
        }
        cluster.controller.start()
        create(cluster, "after", 3)
        log = cluster.controller.data / "__cluster_metadata-0"

        numbers = itertools.count()

        def begins_with_snapshot() -> bool:
            create(cluster, f"more-{next(numbers)}", 1)
            return not (log / "00000000000000000000.log").exists()

        wait_until(begins_with_snapshot, SECONDS, lambda: sorted(path.name for path in log.iterdir()))
        cluster.own[1].stop()
        cluster.start(1)
        topics = cluster.admin.list_topics(timeout=SECONDS).topics
        assert {"before", "after"} <= set(topics)
        wait_until(lambda: cluster.is_in_sync("before"), SECONDS)


def test_wrong_clusters_and_numbers(tmp_path: Path) -> None:
    """Each is one line with what to do."""
    with KraftCluster(tmp_path, "kafka-3.9", brokers=1, settings=of_copies(1)) as cluster:
        lines = rejected(cluster, 7, lambda data: cluster.format(7, data, "YW5vdGhlciBjbHVzdGVy"))
        assert "INCONSISTENT_CLUSTER_ID: the controllers are of another cluster" in lines
        lines = rejected(cluster, 8, lambda data: data.mkdir(parents=True))
        assert "run `pylogbroker storage format --cluster-id ID --config FILE`" in lines
        lines = rejected(cluster, 9, lambda data: cluster.format(1, data), node_id="1", wait="3000")
        assert "within 3 s" in lines
        assert cluster.registered() == {1}


def rejected(
    cluster: KraftCluster, number: int, prepare: Callable[[Path], object], node_id: str = "", wait: str = "60000"
) -> str:
    """Return what a broker writes that cannot start."""
    data = cluster.directory / f"rejected-{number}"
    prepare(data)
    settings = {**cluster.our_settings(int(node_id or number)), "initial.broker.registration.timeout.ms": wait}
    file = cluster.directory / f"rejected-{number}.properties"
    listener = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data), "http.listeners": ""}
    file.write_text("".join(f"{name}={text}\n" for name, text in (settings | listener).items()))
    twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()"]
    command = [*twistd, "--nodaemon", f"--pidfile={data}.pid", "pylogbroker", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1
    return done.stdout + done.stderr
