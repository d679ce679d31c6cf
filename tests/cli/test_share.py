"""`pylogbroker share` on a running broker: groups, where they start, dead letters and their redrive."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from pylogbroker.cli import main
from pylogbroker.client import AcknowledgeType
from pylogbroker.client.sync import ShareConsumer
from tests.clients.admin import create_topic
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

GROUP = "packers"
QUICK = {"share.coordinator.state.topic.num.partitions": "1", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("broker"), QUICK)
    running.start()
    yield running
    running.kill()
    assert running.unexpected_errors() == []


def invoke(broker: BrokerProcess, *arguments: object, given: str = "") -> Result:
    return CliRunner().invoke(main, [*map(str, arguments), "-b", broker.bootstrap], input=given)


def rows(broker: BrokerProcess, *arguments: object) -> list[dict[str, Any]]:
    result = invoke(broker, *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    answer: list[dict[str, Any]] = json.loads(result.stdout)
    return answer


def group_of(broker: BrokerProcess, name: str, copies: bool = False) -> str:
    """A share group with a topic, and a topic of dead letters; the names of both begin with that of the group."""
    create_topic(broker.bootstrap, f"{name}-orders", 1)
    create_topic(broker.bootstrap, f"dlq.{name}", 1, {"errors.deadletterqueue.group.enable": "true"})
    settings = {
        "share.auto.offset.reset": "earliest",
        "errors.deadletterqueue.topic.name": f"dlq.{name}",
        "errors.deadletterqueue.copy.record.enable": str(copies).lower(),
    }
    given = [part for setting, value in settings.items() for part in ("--set", f"{setting}={value}")]
    result = invoke(broker, "config", "alter", "group", name, *given)
    assert result.exit_code == 0, result.output
    return name


def produce(broker: BrokerProcess, topic: str, values: Mapping[str, str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value in values.items():
        producer.produce(topic, value, key, headers={"from": key})
    assert producer.flush(60) == 0


def acknowledge(broker: BrokerProcess, group: str, kinds: Mapping[bytes, AcknowledgeType]) -> None:
    """Read the records of these keys, and acknowledge each."""
    left = dict(kinds)
    with ShareConsumer(broker.bootstrap, group=group) as consumer:
        consumer.subscribe([f"{group}-orders"])
        while left:
            for message in consumer.poll(10):
                consumer.acknowledge(message, left.pop(message.key, AcknowledgeType.RELEASE))
        consumer.commit()


def letters(broker: BrokerProcess, group: str, *options: str) -> list[dict[str, Any]]:
    return rows(broker, "share", "letters", group, *options)


def values(broker: BrokerProcess, topic: str) -> list[str]:
    result = invoke(broker, "consume", topic, "-e", "-f", r"%k=%s %h\n")
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize("copies", [False, True])
def test_records_of_dead_letters_are_sent_again(broker: BrokerProcess, copies: bool) -> None:
    group = group_of(broker, f"packers-{copies}".lower(), copies)
    produce(broker, f"{group}-orders", {"a": "one", "b": "two", "c": "three"})
    kinds = {b"a": AcknowledgeType.ACCEPT, b"b": AcknowledgeType.REJECT, b"c": AcknowledgeType.REJECT}
    acknowledge(broker, group, kinds)
    wait_until(lambda: len(letters(broker, group)) == 2)
    first, second = letters(broker, group)
    assert (first["topic"], first["partition"], first["offset"]) == (f"{group}-orders", 0, 1)
    assert (first["deliveries"], first["why"]) == (1, "Offset rejected by client.")
    assert (first["key"], first["value"]) == (("b", "two") if copies else (None, None))
    assert [letter["offset"] for letter in letters(broker, group, "-n", "1")] == [1]

    dry = invoke(broker, "share", "redrive", group, "--dry-run")
    assert (dry.exit_code, f"2 dead letters of share group {group} in dlq.{group}." in dry.stderr) == (0, True)
    without_consent = invoke(broker, "share", "redrive", group, given="n\n")
    assert (without_consent.exit_code, len(letters(broker, group))) == (1, 2)
    done = invoke(broker, "share", "redrive", group, "-y", "-n", "1")
    assert (done.exit_code, "Sent 1 record again." in done.stderr) == (0, True), done.output
    assert letters(broker, group) == [second]
    assert invoke(broker, "share", "redrive", group, "-y").exit_code == 0
    assert values(broker, f"{group}-orders") == [
        "a=one from=a",
        "b=two from=b",
        "c=three from=c",
        "b=two from=b",
        "c=three from=c",
    ]
    assert letters(broker, group) == []
    assert letters(broker, group, "--all") == [first, second]
    assert "0 dead letters" in invoke(broker, "share", "redrive", group, "-y").stderr


def test_records_that_are_gone_are_named(broker: BrokerProcess) -> None:
    group = group_of(broker, "forgetful")
    produce(broker, f"{group}-orders", {"a": "one", "b": "two"})
    acknowledge(broker, group, {b"a": AcknowledgeType.REJECT, b"b": AcknowledgeType.REJECT})
    wait_until(lambda: len(letters(broker, group)) == 2)
    assert invoke(broker, "topic", "trim", f"{group}-orders", "--before-offset", "1", "--yes").exit_code == 0
    result = invoke(broker, "share", "redrive", group, "-y")
    assert result.exit_code == 1
    why = "as the topic has deleted them and the dead letters have no copies"
    assert f"1 record could not be sent, {why}: {group}-orders/0@0" in result.stderr
    assert values(broker, f"{group}-orders") == ["b=two from=b", "b=two from=b"]
    assert letters(broker, group) == []


def test_dead_letters_name_no_other_topics_and_no_records_that_never_were(broker: BrokerProcess) -> None:
    group = group_of(broker, "deceived")
    create_topic(broker.bootstrap, "payments", 1)
    produce(broker, f"{group}-orders", {"a": "one"})
    acknowledge(broker, group, {b"a": AcknowledgeType.REJECT})
    wait_until(lambda: len(letters(broker, group)) == 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for topic, value, number in (("payments", "forged", 0), (f"{group}-orders", None, 10**15)):
        origin = {"topic": topic, "partition": "0", "offset": str(number), "group": group, "delivery.count": "1"}
        headers = {f"__dlq.errors.{name}": text for name, text in origin.items()}
        producer.produce(f"dlq.{group}", value, headers=headers, partition=0)
    assert producer.flush(60) == 0
    result = invoke(broker, "share", "redrive", group, "-y")
    assert (result.exit_code, f"share group {group} does not read: payments." in result.stderr) == (1, True)
    assert (values(broker, "payments"), len(letters(broker, group))) == ([], 3)
    allowed = ("--topic", "payments", "--topic", f"{group}-orders")
    result = invoke(broker, "share", "redrive", group, "-y", *allowed)
    assert (result.exit_code, f"no copies: {group}-orders/0@{10**15}" in result.stderr) == (1, True), result.output
    assert (values(broker, "payments"), len(values(broker, f"{group}-orders"))) == (["=forged "], 2)


def test_groups_are_shown_and_begin_elsewhere(broker: BrokerProcess) -> None:
    group = group_of(broker, "shown")
    produce(broker, f"{group}-orders", {"a": "one", "b": "two"})
    with ShareConsumer(broker.bootstrap, group=group) as consumer:
        consumer.subscribe([f"{group}-orders"])
        wait_until(lambda: consumer.poll(1, timeout=0.1))
        [member] = rows(broker, "share", "describe", group)
        assert (member["state"], member["partitions"]) == ("Stable", [f"{group}-orders/0"])
        busy = invoke(broker, "share", "reset", group, "--to-latest", "-y")
        assert (busy.exit_code, "stop its members first" in busy.stderr) == (1, True)
    listed = {row["group"]: row for row in rows(broker, "share", "list")}
    assert (listed[group]["state"], listed[group]["topics"]) == ("Empty", [f"{group}-orders"])
    lags = {row["group"]: row["lag"] for row in rows(broker, "group", "list", "--lag")}
    assert lags[group] == listed[group]["lag"] == 2
    assert group not in {row["group"] for row in rows(broker, "group", "lag")}
    described = invoke(broker, "group", "describe", group)
    assert (described.exit_code, f"{group} is a share group: `pylogbroker share" in described.stderr) == (1, True)
    preview = invoke(broker, "share", "reset", group, "--to-offset", "9", "--dry-run")
    note = f"Not all partitions have offset 9; the nearest is taken: {group}-orders/0: 2.\n"
    assert (preview.exit_code, preview.stderr) == (0, note), preview.output
    assert invoke(broker, "share", "reset", group, "--to-latest", "-y").exit_code == 0
    [row] = rows(broker, "share", "lag", group)
    assert (row["topic"], row["partition"], row["start"], row["lag"]) == (f"{group}-orders", 0, 2, 0)
    assert invoke(broker, "share", "forget", group, f"{group}-orders", "-y").exit_code == 0
    assert rows(broker, "share", "lag", group) == []
    assert invoke(broker, "group", "delete", group, "-y").exit_code == 0
    assert group not in {row["group"] for row in rows(broker, "share", "list")}


def test_wrong_use_is_explained(broker: BrokerProcess) -> None:
    unknown = invoke(broker, "share", "describe", "nobody")
    assert (unknown.exit_code, "share group nobody" in unknown.stderr) == (1, True), unknown.output
    without = invoke(broker, "share", "letters", "nobody")
    assert without.exit_code == 1
    assert "share group nobody has no topic of dead letters: `pylogbroker config alter group nobody" in without.stderr
    both = invoke(broker, "share", "reset", "nobody", "--to-latest", "--to-earliest")
    assert (both.exit_code, "give one of --to-earliest" in both.stderr) == (2, True)
