"""Kafka's tool for quotas against both brokers, and clients that are throttled."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import NodeNotReadyError, ThrottlingQuotaExceededError

from tests.peers import available
from tests.peers.tools import tool
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")

ENTITIES = (
    (("users", "alice"), "producer_byte_rate=1024,consumer_byte_rate=2048"),
    (("users", None), "request_percentage=150.5"),
    (("users", "alice", "clients", "app 1"), "producer_byte_rate=4096"),
    (("users", "alice", "clients", None), "controller_mutation_rate=0.5"),
    (("clients", "app 1"), "consumer_byte_rate=512"),
    (("clients", None), "producer_byte_rate=1000000"),
    (("ips", "10.0.0.1"), "connection_creation_rate=10"),
    (("ips", None), "connection_creation_rate=20"),
)


def arguments(entity: tuple[str | None, ...]) -> list[str]:
    found: list[str] = []
    for kind, name in zip(entity[::2], entity[1::2], strict=True):
        found += ["--entity-type", str(kind), *(["--entity-default"] if name is None else ["--entity-name", name])]
    return found


def test_kafka_configs(broker: Broker) -> None:
    def configs(*options: str) -> list[str]:
        shown = tool("kafka-configs", "--bootstrap-server", broker.bootstrap, *options).stdout.strip()
        return sorted(line for line in shown.splitlines() if not line.startswith("SCRAM"))  # other tests have users

    try:
        for entity, quotas in ENTITIES:
            [line] = configs("--alter", *arguments(entity), "--add-config", quotas)
            assert line.startswith("Completed updating"), line
        assert configs("--describe", "--entity-type", "users") == [
            "Quota configs for the default user-principal are request_percentage=150.5",
            "Quota configs for user-principal 'alice' are consumer_byte_rate=2048.0, producer_byte_rate=1024.0",
        ]
        assert configs("--describe", "--entity-type", "users", "--entity-type", "clients") == [
            "Quota configs for user-principal 'alice', client-id 'app 1' are producer_byte_rate=4096.0",
            "Quota configs for user-principal 'alice', the default client-id are controller_mutation_rate=0.5",
        ]
        assert configs("--describe", "--entity-type", "clients", "--entity-default") == [
            "Quota configs for the default client-id are producer_byte_rate=1000000.0"
        ]
        assert configs("--describe", "--entity-type", "ips") == [
            "Quota configs for ip '10.0.0.1' are connection_creation_rate=10.0",
            "Quota configs for the default ip are connection_creation_rate=20.0",
        ]
        failed = tool(
            "kafka-configs",
            *("--bootstrap-server", broker.bootstrap, "--alter", *arguments(("users", "bob"))),
            *("--add-config", "producer_byte_rate=-1"),
            check=False,
        )
        assert "must be greater than 0" in failed.stdout + failed.stderr
    finally:
        for entity, quotas in ENTITIES:
            keys = ",".join(each.partition("=")[0] for each in quotas.split(","))
            undo = ("--alter", *arguments(entity), "--delete-config", keys)
            tool("kafka-configs", "--bootstrap-server", broker.bootstrap, *undo, check=False)
    assert configs("--describe", "--entity-type", "users") == []


@pytest.fixture
def limited(new_broker: Callable[..., Broker]) -> Broker:
    """A broker whose clients may produce 20 kB per second."""
    broker = new_broker({})
    broker.start()
    tool(
        "kafka-configs",
        *("--bootstrap-server", broker.bootstrap, "--alter", "--entity-type", "clients", "--entity-default"),
        *("--add-config", "producer_byte_rate=20000"),
    )
    return broker


def test_producers_learn_how_long_they_are_throttled(limited: Broker) -> None:
    throttled: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": limited.bootstrap,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    for _ in range(2):
        producer.produce("throttled", b"v" * 105_000)
        assert producer.flush(120) == 0
    wait_until(lambda: producer.poll(0.1) >= 0 and throttled)
    assert max(throttled) == pytest.approx(0.5, abs=0.3)  # 210 kB at 20 kB per second, within 10 s

    other = KafkaProducer(bootstrap_servers=limited.bootstrap, client_id="kafka-python")
    for _ in range(2):
        other.send("throttled", b"v" * 105_000).get(120)
    longest = max(group.get("throttle-time-max", 0.0) for group in other.metrics().values())
    other.close()
    assert longest == pytest.approx(500, abs=300)

    shown = tool(
        "kafka-producer-perf-test",
        *("--topic", "throttled", "--num-records", "2", "--record-size", "105000", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={limited.bootstrap}", "client.id=java", "batch.size=1"),
        "--print-metrics",
    ).stdout
    [line] = [each for each in shown.splitlines() if "produce-throttle-time-max" in each]
    assert float(line.rpartition(":")[2]) == pytest.approx(500, abs=300)


def set_quota(broker: Broker, kind: str, quota: str) -> None:
    where = ("--bootstrap-server", broker.bootstrap, "--alter", "--entity-type", kind, "--entity-default")
    tool("kafka-configs", *where, "--add-config", quota)


ATTEMPTS = 5
SHORT = {"quota.window.num": "2", "controller.quota.window.num": "2"}
"""Windows for tests: clients have used up what they may at once after a second, not after ten."""


def test_consumers_are_throttled(new_broker: Callable[..., Broker], caplog: pytest.LogCaptureFixture) -> None:
    """They learn of it, and get all records."""
    broker = new_broker(SHORT)
    broker.start()
    sent = [bytes([number]) * 105_000 for number in range(8)]
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for value in sent:
            producer.send("fetched", value).get(60)
    set_quota(broker, "clients", "consumer_byte_rate=200000")

    throttled: list[float] = []
    settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "client.id": "librdkafka", "group.id": "unused"}
    settings |= {"throttle_cb": lambda event: throttled.append(event.throttle_time)}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition("fetched", 0, 0)])
        found = [message.value() for _ in sent if (message := consumer.poll(60)) is not None]
        wait_until(lambda: consumer.poll(0.1) is None and bool(throttled), 60)
    assert found == sent
    assert max(throttled) > 0.1

    how = {"client_id": "kafka-python", "auto_offset_reset": "earliest", "max_partition_fetch_bytes": 200_000}
    with closing(KafkaConsumer("fetched", bootstrap_servers=broker.bootstrap, **how)) as other:
        assert [next(other).value for _ in sent] == sent
    assert "FetchResponse throttled by broker" in caplog.text


def test_creating_many_partitions_is_throttled(new_broker: Callable[..., Broker]) -> None:
    """A client that knows the error gets it; it may go on when the tokens are back."""
    broker = new_broker(SHORT)
    broker.start()
    set_quota(broker, "clients", "controller_mutation_rate=2")

    def create(name: str, partitions: int) -> None:
        admin.create_topics([NewTopic(name, partitions, 1)])

    def create_more() -> None:
        for number in range(ATTEMPTS):  # the tokens may be back already, after three seconds
            create(f"other-{number}", 8)

    def created() -> bool:
        with suppress(ThrottlingQuotaExceededError, NodeNotReadyError):  # or the client itself still waits
            create("second", 1)
            return True
        return False

    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        create("first", 8)  # the bucket has 4 tokens
        with pytest.raises(ThrottlingQuotaExceededError):
            create_more()
        wait_until(created)
        assert set(admin.list_topics()) >= {"first", "second"}


def test_new_connections_are_throttled(new_broker: Callable[..., Broker]) -> None:
    """Beyond the rate of an address, connections are closed late; clients connect again until all are served."""
    broker = new_broker(SHORT)
    broker.start()
    set_quota(broker, "ips", "connection_creation_rate=5")
    began = time.monotonic()
    clients = [AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}) for _ in range(20)]
    for client in clients:
        assert client.list_topics(timeout=60).brokers
    assert time.monotonic() - began > 1  # 20 connections at 5 per second
