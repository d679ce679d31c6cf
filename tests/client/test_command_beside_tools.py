"""The JSON of the command `pylogbroker` beside Kafka's own tools on the same cluster."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from pylogbroker.cli import main
from tests.clients.admin import create_topic
from tests.peers import available
from tests.peers.tools import tool
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster",
    "STATIC_BROKER_CONFIG": "static",
    "DEFAULT_CONFIG": "default",
}


def ours(broker: Broker, *arguments: str) -> Any:
    """Return the JSON of the command."""
    found = CliRunner().invoke(main, [*arguments, "-b", broker.bootstrap, "--format", "json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def theirs(broker: Broker, name: str, *arguments: str) -> list[str]:
    """Return the lines of a tool of Kafka."""
    return tool(name, "--bootstrap-server", broker.bootstrap, *arguments).stdout.splitlines()


def table(broker: Broker, *arguments: str) -> list[dict[str, str | None]]:
    """Return the rows of a table of kafka-consumer-groups."""
    lines = theirs(broker, "kafka-consumer-groups", *arguments)
    [head] = [number for number, line in enumerate(lines) if line.startswith("GROUP ")]
    names = re.sub(r"COORDINATOR \(ID\)", "COORDINATOR ID", lines[head]).split()
    rows = [dict(zip(names, line.split(), strict=True)) for line in lines[head + 1 :] if line.strip()]
    return [{name: None if text == "-" else text for name, text in row.items()} for row in rows]


def as_text(value: object) -> str | None:
    return None if value is None else str(value)


@pytest.fixture
def consumer(broker: Broker, group: str) -> Iterator[Consumer]:
    """A member of the group, which commits nothing by itself."""
    made = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": "me", "enable.auto.commit": False}
    )
    yield made
    made.close()


def test_topics(broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 3, {"retention.ms": "123456", "cleanup.policy": "compact,delete"})
    [found] = ours(broker, "topic", "describe", topic)
    head, *lines = [
        dict(re.findall(r"(\w+): ?([^\t]*)", line))
        for line in theirs(broker, "kafka-topics", "--describe", "--topic", topic)
        if line
    ]
    assert (head["Topic"], head["PartitionCount"]) == (found["topic"], str(len(found["partitions"])))
    assert UUID(bytes=base64.urlsafe_b64decode(head["TopicId"] + "==")) == UUID(found["topic_id"])
    [listed] = [each for each in ours(broker, "topic", "list") if each["topic"] == topic]
    assert (head["PartitionCount"], head["ReplicationFactor"]) == (
        str(listed["partitions"]),
        str(listed["replication_factor"]),
    )
    configs = dict(re.findall(r"([a-z.]+)=(.*?)(?=,[a-z.]+=|$)", head["Configs"]))
    assert {name: configs.get(name) for name in found["configs"]} == found["configs"]
    assert found["configs"].keys() >= {"retention.ms", "cleanup.policy"}
    assert [(each["Partition"], each["Leader"], each["Replicas"], each["Isr"]) for each in lines] == [
        (str(each["partition"]), str(each["leader"]), *(",".join(map(str, each[name])) for name in ("replicas", "isr")))
        for each in found["partitions"]
    ]
    names = {each["topic"] for each in ours(broker, "topic", "list", "--internal")}
    assert {topic} <= names & set(theirs(broker, "kafka-topics", "--list"))


def test_offsets(broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 2)
    write(broker, topic, 0, 5)
    CliRunner().invoke(main, ["topic", "trim", f"{topic}:0", "--before-offset", "2", "--yes", "-b", broker.bootstrap])
    [found] = ours(broker, "topic", "describe", topic)
    for time, name in (("earliest", "start_offset"), ("latest", "end_offset")):
        lines = theirs(broker, "kafka-get-offsets", "--topic", topic, "--time", time)
        assert lines == [f"{topic}:{each['partition']}:{each[name]}" for each in found["partitions"]]
    assert [each["start_offset"] for each in found["partitions"]] == [2, 0]


def write(broker: Broker, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for _ in range(count):
        producer.produce(topic, b"value", partition=partition)
    assert producer.flush(120) == 0


def test_a_group_with_a_member(broker: Broker, topic: str, group: str, consumer: Consumer) -> None:
    create_topic(broker.bootstrap, topic, 2)
    write(broker, topic, 0, 5)
    consumer.subscribe([topic])

    def joined() -> bool:
        consumer.poll(0.1)
        return len(consumer.assignment()) == 2

    wait_until(joined)
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    of_group = ("--describe", "--group", group)
    rows = [
        (each["TOPIC"], each["PARTITION"], each["CURRENT-OFFSET"], each["LOG-END-OFFSET"], each["LAG"],
         each["CLIENT-ID"], each["HOST"])
        for each in table(broker, *of_group)
    ]  # fmt: skip
    names = ("topic", "partition", "committed", "end_offset", "lag", "client", "host")
    lag = ours(broker, "group", "lag", group)
    assert [tuple(as_text(each[name]) for name in names) for each in lag] == sorted(rows)
    assert [each["lag"] for each in lag] == [2, None]
    [described] = ours(broker, "group", "describe", group)
    [state] = table(broker, *of_group, "--state")
    assert (state["STATE"], state["ASSIGNMENT-STRATEGY"], state["#MEMBERS"]) == (
        described["state"],
        described["protocol"],
        str(len(described["members"])),
    )
    [listed] = [each for each in ours(broker, "group", "list") if each["group"] == group]
    assert (state["ID"], state["STATE"]) == (f"({listed['coordinator']})", listed["state"])
    [member], [found] = table(broker, *of_group, "--members", "--verbose"), described["members"]
    assert (member["CONSUMER-ID"], member["HOST"], member["CLIENT-ID"]) == (
        found["member"],
        found["host"],
        found["client"],
    )
    numbers = ",".join(str(each["partition"]) for each in found["partitions"])
    assert str(member["ASSIGNMENT"]).endswith(f"({numbers})")  # 3.9 leaves the topic out
    assert group in theirs(broker, "kafka-consumer-groups", "--list")


@pytest.mark.parametrize("kind", ["topic", "broker"])
def test_settings(broker: Broker, topic: str, kind: str) -> None:
    create_topic(broker.bootstrap, topic, 1, {"retention.ms": "5000"})
    name = topic if kind == "topic" else str(ours(broker, "cluster", "info")["controller"])
    lines = theirs(broker, "kafka-configs", "--describe", "--all", "--entity-type", f"{kind}s", "--entity-name", name)
    parsed = [re.fullmatch(r"  (\S+?)=(.*) sensitive=(true|false) synonyms=\{(\w*).*\}", line) for line in lines[1:]]
    expected = {each[1]: (each[2], each[3] == "true", SOURCES.get(each[4], "default")) for each in parsed if each}
    found = {
        each["name"]: (str(each["value"]).replace("None", "null"), each["sensitive"], each["source"])
        for each in ours(broker, "config", "describe", kind, name, "--all")
    }
    assert found == expected
    assert len(found) > 20


def test_acls(new_broker: Callable[..., Broker]) -> None:
    broker = new_broker(SETTINGS)
    broker.start()
    for resource in (("--topic", "orders", "--resource-pattern-type", "prefixed"), ("--cluster",)):
        theirs(broker, "kafka-acls", "--add", "--allow-principal", "User:alice", "--operation", "Describe", *resource)
    made = ("allow", "User:bob", "read", "write", "--resource", "group", "--name", "*", "--host", "10.0.0.1")
    created = ours(broker, "acl", "create", *made)
    text = "\n".join(theirs(broker, "kafka-acls", "--list"))
    expected = set()
    for resource, entries in re.findall(r"`ResourcePattern\((.*?)\)`:((?:\s*\(.*\))*)", text):
        for entry in re.findall(r"\((.*)\)", entries):
            expected.add(frozenset(re.findall(r"(\w+)=(.*?)(?:, |$)", f"{resource}, {entry}")))
    names = {
        **{"resourceType": "resource", "name": "name", "patternType": "pattern", "principal": "principal"},
        **{"host": "host", "operation": "operation", "permissionType": "permission"},
    }
    as_words = {"resource", "pattern", "operation", "permission"}
    listed = ours(broker, "acl", "list")
    assert {
        frozenset((name, each[own].upper() if own in as_words else each[own]) for name, own in names.items())
        for each in listed
    } == expected
    assert (len(listed), len(created)) == (4, 2)
