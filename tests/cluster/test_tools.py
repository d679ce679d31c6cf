"""Kafka's tools for operators of clusters, on three brokers: what they show, and what they change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.clients.admin import eventually
from tests.cluster.cluster import Cluster
from tests.cluster.members import CALM, own
from tests.peers import available
from tests.peers.tools import command
from tests.support.line_process import LineProcess
from tests.support.shared_zookeeper import fresh_chroot
from tests.support.waiting import wait_until
from tests.tree.tree_server import shared_tree_server

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
RECORDS = 20
FETCH_BYTES_MAX = 1000
SETTINGS = {**CALM, "min.insync.replicas": "2", "replica.fetch.max.bytes": str(FETCH_BYTES_MAX)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """Brokers 1, 2 and 3 of this project."""
    with fresh_chroot(shared_tree_server(pytestconfig), "tools") as chroot:
        directory = tmp_path_factory.mktemp("cluster")
        with Cluster.make(directory, chroot, [own, own, own], SETTINGS) as cluster:
            yield cluster


@pytest.fixture
def reassign(cluster: Cluster, tmp_path: Path, topic: str) -> Callable[..., str]:
    """Runs kafka-reassign-partitions for the replicas of a partition: `reassign({0: [1, 2]}, "--execute")`."""
    file = tmp_path / "reassignment.json"

    def run(replicas: Mapping[int, Sequence[int]], *options: str) -> str:
        wanted = [{"topic": topic, "partition": number, "replicas": each} for number, each in replicas.items()]
        file.write_text(json.dumps({"version": 1, "partitions": wanted}))
        return cluster.tool("kafka-reassign-partitions", "--reassignment-json-file", str(file), *options)

    return run


def described(cluster: Cluster, topic: str, *options: str) -> dict[int, tuple[int, list[int], list[int]]]:
    """Return leader, replicas and ISR of the partitions that kafka-topics describes."""
    shown = cluster.tool("kafka-topics", "--describe", "--topic", topic, *options)
    lines = re.findall(r"Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S+)", shown)
    return {
        int(number): (int(leader), numbers(replicas), sorted(numbers(isr))) for number, leader, replicas, isr in lines
    }


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def offsets(cluster: Cluster, topic: str) -> list[str]:
    return cluster.tool("kafka-get-offsets", "--topic", topic).splitlines()


def test_a_topic_from_its_creation_to_its_deletion(cluster: Cluster, topic: str) -> None:
    of_topic = ("--topic", topic)
    cluster.tool("kafka-topics", "--create", *of_topic, "--partitions", "3", "--replication-factor", "3")
    cluster.wait_until_in_sync(topic)
    found = described(cluster, topic)
    assert sorted(leader for leader, _, _ in found.values()) == [1, 2, 3]
    assert {replicas[0] for _, replicas, _ in found.values()} == {1, 2, 3}
    assert all(sorted(replicas) == isr == [1, 2, 3] for _, replicas, isr in found.values())
    cluster.tool("kafka-topics", "--alter", *of_topic, "--partitions", "4")
    cluster.wait_until_in_sync(topic)
    eventually(lambda: len(described(cluster, topic)), 4)
    cluster.produce(topic, b"value", partition=3)
    assert offsets(cluster, topic) == [f"{topic}:0:0", f"{topic}:1:0", f"{topic}:2:0", f"{topic}:3:1"]
    cluster.tool("kafka-topics", "--delete", *of_topic)
    wait_until(lambda: topic not in cluster.tree.topics())
    eventually(lambda: topic in cluster.tool("kafka-topics", "--list").splitlines(), False)


def test_a_broker_is_away_and_leads_again(cluster: Cluster, topic: str) -> None:
    cluster.create(topic, replicas=[[1, 2, 3], [2, 3, 1]])
    cluster.stop(1)
    found = {0: (2, [1, 2, 3], [2, 3]), 1: (2, [2, 3, 1], [2, 3])}
    for option in ("--under-replicated-partitions", "--at-min-isr-partitions"):
        eventually(partial(described, cluster, topic, option), found)
    assert described(cluster, topic, "--unavailable-partitions") == {}
    cluster.start(1)
    cluster.wait_until_in_sync(topic)
    election = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "Successfully completed leader election (PREFERRED)" in cluster.tool("kafka-leader-election", *election)
    assert cluster.leader(topic, 0) == 1
    assert "Valid replica already elected" in cluster.tool("kafka-leader-election", *election)
    eventually(lambda: described(cluster, topic)[0], (1, [1, 2, 3], [1, 2, 3]))


def test_an_unclean_election(cluster: Cluster, topic: str) -> None:
    """Broker 2 lacks the record, which is lost."""
    cluster.create(topic, replicas=[[1, 2]], configs={"min.insync.replicas": "1"})
    cluster.stop(2)
    cluster.produce(topic, b"lost")
    cluster.stop(1)
    cluster.start(2)
    assert cluster.isr(topic, 0) == [1]
    election = ("--election-type", "unclean", "--topic", topic, "--partition", "0")
    assert "Successfully completed leader election (UNCLEAN)" in cluster.tool("kafka-leader-election", *election)
    assert (cluster.leader(topic, 0), cluster.isr(topic, 0)) == (2, [2])
    cluster.start(1)
    cluster.wait_until_in_sync(topic)
    cluster.produce(topic, b"kept")
    assert offsets(cluster, topic) == [f"{topic}:0:1"]


def test_replicas_move_to_other_brokers(cluster: Cluster, topic: str, reassign: Callable[..., str]) -> None:
    cluster.create(topic, replicas=[[1, 2], [2, 3]])
    cluster.produce(topic, *[b"value"] * RECORDS)
    wanted = {0: [3, 2], 1: [2, 3]}
    assert f"Successfully started partition reassignments for {topic}-0" in reassign(wanted, "--execute")

    def is_completed() -> bool:
        shown = reassign(wanted, "--verify")
        return all(f"Reassignment of partition {topic}-{each} is completed." in shown for each in wanted)

    wait_until(is_completed)
    assert cluster.tree.assignment(topic) == {0: (3, 2), 1: (2, 3)}
    assert cluster.leader(topic, 0) == 3
    assert "No partition reassignments found." in cluster.tool("kafka-reassign-partitions", "--list")
    wait_until(lambda: not cluster.members[1].partition_dir(topic, 0).exists())
    assert offsets(cluster, topic) == [f"{topic}:0:{RECORDS}", f"{topic}:1:0"]
    assert [len(records) for records in cluster.replicas(topic, 0).values()] == [RECORDS, RECORDS]


def test_a_throttled_reassignment_is_cancelled(cluster: Cluster, topic: str, reassign: Callable[..., str]) -> None:
    """The new replica gets one record, and would have to wait for the next one."""
    cluster.create(topic, replicas=[[1, 2]])
    cluster.produce(topic, *[b"x" * FETCH_BYTES_MAX] * 3)
    wanted = {0: [1, 3]}
    reassign(wanted, "--execute", "--throttle", "1")
    listed = cluster.tool("kafka-reassign-partitions", "--list")
    assert f"{topic}-0: replicas: 1,3,2. adding: 3. removing: 2." in listed
    assert f"Reassignment of partition {topic}-0 is still in progress." in reassign(wanted, "--verify")
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in reassign(wanted, "--cancel")
    wait_until(lambda: cluster.tree.assignment(topic) == {0: (1, 2)})
    wait_until(lambda: not cluster.members[3].partition_dir(topic, 0).exists())
    cluster.produce(topic, b"value")
    assert offsets(cluster, topic) == [f"{topic}:0:4"]


def test_settings_of_one_broker_and_of_all(cluster: Cluster) -> None:
    one, every = ("--entity-name", "2"), ("--entity-default",)
    alter = ("kafka-configs", "--alter", "--entity-type", "brokers")
    cluster.tool(*alter, *every, "--add-config", "log.roll.ms=7200000,message.max.bytes=3000")
    cluster.tool(*alter, *one, "--add-config", "message.max.bytes=4000")

    def await_settings(broker: int, **wanted: str) -> None:
        names = {name.replace("_", "."): value for name, value in wanted.items()}
        eventually(lambda: {name: settings_of(cluster, broker).get(name) for name in names}, names)

    of_all = "7200000 DYNAMIC_DEFAULT_BROKER_CONFIG"
    await_settings(1, log_roll_ms=of_all, message_max_bytes="3000 DYNAMIC_DEFAULT_BROKER_CONFIG")
    await_settings(2, log_roll_ms=of_all, message_max_bytes="4000 DYNAMIC_BROKER_CONFIG")
    cluster.stop(3)
    cluster.tool(*alter, *every, "--delete-config", "message.max.bytes,log.roll.ms")
    cluster.tool(*alter, *one, "--delete-config", "message.max.bytes")
    cluster.start(3)
    for broker in (2, 3):
        await_settings(broker, log_roll_ms="null DEFAULT_CONFIG", message_max_bytes="1048588 DEFAULT_CONFIG")


def settings_of(cluster: Cluster, broker: int) -> dict[str, str]:
    """Return a broker's settings as kafka-configs describes them, with the source of each."""
    entity = ("--entity-type", "brokers", "--entity-name", str(broker))
    shown = cluster.tool("kafka-configs", "--describe", "--all", *entity)
    found = re.findall(r"^  ([\w.]+)=(\S*) sensitive=\w+ synonyms=\{(\w*)", shown, re.MULTILINE)
    return {name: f"{value} {source}" for name, value, source in found}


def test_replicas_are_verified_and_measured(cluster: Cluster, topic: str) -> None:
    cluster.create(topic, replicas=[[1, 2, 3]])
    cluster.produce(topic, *[b"value"] * RECORDS)
    options = ("--topics-include", topic, "--report-interval-ms", "200", "--fetch-size", "1000")
    with LineProcess(command("kafka-replica-verification", "--broker-list", cluster.bootstrap, *options)) as process:
        process.expect(rf"max lag is 0 for partition {topic}-0 at offset {RECORDS} among 1 partitions")
    shown = cluster.tool("kafka-log-dirs", "--describe", "--topic-list", topic, "--broker-list", "1,3")
    answer: dict[str, Any] = json.loads(shown.splitlines()[-1])
    sizes = {
        (broker["broker"], partition["partition"]): (partition["size"], partition["offsetLag"], partition["isFuture"])
        for broker in answer["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }
    [size] = {size for size, _, _ in sizes.values()}
    assert sizes == {(broker, f"{topic}-0"): (size, 0, False) for broker in (1, 3)}
    assert size > RECORDS * len(b"value")
