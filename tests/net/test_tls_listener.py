"""Connections of a listener with TLS: their principals, the time for handshakes, and lines of the log."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, cast

from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.address import IPv4Address
from twisted.internet.defer import ensureDeferred

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.net.service import KafkaFactory, SharedLimits
from pylogbroker.security.tls.failures import TlsFailed
from pylogbroker.wire.messages.metadata import MetadataRequest
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NodeTests
from tests.net.fakes import FakeTransport, frame
from tests.support.certificates import Certificates, identity


def context_of(protocol: KafkaProtocol) -> RequestContext:
    """Return the context of a request on a connection."""
    request = memoryview(frame(MetadataRequest(), 9, 1, "me"))[4:]
    (_, context), _ = protocol._headers.resolve(request, MetadataRequest.api_key, 9, len("me"))
    return context


class TlsListenerTests(NodeTests):
    def setUp(self) -> None:
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.settings = {
            **Certificates(Path(directory)).broker,
            "listeners": "SSL://localhost:9093",
            "ssl.principal.mapping.rules": "RULE:CN=(a.*)/$1/",
            "connection.setup.timeout.ms": "5000",
        }
        super().setUp()
        broker = self.node.broker
        self.successResultOf(ensureDeferred(broker.tls.open()))
        self.limits = SharedLimits.of(broker)
        self.factory = KafkaFactory(self.node.clock, broker, broker.config.listeners[0], self.limits)

    def connect(self) -> tuple[KafkaProtocol, FakeTransport]:
        protocol = cast(KafkaProtocol, self.factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 5000)))
        transport = FakeTransport()
        protocol.makeConnection(cast(Any, transport))
        return protocol, transport

    def test_a_certificate_gives_the_principal(self) -> None:
        protocol, transport = self.connect()
        protocol.secured(identity("alice").certificate.public_bytes(Encoding.DER))
        context = context_of(protocol)
        self.assertEqual((context.principal, context.listener), ("User:alice", "SSL"))
        self.node.clock.advance(10)
        self.assertEqual(transport.closed, "")
        nobody, _ = self.connect()
        nobody.secured(None)
        self.assertEqual(context_of(nobody).principal, "User:ANONYMOUS")

    def test_a_client_without_a_principal_is_not_served(self) -> None:
        protocol, _ = self.connect()
        with self.assertRaises(TlsFailed):
            protocol.secured(identity("bob").certificate.public_bytes(Encoding.DER))

    def test_slow_handshakes_end(self) -> None:
        slow, transport = self.connect()
        gone, closed = self.connect()
        gone.connectionLost()
        self.node.clock.advance(4.9)
        self.assertEqual(transport.closed, "")
        with logged_lines() as lines:
            self.node.clock.advance(0.2)
        self.assertEqual((transport.closed, closed.closed), ("at once", ""))
        cause = "the handshake took longer than connection.setup.timeout.ms=5000"
        self.assertEqual(lines, [f"closed the connection from 10.0.0.1:5000 on SSL: TLS: {cause}"])
        slow.connectionLost()

    def test_an_address_may_have_few_connections_that_are_not_set_up(self) -> None:
        self.limits.setup.most_per_host = 2
        first, _ = self.connect()
        second, _ = self.connect()
        address = IPv4Address("TCP", "10.0.0.1", 5000)
        with logged_lines() as lines:
            self.assertIsNone(self.factory.buildProtocol(address))
        self.assertRegex(lines[0], "rejected .* 10.0.0.1 has 2 connections that are not set up")
        self.assertIsNotNone(self.factory.buildProtocol(IPv4Address("TCP", "10.0.0.2", 5000)))
        first.secured(None)
        self.assertIsNotNone(self.factory.buildProtocol(address))
        second.connectionLost()
        self.connect()

    def test_tls_failures_are_logged_at_a_limited_rate(self) -> None:
        protocol, _ = self.connect()
        with logged_lines() as lines:
            for _ in range(101):
                protocol.tls_failed("bad")
            reported = len(lines)
            self.limits.log_suppressed()
        self.assertTrue(1 <= reported <= 10, reported)
        rest = f"closed {101 - reported} more connections from 10.0.0.1: TLS: bad, within a minute"
        self.assertEqual(lines[reported:], [rest])


class SaslOverTlsTests(NodeTests):
    def setUp(self) -> None:
        directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (directory / "users").write_text("alice:secret\n")
        self.settings = {
            **Certificates(directory).broker,
            "listeners": "SASL_SSL://localhost:9093",
            "users": str(directory / "users"),
            "connection.setup.timeout.ms": "5000",
        }
        super().setUp()

    def test_the_handshake_and_the_authentication_share_one_time_limit(self) -> None:
        broker, clock = self.node.broker, self.node.clock
        for opened in (broker.tls.open(), broker.sasl.open()):
            self.successResultOf(ensureDeferred(opened))
        self.addCleanup(broker.sasl.stop)
        factory = KafkaFactory(clock, broker, broker.config.listeners[0], SharedLimits.of(broker))
        protocol, transport = factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 5000)), FakeTransport()
        assert isinstance(protocol, KafkaProtocol)
        protocol.makeConnection(cast(Any, transport))
        clock.advance(4.9)
        protocol.secured(None)
        protocol.dataReceived(frame(SaslHandshakeRequest("PLAIN"), 1, 1))
        self.assertEqual((transport.closed, len(transport.sent)), ("", 1))
        with logged_lines() as lines:
            clock.advance(0.2)
        self.assertEqual(transport.closed, "at once")
        self.assertIn("SASL: the authentication took longer than connection.setup.timeout.ms=5000", lines[0])
        protocol.connectionLost()
