"""`pylogbroker group` on groups of KIP-848, whose coordinator computes the assignments: Apache Kafka's and ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer

from pylogbroker.cli import main
from tests.clients.admin import create_topic
from tests.peers import available
from tests.peers.tools import start_tool
from tests.support.brokers import Broker, KafkaProcess
from tests.support.waiting import wait_until

#: Kafka 3.9 offers the protocol as a preview; librdkafka needs a later version of it.
SETTINGS = {"group.coordinator.rebalance.protocols": "classic,consumer", "unstable.api.versions.enable": "true"}


QUICK = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
}


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Broker]:
    broker = KafkaProcess(tmp_path, SETTINGS)
    broker.start()
    yield broker
    broker.kill()


def ours(broker: Broker, *arguments: str) -> Any:
    found = CliRunner().invoke(main, [*arguments, "-b", broker.bootstrap, "--format", "json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_a_group_of_our_broker(new_broker: Callable[..., Broker]) -> None:
    """Show epochs, subscriptions, and what members are to have."""
    broker = new_broker(QUICK)
    broker.start()
    create_topic(broker.bootstrap, "t", 4)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "group.protocol": "consumer"}
    consumers = [Consumer(settings | {"client.id": name, "group.instance.id": name}) for name in ("one", "two")]
    consumers[0].subscribe(["t"])
    consumers[1].subscribe(["^t.*"])
    try:
        wait_until(lambda: [consumer.poll(0.02) for consumer in consumers] and is_shared(broker))
        [group] = ours(broker, "group", "describe", "g")
        assert (group["type"], group["protocol"], group["state"]) == ("consumer", "uniform", "Stable")
        assert group["epoch"] == group["target_epoch"] > 0
        members = {member["instance"]: member for member in group["members"]}
        assert {member["epoch"] for member in members.values()} == {group["epoch"]}
        assert all(member["target"] == member["partitions"] for member in members.values())
        assert {name: (member["topics"], member["expression"]) for name, member in members.items()} == {
            "one": (["t"], ""),
            "two": ([], "(^t.*)"),  # as librdkafka writes it
        }
        table = CliRunner().invoke(main, ["group", "describe", "g", "-b", broker.bootstrap]).stdout
        assert "SUBSCRIPTION" in table.upper()
        assert "(^t.*)" in table
        assert [row["group"] for row in ours(broker, "group", "list", "--type", "consumer")] == ["g"]
        assert ours(broker, "group", "list", "--type", "Classic") == []
        wrong = CliRunner().invoke(main, ["group", "list", "-b", broker.bootstrap, "--type", "consumers"])
        assert "'consumers' is not one of 'classic', 'consumer', 'share', 'streams'" in wrong.stderr
        check_settings(broker)
    finally:
        for consumer in consumers:
            consumer.close()


def check_settings(broker: Broker) -> None:
    """Change a group's own settings, as the ranges of the broker's file allow."""

    def alter(value: str) -> Result:
        words = ("config", "alter", "group", "g", "-s", f"consumer.heartbeat.interval.ms={value}")
        return CliRunner().invoke(main, [*words, "-b", broker.bootstrap])

    assert alter("300").exit_code == 0
    [row] = ours(broker, "config", "describe", "group", "g")
    assert (row["name"], row["value"], row["source"]) == ("consumer.heartbeat.interval.ms", "300", "group")
    assert "consumer.heartbeat.interval.ms" in alter("1").stderr


def is_shared(broker: Broker) -> bool:
    groups = ours(broker, "group", "list", "--state", "Stable")
    members = ours(broker, "group", "describe", "g")[0]["members"] if groups else []
    return [len(member["partitions"]) for member in members] == [2, 2]


@pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
def test_a_group_whose_coordinator_assigns(kafka: Broker) -> None:
    create_topic(kafka.bootstrap, "t", 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for _ in range(5):
        producer.produce("t", b"value", partition=0)
    assert producer.flush(60) == 0
    options = ("group.protocol=consumer", "client.id=me", "enable.auto.commit=false")
    properties = [each for option in options for each in ("--consumer-property", option)]
    consumer = start_tool(
        "kafka-console-consumer", "--bootstrap-server", kafka.bootstrap, "--topic", "t", "--group", "g", *properties
    )
    try:
        check_member(kafka)
    finally:
        consumer.terminate()
        consumer.communicate()
    wait_until(lambda: ours(kafka, "group", "describe", "g")[0]["state"] == "Empty")
    ours(kafka, "group", "reset", "g", "--to-latest", "-t", "t", "--yes")
    assert [(each["committed"], each["lag"]) for each in ours(kafka, "group", "lag", "g")] == [(5, 0), (0, 0)]


def check_member(kafka: Broker) -> None:
    assigned = [{"topic": "t", "partition": each} for each in (0, 1)]

    def members() -> list[Any]:
        groups = ours(kafka, "group", "list")
        return ours(kafka, "group", "describe", "g")[0]["members"] if groups else []  # type: ignore[no-any-return]

    wait_until(lambda: [(each["client"], each["partitions"]) for each in members()] == [("me", assigned)], what=members)
    assert [(each["group"], each["type"]) for each in ours(kafka, "group", "list")] == [("g", "consumer")]
    [found] = ours(kafka, "group", "describe", "g")
    assert (found["state"], found["type"], found["protocol"]) == ("Stable", "consumer", "uniform")
    rows = [(each["partition"], each["end_offset"], each["client"]) for each in ours(kafka, "group", "lag", "g")]
    assert rows == [(0, 5, "me"), (1, 0, "me")]
