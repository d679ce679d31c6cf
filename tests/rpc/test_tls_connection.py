"""Connections with TLS to a server of Python's own ssl module: bytes both ways, and why a connection is not made."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol

from pylogbroker.rpc.endpoint import TlsClient, dial
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.rpc.security import ConnectionSecurity, SecurityNames
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.security.tls.contexts import ClientTls, server_context
from pylogbroker.security.tls.settings import TlsSettings
from tests.security.engines import presenting, trusting, with_key
from tests.support.certificates import identity, tls_settings
from tests.support.reactor_run import run

LARGE = bytes(range(256)) * 12_000
Serve = Callable[[socket.socket], object]


@contextmanager
def server(serve: Serve) -> Iterator[int]:
    """Serve one connection in a thread; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=_accept, args=(listening, serve))
        thread.start()
        yield listening.getsockname()[1]
        thread.join(120)


def _accept(listening: socket.socket, serve: Serve) -> None:
    with suppress(OSError), listening.accept()[0] as accepted:
        accepted.settimeout(120)
        serve(accepted)


def echo(settings: TlsSettings) -> Serve:
    """Send everything back after the last byte, `!`."""

    def serve(accepted: socket.socket) -> None:
        with server_context(settings).wrap_socket(accepted, server_side=True) as secured:
            received = b""
            while not received.endswith(b"!"):
                received += secured.recv(100_000)
            secured.sendall(received)
            secured.unwrap()

    return serve


class Talk(Protocol):
    """Receives as the connections of clients do."""

    def __init__(self) -> None:
        self.received = b""
        self.lost: Deferred[str] = Deferred()

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.deliver_to(self)

    def receive_buffer(self) -> None:
        return None

    def chunks_sent(self) -> None:
        """Nothing waits for it."""

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Any = None) -> None:
        self.lost.callback(reason.getErrorMessage())


async def connect(port: int, client: TlsSettings, host: str = "localhost", seconds: float = 120) -> Talk:
    from twisted.internet import reactor

    security = ConnectionSecurity(ClientTls.of(client).engine, names=SecurityNames("the.protocol"))
    settings = ConnectionSettings(setup_timeout=seconds, security=security)
    return await dial(reactor, Address(host, port), settings, lambda *_: Talk())


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_bytes_go_both_ways(host: str) -> None:
    async def talk(port: int) -> Talk:
        connection = await connect(port, with_key("alice"), host)
        assert isinstance(connection.transport, TlsClient)
        connection.transport.send_chunks([LARGE, b"", memoryview(LARGE), b"the", b"end", b"!"])
        await connection.lost
        return connection

    with server(echo(with_key(client_auth="required"))) as port:
        connection = run(lambda: talk(port))
    assert connection.received == LARGE + LARGE + b"theend!"


@pytest.mark.parametrize(
    ("serve", "client", "cause"),
    [
        (echo(with_key()), tls_settings(**trusting("another")), "TLS: the broker's certificate is not trusted"),
        (
            echo(presenting(identity("broker", ("elsewhere",)).pem())),
            tls_settings(**trusting()),
            "TLS: the broker's certificate is of another host",
        ),
        (
            socket.socket.close,
            tls_settings(**trusting()),
            "TLS: the peer closed the connection; does this listener have TLS? See the.protocol",
        ),
        (lambda accepted: accepted.send(b"\0\0\0\5hello"), tls_settings(**trusting()), "TLS: the peer does not speak"),
        (
            lambda accepted: accepted.recv(1000) and accepted.recv(1000) and accepted.recv(1000),
            tls_settings(**trusting()),
            "the broker did not answer the TLS handshake within 0.",
        ),
    ],
)
def test_why_a_connection_is_not_made(serve: Serve, client: TlsSettings, cause: str) -> None:
    with (
        server(serve) as port,
        pytest.raises(NotConnected, match=rf"^cannot connect to localhost:\d+: {re.escape(cause)}"),
    ):
        run(lambda: connect(port, client, seconds=0.5 if "0." in cause else 10))


def test_a_missing_certificate_is_named_when_the_connection_ends() -> None:
    async def lose(port: int) -> str:
        with suppress(NotConnected):
            return await (await connect(port, tls_settings(**trusting()))).lost
        return ""

    def serve(accepted: socket.socket) -> None:
        with suppress(ssl.SSLError):
            echo(with_key(client_auth="required"))(accepted)

    with server(serve) as port:
        cause = run(lambda: lose(port))
    assert cause == "TLS: the broker asks for a client certificate: set ssl.keystore.location"
