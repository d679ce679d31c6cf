"""Access of clients that show certificates: librdkafka against a broker that knows them by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Certificates

TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE


@attrs.define
class Clients:
    """Clients of one broker, by the names in their certificates; `admin` may do everything."""

    bootstrap: str
    certificates: Certificates
    _admins: dict[str, AdminClient] = attrs.field(factory=dict)  # a client must outlive its futures

    def settings(self, name: str) -> dict[str, Any]:
        path = self.certificates.client(name)["ssl.keystore.location"]
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "ssl",
            "ssl.ca.location": self.certificates.authority_file,
            "ssl.certificate.location": path,
            "ssl.key.location": path,
            "log_level": 0,
        }

    def admin(self, name: str = "admin") -> AdminClient:
        if name not in self._admins:
            self._admins[name] = AdminClient(self.settings(name))
        return self._admins[name]

    def allow(
        self,
        operation: AclOperation,
        kind: ResourceType,
        name: str,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
        permission: AclPermissionType = AclPermissionType.ALLOW,
    ) -> None:
        binding = AclBinding(kind, name, pattern, "User:alice", "*", operation, permission)
        for done in self.admin().create_acls([binding]).values():
            done.result(60)

    def produced(self, topic: str, **settings: Any) -> int | None:
        """Produce a record as alice; return the code of its error."""
        codes: list[int | None] = []
        producer = Producer({**self.settings("alice"), "message.timeout.ms": 120_000, **settings})
        producer.produce(topic, b"v", on_delivery=lambda error, _: codes.append(error.code() if error else None))
        assert producer.flush(150) == 0
        return codes[0]

    def consumed(self, topic: str, group: str) -> int | None:
        """Subscribe as alice; return the code of the error that comes instead of a record."""
        how = {**self.settings("alice"), "group.id": group, "auto.offset.reset": "earliest"}
        with closing(Consumer(how)) as consumer:
            consumer.subscribe([topic])
            message = consumer.poll(120)
            assert message is not None
            return message.error().code() if message.error() else None


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    directory = tmp_path_factory.mktemp("acls")
    certificates = Certificates(directory / "certificates")
    settings = {
        **certificates.broker,
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    process = BrokerProcess(directory, settings)
    process.start()
    port = int(process.process.expect(r"listening on SSL://127\.0\.0\.1:([1-9]\d*)")[1])
    yield Clients(f"localhost:{port}", certificates)
    assert process.stop() == 0
    assert process.unexpected_errors() == []


@pytest.fixture
def topic(clients: Clients, fresh_name: Callable[[], str]) -> str:
    """An existing topic, for which there are no ACLs."""
    name = fresh_name()
    for done in clients.admin().create_topics([NewTopic(name, 1)]).values():
        done.result(60)
    return name


def test_producing_needs_write(clients: Clients, topic: str) -> None:
    assert clients.produced(topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    clients.allow(DESCRIBE, TOPIC, topic)
    assert clients.produced(topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    clients.allow(WRITE, TOPIC, topic)
    assert clients.produced(topic) is None
    clients.allow(WRITE, TOPIC, topic[:-1], ResourcePatternType.PREFIXED, AclPermissionType.DENY)
    assert clients.produced(topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_consuming_needs_read_on_topic_and_group(clients: Clients, topic: str) -> None:
    clients.allow(WRITE, TOPIC, topic)
    assert clients.produced(topic) is None
    assert clients.consumed(topic, topic) == KafkaError.GROUP_AUTHORIZATION_FAILED
    clients.allow(READ, GROUP, topic)
    assert clients.consumed(topic, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    clients.allow(READ, TOPIC, topic)
    assert clients.consumed(topic, topic) is None


def test_transactions_need_their_id(clients: Clients, topic: str) -> None:
    clients.allow(WRITE, TOPIC, topic)
    producer = Producer({**clients.settings("alice"), "transactional.id": topic})
    with pytest.raises(KafkaException) as denied:
        producer.init_transactions(120)
    assert denied.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    clients.allow(WRITE, TRANSACTIONAL_ID, topic)
    producer = Producer({**clients.settings("alice"), "transactional.id": topic})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    producer.commit_transaction(120)


def test_creating_topics_needs_create(clients: Clients, fresh_name: Callable[[], str]) -> None:
    name = fresh_name()
    [done] = clients.admin("alice").create_topics([NewTopic(name, 1)]).values()
    with pytest.raises(KafkaException) as denied:
        done.result(60)
    assert denied.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    clients.allow(CREATE, TOPIC, name)
    [done] = clients.admin("alice").create_topics([NewTopic(name, 1)]).values()
    done.result(60)


def test_topics_are_listed_only_with_access(clients: Clients, topic: str) -> None:
    alice = clients.admin("alice")
    assert topic not in alice.list_topics(timeout=60).topics
    clients.allow(READ, TOPIC, topic)
    assert topic in alice.list_topics(timeout=60).topics


def test_reading_and_changing_acls_needs_cluster_rights(clients: Clients, topic: str) -> None:
    clients.allow(READ, TOPIC, topic)
    any_of_topic = AclBindingFilter(
        TOPIC, topic, ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert clients.admin("alice").describe_acls(any_of_topic).result(60) == []  # librdkafka hides the error
    [rejected] = clients.admin("alice").delete_acls([any_of_topic]).values()
    with pytest.raises(KafkaException) as denied:
        rejected.result(60)
    assert denied.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    [found] = clients.admin().describe_acls(any_of_topic).result(60)
    assert (found.name, found.principal, found.operation) == (topic, "User:alice", READ)
    [deleted] = clients.admin().delete_acls([any_of_topic]).values()
    assert [each.name for each in deleted.result(60)] == [topic]
    assert clients.admin().describe_acls(any_of_topic).result(60) == []


def test_users_without_acls_are_denied(clients: Clients, topic: str) -> None:
    with closing(Consumer({**clients.settings("bob"), "group.id": "g", "enable.auto.commit": False})) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(120)
        assert message is not None
        error = message.error()
    assert error is not None
    assert error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
