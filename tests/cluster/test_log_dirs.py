"""Log directories of brokers in a cluster: one of two fails, and is repaired; replicas are moved between them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.members import CALM, Maker, Place, apache, own
from tests.cluster.own_controller import depose
from tests.cluster.replica_logs import LogRecord, read_directory
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
PARTITIONS = range(4)


def directories(cluster: Cluster, number: int) -> list[Path]:
    home = cluster.members[number].data_dir.parent
    return [home / "first", home / "second"]


def two_directories(place: Place) -> BrokerProcess:
    """Make a broker of this project with two log directories."""
    paths = ",".join(str(place.directory / name) for name in ("first", "second"))
    return own(attrs.evolve(place, settings={**place.settings, "log.dirs": paths}))


def find(cluster: Cluster, number: int, topic: str, partition: int) -> list[Path]:
    """Return the directories of a replica."""
    return [path for home in directories(cluster, number) for path in home.glob(f"{topic}_{partition}")]


def records(cluster: Cluster, number: int, topic: str, partition: int) -> list[LogRecord]:
    [path] = find(cluster, number, topic, partition)
    return read_directory(path, ".kafka")


def make_controller(cluster: Cluster, number: int) -> None:
    """Let the controller resign until a broker wins the election."""
    while cluster.wait_for_controller() != number:
        depose(cluster)


def has_state(cluster: Cluster, topic: str, partition: int, leader: int, isr: list[int]) -> bool:
    return (cluster.leader(topic, partition), cluster.isr(topic, partition)) == (leader, isr)


@pytest.mark.parametrize("controller", [apache, own], ids=["apache", "own"])
def test_a_failed_directory_and_its_repair(new_cluster: NewCluster, topic: str, controller: Maker) -> None:
    cluster = new_cluster(controller, two_directories, two_directories, settings=CALM)
    cluster.create(topic, replicas=[[2, 3] for _ in PARTITIONS], configs={"min.insync.replicas": "1"})
    make_controller(cluster, 1)
    for partition in PARTITIONS:
        cluster.produce(topic, b"before", partition=partition)
    _, failed = directories(cluster, 2)
    lost = [each for each in PARTITIONS if find(cluster, 2, topic, each)[0].parent == failed]
    assert lost
    assert len(lost) < len(PARTITIONS)

    away = failed.rename(failed.with_name("unmounted"))
    for partition in PARTITIONS:
        leader, isr = (3, [3]) if partition in lost else (2, [2, 3])
        wait_until(partial(has_state, cluster, topic, partition, leader, isr))
        cluster.produce(topic, b"meanwhile", partition=partition)
    output = cluster.tool("kafka-log-dirs", "--describe", "--broker-list", "2")
    [described] = json.loads(output.splitlines()[-1])["brokers"]
    errors = {each["logDir"]: each["error"] for each in described["logDirs"]}
    assert [bool(errors[str(path)]) for path in directories(cluster, 2)] == [False, True]

    assert cluster.stop(2) == 0
    away.rename(failed)
    cluster.start(2)
    cluster.wait_until_in_sync(topic)
    for partition in PARTITIONS:
        replicas = [records(cluster, number, topic, partition) for number in (2, 3)]
        assert [each.value for each in replicas[0]] == [b"before", b"meanwhile"]
        assert replicas[0] == replicas[1]
    assert [line for line in cluster.errors.pop(2) if str(failed) not in line] == []


def test_replicas_are_moved_by_kafkas_tool(new_cluster: NewCluster, topic: str, tmp_path: Path) -> None:
    """A leader and a follower, each into the other directory of its broker."""
    cluster = new_cluster(two_directories, two_directories, settings=CALM)
    cluster.create(topic, replicas=[[1, 2]])
    cluster.produce(topic, b"before", b"the move")
    others = {
        number: next(home for home in directories(cluster, number) if not (home / f"{topic}_0").exists())
        for number in (1, 2)
    }
    place = {"topic": topic, "partition": 0, "replicas": [1, 2], "log_dirs": [str(others[1]), str(others[2])]}
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": [place]}))
    file = ("--reassignment-json-file", str(tmp_path / "plan.json"))
    started = cluster.tool("kafka-reassign-partitions", "--execute", *file)
    assert started.count("Successfully started moving log directory") == 2
    for number, home in others.items():
        wait_until(lambda each=number, to=home: find(cluster, each, topic, 0) == [to / f"{topic}_0"])  # type: ignore[misc]
    output = cluster.tool("kafka-reassign-partitions", "--verify", *file)
    assert output.count("finished the movement") + output.count("completed") >= 2, output

    cluster.produce(topic, b"after")
    cluster.wait_until_in_sync(topic)
    copies = [records(cluster, number, topic, 0) for number in (1, 2)]
    assert [each.value for each in copies[0]] == [b"before", b"the move", b"after"]
    assert copies[0] == copies[1]
    described = cluster.tool("kafka-log-dirs", "--describe", "--broker-list", "1,2", "--topic-list", topic)
    found = {
        home["logDir"]: [each["isFuture"] for each in home["partitions"]]
        for broker in json.loads(described.splitlines()[-1])["brokers"]
        for home in broker["logDirs"]
        if home["partitions"]
    }
    assert found == {str(home): [False] for home in others.values()}
