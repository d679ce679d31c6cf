"""Archived topics with replicas on Apache Kafka's brokers, which do not know this project's archives."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from confluent_kafka import Producer

from tests.cluster.cluster import Cluster
from tests.kraft.cluster import KraftPlace, QuorumCluster, kraft_apache, kraft_own
from tests.kraft.quorum import FIRST_CONTROLLER
from tests.kraft.test_apache import SECONDS, read
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.process]
APACHE, OURS = 1, 2
TOPIC = "readings"


def produce(cluster: QuorumCluster, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in numbers:
        producer.produce(TOPIC, b"%0100d" % number)
        if number % 10 == 0:
            producer.flush(SECONDS)
    assert producer.flush(SECONDS) == 0


def numbers(cluster: QuorumCluster, count: int) -> list[int]:
    return [int(message.value()) for message in read(cluster, TOPIC, count)]


def local_start(cluster: QuorumCluster) -> int:
    [directory] = cluster.members[OURS].data_dir.glob(f"{TOPIC}_*")
    return min(int(path.stem) for path in directory.glob("*.kafka"))


def test_each_leader_serves_all_records_and_no_broker_deletes_what_it_needs(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    own = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage": f"directory:{archive}",
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "200",
        "log.flush.offset.checkpoint.interval.ms": "200",
    }
    config = {
        "remote.storage.enable": "true", "segment.bytes": "5000", "local.retention.bytes": "5000", "retention.ms": "-1",
        "flush.ms": "100",
    }  # fmt: skip

    def member(place: KraftPlace) -> BrokerProcess:
        return kraft_own(attrs.evolve(place, settings={**place.settings, **own}))

    cluster = QuorumCluster.on_controllers(tmp_path, [kraft_apache, member], "kafka-3.9")
    controller = cluster.quorum.controllers[FIRST_CONTROLLER]
    controller.settings = {**controller.settings, "remote.log.storage.system.enable": "true"}
    with cluster:
        Cluster.create(cluster, TOPIC, 1, config, [[OURS, APACHE]])
        cluster.wait_until_in_sync(TOPIC)
        produce(cluster, range(300))
        wait_until(lambda: local_start(cluster) > 100, SECONDS, lambda: local_start(cluster))
        assert numbers(cluster, 300) == list(range(300))
        cluster.kill(OURS)
        cluster.wait_for_leader(TOPIC, 0)
        assert numbers(cluster, 300) == list(range(300))  # which deletes nothing: its retention is the whole one
        produce(cluster, range(300, 600))
        cluster.start(OURS)
        cluster.wait_until_in_sync(TOPIC)
        kept = local_start(cluster)
        cluster.kill(APACHE)
        cluster.wait_for_leader(TOPIC, 0)
        assert numbers(cluster, 600) == list(range(600))
        wait_until(lambda: local_start(cluster) > max(kept, 400), SECONDS, lambda: local_start(cluster))
        assert numbers(cluster, 600) == list(range(600))
        cluster.start(APACHE)
        cluster.wait_until_in_sync(TOPIC)
        assert numbers(cluster, 600) == list(range(600))
