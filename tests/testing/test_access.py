"""Users, TLS and ACLs of test brokers, with librdkafka as the client."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from pylogbroker.errors import ConfigError
from pylogbroker.security.acls.bindings import AclOperation, AclPermission, AclResourceType, PatternType
from pylogbroker.testing import Broker
from pylogbroker.testing.access import parse_acl
from pylogbroker.wire.messages.create_acls import AclCreation
from tests.support.waiting import wait_until

USERS = {"alice": "secret", "bob": "other secret"}


def delivery_error(broker: Broker, topic: str, user: str | None = None) -> KafkaError | None:
    """Produce a record as a user; return its error."""
    producer = Producer({**broker.client_settings(user), "message.timeout.ms": 120_000})
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(150)
    [error] = errors
    return error


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("brokers", [1, 2])
def test_users_and_acls(tls: bool, brokers: int) -> None:
    acls = ["alice write topic:orders", "alice read topic:*", "alice read group:readers-*", "deny bob all topic:*"]
    with Broker(users=USERS, tls=tls, acls=acls, brokers=brokers) as broker:
        broker.create_topic("orders", 1)
        assert delivery_error(broker, "orders", "alice") is None
        denied = delivery_error(broker, "orders", "bob")
        assert denied is not None
        assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        consumer = Consumer(
            {**broker.client_settings(), "group.id": "readers-1", "auto.offset.reset": "earliest"}
        )  # alice: the first
        consumer.subscribe(["orders"])
        assert consumer.poll(120).value() == b"value"
        consumer.close()
        assert [each.value for each in broker.records("orders")] == [b"value"]


def test_all_brokers_know_the_acls_at_the_start() -> None:
    with Broker(brokers=3, acls=[f"alice write topic:orders-{number}" for number in range(5)]) as cluster:
        known = [len(list(broker.authorizer.acls.index.resources())) for broker in cluster.faults.brokers]
        assert known == [5, 5, 5]


def test_a_wrong_password() -> None:
    with Broker(users=USERS) as broker:
        errors: list[KafkaError] = []
        settings = {**broker.client_settings("bob"), "sasl.password": "wrong", "error_cb": errors.append}
        producer = Producer(settings)
        wait_until(lambda: producer.poll(0.1) or errors)
        assert errors[0].code() == KafkaError._AUTHENTICATION
        with pytest.raises(ConfigError, match="'eve'"):
            broker.client_settings("eve")


def test_certificates_are_users() -> None:
    with Broker(tls=True, acls=["alice write topic:orders"]) as broker:
        broker.create_topic("orders")
        assert delivery_error(broker, "orders", "alice") is None
        assert delivery_error(broker, "orders", "bob") is not None
        assert delivery_error(broker, "orders") is not None


def test_acls_of_everybody() -> None:
    with Broker(acls=["* write topic:open"]) as broker:
        broker.create_topic("open")
        broker.create_topic("closed")
        assert delivery_error(broker, "open") is None
        assert delivery_error(broker, "closed") is not None
        with pytest.raises(ConfigError, match="neither users nor TLS"):
            broker.client_settings("alice")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alice read topic:orders", ("TOPIC", "orders", "LITERAL", "User:alice", "READ", "ALLOW")),
        ("deny User:* all group:a*", ("GROUP", "a", "PREFIXED", "User:*", "ALL", "DENY")),
        ("a create cluster", ("CLUSTER", "kafka-cluster", "LITERAL", "User:a", "CREATE", "ALLOW")),
    ],
)
def test_parsed_acls(text: str, expected: tuple[str, str, str, str, str, str]) -> None:
    kind, name, pattern, who, operation, permission = expected
    resource = AclResourceType[kind], name, PatternType[pattern]
    assert parse_acl(text) == AclCreation(*resource, who, "*", AclOperation[operation], AclPermission[permission])


@pytest.mark.parametrize("text", ["", "alice read", "alice read topic", "alice eat topic:x", "alice any topic:x"])
def test_bad_acls(text: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        Broker(acls=[text])


def test_listeners_of_ones_own() -> None:
    with pytest.raises(ConfigError, match="listeners"):
        Broker(tls=True, listeners="PLAINTEXT://127.0.0.1:0")
