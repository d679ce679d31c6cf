"""`pylogbroker acl`, `user`, `quota` and `txn` on running brokers, beside librdkafka."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from pylogbroker.blocking.admin import BlockingNodes
from pylogbroker.cli import main
from pylogbroker.client.admin.routing import Router
from pylogbroker.wire.messages.describe_acls import AclDescription, DescribeAclsResource, DescribeAclsResponse
from pylogbroker.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tests.support.broker_process import BrokerProcess
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def run(broker: Broker, *arguments: object, given: str = "", code: int = 0) -> Result:
    options = ["-b", broker.bootstrap]
    found = CliRunner().invoke(main, [*map(str, arguments), *options], input=given)
    assert found.exit_code == code, found.output
    return found


def rows(broker: Broker, *arguments: object, **options: Any) -> Any:
    return json.loads(run(broker, *arguments, "--format", "json", **options).stdout)


def test_acls(new_broker: Callable[[dict[str, str]], BrokerProcess]) -> None:
    broker = new_broker(AUTHORIZER)
    broker.start()
    made = ("allow", "User:alice", "read", "describe", "--resource", "topic", "--name", "orders", "--prefixed")
    assert [each["operation"] for each in rows(broker, "acl", "create", *made)] == ["describe", "read"]
    rows(broker, "acl", "create", "deny", "User:bob", "alter", "--resource", "cluster", "--host", "10.0.0.1")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    theirs = sorted(
        (each.restype.name, each.name, each.resource_pattern_type.name, each.principal, each.host, each.operation.name)
        for each in admin.describe_acls(everything).result(60)
    )
    assert theirs == [
        ("BROKER", "kafka-cluster", "LITERAL", "User:bob", "10.0.0.1", "ALTER"),
        ("TOPIC", "orders", "PREFIXED", "User:alice", "*", "DESCRIBE"),
        ("TOPIC", "orders", "PREFIXED", "User:alice", "*", "READ"),
    ]
    matching = ("--resource", "topic", "--name", "orders-2", "--pattern", "match")
    assert len(rows(broker, "acl", "list", *matching)) == 2
    run(broker, "acl", "delete", code=2)
    run(broker, "acl", "delete", "--principal", "User:alice", given="n\n", code=1)
    assert len(rows(broker, "acl", "list")) == 3
    run(broker, "acl", "delete", "--principal", "User:alice", "--yes")
    assert [each["principal"] for each in rows(broker, "acl", "list")] == ["User:bob"]
    run(broker, "acl", "create", "allow", "alice", "read", "--resource", "topic", "--name", "x", code=2)
    run(broker, "acl", "create", "allow", "User:alice", "read", "--resource", "topic", code=2)


def test_acls_of_a_newer_broker(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    resources = [
        DescribeAclsResource(2, "orders", 3, [AclDescription("User:alice", "*", 99, 3)]),
        DescribeAclsResource(98, "orders", 97, [AclDescription("User:alice", "*", 3, 96)]),
    ]

    async def ask_any(_: Router, items: Any, make: Any, read: Any) -> dict[Any, Any]:
        return dict(read(DescribeAclsResponse(resources=resources)))

    monkeypatch.setattr(Router, "ask_any", ask_any)
    found = [
        (each["resource"], each["pattern"], each["operation"], each["permission"])
        for each in rows(broker, "acl", "list")
    ]
    assert found == [("98", "97", "read", "96"), ("topic", "literal", "99", "allow")]


def test_users(broker: Broker, fresh_name: Callable[[], str]) -> None:
    name = fresh_name()
    added = run(broker, "user", "add", name, "--mechanism", "SCRAM-SHA-512", given="pencil\n")
    assert added.output == f"User {name} can connect by SCRAM-SHA-512.\n"
    assert {"user": name, "mechanisms": ["SCRAM-SHA-512"]} in rows(broker, "user", "list")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    [found] = admin.describe_user_scram_credentials([name])[name].result(60).scram_credential_infos
    assert (found.mechanism.name, found.iterations) == ("SCRAM_SHA_512", 4096)
    assert "Delete user" in run(broker, "user", "delete", name, given="n\n", code=1).stderr
    run(broker, "user", "delete", name, given="y\n")
    assert f"user {name}: " in run(broker, "user", "delete", name, "--yes", code=1).stderr


def test_quotas(broker: Broker, fresh_name: Callable[[], str]) -> None:
    user = fresh_name()
    entity = ("--user", user, "--client-id-default")
    run(broker, "quota", "alter", *entity, "--set", "producer_byte_rate=1e6", "--set", "request_percentage=50")
    expected = {
        **{"user": user, "client_id": "(default)", "ip": None},
        "quotas": {"producer_byte_rate": 1_000_000.0, "request_percentage": 50.0},
    }
    wait_until(lambda: rows(broker, "quota", "describe", "--user", user) == [expected])
    removed = ("-d", "producer_byte_rate", "-d", "request_percentage")
    asked = run(broker, "quota", "alter", *entity, *removed, given="n\n", code=1).stderr
    assert asked.startswith("Remove producer_byte_rate, request_percentage? [y/N]: ")
    run(broker, "quota", "alter", *entity, *removed, "--yes")
    wait_until(lambda: rows(broker, "quota", "describe", "--user", user) == [])
    run(broker, "quota", "alter", "--set", "producer_byte_rate=1", code=2)
    run(broker, "quota", "alter", *entity, code=2)
    run(broker, "quota", "alter", *entity, "--set", "producer_byte_rate=x", code=2)
    assert "no_such" in run(broker, "quota", "alter", *entity, "--set", "no_such=1", code=1).stderr


def test_transactions(broker: Broker, topic: str, fresh_name: Callable[[], str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    name = fresh_name()
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(120) == 0
    [row] = [each for each in rows(broker, "txn", "list") if each["transactional_id"] == name]
    assert row["state"] == "Ongoing"
    [described] = rows(broker, "txn", "describe", name)
    assert (described["partitions"], described["producer_id"]) == ([f"{topic}/0"], row["producer_id"])
    [writer] = rows(broker, "txn", "producers", topic, "--open")
    assert (writer["producer_id"], writer["transaction_start"]) == (row["producer_id"], 0)
    abort = ("txn", "abort", topic, 0, row["producer_id"])
    assert "which began at offset 0?" in run(broker, *abort, given="n\n", code=1).stderr
    run(broker, *abort, "--yes")
    assert rows(broker, "txn", "producers", topic, "--open") == []
    assert "has no open transaction" in run(broker, *abort, "--yes", code=1).stderr
    run(broker, "txn", "fence", name, "--yes")
    [described] = rows(broker, "txn", "describe", name)
    assert described["producer_epoch"] > 0


def test_a_producer_with_an_unknown_last_write(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = DescribeProducersResponse(
        topics=[TopicResponse(topic, [PartitionResponse(0, active_producers=[ProducerState(5, 1, 0, -1)])])]
    )
    send = BlockingNodes.send

    async def replaced(self: BlockingNodes, node_id: int, request: Any, **options: Any) -> Any:
        return (
            answer if isinstance(request, DescribeProducersRequest) else await send(self, node_id, request, **options)
        )

    monkeypatch.setattr(BlockingNodes, "send", replaced)
    run(broker, "topic", "create", topic)
    [found] = rows(broker, "txn", "producers", topic)
    assert (found["producer_id"], found["last_written_seconds_ago"]) == (5, None)


def test_a_yes_that_does_nothing(broker: Broker, topic: str) -> None:
    run(broker, "topic", "create", topic)
    assert "--yes does nothing" in run(broker, "reassign", "elect", topic, "--yes").stderr
    assert "--yes" not in run(broker, "reassign", "elect", topic).stderr


@pytest.mark.parametrize("noun", ["acl", "quota", "txn"])
def test_help(noun: str) -> None:
    assert CliRunner().invoke(main, [noun, "--help"]).exit_code == 0
