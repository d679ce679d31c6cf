"""Kafka's tool for ACLs against a broker with an authorizer, and what it denies to a client."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.peers import available
from tests.peers.tools import tool
from tests.support.brokers import Broker

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",  # every client is User:ANONYMOUS
}
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED


class Acls:
    """Runs the tool."""

    def __init__(self, broker: Broker) -> None:
        self._bootstrap = broker.bootstrap

    def __call__(self, *arguments: str) -> str:
        return tool("kafka-acls", "--bootstrap-server", self._bootstrap, *arguments).stdout

    def listed(self, *arguments: str) -> dict[str, set[str]]:
        """Return entries by resource, as the tool shows them."""
        shown = self("--list", *arguments)
        found = re.findall(r"Current ACLs for resource `ResourcePattern\((.*?)\)`:((?:\s*\(.*\))*)", shown)
        return {resource: set(re.findall(r"\((.*)\)", entries)) for resource, entries in found}


def produced(broker: Broker, topic: str) -> int | None:
    """Produce a record; return the code of its error."""
    codes: list[int | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 120_000})
    producer.produce(topic, b"v", on_delivery=lambda error, _: codes.append(error.code() if error else None))
    producer.flush(150)
    [code] = codes
    return code


def consumed(broker: Broker, topic: str) -> int | None:
    """Read a topic's first record; return the code of the error that comes instead."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(120)
        assert message is not None
        error = message.error()
        return error.code() if error else None
    finally:
        consumer.close()


def test_acls_from_their_creation_to_their_removal(new_broker: Callable[..., Broker]) -> None:
    broker = new_broker(SETTINGS)
    broker.start()
    acls = Acls(broker)
    assert produced(broker, "orders") is None
    acls("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    assert acls.listed("--topic", "orders") == {
        "resourceType=TOPIC, name=orders, patternType=LITERAL": {
            "principal=User:alice, host=*, operation=READ, permissionType=ALLOW"
        }
    }
    assert produced(broker, "orders") == DENIED
    prefix = ("--topic", "ord", "--resource-pattern-type", "prefixed")
    acls("--add", "--allow-principal", "User:*", "--producer", *prefix)
    assert produced(broker, "orders") is None
    assert produced(broker, "ordinary") is None
    assert consumed(broker, "orders") == DENIED
    acls("--add", "--allow-principal", "User:ANONYMOUS", "--consumer", "--topic", "orders", "--group", "g")
    assert consumed(broker, "orders") is None
    assert len(acls.listed("--topic", "orders", "--resource-pattern-type", "match")) == 2
    acls("--remove", "--force", "--topic", "orders", "--resource-pattern-type", "any")
    assert acls.listed("--topic", "orders") == {}
    assert consumed(broker, "orders") == DENIED  # the prefix still covers it
    acls("--remove", "--force", *prefix)
    assert consumed(broker, "orders") is None
