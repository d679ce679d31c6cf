"""`describe` of brokers, clusters, users and resources with ACLs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient

from pylogbroker.cli import main
from pylogbroker.cli.cluster import _by_topic
from pylogbroker.testing import Broker as InThread
from tests.support.broker_process import BrokerProcess
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def run(broker: Broker, *arguments: object, given: str = "", code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*map(str, arguments), "-b", broker.bootstrap], input=given)
    assert result.exit_code == code, result.output
    return result


def described(broker: Broker, *arguments: object) -> Any:
    return json.loads(run(broker, *arguments, "--format", "json").stdout)


def test_a_broker(broker: Broker, topic: str) -> None:
    run(broker, "topic", "create", topic, "-p", 3)
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60)
    [number] = metadata.brokers
    run(broker, "config", "alter", "broker", number, "-s", "log.cleaner.backoff.ms=16000")
    try:
        [alone] = described(broker, "broker", "describe", number)
        table = run(broker, "broker", "describe").stdout
    finally:
        run(broker, "config", "alter", "broker", number, "-d", "log.cleaner.backoff.ms")
    leaders = sum(len(each.partitions) for each in metadata.topics.values())
    assert (alone["broker"], alone["host"], alone["port"], alone["controller"]) == (
        number,
        metadata.brokers[number].host,
        metadata.brokers[number].port,
        True,
    )
    assert alone["leaders"] >= leaders  # tests beside this one create topics, too
    assert alone["configs"] == {"log.cleaner.backoff.ms": "16000"}
    assert [directory["error"] for directory in alone["log_dirs"]] == [None]
    assert f"{number}: log.cleaner.backoff.ms=16000" in table.splitlines()


def test_a_broker_that_does_not_run(broker: Broker) -> None:
    assert run(broker, "broker", "describe", 77, code=1).stderr.startswith("Error: there is no broker 77: there are ")


def test_a_cluster(broker: Broker, topic: str) -> None:
    before = described(broker, "cluster", "describe")
    run(broker, "topic", "create", topic, "-p", 3)
    after = described(broker, "cluster", "describe")
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60)
    assert (after["cluster_id"], after["controller"]) == (metadata.cluster_id, metadata.controller_id)
    assert after["brokers"] == len(metadata.brokers)
    assert after["topics"] > before["topics"]
    assert after["partitions"] >= before["partitions"] + 3
    assert "cluster_id" in run(broker, "cluster", "describe").stdout


def test_a_user(new_broker: Callable[[dict[str, str]], BrokerProcess]) -> None:
    broker = new_broker(AUTHORIZER)
    broker.start()
    assert "there is no user alice" in run(broker, "user", "describe", "alice", code=1).stderr
    run(broker, "acl", "create", "allow", "User:alice", "read", "--resource", "topic", "--name", "ord", "--prefixed")
    run(broker, "acl", "create", "deny", "User:bob", "write", "--resource", "topic", "--name", "orders")
    run(broker, "acl", "create", "allow", "User:bob", "read", "--resource", "topic", "--name", "other")
    run(broker, "user", "add", "alice", "--mechanism", "SCRAM-SHA-512", given="pencil\n")
    run(broker, "quota", "alter", "--user", "alice", "-s", "producer_byte_rate=1e6")
    user = described(broker, "user", "describe", "alice")
    assert (user["user"], user["mechanisms"]) == ("alice", {"SCRAM-SHA-512": 4096})
    assert user["quotas"] == [{"client_id": None, "quotas": {"producer_byte_rate": 1e6}}]
    assert [(acl["operation"], acl["name"], acl["pattern"]) for acl in user["acls"]] == [("read", "ord", "prefixed")]
    assert "allow read topic ord" in run(broker, "user", "describe", "alice").stdout
    assert [acl["principal"] for acl in described(broker, "user", "describe", "bob")["acls"]] == ["User:bob"] * 2
    concerning = described(broker, "acl", "describe", "topic", "orders")
    assert [(acl["permission"], acl["principal"]) for acl in concerning] == [
        ("allow", "User:alice"),
        ("deny", "User:bob"),
    ]
    run(broker, "acl", "describe", "topic", code=2)


def test_a_user_of_a_cluster_without_acls(broker: Broker, fresh_name: Callable[[], str]) -> None:
    name = fresh_name()
    run(broker, "user", "add", name, given="pencil\n")
    assert described(broker, "user", "describe", name)["acls"] == []
    run(broker, "user", "delete", name, "--yes")


def test_health_names_brokers_that_are_down() -> None:
    with InThread(brokers=3) as cluster:
        cluster.create_topic("orders", 5, replication_factor=3)
        third = cluster.ids[-1]
        cluster.down(third)
        arguments = ["cluster", "health", "-b", cluster.bootstrap]
        report = json.loads(CliRunner().invoke(main, [*arguments, "--format", "json"]).stdout)
        assert (report["healthy"], report["brokers"], report["missing_brokers"]) == (False, 2, [third])
        assert "orders/4" in report["offline_replicas"]
        table = CliRunner().invoke(main, arguments)
        assert table.exit_code == 10
        assert "orders/0-4" in table.stdout
        assert "orders/4," not in table.stdout
        cluster.up(third)
        wait_until(lambda: CliRunner().invoke(main, arguments).exit_code == 0)


def test_partitions_as_ranges() -> None:
    names = ["a-b/0", "a-b/10", "a-b/1", "a-b/9", "c/3", "c/5"]
    assert [*_by_topic(names)] == ["a-b/0-1", "a-b/9-10", "c/3", "c/5"]
    assert [*_by_topic([])] == []


def test_health_names_a_directory_that_failed(
    new_broker: Callable[[dict[str, str]], BrokerProcess], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = new_broker({"log.dirs": f"{first},{second}"})
    broker.start()
    run(broker, "topic", "create", "spread", "-p", 4)
    broker.stop()
    second.rename(tmp_path / "elsewhere")
    second.touch()  # a file is no directory, for root too
    broker.start()
    report = json.loads(run(broker, "cluster", "health", "--format", "json", code=10).stdout)
    [number] = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).brokers
    assert report["failed_log_dirs"] == [f"{number}: {second}: the disk of the log's directory failed"]
    assert report["offline_replicas"] == report["without_leader"] != []
    [alone] = described(broker, "broker", "describe")
    assert [(one["path"], one["error"]) for one in alone["log_dirs"]] == [
        (str(first), None),
        (str(second), "KAFKA_STORAGE_ERROR"),
    ]
    broker.stop()
    second.unlink()
    (tmp_path / "elsewhere").rename(second)
    broker.start()
    assert described(broker, "cluster", "health")["failed_log_dirs"] == []
