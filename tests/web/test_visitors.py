"""Visitors of the page: connections of this machine, users of listeners, and what an authorizer allows."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from pylogbroker.broker.security.acl_store import AclStore
from pylogbroker.security.acls.bindings import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from pylogbroker.wire.consumer_protocol import encode_assignment
from tests.broker.trees import now
from tests.web.test_views import NOW, MemberTests, ViewTests

_AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USERS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_MODULE} required user_alice="se:cret" user_bob="other";',
}


def login(user: str, password: str) -> str:
    return f"Authorization: Basic {b64encode(f'{user}:{password}'.encode()).decode()}\r\n"


class TestEverybody(ViewTests):
    def test_only_while_the_broker_serves(self) -> None:
        self.source.services = None
        self.ask("topics", 503)

    def test_only_this_machine(self) -> None:
        self.ask("topics")
        self.address = "10.1.2.3"
        self.assertIn("this machine alone", self.ask("topics", 403)["error"])


class TestCertificates(ViewTests):
    settings = {"listeners": "SSL://127.0.0.1:9092", "ssl.client.auth": "required"}

    def test_a_page_without_certificates_is_not_shown(self) -> None:
        self.assertIn("certificates", self.ask("topics", 403)["error"])


class AnonymousTests(ViewTests):
    """Visitors of a broker with an authorizer and without users."""

    settings = _AUTHORIZER

    def allow(self, operation: AclOperation, kind: AclResourceType, name: str) -> None:
        entry = AccessControlEntry("User:ANONYMOUS", "*", operation, AclPermission.ALLOW)
        now(self.acls.add(ResourcePattern(kind, name), frozenset([entry]), "User:admin"))

    def deny_all(self) -> None:
        now(self.acls.remove([*self.acls.index.select(AclFilter())], "User:admin"))

    @property
    def acls(self) -> AclStore:
        authorizer = self.node.broker.authorizer
        assert authorizer is not None
        return authorizer.acls


class TestAnonymous(AnonymousTests):
    def test_only_permitted_topics_and_groups_are_shown(self) -> None:
        for name in ("open", "closed"):
            self.node.create(name)
            self.node.produce(name, 0, NOW)
        self.commit("readers", "open", 0)
        self.commit("readers", "closed", 0)
        self.assertEqual(self.ask("topics")["total"], 0)
        self.assertEqual(self.ask("groups")["total"], 0)
        for path in ("topic?name=open", "topic?name=missing", "records?topic=open", "group?id=readers", "brokers"):
            self.assertIn("User:ANONYMOUS", self.ask(path, 403)["error"])
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "open")
        self.assertEqual([each["name"] for each in self.ask("topics")["topics"]], ["open"])
        self.assertIsNone(self.ask("topic?name=open")["settings"])
        self.ask("records?topic=open", 403)
        self.allow(AclOperation.READ, AclResourceType.TOPIC, "open")
        self.assertEqual(len(self.ask("records?topic=open")["records"]), 1)
        self.allow(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, "open")
        self.assertTrue(self.ask("topic?name=open")["settings"])
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "readers")
        self.assertEqual([each["id"] for each in self.ask("groups")["groups"]], ["readers"])
        self.assertEqual([each["topic"] for each in self.ask("group?id=readers")["offsets"]], ["open"])
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.ask("brokers")


class TestMemberRights(AnonymousTests, MemberTests):
    def test_partitions_of_hidden_topics(self) -> None:
        self.join(encode_assignment([("clicks", 0), ("open", 1)]))
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "readers")
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "open")
        row = self.member()
        self.assertEqual((row["partition_count"], row["partitions"]), (1, [{"topic": "open", "partition": 1}]))


class TestUsers(ViewTests):
    settings = _USERS | _AUTHORIZER | {"super.users": "User:alice"}

    def setUp(self) -> None:
        super().setUp()
        now(self.node.broker.sasl.open())
        self.node.create("clicks")

    def get(self, credentials: str = "", path: str = "/api/topics") -> Any:
        connection = self.connect()
        connection.protocol.dataReceived(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{credentials}\r\n".encode())
        self.node.clock.advance(0.09)
        soon = connection.transport.value().decode()
        self.node.clock.advance(0.02)
        return soon, connection.transport.value().decode()

    def test_users_of_the_listeners_log_in(self) -> None:
        answer, _ = self.get(login("alice", "se:cret"))
        self.assertIn("200 OK", answer)
        self.assertIn('"clicks"', answer)
        answer, _ = self.get(login("bob", "other"))
        self.assertIn("200 OK", answer)
        self.assertNotIn('"clicks"', answer)
        answer, _ = self.get(login("bob", "other"), "/api/brokers")
        self.assertIn("User:bob has no right to DESCRIBE on the cluster", answer)

    def test_visitors_are_asked_for_a_password(self) -> None:
        answer, _ = self.get()
        self.assertIn("401 ", answer)
        self.assertIn('Basic realm="pylogbroker"', answer.replace("WWW", "www"))

    def test_wrong_passwords_are_answered_later(self) -> None:
        wrong = [login("alice", "other"), login("carol", "se:cret"), login("alice", ""), login("", "x")]
        for each in (*wrong, "Authorization: Basic /w==\r\n", "Authorization: Basic /zr/\r\n"):
            soon, late = self.get(each)
            self.assertIn("401 ", late, each)
            if each in wrong:
                self.assertEqual(soon, "", each)


class TestTokens(ViewTests):
    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:9092", "sasl.enabled.mechanisms": "OAUTHBEARER"}

    def test_users_without_passwords_see_nothing(self) -> None:
        self.assertIn("tokens", self.ask("topics", 403)["error"])
