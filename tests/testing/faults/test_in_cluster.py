"""Faults of a cluster of real brokers: each acts where the partition is led, or the group is coordinated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.storage.compaction.process import CleanerProcess
from pylogbroker.testing import Broker
from pylogbroker.testing.faults import Faults
from pylogbroker.testing.faults.criteria import Call
from tests.support.waiting import wait_until
from tests.testing.faults.raw import RawClient

BROKERS = 3


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker(brokers=BROKERS, offsets_topic_num_partitions=6, log_retention_check_interval_ms=10_000_000) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Broker) -> Iterator[Broker]:
    yield shared
    shared.faults.clear()


@pytest.fixture
def topic(cluster: Broker, request: pytest.FixtureRequest) -> str:
    """A topic with a partition on each broker, and three records in each."""
    name = cluster.create_topic(str(request.node.name), BROKERS)
    for partition in range(BROKERS):
        cluster.produce(name, "a", "b", "c", partition=partition, key=b"key")
    return name


def leader(cluster: Broker, topic: str, partition: int) -> int:
    return int(cluster.faults.broker.metadata.topics[topic].partitions[partition].leader)


def left(cluster: Broker, topic: str) -> list[tuple[int, bytes]]:
    return [(each.partition, each.value) for each in cluster.records(topic)]


def test_logs_of_all_leaders(cluster: Broker, topic: str) -> None:
    assert {leader(cluster, topic, partition) for partition in range(BROKERS)} == {0, 1, 2}
    for partition in range(BROKERS):
        cluster.faults.logs.delete_records(topic, partition, before=2)
    assert left(cluster, topic) == [(0, b"c"), (1, b"c"), (2, b"c")]


def test_retention_of_all_brokers(cluster: Broker) -> None:
    name = cluster.create_topic("old", BROKERS, retention_ms=1)
    for partition in range(BROKERS):
        cluster.produce(name, "a", partition=partition, timestamp_ms=1000)
    cluster.faults.logs.retain()
    assert left(cluster, name) == []


def test_compaction_of_all_replicas() -> None:
    with Broker(brokers=2) as cluster:
        cluster.create_topic("compacted", 2, replication_factor=2, cleanup_policy="compact")
        for partition in range(2):
            cluster.produce("compacted", "a", "b", partition=partition, key=b"key")
            cluster.faults.logs.compact("compacted", partition)
        assert left(cluster, "compacted") == [(0, b"b"), (1, b"b")]
        assert all(broker.log_cleaner.new_cleaner is CleanerProcess for broker in cluster.faults.brokers)


def test_a_failed_disk_of_the_broker_that_is_asked() -> None:
    with Broker(brokers=2) as cluster:
        names = map("topic-{}".format, itertools.count())
        name = next(each for each in names if leader(cluster, cluster.create_topic(each, 2), 0) == 1)
        fault = cluster.faults.logs.fail_appends(name, error="EIO")
        with RawClient(cluster.bootstrap.split(",")[1]) as second:
            assert [second.produce(name).error_code for _ in range(2)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert fault.hits == 1
        assert [bool(each.logs.offline) for each in cluster.faults.brokers] == [False, True]


def test_a_created_topic_is_known_to_all_brokers(cluster: Broker) -> None:
    """Even if one of them learns of it late."""
    cluster.faults.add("UpdateMetadata", broker=1, sender="brokers", delay=0.1)
    for number in range(5):
        name = cluster.create_topic(f"known-{number}", BROKERS)
        assert [name in broker.metadata.topics for broker in cluster.faults.brokers] == [True] * BROKERS


def test_a_topic_is_created_again_at_once(cluster: Broker) -> None:
    """Even though its deletion goes on after the answer."""
    for number in range(1, 6):
        cluster.create_topic("again", number)
        assert cluster.topics["again"] == number
        with pytest.raises(KafkaError) as raised:
            cluster.create_topic("again")
        assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        cluster.delete_topic("again")


def test_a_truncation_is_not_simulated(cluster: Broker, topic: str) -> None:
    for partition in range(BROKERS):
        with pytest.raises(ValueError, match=f"{topic}-{partition} cannot be truncated in a cluster"):
            cluster.faults.logs.truncate(topic, partition, to=1)
    assert len(left(cluster, topic)) == 3 * BROKERS


def test_an_unknown_topic(cluster: Broker, topic: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{topic}'"):
        cluster.faults.logs.compact(topic + "x")
    with pytest.raises(KafkaError, match=f"no partition {topic}-9") as failure:
        cluster.faults.logs.compact(topic, 9)
    assert failure.traceback[-1].frame.f_globals["__name__"] == Faults.__module__


def wait_until_assigned(consumer: Consumer, assigned: list[int]) -> None:
    wait_until(lambda: consumer.poll(0.1) is None and assigned)


def test_groups_of_all_coordinators(cluster: Broker, topic: str) -> None:
    for number in range(BROKERS):
        group = f"group-{number}"
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
        assigned: list[int] = []
        consumer.subscribe([topic], on_assign=lambda _, found, to=assigned: to.append(len(found)))
        wait_until_assigned(consumer, assigned)
        [member] = cluster.faults.groups.members(group)
        cluster.faults.groups.rebalance(group)
        cluster.faults.groups.fence(group, member)
        assert cluster.faults.groups.members(group) == []
        consumer.close()
    coordinators = {
        index
        for index, broker in enumerate(cluster.faults.brokers)
        for number in range(BROKERS)
        if not isinstance(broker.groups.runtime.find(f"group-{number}"), ErrorCode)
    }
    assert len(coordinators) > 1


def test_requests_of_brokers_are_distinguished_from_clients(cluster: Broker) -> None:
    cluster.faults.requests.clear()
    faults = cluster.faults
    ours = faults.add("Fetch", delay=0.001, times=1, must_fire=True)
    theirs, by_id, all_of_them = (
        faults.watch("Fetch", sender="brokers"),
        faults.watch("Fetch", client_id="broker-1-fetcher-0"),
        faults.watch("Fetch", sender="any"),
    )
    name = cluster.create_topic("replicated", BROKERS, replication_factor=BROKERS)
    for partition in range(BROKERS):
        cluster.produce(name, "a", partition=partition)
    theirs.wait(BROKERS, timeout=120)
    assert {str(seen.client_id)[:7] for seen in theirs.seen} == {"broker-"}
    by_id.wait(1, timeout=120)
    assert ours.hits == 0
    cluster.records(name)
    assert (ours.hits, ours.wait(1).client_id) == (1, "pylogbroker-testing")
    all_of_them.wait(theirs.hits + 1, timeout=120)
    known = {str(seen.client_id) for seen in cluster.requests}
    assert "pylogbroker-testing" in known
    assert [each for each in known if each.startswith("broker-")] == []
    with pytest.raises(ValueError, match="no sender 'broker': did you mean 'brokers'"):
        faults.watch(sender="broker")


@pytest.mark.parametrize(
    ("client_id", "is_broker"),
    [("0", True), ("2", True), ("7", False), ("broker-1-page", True), ("broker-1-mine", False), (None, False)],
)
def test_brokers_are_known_by_their_client_ids(cluster: Broker, client_id: str | None, is_broker: bool) -> None:
    services: Any = cluster.faults.broker
    call = Call(services.apis[0], services, RequestContext(0, client_id), None)
    assert call.is_of_broker is is_broker
    with Broker() as alone:
        services = alone.faults.broker
        assert not Call(services.apis[0], services, RequestContext(0, client_id), None).is_of_broker


def test_a_network_of_clients_alone() -> None:
    """Brokers have a listener of their own, so they go on while their clients cannot."""
    with Broker(brokers=2, default_replication_factor=2) as cluster:
        cluster.create_topic("t")
        first, second = cluster.bootstrap.split(",")
        watch = cluster.faults.watch("Fetch", sender="brokers")
        cluster.faults.network.stall()
        cluster.faults.reject_connections()
        cluster.down(1)
        cluster.up(1)  # brokers connect to it
        watch.wait(watch.hits + 3, timeout=120)
        with pytest.raises(ConnectionError), RawClient(first) as client:
            client.heartbeat("g")
        cluster.faults.network.heal()
        cluster.faults.accept_connections()
        with RawClient(second) as client:
            client.heartbeat("g")
            cluster.faults.network.reset()
            with pytest.raises(ConnectionError):
                client.heartbeat("g")
