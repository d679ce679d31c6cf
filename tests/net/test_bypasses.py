"""Attempts to get around the authorizer by names: of users, of certificates, of resources, and without any name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import NameAttribute as Part
from cryptography.x509.oid import NameOID as Kind
from twisted.internet.address import IPv4Address

from pylogbroker.broker.security.access import Access
from pylogbroker.legacy07.server.connection import Legacy07Factory
from pylogbroker.net.service import SharedLimits
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.security.principals import ANONYMOUS, PrincipalMapping
from pylogbroker.security.tls.authority import Authority
from pylogbroker.security.tls.names import distinguished_name
from pylogbroker.wire.messages.describe_acls import DescribeAclsRequest
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.trees import now
from tests.legacy07 import message_sets
from tests.net.fakes import FakeTransport
from tests.net.sasl_peers import Peer, SaslNodeTests
from tests.security.test_stored_credentials import TEXT

EVERYTHING = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
DENIED = 31
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:CN=admin,O=Example",
}


class UserNameTests(SaslNodeTests):
    """The file of users has some names that look like the super user's, and the tree has others."""

    extra: ClassVar[Mapping[str, str]] = AUTHORIZER
    in_file = ("Admin", "admin,O=Example", "CN=admin", "*", "ANONYMOUS", "admin;User", "\u0430dmin")
    in_tree = ("User:admin", "admin ", " admin", "admin\0", "ad\u00admin", "admin\n", "CN=admin,O=Example ")

    def setUp(self) -> None:
        super().setUp()
        self.file.write_text("".join(f"{name}:pencil\n" for name in (*self.in_file, "admin")))
        self.node.clock.advance(60)
        for name in self.in_tree:
            now(self.node.broker.scram.alter(name, lambda _: {"SCRAM-SHA-256": TEXT}))

    def answer_to(self, token: bytes) -> int | str:
        """Return the error of a request for administrators, or how the authentication ended."""
        peer = Peer(self)
        peer.ask(SaslHandshakeRequest("PLAIN"), 1)
        peer.send((SaslAuthenticateRequest(token), 2))
        self.node.clock.advance(0.2)
        self.node.clock.advance(0)
        peer.frames()
        return peer.transport.closed or int(peer.ask(EVERYTHING, 3).error_code)

    def test_similar_names_are_not_the_super_user(self) -> None:
        self.assertEqual(self.answer_to(b"\0admin\0pencil"), 0)
        for name in (*self.in_file, *self.in_tree):
            expected = "after sending" if "\0" in name else DENIED
            self.assertEqual(self.answer_to(f"\0{name}\0pencil".encode()), expected, name)

    def test_another_authorization_id_is_not_accepted(self) -> None:
        for token in (b"admin\0Admin\0pencil", b"User:admin\0Admin\0pencil", b"\0admin\0", b"admin\0\0pencil"):
            self.assertEqual(self.answer_to(token), "after sending", token)


class CertificateNameTests(SaslNodeTests):
    extra: ClassVar[Mapping[str, str]] = AUTHORIZER
    common_names = ("admin,O=Example", "admin;User:admin", "admin\\", "admin+O=Example", "admin,O=Example\n", 'admin"')

    def test_separators_in_a_name_give_no_other_name(self) -> None:
        authority = Authority.create("authority", days=5)
        authorizer = self.node.broker.authorizer
        assert authorizer is not None

        def may_administrate(*parts: Part[str], rules: str = "DEFAULT") -> bool:
            certificate = authority.issue(x509.Name(parts)).certificate.public_bytes(Encoding.DER)
            principal = PrincipalMapping.parse(rules).principal(distinguished_name(certificate))
            access: Access = authorizer.access(principal, "10.0.0.1")
            return access.allows_on_cluster(AclOperation.ALTER)

        rules, example = "RULE:^CN=([^,]+)(?:,.*)?$/$1/,DEFAULT", Part(Kind.ORGANIZATION_NAME, "Example")
        self.assertTrue(may_administrate(example, Part(Kind.COMMON_NAME, "admin")))
        self.assertTrue(may_administrate(example, Part(Kind.COMMON_NAME, "admin"), rules=rules))
        for name in self.common_names:
            for parts in ((Part(Kind.COMMON_NAME, name),), (example, Part(Kind.COMMON_NAME, name))):
                self.assertFalse(may_administrate(*parts), name)
                self.assertFalse(may_administrate(*parts, rules=rules), name)


