"""Commands on a running cluster: their JSON beside what librdkafka sees of the same broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from pylogbroker.cli import cluster_options, main
from pylogbroker.cli.cluster_options import Connection, complete_groups, complete_topics
from pylogbroker.client.admin.cluster_info import FeatureLevels
from pylogbroker.client.admin.groups import CommittedOffset, GroupAdmin
from pylogbroker.client.admin.routing import deferred
from pylogbroker.client.admin.topics import TopicAdmin, TopicListing
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

Command = Callable[..., Result]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def run(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("PYLOGBROKER_BOOTSTRAP_SERVER", broker.bootstrap)

    def run(*arguments: object, given: str = "", code: int = 0) -> Result:
        found = CliRunner().invoke(main, [*map(str, arguments)], input=given)
        assert found.exit_code == code, found.output
        return found

    return run


def as_json(found: Result) -> Any:
    return json.loads(found.stdout)


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1", **config})])[topic].result(60)


def write(broker: Broker, topic: str, *timestamps: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for timestamp in timestamps:
        producer.produce(topic, b"value", partition=partition, timestamp=timestamp)
        assert producer.flush(120) == 0


def commit(broker: Broker, group: str, *offsets: tuple[str, int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(*each) for each in offsets], asynchronous=False)
    consumer.close()


def offsets(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    [found] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(each.topic, each.partition): each.offset for each in found.result(60).topic_partitions}


def test_topics(run: Command, admin: AdminClient, broker: Broker, topic: str) -> None:
    [made] = as_json(run("topic", "create", topic, "-p", 2, "-c", "segment.bytes=1048576", "--format", "json"))
    assert made == {"topic": topic, "partitions": 2, "replication_factor": 1}
    assert f"Error: topic {topic}: " in run("topic", "create", topic, code=1).stderr
    assert as_json(run("topic", "create", topic, "--if-not-exists", "--format", "json")) == []
    write(broker, topic, 1000, 2000, 3000)
    [found] = as_json(run("topic", "describe", topic, "--format", "json"))
    [theirs] = admin.describe_topics(TopicCollection([topic])).values()
    assert [(each["partition"], each["leader"], each["replicas"], each["isr"]) for each in found["partitions"]] == [
        (each.id, each.leader.id, [one.id for one in each.replicas], [one.id for one in each.isr])
        for each in theirs.result(60).partitions
    ]
    assert [(each["start_offset"], each["end_offset"]) for each in found["partitions"]] == [(0, 3), (0, 0)]
    assert (found["topic"], found["configs"]) == (topic, {"segment.bytes": "1048576"})
    [row] = [each for each in as_json(run("topic", "list", "--format", "json")) if each["topic"] == topic]
    size = row.pop("bytes")
    assert row == {**made, "under_replicated": 0, "internal": False, "bytes_per_second": None}
    assert f"{size} B" in run("topic", "list").stdout
    assert "__consumer_offsets" not in run("topic", "list").stdout.split()
    altered = run("topic", "alter", topic, "--set", "retention.ms=5s", "--delete", "segment.bytes")
    assert altered.stderr.splitlines()[0] == "retention.ms=5000 (5s)"
    [configs] = admin.describe_configs([ConfigResource("topic", topic)]).values()
    assert configs.result(60)["retention.ms"].value == "5000"
    assert configs.result(60)["segment.bytes"].is_default
    assert "Keys may change" in run("topic", "add-partitions", topic, 3, given="n\n", code=1).stderr
    run("topic", "add-partitions", topic, 3, "--yes")
    assert len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == 3
    assert "with all records? [y/N]" in run("topic", "delete", topic, given="n\n", code=1).stderr
    run("topic", "delete", topic, given="y\n")
    assert topic not in admin.list_topics(timeout=60).topics
    assert f"there is no topic {topic}" in run("topic", "delete", topic, "--yes", code=1).stderr


def test_many_topics_are_created_each_with_its_result(run: Command, admin: AdminClient, topic: str) -> None:
    create(admin, f"{topic}-7")
    names = [f"{topic}-{number}" for number in range(250)]
    done = run("topic", "create", *names, "x y", "--format", "json", code=1)
    assert {row["topic"] for row in as_json(done)} == {*names} - {f"{topic}-7"}
    first, second, last = done.stderr.splitlines()
    assert first.startswith(f"topic {topic}-7: ")
    assert second.startswith("topic x y: ")
    assert last == "Error: 2 of 251 topics were not created"
    run("topic", "delete", *names, "--yes")


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "describe"),
        ("topic", "delete", "--yes"),
        ("topic", "alter", "--set", "retention.ms=1"),
        ("topic", "trim", "--all"),
        ("config", "describe", "topic"),
        ("config", "alter", "topic", "--set", "retention.ms=1"),
        ("consume",),
        ("consume", "-g", "readers"),
        ("produce",),
    ],
    ids=" ".join,
)
def test_a_mistyped_topic(run: Command, admin: AdminClient, topic: str, arguments: tuple[str, ...]) -> None:
    """The error comes at once, with the name that was meant; nothing is created."""
    create(admin, topic)
    mistyped = f"{topic[1:]}"
    done = run(*arguments, mistyped, given="x\n", code=1)
    assert done.stderr == f"Error: there is no topic {mistyped}: did you mean {topic}?\n"
    assert mistyped not in admin.list_topics(timeout=60).topics


def test_trim(run: Command, admin: AdminClient, broker: Broker, topic: str) -> None:
    create(admin, topic, 2)
    write(broker, topic, 1000, 2000, 3000)

    def trim(*arguments: object, **options: Any) -> list[tuple[int, int, int]]:
        rows = as_json(run("topic", "trim", topic, "--format", "json", *arguments, **options))
        return [(each["start_offset"], each["new_start_offset"], each["records"]) for each in rows]

    assert trim("--before-time", "1970-01-01T00:00:02Z", given="n\n", code=1) == [(0, 1, 1), (0, 0, 0)]
    assert trim("--before-time", 1500, "--yes") == [(0, 1, 1), (0, 0, 0)]
    assert trim("--before-offset", 2, "--yes") == [(1, 2, 1), (0, 0, 0)]
    assert trim("--all", "--yes") == [(2, 3, 1), (0, 0, 0)]
    repeated = run("topic", "trim", f"{topic}:1", f"{topic}:0", "--all", "--yes", "--format", "json")
    assert [each["partition"] for each in as_json(repeated)] == [0, 1]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (3, 3)
    consumer.close()
    run("topic", "trim", topic, code=2)


def test_groups(run: Command, admin: AdminClient, broker: Broker, topic: str, group: str) -> None:
    create(admin, topic, 2)
    write(broker, topic, 1000, 2000, 3000, 4000)
    write(broker, topic, 2500, partition=1)
    commit(broker, group, (topic, 0, 1))
    [row] = [each for each in as_json(run("group", "list", "--format", "json")) if each["group"] == group]
    assert row["state"] == "Empty"
    [lag] = as_json(run("group", "lag", group, "--format", "json"))
    assert lag == {
        **{"group": group, "topic": topic, "partition": 0, "committed": 1, "end_offset": 4, "lag": 3},
        **{"client": None, "host": None},
    }

    def reset(*arguments: object, **options: Any) -> list[tuple[int | None, int]]:
        rows = as_json(run("group", "reset", group, "--format", "json", *arguments, **options))
        return [(each["old_offset"], each["new_offset"]) for each in rows]

    assert reset("--to-latest", "--dry-run") == [(1, 4)]
    skipping = run("group", "reset", group, "--to-offset", 9, "--dry-run").stderr.splitlines()
    assert skipping == [
        "This skips 3 records that the group has not read.",
        f"Not all partitions have offset 9; the nearest is taken: {topic}/0: 4.",
    ]
    assert run("group", "reset", group, "--to-earliest", "--dry-run").stderr == ""
    assert reset("--to-latest", given="n\n", code=1) == [(1, 4)]
    assert offsets(admin, group) == {(topic, 0): 1}
    assert reset("--to-time", 2400, "-t", topic, "--yes") == [(1, 2), (None, 0)]
    assert offsets(admin, group) == {(topic, 0): 2, (topic, 1): 0}
    assert reset("--shift-by", -1, "-t", f"{topic}:0", given="y\n") == [(2, 1)]
    assert reset("--to-offset", 99, "--yes") == [(1, 4), (0, 1)]
    assert reset("--to-earliest", "--yes") == [(4, 0), (1, 0)]
    assert offsets(admin, group) == {(topic, 0): 0, (topic, 1): 0}
    run("group", "delete-offsets", group, f"{topic}:1", "--yes")
    assert offsets(admin, group) == {(topic, 0): 0}
    run("group", "delete", group, "--yes")
    missing = run("group", "describe", group, "--format", "json", code=1)
    [described] = as_json(missing)
    assert (described["state"], described["members"]) == ("Dead", [])
    assert f"Error: there is no group {group}" in missing.stderr
    assert run("group", "describe", group, code=1).stdout == ""
    commit(broker, f"{group}-near", (topic, 0, 1))
    for verb in (
        ("group", "lag", group),
        ("group", "delete", group, "--yes"),
        ("group", "delete-offsets", group, topic, "--yes"),
        ("group", "reset", group, "--to-latest"),
    ):
        assert run(*verb, code=1).stderr == f"Error: there is no group {group}: did you mean {group}-near?\n"
    created = run("group", "reset", group, "--to-latest", "-t", topic, "--dry-run")
    assert created.stderr == f"There is no group {group} yet: this creates it, with these offsets.\n"
    run("group", "reset", group, "--to-latest", "--to-earliest", code=2)


def test_topics_that_are_deleted_meanwhile(
    run: Command, admin: AdminClient, broker: Broker, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(admin, topic)
    commit(broker, group, (topic, 0, 0))
    gone = f"{topic}-gone"

    async def listed(*_: Any, **options: Any) -> list[TopicListing]:
        return [TopicListing(name, UUID(int=0), False) for name in (topic, gone)]

    async def committed(*_: Any) -> dict[tuple[str, int], CommittedOffset]:
        return {(topic, 0): CommittedOffset(0), (gone, 0): CommittedOffset(7)}

    monkeypatch.setattr(TopicAdmin, "list", deferred(listed))
    monkeypatch.setattr(GroupAdmin, "offsets", deferred(committed))
    assert [each["topic"] for each in as_json(run("topic", "list", "--format", "json"))] == [topic]
    assert as_json(run("cluster", "health", "--format", "json"))["healthy"]
    ends = {each["topic"]: each["end_offset"] for each in as_json(run("group", "lag", group, "--format", "json"))}
    assert ends == {topic: 0, gone: None}


def test_a_topic_that_another_creates_meanwhile(
    broker: Broker, run: Command, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("topic", "create", topic)

    async def none(*_: Any, **options: Any) -> list[TopicListing]:
        return []

    monkeypatch.setattr(TopicAdmin, "list", deferred(none))
    assert run("topic", "create", topic, "--if-not-exists").stdout == ""
    assert "already exists" in run("topic", "create", topic, code=1).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("reassign", "start", "--to", "1", ":9"),
        ("topic", "trim", "--all", ":9"),
        ("txn", "producers", ":9"),
        ("consume", "-e", ":9"),
    ],
    ids=" ".join,
)
def test_a_partition_that_is_missing(run: Command, admin: AdminClient, topic: str, arguments: tuple[str, ...]) -> None:
    create(admin, topic, 2)
    *verb, which = arguments
    assert (
        run(*verb, f"{topic}{which}", code=1).stderr == f"Error: topic {topic} has no partition 9: its last one is 1\n"
    )


def test_a_group_with_members(run: Command, admin: AdminClient, broker: Broker, topic: str, group: str) -> None:
    create(admin, topic, 2)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": "me"})
    consumer.subscribe([topic])
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    [found] = as_json(run("group", "describe", group, "--format", "json"))
    [member] = found["members"]
    assert (found["state"], member["client"]) == ("Stable", "me")
    assert member["partitions"] == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    assert f"{topic}/0,{topic}/1" in run("group", "describe", group).stdout
    rows = as_json(run("group", "lag", group, "--format", "json"))
    assert [(each["committed"], each["lag"], each["client"]) for each in rows] == [(None, None, "me")] * 2
    failed = run("group", "reset", group, "--to-latest", "-t", topic, "--yes", code=1)
    assert f"group {group} is Stable: stop its members first" in failed.stderr
    consumer.close()


def test_configs(run: Command, admin: AdminClient, topic: str) -> None:
    create(admin, topic, **{"cleanup.policy": "compact"})
    resource = "config", "alter", "topic", topic
    run(*resource, "--append", "cleanup.policy=delete", "--set", "max.message.bytes=5000", "--delete", "retention.ms")
    found = as_json(run("config", "describe", "topic", topic, "--format", "json"))
    assert {each["name"]: each["value"] for each in found if each["source"] == "topic"} == {
        "cleanup.policy": "compact,delete",
        "max.message.bytes": "5000",
    }
    everything = as_json(run("config", "describe", "topic", topic, "--all", "--format", "json"))
    [theirs] = admin.describe_configs([ConfigResource("topic", topic)]).values()
    assert {each["name"]: each["value"] for each in everything} == {
        name: each.value for name, each in theirs.result(60).items()
    }
    run(*resource, "--set", "max.message.bytes=1", "--validate-only")
    assert "max.message.bytes" in run(*resource, "--set", "max.message.bytes=x", code=1).stderr
    run(*resource, code=2)
    run("config", "describe", "broker", "x", code=2)


def test_configs_that_are_all_defaults_or_missing(run: Command, admin: AdminClient, topic: str) -> None:
    found = run("config", "describe", "broker")
    assert (found.stdout, found.stderr) == (
        "",
        "broker defaults: all settings have their default values; --all shows them\n",
    )
    assert as_json(run("config", "describe", "broker", "--format", "json")) == []
    create(admin, topic)
    failed = run("config", "describe", "topic", topic, "--setting", "retention.ms", "--setting", "nosuch", code=1)
    assert failed.stderr == f"Error: topic {topic} has no setting nosuch\n"


def test_the_cluster(run: Command, admin: AdminClient) -> None:
    theirs = admin.list_topics(timeout=60)
    found = as_json(run("cluster", "info", "--format", "json"))
    assert (found["cluster_id"], found["controller"]) == (theirs.cluster_id, theirs.controller_id)
    assert [(each["broker"], each["port"]) for each in found["brokers"]] == [
        (each.id, each.port) for each in theirs.brokers.values()
    ]
    healthy = as_json(run("cluster", "health", "--format", "json"))
    assert (healthy["healthy"], healthy["brokers"], healthy["failed_log_dirs"]) == (True, len(theirs.brokers), [])
    [row] = as_json(run("cluster", "log-dirs", "--format", "json"))
    assert (row["error"], row["broker"]) == (None, theirs.controller_id)


class _Features:
    def features(self) -> dict[str, FeatureLevels]:
        return {"metadata.version": FeatureLevels(1, 21, 20), "kraft.version": FeatureLevels(0, 1, None)}


class _AdminOfFeatures:
    cluster = _Features()


def test_the_features(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for row in as_json(run("cluster", "features", "--format", "json")):  # clusters with KRaft have some
        assert row["lowest"] <= row["highest"]
    monkeypatch.setattr(Connection, "admin", lambda _: nullcontext(_AdminOfFeatures()))
    assert as_json(run("cluster", "features", "--format", "json")) == [
        {"feature": "kraft.version", "lowest": 0, "highest": 1, "finalized": None},
        {"feature": "metadata.version", "lowest": 1, "highest": 21, "finalized": 20},
    ]


def test_forms_of_output(run: Command, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    described = "topic", "describe", topic
    assert yaml.safe_load(run(*described, "--format", "yaml").stdout) == as_json(run(*described, "--format", "json"))
    head, row, *_ = run(*described).stdout.splitlines()
    assert head.split()[:3] == ["topic", "partition", "leader"]
    assert row.split()[:2] == [topic, "0"]


def test_bootstrap_servers_come_from_options_file_or_profile(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options, then a file, then a profile."""
    monkeypatch.delenv("PYLOGBROKER_BOOTSTRAP_SERVER", raising=False)
    profiles = tmp_path / "config.toml"
    monkeypatch.setenv("PYLOGBROKER_CONFIG", str(profiles))
    invoke = CliRunner().invoke
    info = ["cluster", "info"]
    profiles.write_text(f'default = "a"\n[profiles.a]\n"bootstrap.servers" = "{broker.bootstrap}"\n[profiles.b]\n')
    assert invoke(main, info).exit_code == 0
    unknown = invoke(main, [*info, "--profile", "c"])
    assert "there is no profile c; it has a, b" in unknown.stderr
    properties = tmp_path / "client.properties"
    properties.write_text("bootstrap.servers=127.0.0.1:9\n")
    dead = invoke(main, [*info, "--timeout", "0.5", "--command-config", str(properties)])
    assert (dead.exit_code, "127.0.0.1:9" in dead.stderr) == (1, True)
    over = [*info, "--command-config", str(properties), "-X", f"bootstrap.servers={broker.bootstrap}", "-X", "acks=1"]
    assert invoke(main, over).exit_code == 0
    assert invoke(main, [*info, "-b", broker.bootstrap, "-X", "no.such=1"]).exit_code == 1
    profiles.write_text("x")
    assert "not TOML" in invoke(main, info).stderr


