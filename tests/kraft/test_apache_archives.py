"""Archived topics with replicas on Apache Kafka's brokers, which do not know this project's archives."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from tests.kraft.apache import KraftCluster
from tests.kraft.test_apache import SECONDS, leaders, of_copies, read
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.process]
APACHE, OURS = 1, 2
TOPIC = "readings"


def produce(cluster: KraftCluster, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in numbers:
        producer.produce(TOPIC, b"%0100d" % number)
        if number % 10 == 0:
            producer.flush(SECONDS)
    assert producer.flush(SECONDS) == 0


def numbers(cluster: KraftCluster, count: int) -> list[int]:
    return [int(message.value()) for message in read(cluster, TOPIC, count)]


def local_start(cluster: KraftCluster) -> int:
    [directory] = cluster.own[OURS].data_dir.glob(f"{TOPIC}_*")
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
    settings = {**of_copies(2), "replica.lag.time.max.ms": "3000", "broker.session.timeout.ms": "3000"}
    controller = {"remote.log.storage.system.enable": "true"}
    with KraftCluster(
        tmp_path, "kafka-3.9", apaches=1, brokers=2, settings=settings, own_settings=own, controller_settings=controller
    ) as cluster:
        topic = NewTopic(TOPIC, 1, replica_assignment=[[OURS, APACHE]], config=config)
        cluster.admin.create_topics([topic])[TOPIC].result(SECONDS)
        wait_until(lambda: leaders(cluster, TOPIC) == {OURS} and cluster.is_in_sync(TOPIC), SECONDS)
        produce(cluster, range(300))
        wait_until(lambda: local_start(cluster) > 100, SECONDS, lambda: local_start(cluster))
        assert numbers(cluster, 300) == list(range(300))
        cluster.own[OURS].kill()
        wait_until(lambda: leaders(cluster, TOPIC) == {APACHE}, SECONDS)
        assert numbers(cluster, 300) == list(range(300))  # which deletes nothing: its retention is the whole one
        produce(cluster, range(300, 600))
        cluster.start(OURS)
        wait_until(lambda: cluster.is_in_sync(TOPIC), SECONDS)
        kept = local_start(cluster)
        cluster.theirs[APACHE].kill()
        wait_until(lambda: leaders(cluster, TOPIC) == {OURS}, SECONDS)
        assert numbers(cluster, 600) == list(range(600))
        wait_until(lambda: local_start(cluster) > max(kept, 400), SECONDS, lambda: local_start(cluster))
        assert numbers(cluster, 600) == list(range(600))
