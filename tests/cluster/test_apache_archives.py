"""Archived topics beside Apache Kafka's brokers of ZooKeeper mode, which do not know this project's archives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from pylogbroker.cli import main
from tests.cluster.cluster import WAIT_SECONDS_MAX, Cluster
from tests.cluster.members import Maker, Place, apache, own
from tests.peers.maven import PeerError
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
pytestmark = [pytest.mark.kafka, pytest.mark.process]
OURS, APACHE = 1, 2
TOPIC = "readings"
ARCHIVED = {
    "remote.storage.enable": "true", "segment.bytes": "5000", "local.retention.bytes": "5000", "retention.ms": "-1",
    "flush.ms": "100",
}  # fmt: skip
QUICK = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "200",
}


def archiving(archive: Path) -> Maker:
    """Return a maker of brokers of this project with an archive."""
    archive.mkdir()

    def make(place: Place) -> BrokerProcess:
        settings = {**QUICK, "remote.log.storage": f"directory:{archive}"}
        return own(attrs.evolve(place, settings={**place.settings, **settings}))

    return make


def tiered(directory: Path) -> Maker:
    """Return a maker of Apache's brokers with the tiered storage of Kafka's own tests."""

    def make(place: Place) -> Any:
        settings = {
            **QUICK,
            "log.initial.task.delay.ms": "500",
            "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
            "rsm.config.dir": str(directory),
        }
        return apache(attrs.evolve(place, settings={**place.settings, **settings}), "kafka-3.9-tiered")

    return make


def elect(cluster: Cluster, controller: int) -> None:
    """Let one of the two brokers be the controller."""
    other = OURS + APACHE - controller
    if cluster.controller() == other:
        cluster.stop(other)
        cluster.wait_for_controller()
        cluster.start(other)


def produce(cluster: Cluster, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in numbers:
        producer.produce(TOPIC, b"%0100d" % number)
        if number % 10 == 0:
            producer.flush(WAIT_SECONDS_MAX)
    assert producer.flush(WAIT_SECONDS_MAX) == 0


def read(cluster: Cluster, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    messages: list[Message] = []

    def has_all() -> bool:
        messages.extend(message for message in consumer.consume(count, 1) if not message.error())
        return len(messages) >= count

    wait_until(has_all, WAIT_SECONDS_MAX, lambda: len(messages))
    consumer.close()
    return [int(message.value() or b"") for message in messages]


def local_start(cluster: Cluster, broker: int = OURS) -> int:
    [directory] = [path for path in cluster.members[broker].data_dir.iterdir() if path.name.startswith(TOPIC)]
    suffix = cluster.members[broker].segment_suffix
    return min(int(path.stem) for path in directory.glob(f"*{suffix}"))


def test_topics_without_ids_are_not_archived(new_cluster_on_zookeeper: NewCluster, tmp_path: Path) -> None:
    settings = {"inter.broker.protocol.version": "2.7"}
    makers = archiving(tmp_path / "archive"), partial(apache, release="kafka-2.7")
    cluster = new_cluster_on_zookeeper(*makers, settings=settings)
    elect(cluster, OURS)
    with pytest.raises(KafkaException, match="topics have the ids that name their objects from"):
        cluster.create(TOPIC, 1, ARCHIVED, [[OURS]])


def test_our_controller_places_archived_topics_on_our_brokers(
    new_cluster_on_zookeeper: NewCluster, tmp_path: Path
) -> None:
    """Apache's brokers of 3.6 and later do not even start beside an archived topic, unless they tier, too."""
    cluster = new_cluster_on_zookeeper(archiving(tmp_path / "archive"), apache)
    elect(cluster, OURS)
    with pytest.raises(KafkaException, match="only broker"):
        cluster.create(TOPIC, 1, ARCHIVED, [[OURS, APACHE]])
    cluster.create(TOPIC, 1, ARCHIVED, [[OURS]])
    produce(cluster, range(300))
    wait_until(lambda: local_start(cluster) > 100, WAIT_SECONDS_MAX, lambda: local_start(cluster))
    assert read(cluster, 300) == list(range(300))
    cluster.kill(APACHE)
    with pytest.raises(PeerError, match="You have to delete all topics with the property"):
        cluster.start(APACHE)
    cluster.running.remove(APACHE)
    assert read(cluster, 300) == list(range(300))


def test_replicas_with_two_kinds_of_tiered_storage(new_cluster_on_zookeeper: NewCluster, tmp_path: Path) -> None:
    """Each leader copies all to its own store, and serves it. A replica that falls behind needs the leader's store."""
    makers = archiving(tmp_path / "archive"), tiered(tmp_path / "tiered")
    cluster = new_cluster_on_zookeeper(*makers)
    elect(cluster, APACHE)
    cluster.create(TOPIC, 1, ARCHIVED, [[OURS, APACHE]])
    described = CliRunner().invoke(main, ["topic", "describe", TOPIC, "-b", cluster.bootstrap]).stdout
    assert f"{TOPIC}: archived, but broker(s) {APACHE} have no remote storage" in described
    produce(cluster, range(300))
    wait_until(lambda: local_start(cluster) > 100, WAIT_SECONDS_MAX, lambda: local_start(cluster))
    assert read(cluster, 300) == list(range(300))
    cluster.kill(OURS)
    cluster.wait_for_leader(TOPIC, 0)
    produce(cluster, range(300, 600))
    wait_until(lambda: local_start(cluster, APACHE) > 300, WAIT_SECONDS_MAX, lambda: local_start(cluster, APACHE))
    assert read(cluster, 600) == list(range(600))
    cluster.start(OURS)
    reason = "the remote storage has no segment of readings-0 with the record before offset"
    wait_until(lambda: any(reason in line for line in cluster.members[OURS].log_lines()), WAIT_SECONDS_MAX)
    assert cluster.isr(TOPIC, 0) == [APACHE]
    assert read(cluster, 600) == list(range(600))
    cluster.kill(OURS)
    assert all(reason in line for line in cluster.errors.pop(OURS))