class ResourceNameTests(SaslNodeTests):
    extra: ClassVar[Mapping[str, str]] = AUTHORIZER

    def allow(self, name: str, pattern: PatternType, permission: AclPermission = AclPermission.ALLOW) -> None:
        assert self.node.broker.authorizer is not None
        entry = AccessControlEntry("User:alice", "*", AclOperation.READ, permission)
        resource = ResourcePattern(AclResourceType.GROUP, name, pattern)
        now(self.node.broker.authorizer.acls.add(resource, frozenset({entry}), "User:admin"))

    def readable(self, names: tuple[str, ...], principal: str = "User:alice") -> set[str]:
        assert self.node.broker.authorizer is not None
        access = self.node.broker.authorizer.access(principal, "10.0.0.1")
        return {name for name in names if access.allows_on_group(AclOperation.READ, name)}

    def test_patterns_cover_no_more_than_they_say(self) -> None:
        self.allow("literal", PatternType.LITERAL)
        self.allow("prefix-", PatternType.PREFIXED)
        self.allow("*", PatternType.PREFIXED)
        names = ("literal", "literal-", "Literal", "literal ", "liter", "", "*", "*x", "prefix", "prefix-", "prefix-a")
        names += ("Prefix-a", " prefix-a", "x", "prefix\u2011a")
        self.assertEqual(self.readable(names), {"literal", "*", "*x", "prefix-", "prefix-a"})
        others = ("user:alice", "Group:alice", "User:Alice", "User:alice ", "User:*", "User:", "alice", ANONYMOUS)
        for principal in others:
            self.assertEqual(self.readable(names, principal), set(), principal)

    def test_a_denial_is_not_evaded(self) -> None:
        self.allow("*", PatternType.LITERAL)
        self.allow("secret", PatternType.PREFIXED, AclPermission.DENY)
        self.allow("*", PatternType.PREFIXED, AclPermission.DENY)
        names = ("secret", "secret-a", "secret\0", "*", "*x", "", "Secret", "open")
        self.assertEqual(self.readable(names), {"", "Secret", "open"})


class SimpleListenerTests(SaslNodeTests):
    """A listener for clients of Kafka 0.7, which have no names, beside one with users."""

    extra: ClassVar[Mapping[str, str]] = {
        **AUTHORIZER,
        "listeners": "SASL_PLAINTEXT://localhost:9093,SIMPLE://localhost:9094",
    }

    def setUp(self) -> None:
        super().setUp()
        broker = self.node.broker
        self.simple = Legacy07Factory(self.node.clock, broker, broker.config.listeners[1], SharedLimits.of(broker))
        self.node.create("t", message_format_version="0.7")

    def send(self, request: bytes) -> FakeTransport:
        protocol, transport = self.simple.buildProtocol(IPv4Address("TCP", "10.0.0.1", 5000)), FakeTransport()
        assert protocol is not None
        protocol.makeConnection(cast(Any, transport))
        protocol.dataReceived(request)
        self.node.clock.advance(0)
        return transport

    def allow(self, principal: str, name: str = "t", pattern: PatternType = PatternType.LITERAL) -> None:
        assert self.node.broker.authorizer is not None
        entry = AccessControlEntry(principal, "*", AclOperation.ALL, AclPermission.ALLOW)
        resource = ResourcePattern(AclResourceType.TOPIC, name, pattern)
        now(self.node.broker.authorizer.acls.add(resource, frozenset({entry}), "User:admin"))

    def test_a_client_without_a_name_needs_acls(self) -> None:
        others = (("User:alice",), ("User:",), (ANONYMOUS, "T"), (ANONYMOUS, "t-", PatternType.PREFIXED))
        for other in others:
            self.allow(*other)
            self.assertEqual(self.send(message_sets.PRODUCE_ONE).closed, "at once", other)
            for request in (message_sets.FETCH, message_sets.LATEST):
                answer = b"".join(map(bytes, self.send(request).sent))
                self.assertEqual(answer[4:6], b"\xff\xff", other)
        self.assertEqual(self.node.broker.partitions.find("t", 0).log.log_end_offset, 0)
        self.allow(ANONYMOUS)
        self.assertEqual(self.send(message_sets.PRODUCE_ONE).closed, "")
        self.assertEqual(b"".join(map(bytes, self.send(message_sets.LATEST).sent))[4:6], bytes(2))
