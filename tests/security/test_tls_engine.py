"""The engine: transcripts of handshakes that succeed and fail, and bytes in pieces of any size."""

from __future__ import annotations

import random
import ssl
from pathlib import Path

import pytest

from pylogbroker.security.tls.contexts import client_context, server_context
from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.security.tls.failures import TlsFailed
from pylogbroker.security.tls.settings import TlsSettings
from tests.security.engines import EnginePair, presenting, trusting, with_key
from tests.support.certificates import authority, identity, tls_settings
from tests.support.examples import examples

SERVER = with_key()
CLIENT = tls_settings(**trusting())
LARGE = random.Random(1).randbytes(300_000)


@pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def connected(server: TlsSettings = SERVER, client: TlsSettings = CLIENT) -> EnginePair:
    pair = EnginePair.of(server, client)
    assert pair.shake_hands() == []
    assert (pair.server.is_established, pair.client.is_established) == (True, True)
    return pair


def test_bytes_arrive_in_both_directions(version: str) -> None:
    pair = connected(client=tls_settings(**trusting(), ssl_enabled_protocols=(version,)))
    assert pair.server.version == version
    for sender, receiver in ((pair.client, pair.server), (pair.server, pair.client)):
        sender.write(b"some bytes")
        receiver.feed(sender.take_output())
        assert receiver.read() == b"some bytes"
        assert receiver.read() == b""


@pytest.mark.parametrize("seed", range(5))
def test_large_data_in_random_pieces_is_read_into_a_buffer(seed: int) -> None:
    pair, choice = connected(), random.Random(seed)
    for start in range(0, len(LARGE), 70_000):
        pair.client.write(memoryview(LARGE)[start : start + 70_000])
    network, received = pair.client.take_output(), memoryview(bytearray(len(LARGE)))
    assert LARGE[:1000] not in network
    count = 0
    while network:
        size = choice.choice((1, 5, 100, 16_384, 65_536))
        pair.server.feed(network[:size])
        network = network[size:]
        count += pair.server.read_into(received[count:])
    assert bytes(received) == LARGE


def test_no_data_is_read_before_the_handshake_is_done() -> None:
    pair = EnginePair.of(SERVER, CLIENT)
    pair.client.start()
    pair.server.feed(pair.client.take_output())
    assert not pair.server.is_established
    assert pair.server.read() == b""
    assert pair.server.read_into(memoryview(bytearray(10))) == 0


def test_the_peer_learns_of_the_end(version: str) -> None:
    pair = connected(client=tls_settings(**trusting(), ssl_enabled_protocols=(version,)))
    pair.server.write(b"the last")
    pair.server.close()
    pair.client.feed(pair.server.take_output())
    assert pair.client.read() == b"the last"
    assert not pair.client.is_closed_by_peer
    assert pair.client.read() == b""
    assert pair.client.is_closed_by_peer
    pair.server.write(b"too late")
    assert pair.server.take_output() == b""


def test_a_clients_certificate_is_known() -> None:
    pair = connected(with_key(client_auth="required"), with_key("alice"))
    assert pair.server.peer_certificate is not None
    assert b"alice" in pair.server.peer_certificate
    assert connected(with_key(client_auth="requested")).server.peer_certificate is None
    assert connected(SERVER, with_key("alice")).server.peer_certificate is None


def expired_client(directory: Path) -> ssl.SSLContext:
    """A client whose certificate has expired: our own stores reject one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority().identity.certificate_pem)
    (directory / "late.pem").write_text(identity("late", days=-1).pem())
    context.load_cert_chain(directory / "late.pem")
    return context


def test_failures_name_their_cause(tmp_path: Path) -> None:
    asking = with_key(client_auth="required")
    unknown = presenting(identity("eve", issuer="another").pem())
    other_host = presenting(identity("broker", ("elsewhere",)).pem())
    older = tls_settings(**trusting(), ssl_enabled_protocols=("TLSv1.2",))
    newer = with_key(ssl_enabled_protocols=("TLSv1.3",))
    causes = [
        EnginePair.of(server, client).shake_hands()
        for server, client in (
            (SERVER, tls_settings(**trusting("another"))),
            (other_host, CLIENT),
            (asking, CLIENT),
            (asking, unknown),
            (asking, expired_client(tmp_path)),
            (newer, older),
        )
    ]
    assert causes == [
        [
            "the client does not trust this broker's certificate",
            "the broker's certificate is not trusted (ssl.truststore): unable to get local issuer certificate; name its"
            " authority's file by ssl.ca.location",
        ],
        [
            "the client does not trust this broker's certificate, or its host name",
            "the broker's certificate is of another host: Hostname mismatch, certificate is not valid for 'localhost'"
            "; connect by a name that it has, or give the broker one that has this name",
        ],
        [
            "the client sent no certificate, which ssl.client.auth=required asks for",
            "the broker asks for a client certificate: set ssl.keystore.location",
        ],
        [
            "the client's certificate is not trusted (ssl.truststore): unable to get local issuer certificate",
            "the broker does not trust this client's certificate",
        ],
        ["the client's certificate has expired", "this client's certificate has expired, says the broker"],
        [
            "the two sides have no version of TLS (ssl.enabled.protocols) in common",
            "the two sides have no version of TLS (ssl.enabled.protocols) in common",
        ],
    ]


def test_no_host_is_checked_if_none_is_to_be() -> None:
    other_host = presenting(identity("broker", ("elsewhere",)).pem())
    unchecked = tls_settings(**trusting(), ssl_endpoint_identification_algorithm="")
    assert EnginePair.of(other_host, unchecked).shake_hands() == []
    assert EnginePair.of(SERVER, CLIENT, "127.0.0.1").shake_hands() == []
    assert "another host" in EnginePair.of(SERVER, CLIENT, "127.0.0.2").shake_hands()[1]


@pytest.mark.parametrize(
    ("start", "cause"),
    [
        (b"\0\0\0\x2a\0\x12", "plaintext: connect with security.protocol=SSL"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"\x80\x2e\x01", "plaintext"),
    ],
)
def test_bytes_that_are_not_tls_are_recognized(start: bytes, cause: str) -> None:
    engine = TlsEngine(server_context(SERVER), is_server=True)
    with pytest.raises(TlsFailed, match=cause):
        engine.feed(start)
    engine.feed(b"more")
    assert (engine.read(), engine.is_established) == (b"", False)


def test_a_damaged_record_ends_the_connection() -> None:
    pair = connected()
    pair.client.write(b"x" * 100)
    damaged = bytearray(pair.client.take_output())
    damaged[50] ^= 1
    pair.server.feed(damaged)
    with pytest.raises(TlsFailed, match="decryption failed or bad record mac"):
        pair.server.read()
    assert pair.server.take_output()  # the alert
    assert pair.server.read_into(memoryview(bytearray(10))) == 0


@pytest.mark.parametrize("seed", range(examples(20)))
def test_damaged_handshakes_end_in_words(seed: int) -> None:
    """Flip, cut and insert bytes of the client's messages: the server is established, waits, or says why not."""
    choice = random.Random(seed)

    def change(data: bytes) -> bytes:
        damaged = bytearray(data)
        for _ in range(choice.randint(0, 3)):
            position = choice.randrange(len(damaged))
            damaged[position : position + choice.randint(0, 2)] = choice.randbytes(choice.randint(0, 2))
        return bytes(damaged)

    for _ in range(20):
        pair = EnginePair.of(REUSED[0], REUSED[1])
        for failure in pair.shake_hands(change):
            assert failure
            assert not failure.startswith(("(", "["))


REUSED = server_context(with_key(client_auth="requested")), client_context(with_key("alice"))
