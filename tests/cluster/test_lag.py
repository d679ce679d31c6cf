"""Lag of groups in a cluster: what all brokers' metrics say equals what an independent client computes."""

from __future__ import annotations

import re
from urllib.request import urlopen

from confluent_kafka import Consumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import NewCluster
from tests.cluster.members import CALM, own
from tests.support.waiting import wait_until

COUNTS = {0: 7, 1: 5, 2: 3}
GROUPS = {f"group-{number}": {0: number, 1: 5 - number, 2: 1} for number in range(5)}
SECONDS_MAX = 120
Lags = dict[tuple[str, int], float]


def lags_of_client(cluster: Cluster, topic: str) -> Lags:
    """Commit each group's offsets with librdkafka, and compute the lags from what it reads."""
    found: Lags = {}
    for group, offsets in GROUPS.items():
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, *each) for each in offsets.items()], asynchronous=False)
        for each in consumer.committed([TopicPartition(topic, partition) for partition in COUNTS], SECONDS_MAX):
            _, end = consumer.get_watermark_offsets(each, SECONDS_MAX)
            found[group, each.partition] = end - each.offset
        consumer.close()
    return found


def lags_of_metrics(cluster: Cluster, topic: str) -> Lags:
    """Return the lags on the pages of all brokers; each group is on that of its coordinator alone."""
    found: Lags = {}
    for number in cluster.running:
        lines = "\n".join(cluster.members[number].log_lines())  # type: ignore[attr-defined]
        address = re.findall(r"web UI on (http://\S+)", lines)[-1].rstrip("/")
        with urlopen(f"{address}/metrics", timeout=SECONDS_MAX) as page:
            families = text_string_to_metric_families(page.read().decode())
        for sample in (each for family in families for each in family.samples):
            if sample.name == "kafka_consumergroup_lag" and sample.labels["topic"] == topic:
                key = sample.labels["consumergroup"], int(sample.labels["partition"])
                assert key not in found
                found[key] = sample.value
    return found


def test_lags_match_a_clients(new_cluster: NewCluster, topic: str) -> None:
    cluster = new_cluster(own, own, own, settings={**CALM, "http.listeners": "http://:0"})
    cluster.create(topic, replicas=[[1, 2], [2, 3], [3, 1]])
    for partition, count in COUNTS.items():
        cluster.produce(topic, *(b"%d" % number for number in range(count)), partition=partition)
    expected = lags_of_client(cluster, topic)
    assert expected == {
        (group, each): COUNTS[each] - offset for group, offsets in GROUPS.items() for each, offset in offsets.items()
    }
    wait_until(lambda: lags_of_metrics(cluster, topic) == expected, what=lambda: lags_of_metrics(cluster, topic))
