"""Kafka's tool for quotas against both brokers, and producers that are throttled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from tests.peers import available
from tests.peers.tools import tool
from tests.support.brokers import Broker

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
        return sorted(shown.splitlines())

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
        producer.flush(20)
    producer.poll(0.2)
    assert max(throttled) == pytest.approx(0.5, abs=0.3)  # 210 kB at 20 kB per second, within 10 s

    other = KafkaProducer(bootstrap_servers=limited.bootstrap, client_id="kafka-python")
    for _ in range(2):
        other.send("throttled", b"v" * 105_000).get(20)
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
