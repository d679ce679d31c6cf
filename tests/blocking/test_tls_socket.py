"""Blocking sockets with TLS: bytes both ways, and responses that arrive together."""

from __future__ import annotations

import socket
import struct
from contextlib import closing, suppress

import pytest

from pylogbroker.blocking.connection import BlockingConnection, dial, readable
from pylogbroker.blocking.tls_socket import TlsSocket
from pylogbroker.client.settings import CLIENT as CLIENT_TABLE
from pylogbroker.client.settings import read
from pylogbroker.config import Values
from pylogbroker.errors import ConfigError
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.rpc.security import ConnectionSecurity
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.security.tls.contexts import ClientTls, server_context
from pylogbroker.security.tls.settings import TlsSettings
from tests.rpc.test_tls_connection import LARGE, Serve, echo, server
from tests.security.engines import EnginePair, trusting, with_key
from tests.support.certificates import authority, identity, tls_settings

CLIENT = tls_settings(**trusting())


def connect(port: int, settings: TlsSettings = CLIENT) -> TlsSocket:
    connected = socket.create_connection(("127.0.0.1", port), 10)
    secured = TlsSocket(connected, ClientTls.of(settings).engine("localhost"))
    secured.shake_hands()
    return secured


def test_bytes_go_both_ways() -> None:
    with server(echo(with_key())) as port, closing(connect(port)) as secured:
        assert secured.sendmsg([LARGE, b"", memoryview(b"end"), b"!"]) == len(LARGE) + 4
        start = secured.recv(1000)
        buffer = memoryview(bytearray(500))
        count = secured.recv_into(buffer)
        rest = secured.recv(len(LARGE) + 4 - 1000 - count)
        assert bytes(start) + bytes(buffer[:count]) + bytes(rest) == LARGE + b"end!"
        assert secured.recv(10) == b""


def test_two_responses_in_one_record_are_both_seen() -> None:
    def serve(accepted: socket.socket) -> None:
        with server_context(with_key()).wrap_socket(accepted, server_side=True) as secured:
            secured.sendall(b"first" + b"second")
            with suppress(OSError):
                secured.recv(1)

    with server(serve) as port:
        secured = connect(port)
        with closing(BlockingConnection(secured, Address("localhost", port), ConnectionSettings())) as connection:
            assert not connection.has_received
            assert readable([connection], 10) == {connection.fileno()}
            assert secured.recv(5) == b"first"
            assert readable([connection], 0) == {connection.fileno()}
            assert secured.recv(6) == b"second"
            assert readable([connection], 0) == set()


@pytest.mark.parametrize(
    ("serve", "cause"),
    [
        (echo(with_key()), "TLS: the broker's certificate is not trusted"),
        (socket.socket.close, "TLS: the peer closed the connection; does this listener have TLS"),
        (lambda accepted: accepted.send(b"\0\0\0\5hello"), "TLS: the peer does not speak TLS"),
    ],
)
def test_why_a_connection_is_not_made(serve: Serve, cause: str) -> None:
    settings = ConnectionSettings(security=ConnectionSecurity(ClientTls.of(tls_settings(**trusting("another"))).engine))
    with server(serve) as port, pytest.raises(NotConnected, match=rf"^cannot connect to 127.0.0.1:\d+: {cause}"):
        dial(Address("127.0.0.1", port), settings)


TRICKLED_BYTES = 400


def trickle(start: bytes) -> Serve:
    """Serve the start of a message at once, and of the rest a byte whenever the client has sent nothing for a time."""

    def serve(accepted: socket.socket) -> None:
        accepted.recv(100_000)
        accepted.sendall(start)
        accepted.settimeout(0.05)
        for _ in range(TRICKLED_BYTES):
            with suppress(TimeoutError):
                if not accepted.recv(1):
                    return
            accepted.send(b"\0")

    return serve


@pytest.mark.parametrize(
    ("start", "security", "cause"),
    [
        (struct.pack(">i", TRICKLED_BYTES), ConnectionSecurity(), "did not answer in time: ApiVersions"),
        (b"\x16\3\3\x40\0", ConnectionSecurity(ClientTls.of(CLIENT).engine), "the TLS handshake takes too long"),
    ],
)
def test_a_broker_that_answers_byte_by_byte(start: bytes, security: ConnectionSecurity, cause: str) -> None:
    """The whole set-up has one limit, which the bytes do not extend."""
    settings = ConnectionSettings(security=security, setup_timeout=2.0)
    with server(trickle(start)) as port, pytest.raises(NotConnected, match=cause):
        dial(Address("127.0.0.1", port), settings)


def test_files_named_as_librdkafka_does() -> None:
    with pytest.raises(ConfigError, match=r"^ssl.ca.location: a trust store is set, too"):
        TlsSettings.of_client(_values(ssl_ca_location="x", **trusting()))
    with pytest.raises(ConfigError, match=r"^ssl.key.location: expected a file"):
        TlsSettings.of_client(_values(ssl_certificate_location="x"))
    files = _values(ssl_certificate_location="same", ssl_key_location="same", ssl_ca_location="ca")
    settings = TlsSettings.of_client(files)
    assert settings.paths == ("same", "ca")


def test_text_in_settings_named_as_librdkafka_does() -> None:
    alice = identity("alice")
    given = {"ssl_ca_pem": authority().identity.certificate_pem, "ssl_certificate_pem": alice.certificate_pem}
    settings = TlsSettings.of_client(_values(**given, ssl_key_pem=alice.key_pem()))
    assert EnginePair.of(with_key("broker", "required"), settings).shake_hands() == []
    assert alice.key_pem() not in repr(settings)
    for more, problem in (
        ({"ssl_ca_location": "x"}, "ssl.ca.pem: ssl.ca.location is set, too"),
        (trusting(), "ssl.ca.pem: a trust store is set, too"),
        ({"ssl_ca_pem": ""}, "ssl.key.pem: expected PEM, because the other one is set"),
        ({"ssl_key_pem": "x", "ssl_certificate_location": "x", "ssl_key_location": "x"}, "is set, too"),
    ):
        with pytest.raises(ConfigError) as rejected:
            TlsSettings.of_client(_values(**{**given, **more}))
        assert problem in str(rejected.value)


def test_any_broker_is_trusted_without_verification() -> None:
    for verification, fails in (("false", False), ("true", True)):
        client = TlsSettings.of_client(_values(**trusting("another"), enable_ssl_certificate_verification=verification))
        assert bool(EnginePair.of(with_key(), client, "elsewhere").shake_hands()) == fails


def _values(**given: str) -> Values:
    return read(CLIENT_TABLE, {name.replace("_", "."): text for name, text in given.items()})
