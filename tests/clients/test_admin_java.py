"""Kafka's own admin client, of release 3.9 and of the newest."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from tests.clients.adapters.base import Client, Rejected
from tests.clients.adapters.java import Java
from tests.clients.admin import create_topic, eventually
from tests.clients.members.member_process import Member, until_shared
from tests.clients.model import START, Rec

Ask = Callable[..., list[list[str]]]
NON_EMPTY_GROUP = 68
TOPIC_ALREADY_EXISTS = 36
INVALID_CONFIG = 40
INVALID_PARTITIONS = 37
UNKNOWN_TOPIC_OR_PARTITION = 3
OFFSET_OUT_OF_RANGE = 1


@pytest.fixture(params=["java-3.9", "java-4"])
def java(request: pytest.FixtureRequest, client_named: Callable[[str], Client]) -> Java:
    return cast(Java, client_named(request.param))


@pytest.fixture
def ask(java: Java, bootstrap: str) -> Ask:
    """One of the commands in java/Admins.java."""
    return lambda command, *arguments: java.call(command, bootstrap, *arguments)


def error(ask: Ask, *arguments: object) -> int:
    with pytest.raises(Rejected) as rejected:
        ask(*arguments)
    return rejected.value.code


def test_topics_are_created_described_and_deleted(ask: Ask, topic: str) -> None:
    ((topic_id, partitions, replicas),) = ask("create-topic", topic, 3, "retention.ms=123456", False)
    assert (partitions, replicas) == ("3", "1")
    eventually(lambda: [topic] in ask("topics"), True)
    (head, *found) = ask("topic", topic)
    assert head == [topic_id, "false"]
    assert [(each[0], each[2], each[3]) for each in found] == [(str(number), "1", "1") for number in range(3)]
    assert error(ask, "create-topic", topic, 3, "", False) == TOPIC_ALREADY_EXISTS
    ask("delete-topic", topic)
    eventually(lambda: [topic] in ask("topics"), False)
    assert error(ask, "delete-topic", topic) == UNKNOWN_TOPIC_OR_PARTITION


def test_wrong_settings_are_rejected(ask: Ask, topic: str) -> None:
    assert error(ask, "create-topic", topic, 1, "retention.ms=many", False) == INVALID_CONFIG
    assert error(ask, "create-topic", topic, 1, "no.such.setting=1", True) == INVALID_CONFIG
    assert ask("create-topic", topic, 1, "", True)[0][1:] == ["1", "1"]
    assert [topic] not in ask("topics")


def test_partitions_are_added(ask: Ask, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    ask("create-partitions", topic, 4)
    eventually(lambda: len(ask("topic", topic)), 5)
    assert error(ask, "create-partitions", topic, 3) == INVALID_PARTITIONS


def configs(ask: Ask, kind: str, name: str) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in ask("configs", kind, name)}


def test_topic_settings_are_described_and_altered(ask: Ask, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    assert configs(ask, "topic", topic)["delete.retention.ms"][:3] == ["86400000", "DEFAULT_CONFIG", "LONG"]
    ask("alter-config", "topic", topic, "SET", "delete.retention.ms", "5000")
    wanted = ["5000", "DYNAMIC_TOPIC_CONFIG", "LONG", "false"]
    eventually(lambda: configs(ask, "topic", topic)["delete.retention.ms"][:4], wanted)
    ask("alter-config", "topic", topic, "APPEND", "cleanup.policy", "compact")
    eventually(lambda: configs(ask, "topic", topic)["cleanup.policy"][0], "delete,compact")
    ask("alter-config", "topic", topic, "SUBTRACT", "cleanup.policy", "delete")
    eventually(lambda: configs(ask, "topic", topic)["cleanup.policy"][0], "compact")
    ask("alter-config", "topic", topic, "DELETE", "delete.retention.ms", "")
    eventually(lambda: configs(ask, "topic", topic)["delete.retention.ms"][0], "86400000")
    assert error(ask, "alter-config", "topic", topic, "SET", "segment.bytes", "1") == INVALID_CONFIG


def test_all_settings_have_documentation(ask: Ask, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    of_topic = configs(ask, "topic", topic)
    ((_, controller, _),) = ask("cluster")
    of_broker = configs(ask, "broker", controller)
    assert len(of_topic) >= 25
    assert len(of_broker) >= 60
    assert all(row[5] == "true" for row in of_topic.values())
    assert int(of_topic["segment.bytes"][4]) >= 1  # its synonyms
    assert of_broker["log.dirs"][3] == "true"
    assert of_broker["num.partitions"][0] == "1"


def test_cluster_is_described(ask: Ask, bootstrap: str) -> None:
    ((cluster_id, controller, nodes),) = ask("cluster")
    assert nodes == f"{controller}@{bootstrap}"
    assert len(cluster_id) == 22


def test_offsets_are_listed(ask: Ask, java: Java, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    assert ask("list-offset", topic, 0, "max-timestamp") == [["-1", "-1"]]
    times = (START + 10, START + 30, START + 20)
    java.write(bootstrap, topic, [Rec(b"x", timestamp=each) for each in times])
    assert ask("list-offset", topic, 0, "earliest")[0][0] == "0"
    assert ask("list-offset", topic, 0, "latest")[0][0] == "3"
    assert ask("list-offset", topic, 0, "max-timestamp") == [["1", str(START + 30)]]
    assert ask("list-offset", topic, 0, START + 15) == [["1", str(START + 30)]]
    assert ask("list-offset", topic, 0, START + 31) == [["-1", "-1"]]


def test_records_are_deleted(ask: Ask, java: Java, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    java.write(bootstrap, topic, [Rec(b"x")] * 10)
    assert ask("delete-records", topic, 0, 7) == [["7"]]
    assert ask("bounds", topic, 0) == [["7", "10"]]
    assert error(ask, "delete-records", topic, 0, 11) == OFFSET_OUT_OF_RANGE
    assert ask("delete-records", topic, 0, -1) == [["10"]]


def test_log_directories_are_described(ask: Ask, java: Java, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    java.write(bootstrap, topic, [Rec(b"x" * 10_000, partition=1)])
    (directory, empty, filled) = ask("log-dirs", topic)
    assert directory[1] == "null"
    assert empty == ["0", "0"]
    assert 10_000 < int(filled[1]) < 10_200


def test_group_offsets_are_altered_listed_and_deleted(ask: Ask, bootstrap: str, topic: str, group: str) -> None:
    create_topic(bootstrap, topic, 2)
    ask("alter-group-offset", group, topic, 0, 3, "drei")
    ask("alter-group-offset", group, topic, 1, 4, "grün")
    assert sorted(ask("group-offsets", group)) == [[topic, "0", "3", "drei"], [topic, "1", "4", "grün"]]
    ask("delete-group-offset", group, topic, 0)
    assert ask("group-offsets", group) == [[topic, "1", "4", "grün"]]
    assert ask("group", group)[0][0] == "Empty"


def test_group_is_listed_described_and_deleted(ask: Ask, java: Java, bootstrap: str, topic: str, group: str) -> None:
    create_topic(bootstrap, topic, 3)
    member = Member(java.name, bootstrap, group, topic)
    try:
        until_shared([member], 3)
        ((state, assignor, _), (_, host, partitions)) = ask("group", group)
        assert (state, assignor, host, partitions) == ("Stable", "range", "/127.0.0.1", "3")
        assert [group, "Stable"] in ask("groups")
        assert error(ask, "delete-group", group) == NON_EMPTY_GROUP
        member.commit()
        member.leave()
    finally:
        member.process.kill()
    assert [group, "Empty"] in ask("groups")
    ask("delete-group", group)
    assert group not in [row[0] for row in ask("groups")]
