"""The transport with TLS over real sockets: every chunk arrives, in order, and nothing before the handshake."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import tempfile
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.net.transport import TlsServer
from pylogbroker.rpc.tls_transport import PIECE_BYTES, PIECE_BYTES_MAX
from pylogbroker.security.tls.contexts import client_context, server_context
from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.security.tls.failures import TlsFailed
from tests.net.test_transport import BYTES, CONTENT, REGIONS, FakeReactor, FileRegion, OpenFile, Receiver
from tests.security.engines import trusting, with_key
from tests.support.certificates import tls_settings
from tests.support.examples import examples

SERVER = server_context(with_key(client_auth="requested"))
CLIENT = client_context(tls_settings(**trusting()))


class SecureReceiver(Receiver):
    """Keeps what is reported of TLS, too."""

    def __init__(self) -> None:
        super().__init__()
        self.certificates: list[bytes | None] = []
        self.causes: list[str] = []

    def secured(self, certificate: bytes | None) -> None:
        self.certificates.append(certificate)

    def tls_failed(self, cause: str) -> None:
        self.causes.append(cause)


class UnlimitedSteps:
    def run(self, connection: object, step: Callable[[], object]) -> object:
        return step()


@attrs.frozen
class FakePort:
    _realPortNumber: int = 9093
    steps: UnlimitedSteps = attrs.field(factory=UnlimitedSteps)

    def make_engine(self) -> TlsEngine:
        return TlsEngine(SERVER, is_server=True)


class SecurePair:
    """A TlsServer and a client's engine at the other end of its connection, with small buffers in between."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
            self.peer = socket.socket()
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            self.peer.connect(listening.getsockname())
            accepted, address = listening.accept()
        self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setblocking(False)
        self.peer.setblocking(False)
        self.reactor = FakeReactor()
        self.receiver = SecureReceiver()
        self.client = TlsEngine(CLIENT, is_server=False, host="localhost")
        self.transport = TlsServer(accepted, self.receiver, address, FakePort(), 0, self.reactor)
        self.receiver.makeConnection(self.transport)

    def exchange(self) -> bytes:
        """Let both sides write and read until neither has anything; return what the client got."""
        parts = []
        while True:
            moved = self._client_sends()
            if self.transport.connected and self.transport in self.reactor.writers:
                self._end_by(self.transport.doWrite())
                moved = True
            if self.transport.connected and self.transport in self.reactor.readers:
                count = len(self.receiver.received)
                self._end_by(self.transport.doRead())
                moved = moved or count < len(self.receiver.received)
            moved = self._client_receives(parts) or moved
            if not moved:
                return b"".join(parts)

    def read(self) -> None:
        """Let the server read, as the reactor does before calls that are due at once."""
        self._end_by(self.transport.doRead())

    def _client_sends(self) -> bool:
        data = self.client.take_output()
        self.peer.setblocking(True)
        with contextlib.suppress(ConnectionError):  # the server may have left
            self.peer.sendall(data)
        self.peer.setblocking(False)
        return bool(data)

    def _client_receives(self, parts: list[bytes]) -> bool:
        try:
            data = self.peer.recv(65536)
        except (BlockingIOError, ConnectionResetError):
            return False
        with contextlib.suppress(TlsFailed):
            self.client.feed(data)
            while part := self.client.read():
                parts.append(part)
        return bool(data)

    def _end_by(self, outcome: Any) -> None:
        if outcome is not None:
            self.transport.connectionLost(Failure(outcome))

    def connect(self) -> None:
        self.client.start()
        self.exchange()
        assert self.client.is_established

    def close(self) -> None:
        self.peer.close()
        if self.transport.connected:
            self.transport.connectionLost(Failure(CONNECTION_DONE))


class TlsTransportTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.file = self.enterContext(tempfile.TemporaryFile())
        self.file.write(CONTENT)
        self.file.flush()

    def pair(self, *, connected: bool = True) -> SecurePair:
        pair = SecurePair()
        self.addCleanup(pair.close)
        if connected:
            pair.connect()
        return pair

    def region(self, position: int, length: int) -> FileRegion:
        return FileRegion(OpenFile(self.file.fileno()), position, length)

    @settings(max_examples=examples(30), deadline=None)
    @given(st.lists(st.lists(BYTES | REGIONS, max_size=5), max_size=4))
    def test_bytes_and_regions_arrive_in_order(self, calls: list[list[bytes | tuple[int, int]]]) -> None:
        pair = SecurePair()
        pair.connect()
        expected = b""
        for chunks in calls:
            pair.transport.send_chunks([c if isinstance(c, bytes) else self.region(*c) for c in chunks])
            for chunk in chunks:
                expected += chunk if isinstance(chunk, bytes) else CONTENT[chunk[0] : chunk[0] + chunk[1]]
        assert pair.exchange() == expected
        assert (pair.transport.unsent_bytes, pair.transport.unsent_chunks) == (0, 0)
        assert pair.transport not in pair.reactor.writers
        pair.close()

    def test_chunks_wait_for_the_handshake(self) -> None:
        pair = self.pair(connected=False)
        pair.transport.send_chunks([b"early"])
        self.assertEqual((pair.transport.unsent_bytes, pair.receiver.drained), (5, 0))
        pair.client.start()
        self.assertEqual(pair.exchange(), b"early")
        self.assertEqual(pair.receiver.certificates, [None])
        self.assertGreater(pair.receiver.drained, 0)

    def test_no_data_is_delivered_before_the_handshake_is_done(self) -> None:
        pair = self.pair(connected=False)
        pair.peer.send(b"\x16\x03\x01\x00\x10" + b"x" * 16)
        outcome = pair.transport.doRead()
        self.assertIsInstance(outcome, TlsFailed)
        self.assertEqual((pair.receiver.received, len(pair.receiver.causes)), ([], 1))
        self.assertEqual(pair.peer.recv(100)[0], 21)  # an alert

    def test_plaintext_is_named(self) -> None:
        pair = self.pair(connected=False)
        pair.peer.send(b"\0\0\0\x10\0\x12\0\x03")
        pair.exchange()
        self.assertEqual(
            pair.receiver.causes,
            ["the listener speaks TLS, and the client sent plaintext: connect with security.protocol=SSL"],
        )
        self.assertFalse(pair.transport.connected)

    def test_a_frames_buffer_is_decrypted_into(self) -> None:
        pair = self.pair()
        pair.client.write(CONTENT[:100_000])
        pair.client.write(b"behind")
        pair.receiver.buffer = memoryview(bytearray(100_000))
        pair.exchange()
        pieces = pair.receiver.received
        self.assertEqual(b"".join(pieces), CONTENT[:100_000] + b"behind")

    def pausing_pair(self, *sent: bytes) -> SecurePair:
        """Return a pair whose receiver pauses after each piece, and has got the first one of those sent."""
        pair = self.pair()
        received, stop = pair.receiver.received, pair.transport.stopReading
        pair.receiver.dataReceived = lambda data: (received.append(data), stop())  # type: ignore
        for piece in sent:
            pair.client.write(piece)
        pair.exchange()
        return pair

    def test_a_paused_receiver_gets_the_rest_later(self) -> None:
        pair = self.pausing_pair(b"0", b"1", b"2")
        received = pair.receiver.received
        self.assertEqual(received, [b"0"])
        pair.transport.startReading()
        pair.reactor.advance(0)
        self.assertEqual(received, [b"0", b"1"])
        pair.client.close()
        pair.exchange()
        for _ in range(3):
            pair.transport.startReading()
            pair.reactor.advance(0)
        self.assertEqual(received, [b"0", b"1", b"2"])
        pair.exchange()
        self.assertFalse(pair.transport.connected)

    def test_the_end_of_a_peer_comes_after_what_a_paused_receiver_has_not_got(self) -> None:
        pair = self.pausing_pair(b"0", b"1", b"2")
        received = pair.receiver.received
        pair.peer.close()
        for _ in range(2):
            pair.transport.startReading()
            pair.read()
        self.assertEqual((received, pair.transport.connected), ([b"0", b"1", b"2"], True))
        pair.transport.startReading()
        pair.read()
        self.assertFalse(pair.transport.connected)

    def test_nothing_is_received_while_earlier_bytes_are_not_delivered(self) -> None:
        pair = self.pausing_pair(b"0", b"1")
        received = pair.receiver.received
        pair.client.write(b"2")
        pair.peer.sendall(pair.client.take_output())
        pair.transport.startReading()
        pair.read()
        self.assertEqual(received, [b"0", b"1"])
        self.assertNotEqual(pair.transport.socket.recv(1, socket.MSG_PEEK), b"")

    def test_losing_the_connection_sends_the_rest_and_says_so(self) -> None:
        pair = self.pair()
        pair.transport.send_chunks([CONTENT])
        pair.transport.loseConnection()
        self.assertEqual(pair.exchange(), CONTENT)
        self.assertFalse(pair.transport.connected)
        self.assertTrue(pair.client.is_closed_by_peer)

    def test_a_peer_that_leaves_ends_the_connection(self) -> None:
        pair = self.pair()
        pair.client.close()
        pair.exchange()
        self.assertFalse(pair.transport.connected)
        self.assertEqual(pair.receiver.causes, [])
        silent = self.pair(connected=False)
        silent.peer.close()
        self.assertIs(silent.transport.doRead(), CONNECTION_DONE)
        self.assertEqual(silent.receiver.causes, [])
        begun = self.pair(connected=False)
        begun.peer.send(b"\x16\x03\x01")
        begun.transport.doRead()
        begun.peer.close()
        self.assertIsInstance(begun.transport.doRead(), TlsFailed)
        self.assertEqual(begun.receiver.causes, ["the peer closed the connection"])

    def test_a_lost_peer_frees_unsent_chunks(self) -> None:
        pair = self.pair()
        pair.transport.send_chunks([CONTENT, self.region(0, 1000)])
        pair.peer.close()
        self.assertIs(pair.transport.doWrite(), CONNECTION_LOST)
        pair.transport.connectionLost(Failure(CONNECTION_LOST))
        self.assertEqual(pair.transport.unsent_chunks, 0)

    def test_a_file_that_ends_before_its_region_ends_the_connection(self) -> None:
        pair = self.pair()
        pair.transport.send_chunks([self.region(399_990, 100)])
        pair.exchange()
        pair.reactor.advance(0)
        self.assertFalse(pair.transport.connected)

    def test_a_damaged_record_ends_the_connection(self) -> None:
        pair = self.pair()
        pair.client.write(b"some bytes")
        damaged = bytearray(pair.client.take_output())
        damaged[-1] ^= 1
        pair.peer.send(damaged)
        self.assertIsInstance(pair.transport.doRead(), TlsFailed)
        self.assertEqual(pair.receiver.causes, ["decryption failed or bad record mac"])

    def test_a_large_send_yields_to_waiting_connections(self) -> None:
        pair = self.pair()
        pair.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        pair.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        with (
            patch("pylogbroker.rpc.tls_transport.YIELD_BYTES", 100_000),
            patch("pylogbroker.net.transport.others_wait", return_value=True),
        ):
            pair.transport.send_chunks([self.region(0, 400_000)])
        self.assertIn(pair.transport, pair.reactor.writers)
        self.assertGreater(len(pair.transport._unsent), 0)
        self.assertEqual(pair.exchange(), CONTENT)

    def test_pieces_grow_while_the_socket_takes_all(self) -> None:
        """A piece that the socket does not take waits in memory, so it is small then."""
        sizes, write = list[int](), TlsEngine.write

        def written(engine: TlsEngine, data: memoryview) -> None:
            sizes.append(len(data))
            write(engine, data)

        pair = self.pair()
        pair.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        pair.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        with patch.object(TlsEngine, "write", written):
            for _ in range(2):
                pair.transport.send_chunks([self.region(0, 400_000)])
                self.assertEqual(pair.exchange(), CONTENT)
            grown, sizes[:] = list(sizes), []
            pair.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
            for _ in range(8):
                pair.transport.send_chunks([self.region(0, 400_000)])
            self.assertIn(pair.transport, pair.reactor.writers)
            self.assertEqual(pair.exchange(), 8 * CONTENT)
        self.assertEqual((sum(grown), grown[0], max(grown)), (800_000, PIECE_BYTES, PIECE_BYTES_MAX))
        self.assertIn(PIECE_BYTES, sizes[1:])

    def test_random_damage_ends_in_words(self) -> None:
        choice = random.Random(7)
        for _ in range(examples(30)):
            pair = SecurePair()
            pair.client.start()
            data = bytearray(pair.client.take_output())
            for _ in range(choice.randint(1, 4)):
                data[choice.randrange(len(data))] = choice.randrange(256)
            pair.peer.sendall(data[: choice.randint(1, len(data))] + os.urandom(choice.randint(0, 50)))
            pair.exchange()
            self.assertTrue(all(pair.receiver.causes))
            pair.close()
