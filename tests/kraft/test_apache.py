"""Brokers of this project in clusters of Apache Kafka's controllers, 3.9 and 4.4."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.security.answers import asking
from tests.clients.streams_members import StreamsMembers, joined, streams_group
from tests.kraft.cluster import QuorumCluster, format_directory, kraft_apache, kraft_own, own_settings
from tests.kraft.quorum import FIRST_CONTROLLER
from tests.kraft.run import RELEASES
from tests.peers.kafka import CLUSTER_ID
from tests.peers.tools import tool
from tests.support.budget import Budget
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.process]
SECONDS = 120


def read(cluster: QuorumCluster, topic: str, count: int) -> list[Message]:
    """Return the records of all partitions, `count` at least."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "check", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition(topic, number, 0) for number in cluster.states.assignment(topic)])
    messages: list[Message] = []

    def has_read() -> bool:
        some = consumer.consume(1000, 0.2)
        messages.extend(message for message in some if message.error() is None)
        return not some and len(messages) >= count

    wait_until(has_read, SECONDS, lambda: len(messages), meanwhile=lambda: None)
    consumer.close()
    return messages


@pytest.mark.parametrize("release", RELEASES)
def test_beside_apache_kafka(tmp_path: Path, topic: str, release: str) -> None:
    """A broker of ours leads, follows, coordinates, and passes on what only the controller can do."""
    with QuorumCluster.on_controllers(tmp_path, [kraft_apache, kraft_own], release) as cluster:
        address = cluster.members[2].bootstrap
        cluster.create(topic, 6)
        producer = Producer({"bootstrap.servers": address, "transactional.id": "t", "log_level": 0})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for number in range(100):
            producer.produce(topic, b"%d" % number)
        producer.commit_transaction(SECONDS)
        assert sorted(int(message.value()) for message in read(cluster, topic, 100)) == list(range(100))
        entry = ConfigEntry("retention.ms", "12345678", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for outcome in cluster.admin.incremental_alter_configs([resource]).values():
            outcome.result(SECONDS)
        described = tool("kafka-configs", "--bootstrap-server", address, "--describe", "--topic", topic).stdout
        assert "retention.ms=12345678" in described
        status = tool("kafka-metadata-quorum", "--bootstrap-server", address, "describe", "--status").stdout
        assert re.search(rf"^LeaderId: +{FIRST_CONTROLLER}$", status, re.MULTILINE)
        cluster.admin.delete_topics([topic])[topic].result(SECONDS)
        wait_until(lambda: not list(cluster.members[2].data_dir.glob(f"{topic}_*")), SECONDS)
        assert cluster.stop(2) == 0
        wait_until(lambda: {*cluster.states.brokers()} == {1}, SECONDS, cluster.states.brokers)
        cluster.start(2)
        wait_until(lambda: {*cluster.states.brokers()} == {1, 2}, SECONDS, cluster.states.brokers)
    assert not any(cluster.errors.values()), cluster.errors


def test_joining_a_cluster_whose_log_begins_with_a_snapshot(tmp_path: Path, budget: Budget) -> None:
    if not budget.thorough:
        pytest.skip("a controller looks for old parts of its log once a minute: --thorough")
    with QuorumCluster.on_controllers(tmp_path, [kraft_own], "kafka-3.9") as cluster:
        cluster.create("before", 3)
        controller = cluster.quorum.controllers[FIRST_CONTROLLER]
        cluster.quorum.stop(FIRST_CONTROLLER)
        controller.settings = {
            **controller.settings,
            "metadata.log.max.record.bytes.between.snapshots": "200",
            "metadata.log.segment.bytes": "1048576",
            "metadata.log.segment.min.bytes": "1048576",
            "metadata.max.retention.bytes": "1",
            "metadata.log.segment.ms": "1000",
        }
        cluster.quorum.start(FIRST_CONTROLLER)
        cluster.create("after", 3)
        log = controller.data / "__cluster_metadata-0"
        numbers = itertools.count()

        def begins_with_snapshot() -> bool:
            cluster.create(f"more-{next(numbers)}", 1)
            return not (log / "00000000000000000000.log").exists()

        wait_until(begins_with_snapshot, SECONDS, lambda: sorted(path.name for path in log.iterdir()))
        assert cluster.stop(1) == 0
        cluster.start(1)
        assert {"before", "after"} <= {*cluster.states.topics()}
        cluster.wait_until_in_sync("before")


def test_wrong_clusters_and_numbers(tmp_path: Path) -> None:
    """Each is one line with what to do."""
    with QuorumCluster.on_controllers(tmp_path, [kraft_own], "kafka-3.9") as cluster:
        lines = rejected(cluster, 7, lambda data: cluster_directory(cluster, 7, data, "YW5vdGhlciBjbHVzdGVy"))
        assert "INCONSISTENT_CLUSTER_ID: the controllers are of another cluster" in lines
        lines = rejected(cluster, 8, lambda data: data.mkdir(parents=True))
        assert "run `pylogbroker storage format --cluster-id ID --config FILE`" in lines
        lines = rejected(cluster, FIRST_CONTROLLER, lambda data: cluster_directory(cluster, FIRST_CONTROLLER, data))
        assert f"node.id {FIRST_CONTROLLER} is that of a controller" in lines
        lines = rejected(cluster, 1, lambda data: cluster_directory(cluster, 1, data), wait="3000")
        assert "within 3 s" in lines
        assert {*cluster.states.brokers()} == {1}


def cluster_directory(cluster: QuorumCluster, number: int, data: Path, cluster_id: str = CLUSTER_ID) -> None:
    format_directory(data, own_settings(number, cluster.quorum), cluster_id)


def rejected(cluster: QuorumCluster, number: int, prepare: Callable[[Path], object], wait: str = "60000") -> str:
    """Return what a broker writes that cannot start."""
    data = cluster.directory / f"rejected-{number}"
    prepare(data)
    settings = {**own_settings(number, cluster.quorum), "initial.broker.registration.timeout.ms": wait}
    file = cluster.directory / f"rejected-{number}.properties"
    listener = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data), "http.listeners": ""}
    file.write_text("".join(f"{name}={text}\n" for name, text in (settings | listener).items()))
    twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()"]
    command = [*twistd, "--nodaemon", f"--pidfile={data}.pid", "pylogbroker", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1
    return done.stdout + done.stderr


def test_streams_group_moves_between_coordinators_of_both_makers(tmp_path: Path, fresh_name: Callable[[], str]) -> None:
    """Each broker loads what the other one has written: members go on with their epochs and tasks."""
    ours = 2
    with QuorumCluster.on_controllers(tmp_path, [kraft_apache, kraft_own], "kafka-4.4") as cluster:
        group = group_of_coordinator(ours, cluster, fresh_name)
        tasks = joined(group, "a", "b")
        for lost, other in ((ours, 1), (1, ours)):
            cluster.kill(lost)
            group.ask = partial(ask_once, cluster.members[other].bootstrap)
            wait_until(lambda: group.describe().error_code == 0, SECONDS, group.describe)
            for member in group.describe().members:
                active = member.assignment.active_tasks
                assert {task.subtopology_id: set(task.partitions) for task in active} == tasks[member.member_id]
                assert group.error(member.member_id, member.member_epoch) == 0
            cluster.start(lost)
            wait_until(lambda: {*cluster.states.brokers()} == {1, ours}, SECONDS, cluster.states.brokers)
            cluster.wait_until_in_sync("__consumer_offsets")
        group.beat("a", -1)
        assert group.settle("b") == {"b": {"0": {0, 1, 2}, "1": {0, 1, 2}}}


def ask_once(address: str, request: Any, version: int) -> Any:
    """Ask a broker by a connection of its own: earlier ones may be lost."""
    with asking(int(address.rpartition(":")[2])) as ask_from:
        return ask_from("127.0.0.1", request, version)


def group_of_coordinator(number: int, cluster: QuorumCluster, fresh_name: Callable[[], str]) -> StreamsMembers:
    """Return a group without members that a broker coordinates."""
    ask = partial(ask_once, cluster.members[number].bootstrap)
    ask(FindCoordinatorRequest(coordinator_keys=["first"]), 4)
    cluster.wait_until_in_sync("__consumer_offsets")
    for _ in range(100):
        group_id = fresh_name()
        [coordinator] = ask(FindCoordinatorRequest(coordinator_keys=[group_id]), 4).coordinators
        if coordinator.node_id == number:
            return streams_group(ask, cluster.members[number].bootstrap, group_id, fresh_name())
    raise AssertionError(f"broker {number} coordinates no group")
