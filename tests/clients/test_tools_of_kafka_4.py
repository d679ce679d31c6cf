"""Command line tools of Kafka 4.4, which take the newest versions that the broker offers."""

from __future__ import annotations

import pytest

from tests.peers import available
from tests.peers.tools import tool

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")


def run(name: str, bootstrap: str, *arguments: str, input: str | None = None, check: bool = True) -> str:
    done = tool(name, "--bootstrap-server", bootstrap, *arguments, input=input, check=check, release="kafka-4.4")
    return done.stdout + done.stderr


def test_records_go_through_console_tools(bootstrap: str, topic: str, group: str) -> None:
    run("kafka-topics", bootstrap, "--create", "--topic", topic, "--partitions", "2")
    run("kafka-console-producer", bootstrap, "--topic", topic, input="one\ntwo\n")
    options = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "2", "--timeout-ms", "200000")
    assert {"one", "two"} <= set(run("kafka-console-consumer", bootstrap, *options).splitlines())
    described = run("kafka-consumer-groups", bootstrap, "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sum(int(row[3]) for row in rows) == 2  # the offsets that were committed
    assert {(row[1], row[5]) for row in rows} == {(topic, "0")}  # no lag
    assert f"Deletion of requested consumer groups ('{group}') was successful." in run(
        "kafka-consumer-groups", bootstrap, "--delete", "--group", group
    )


def test_an_unknown_group_is_an_error(bootstrap: str, group: str) -> None:
    text = run("kafka-consumer-groups", bootstrap, "--describe", "--group", group, "--state", check=False)
    assert f"Group {group} not found" in text or f"Consumer group '{group}' does not exist" in text


def test_topics_offsets_directories_and_brokers(bootstrap: str, topic: str) -> None:
    run("kafka-topics", bootstrap, "--create", "--topic", topic, "--partitions", "2")
    assert f"Topic: {topic}\tPartition: 1\tLeader: " in run("kafka-topics", bootstrap, "--describe", "--topic", topic)
    for time in ("-1", "-2", "-4"):
        assert f"{topic}:1:0" in run("kafka-get-offsets", bootstrap, "--topic", topic, "--time", time)
    assert f'"partition":"{topic}-1"' in run("kafka-log-dirs", bootstrap, "--describe", "--topic-list", topic)
    versions = run("kafka-broker-api-versions", bootstrap)
    assert "Produce(0): 0 to 13 [usable: 13]" in versions
    assert "Fetch(1): " in versions


def test_transactions_are_listed_by_an_expression(bootstrap: str) -> None:
    listed = run("kafka-transactions", bootstrap, "list", "--transactional-id-pattern", "no such id-[0-9]+")
    assert listed.splitlines()[0].split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    failed = run("kafka-transactions", bootstrap, "list", "--transactional-id-pattern", "(", check=False)
    assert "request sent to broker" in failed
    assert "failed with an unexpected exception" in failed


def test_names_with_settings_are_listed(bootstrap: str, topic: str) -> None:
    run(
        "kafka-topics", bootstrap, "--create", "--topic", topic, "--partitions", "1", "--config", "retention.ms=1000000"
    )
    described = run("kafka-configs", bootstrap, "--describe", "--entity-type", "topics")
    assert f"Dynamic configs for topic {topic} are:\n  retention.ms=1000000" in described
    assert "error" not in run("kafka-client-metrics", bootstrap, "--list").lower()
