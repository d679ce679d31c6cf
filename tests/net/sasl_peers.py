"""A listener with SASL in memory, and its clients."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

from twisted.internet.address import IPv4Address
from twisted.internet.defer import ensureDeferred

from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.net.service import KafkaFactory, SharedLimits
from pylogbroker.wire import decode_response_header, response_codec
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.nodes import NodeTests
from tests.net.fakes import FakeTransport, frame

RIGHT = b"\0alice\0secret"


def raw(token: bytes) -> bytes:
    return struct.pack(">i", len(token)) + token


class Peer:
    """A client that sends requests, and reads the answers that were sent."""

    def __init__(self, test: SaslNodeTests) -> None:
        self.clock, self.transport = test.node.clock, FakeTransport()
        self.protocol = cast(KafkaProtocol, test.factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 5000)))
        self.protocol.makeConnection(cast(Any, self.transport))

    def send(self, *requests: tuple[Any, int] | bytes) -> None:
        parts = [each if isinstance(each, bytes) else frame(each[0], each[1], 1) for each in requests]
        self.protocol.dataReceived(b"".join(parts))
        self.clock.advance(0)
        self.clock.advance(0)

    def frames(self) -> list[bytes]:
        data, found = b"".join(map(bytes, self.transport.sent)), []
        while data:
            (size,) = struct.unpack_from(">i", data)
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        self.transport.sent.clear()
        return found

    def ask(self, request: Any, version: int) -> Any:
        self.send((request, version))
        return self.read(request, version)

    def read(self, request: Any, version: int) -> Any:
        [found] = self.frames()
        body = memoryview(found)
        _, position = decode_response_header(body, request.api_key, version)
        return response_codec(request.api_key, version).decode(body, position)

    def log_in(self, token: bytes = RIGHT, version: int = 2) -> Any:
        assert self.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
        return self.ask(SaslAuthenticateRequest(token), version)

    @property
    def principal(self) -> str:
        return self.protocol._headers.principal


class SaslNodeTests(NodeTests):
    """A listener with the user alice, by PLAIN and SCRAM-SHA-256; `extra` settings."""

    extra: ClassVar[Mapping[str, str]] = {}

    def setUp(self) -> None:
        self.file = Path(self.enterContext(tempfile.TemporaryDirectory())) / "users"
        self.file.write_text("alice:secret\n")
        self.settings = {
            "listeners": "SASL_PLAINTEXT://localhost:9093",
            "users": str(self.file),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "sasl.server.max.receive.size": "1000",
            "connection.setup.timeout.ms": "5000",
            **self.extra,
        }
        super().setUp()
        broker = self.node.broker
        self.successResultOf(ensureDeferred(broker.sasl.open()))
        self.addCleanup(broker.sasl.stop)
        self.factory = KafkaFactory(self.node.clock, broker, broker.config.listeners[0], SharedLimits.of(broker))