def test_completion(
    run: Command, admin: AdminClient, broker: Broker, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(admin, topic)
    commit(broker, group, (topic, 0, 0))
    context: Any = type("Context", (), {"params": {}})
    parameter: Any = None
    assert complete_topics(context, parameter, topic[:-1]) == [topic]
    assert complete_groups(context, parameter, group[:-1]) == [group]
    context.params = {"bootstrap": "127.0.0.1:9"}
    monkeypatch.setattr(cluster_options, "_COMPLETION_SECONDS", 0.1)
    assert complete_topics(context, parameter, "") == []


def test_a_shell_completes(broker: Broker, topic: str, admin: AdminClient, tmp_path: Path) -> None:
    """Let bash complete a topic by the script that the command prints."""
    create(admin, topic)
    program = tmp_path / "pylogbroker"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pylogbroker.cli "$@"\n')
    program.chmod(0o700)
    words = f'COMP_WORDS=(pylogbroker topic describe {topic[:-1]}); COMP_CWORD=3; _pylogbroker_completion "{program}"'
    script = f'eval "$({program} completion bash)"\n{words}\necho "${{COMPREPLY[@]}}"'
    environment = {**os.environ, "PYLOGBROKER_BOOTSTRAP_SERVER": broker.bootstrap}

    def completed() -> list[str]:
        return subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=ROOT
        ).stdout.split()

    # A broker that does not answer within a second completes nothing.
    wait_until(lambda: completed() == [topic], what=completed)
