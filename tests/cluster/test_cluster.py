"""The harness itself: brokers of a cluster start, end and pause, and what the tree and their files say is read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients.admin import create_topic
from tests.cluster.cluster import WAIT_SECONDS_MAX, Cluster
from tests.cluster.members import apache, own
from tests.cluster.replica_logs import records_in
from tests.crash.reader import Reader
from tests.peers.tools import tool
from tests.support.needs import needs
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]


def test_log_dump_matches_served_records(new_cluster: NewCluster, topic: str) -> None:
    cluster = new_cluster(own)
    create_topic(cluster.bootstrap, topic)
    cluster.produce(topic, b"a", b"b", idempotent=True)
    cluster.kill(1)
    found = cluster.dump_logs(1)[topic, 0]
    assert [(each.offset, each.key, each.value, each.sequence) for each in found] == [
        (0, b"key 0", b"a", 0),
        (1, b"key 1", b"b", 1),
    ]
    assert found[0].producer_id >= 0
    cluster.start(1)
    member = cluster.members[1]
    served = Reader(member.bootstrap, member.data_dir).read((topic, 0))
    assert list(records_in(served)) == found


def test_records_and_markers_of_transactions(new_cluster: NewCluster, topic: str) -> None:
    cluster = new_cluster(own)
    create_topic(cluster.bootstrap, topic)
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(WAIT_SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, b"a", None, 0)
    producer.commit_transaction(WAIT_SECONDS_MAX)
    wait_until(lambda: len(cluster.dump_logs(1)[topic, 0]) == 2)  # the end of a transaction is acknowledged before
    record, marker = cluster.dump_logs(1)[topic, 0]
    assert (record.value, record.is_control, record.sequence) == (b"a", False, 0)
    assert (marker.offset, marker.is_control, marker.sequence) == (1, True, -1)
    assert marker.producer_id == record.producer_id


def test_kafka_reads_the_same_in_the_files_of_our_broker(new_cluster: NewCluster, topic: str, tmp_path: Path) -> None:
    cluster = new_cluster(own)
    create_topic(cluster.bootstrap, topic)
    cluster.produce(topic, b"a", b"b", b"c", idempotent=True)
    [segment] = cluster.members[1].partition_dir(topic, 0).glob("*.kafka")
    copy = tmp_path / f"{segment.stem}.log"
    shutil.copy(segment, copy)
    printed = tool("kafka-dump-log", "--files", str(copy), "--print-data-log").stdout
    found = cluster.dump_logs(1)[topic, 0]
    assert [(str(each.producer_id), str(each.leader_epoch)) for each in found] == re.findall(
        r"baseOffset: .* producerId: (\d+) .* partitionLeaderEpoch: (\d+) ", printed
    )
    assert [(str(each.offset), str(each.sequence), (each.value or b"").decode()) for each in found] == re.findall(
        r"\| offset: (\d+) .* sequence: (\d+) .* payload: (\w+)", printed
    )
    assert len(found) == 3


def test_life_and_death_of_members(new_cluster_on_zookeeper: NewCluster, topic: str) -> None:
    """Brokers of two releases."""
    makers = partial(apache, protocol="2.7"), partial(apache, release="kafka-2.7")
    patient = {"zookeeper.session.timeout.ms": "9000", "replica.lag.time.max.ms": "60000"}
    cluster = new_cluster_on_zookeeper(*makers, settings=patient)
    assert cluster.tree.brokers().keys() == {1, 2}
    cluster.create(topic, partitions=2, configs={"min.insync.replicas": "1"})
    assert [cluster.leader(topic, each) for each in (0, 1)] == [1, 2]
    assert cluster.isr(topic, 0) == [1, 2]
    cluster.produce(topic, b"a")
    assert cluster.stop(1) == 0
    assert (cluster.leader(topic, 0), cluster.isr(topic, 0)) == (2, [2])
    assert cluster.tree.brokers().keys() == {2}
    cluster.start(1)
    cluster.wait_until_in_isr(topic, 0, 1, 2)
    before = cluster.state(topic, 0)
    cluster.kill(2)
    assert cluster.wait_for_leader(topic, 0) == 1
    after = cluster.state(topic, 0)
    assert (after.leader, after.isr) == (1, (1,))
    assert after.leader_epoch > before.leader_epoch
    assert cluster.wait_for_controller() == 1
    cluster.start_all()
    cluster.wait_until_in_sync(topic)
    dumped = [cluster.dump_logs(number)[topic, 0] for number in (1, 2)]
    assert [record.value for record in dumped[0]] == [b"a"]
    assert dumped[0] == dumped[1]
    assert topic in cluster.tool("kafka-topics", "--list").splitlines()


def test_a_paused_leader_is_replaced_and_returns(new_cluster_on_zookeeper: NewCluster, topic: str) -> None:
    cluster = new_cluster_on_zookeeper(apache, apache)
    cluster.create(topic)
    cluster.pause(1)
    assert cluster.wait_for_leader(topic, 0) == 2
    cluster.produce(topic, b"a")
    cluster.resume(1)
    cluster.wait_until_in_sync(topic)
    assert cluster.replicas(topic, 0)[1] == cluster.replicas(topic, 0)[2]


def test_a_cluster_of_our_brokers_needs_no_kafka(request: pytest.FixtureRequest, new_cluster: NewCluster) -> None:
    assert needs(request.node) == {"process"}
