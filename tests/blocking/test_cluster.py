"""A cluster as a process of Spark sees it, and its errors when brokers do not answer."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from pylogbroker.blocking.cluster import FIRST_CONTACT_SECONDS, BlockingCluster, OffsetAtTime, partitions_of
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.client.errors import ConnectionLost, NoBrokers, RequestTimedOut
from pylogbroker.client.fetch_requests import NAMES_VERSION_MAX, FetchTarget, fetch_request
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST
from pylogbroker.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.spark.short_times import error_of
from tests.spark.topics import LIMIT, Rec, Topics


def cluster_of(bootstrap: str, **settings: Any) -> BlockingCluster:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return BlockingCluster(read(CONSUMER, {"bootstrap.servers": bootstrap, "retry.backoff.ms": 1, **named}))


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def test_topics_and_offsets(topics: Topics) -> None:
    topic = topics.make(3, retention_ms="-1")
    records = [Rec(b"v", partition=number, timestamp=1_000_000 + step) for number in (0, 1) for step in range(4)]
    topics.fill(topic, records)
    topics.trim(topic, 0, 2)
    with cluster_of(topics.bootstrap) as cluster:
        found = cluster.topics([topic, "nowhere-at-all"])
        assert partitions_of(found) == [(topic, 0), (topic, 1), (topic, 2)]
        assert topic in cluster.topics()
        keys = [(topic, number) for number in range(3)]
        assert [cluster.offsets({key: EARLIEST})[key].offset for key in keys] == [2, 0, 0]
        assert {key: each.offset for key, each in cluster.offsets(dict.fromkeys(keys, LATEST)).items()} == dict(
            zip(keys, (4, 4, 0), strict=True)
        )
        assert cluster.offsets({keys[1]: 1_000_002, keys[2]: 5}) == {
            keys[1]: OffsetAtTime(2, 1_000_002),
            keys[2]: OffsetAtTime(-1, -1),
        }
        first = cluster.topic_id(topic)
        assert first == found[topic].topic_id


def test_latest_offset_respects_the_isolation_level(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [Rec(b"v")])
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topics.fresh_name()})
    producer.init_transactions(LIMIT)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(LIMIT)
    key = topic, 0
    with cluster_of(topics.bootstrap, isolation_level="read_committed") as cluster:
        assert cluster.offsets({key: LATEST})[key].offset == 1
    with cluster_of(topics.bootstrap) as cluster:
        assert cluster.offsets({key: LATEST})[key].offset == 2
    producer.abort_transaction(LIMIT)


def test_the_coordinator_of_a_group(topics: Topics) -> None:
    with cluster_of(topics.bootstrap) as cluster:
        connection = cluster.retrying(lambda: cluster.coordinator("some-group", CoordinatorType.GROUP))
        assert str(connection.address) == topics.bootstrap


def test_topics_that_are_not_there(topics: Topics) -> None:
    name = topics.fresh_name()

    def offsets(milliseconds: int) -> object:
        with cluster_of(topics.bootstrap, default_api_timeout_ms=milliseconds) as cluster:
            return cluster.offsets({(name, 0): LATEST})

    found = error_of(offsets, KafkaError, "no such topic or partition")
    assert found.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with cluster_of(topics.bootstrap) as cluster:
        assert cluster.topics([name]) == {}
        with pytest.raises(KafkaError):
            cluster.topics(["no such name/"])
        assert name not in cluster.topics()  # to ask for it has not made it


def test_one_broker_of_the_list_is_enough(topics: Topics) -> None:
    with cluster_of(f"127.0.0.1:{free_port()},{topics.bootstrap}") as cluster:
        assert isinstance(cluster.topics(), dict)


def test_no_broker_at_all() -> None:
    ports = free_port(), free_port()
    begun = time.monotonic()
    with (
        cluster_of(",".join(f"127.0.0.1:{port}" for port in ports), default_api_timeout_ms=50) as cluster,
        pytest.raises(NoBrokers) as caught,
    ):
        cluster.topics()
    assert all(f"cannot connect to 127.0.0.1:{port}" in str(caught.value) for port in ports)
    assert time.monotonic() - begun < 30  # and not default.api.timeout.ms
    with pytest.raises(ConfigError, match="no brokers are given"):
        cluster_of(" , ")


def test_an_unreachable_broker_is_reported_within_15_seconds() -> None:
    """The next test proves that the time is kept, with a shorter one."""
    assert FIRST_CONTACT_SECONDS <= 12  # and up to three for the start of a query


def test_a_driver_learns_soon_that_no_broker_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylogbroker.blocking.cluster.FIRST_CONTACT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        bootstrap = f"127.0.0.1:{free_port()},127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        with cluster_of(bootstrap, default_api_timeout_ms=300_000) as cluster, pytest.raises(NoBrokers) as caught:
            cluster.reach()
    assert time.monotonic() - begun < 60
    assert str(caught.value).startswith("no broker can be reached: cannot connect to 127.0.0.1:")
    assert str(caught.value).endswith("check that one runs and that bootstrap.servers names it")


def test_a_driver_reaches_any_broker_of_the_list(topics: Topics) -> None:
    with cluster_of(f"127.0.0.1:{free_port()},{topics.bootstrap}") as cluster:
        cluster.reach()
        assert cluster.any_connection().is_open


def test_retriable_errors_are_retried() -> None:
    cluster = cluster_of("nobody:1", retry_backoff_ms=0, default_api_timeout_ms=60_000)
    errors = iter([ConnectionLost("a"), RequestTimedOut("b"), KafkaError("c", ErrorCode.NOT_LEADER_OR_FOLLOWER)])

    def work() -> str:
        for error in errors:
            raise error
        return "done"

    assert cluster.retrying(work) == "done"
    with pytest.raises(KafkaError, match="never"):
        cluster.retrying(lambda: fail(KafkaError("never", ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    begun = time.monotonic()
    with pytest.raises(ConnectionLost, match="always"):
        cluster.retrying(lambda: fail(ConnectionLost("always")), 0.05)
    assert 0.03 < time.monotonic() - begun < 30


def fail(error: Exception) -> None:
    raise error


class Reported(BlockingCluster):
    """Answers metadata of one topic with one partition: the next brokers and leader of a list, request by request."""

    def __init__(self, *reported: tuple[set[int], int]) -> None:
        super().__init__(read(CONSUMER, {"bootstrap.servers": "nobody:1", "retry.backoff.ms": 0}))
        self.reported = list(reported)

    def any_connection(self) -> Any:
        return self

    def ask(self, _: object) -> MetadataResponse:
        brokers, leader = self.reported.pop(0)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(number, f"host{number}", 9092) for number in brokers],
            topics=[MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(leader_id=leader)])],
        )


def test_a_leader_that_is_not_there_any_more() -> None:
    cluster = Reported(({1, 2}, 2), ({1, 2}, -1), ({1}, 2), ({1}, 1))
    asked: list[str] = []

    def work() -> str:
        asked.append(str(cluster.address_of(cluster.leader_id("t", 0))))
        if asked[-1] == "host2:9092":
            raise ConnectionLost("it was killed")
        return asked[-1]

    assert cluster.retrying(work) == "host1:9092"
    assert asked == ["host2:9092", "host1:9092"]
    assert cluster.reported == []


def test_questions_while_answers_are_on_their_way(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [Rec(b"v" * 100, partition=0) for _ in range(10)])
    key = topic, 0
    with cluster_of(topics.bootstrap) as cluster:
        leader = cluster.leader(*key)
        request = fetch_request(cluster.settings, [FetchTarget(*key, 0, 1000)], wait_ms=500)
        leader.send(request, version=NAMES_VERSION_MAX)
        assert list(cluster.topics([topic])) == [topic]
        assert cluster.offsets({key: LATEST})[key].offset == 10
        [answer] = leader.receive().responses
        assert answer.partitions[0].high_watermark == 10
