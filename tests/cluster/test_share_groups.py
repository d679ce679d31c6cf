"""Share groups on three brokers: dead letters in partitions that other brokers lead, and lag over all brokers.

A share group's coordinator, the states of its partitions, the partitions themselves and the partitions of its dead
letters are on different brokers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from pylogbroker.client import AcknowledgeType
from pylogbroker.client.sync import ShareConsumer
from tests.cluster.cluster import Cluster
from tests.cluster.cluster_reader import ClusterReader
from tests.cluster.members import CALM, own
from tests.cluster.replica_logs import LogRecord, records_in
from tests.support.waiting import wait_until

TOPIC, LETTERS, GROUP = "orders", "dlq.orders", "packers"
LEADERS = {0: 1, 1: 2, 2: 3}
LEADERS_OF_LETTERS = {0: 2, 1: 3, 2: 1}
COUNTS = {0: 6, 1: 4, 2: 2}
SETTINGS = {
    **CALM,
    "api.versions.release": "4.4",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "200",
}
NewCluster = Callable[..., Cluster]


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    started = new_cluster(own, own, own, settings=SETTINGS)
    started.create(TOPIC, replicas=[[1, 2], [2, 3], [3, 1]])
    started.create(LETTERS, 3, {"errors.deadletterqueue.group.enable": "true"}, replicas=[[2, 3], [3, 1], [1, 2]])
    settings = {
        "share.auto.offset.reset": "earliest",
        "errors.deadletterqueue.topic.name": LETTERS,
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    run(started, 1, "config", "alter", "group", GROUP, *(f"--set={name}={value}" for name, value in settings.items()))
    for partition, count in COUNTS.items():
        started.produce(TOPIC, *(b"%d" % number for number in range(count)), partition=partition)
    return started


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[ShareConsumer]:
    with ShareConsumer(cluster.bootstrap, group=GROUP, settings={"share.acknowledgement.mode": "explicit"}) as consumer:
        consumer.subscribe([TOPIC])
        yield consumer


def run(cluster: Cluster, broker: int, *arguments: str) -> str:
    result = CliRunner().invoke(main, [*arguments, "-b", cluster.members[broker].bootstrap])
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(cluster: Cluster, broker: int, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(cluster, broker, *arguments, "--format", "json"))
    return found


def acknowledge(consumer: ShareConsumer, kind_of: Callable[[int, int], AcknowledgeType]) -> None:
    """Acknowledge each record of the topic once."""
    seen = set()
    while len(seen) < sum(COUNTS.values()):
        for message in consumer.poll(100, 60):
            seen.add((message.partition, message.offset))
            consumer.acknowledge(message, kind_of(message.partition, message.offset))
        consumer.commit()


def letters_of(cluster: Cluster, partition: int) -> list[LogRecord]:
    reader = ClusterReader(cluster)
    return list(records_in(reader.read((LETTERS, partition))))


def origin(letter: LogRecord) -> tuple[str, int, int]:
    headers = {name: value or b"" for name, value in letter.headers}
    return (
        headers["__dlq.errors.topic"].decode(),
        int(headers["__dlq.errors.partition"]),
        int(headers["__dlq.errors.offset"]),
    )


def test_dead_letters_reach_partitions_of_other_leaders(cluster: Cluster, consumer: ShareConsumer) -> None:
    assert {partition: cluster.leader(TOPIC, partition) for partition in COUNTS} == LEADERS
    assert {partition: cluster.leader(LETTERS, partition) for partition in COUNTS} == LEADERS_OF_LETTERS
    acknowledge(consumer, lambda partition, offset: AcknowledgeType.REJECT)
    for partition, count in COUNTS.items():
        wait_until(lambda partition=partition, count=count: len(letters_of(cluster, partition)) >= count)  # type: ignore[misc]
        letters = letters_of(cluster, partition)
        assert [(origin(letter), letter.value) for letter in letters] == [
            ((TOPIC, partition, offset), b"%d" % offset) for offset in range(count)
        ]
    wait_until(lambda: {row["lag"] for row in rows(cluster, 1, "share", "lag", GROUP)} == {0})


def test_each_broker_shows_the_lag_of_all_partitions(cluster: Cluster, consumer: ShareConsumer) -> None:
    """The first record of each partition stays, and those behind it are accepted."""
    kinds = {0: AcknowledgeType.RELEASE}
    seen: set[tuple[int, int]] = set()
    while len(seen) < sum(COUNTS.values()):
        for message in consumer.poll(100, 60):
            seen.add((message.partition, message.offset))
            consumer.acknowledge(message, kinds.get(message.offset, AcknowledgeType.ACCEPT))
        consumer.commit()
    expected = {(TOPIC, partition, 0, 1) for partition in COUNTS}
    for broker in cluster.members:
        found = rows(cluster, broker, "share", "lag", GROUP)
        assert {(row["topic"], row["partition"], row["start"], row["lag"]) for row in found} == expected
        [listed] = rows(cluster, broker, "share", "list")
        assert (listed["group"], listed["members"], listed["lag"]) == (GROUP, 1, len(COUNTS))
        assert GROUP in run(cluster, broker, "share", "describe", GROUP)
