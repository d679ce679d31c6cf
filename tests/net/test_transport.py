"""The sendfile transport over real sockets: every chunk arrives, whole and in order, however slowly it is read."""

from __future__ import annotations

import os
import select
import socket
import tempfile
from typing import Any
from unittest.mock import patch

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.net.poller import EagerPoller
from pylogbroker.net.transport import ChunkServer
from tests.support.examples import examples

CONTENT = os.urandom(400_000)


@attrs.frozen
class OpenFile:
    fd: int


@attrs.frozen
class FileRegion:
    file: OpenFile
    position: int
    length: int

    def __len__(self) -> int:
        return self.length


class Receiver(Protocol):
    """Keeps what comes; receives into `buffer` while there is one."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.buffer: memoryview | None = None
        self.drained = 0

    def dataReceived(self, data: bytes) -> None:
        self.received.append(data)

    def receive_buffer(self) -> memoryview | None:
        return self.buffer

    def buffer_filled(self, count: int) -> None:
        if self.buffer is not None:
            self.received.append(bytes(self.buffer[:count]))
            self.buffer = None

    def chunks_sent(self) -> None:
        self.drained += 1


class FakeReactor(Clock):
    """Remembers who wants to read and to write; `serve` does an iteration."""

    def __init__(self) -> None:
        super().__init__()
        self._poller: Any = None
        self.readers: set[Any] = set()
        self.writers: set[Any] = set()
        self.addReader, self.removeReader = self.readers.add, self.readers.discard
        self.addWriter, self.removeWriter = self.writers.add, self.writers.discard


class Pair:
    """A ChunkServer and the other end of its connection, with small buffers in between."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
            self.peer = socket.socket()
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            self.peer.connect(listening.getsockname())
            accepted, address = listening.accept()
        accepted.setblocking(False)
        self.peer.setblocking(False)
        self.reactor = FakeReactor()
        self.receiver = Receiver()
        self.transport = ChunkServer(accepted, self.receiver, address, None, 0, self.reactor)
        self.receiver.makeConnection(self.transport)

    def read_all(self) -> bytes:
        """Read, and let the transport write, until there is no more."""
        parts = []
        while True:
            moved = False
            if self.transport in self.reactor.writers:
                outcome = self.transport.doWrite()
                if outcome is not None:
                    self.transport.connectionLost(Failure(outcome))
                moved = True
            try:
                part = self.peer.recv(65536)
            except BlockingIOError:
                part = b""
            if part:
                parts.append(part)
            elif not moved:
                return b"".join(parts)

    def close(self) -> None:
        self.peer.close()
        if self.transport.connected:
            self.transport.connectionLost(Failure(CONNECTION_DONE))


BYTES = st.binary(min_size=1, max_size=50) | st.integers(1, 60_000).map(lambda size: CONTENT[:size])
REGIONS = st.tuples(st.integers(0, 300_000), st.integers(0, 100_000))


class TransportTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.file = self.enterContext(tempfile.TemporaryFile())
        self.file.write(CONTENT)
        self.file.flush()

    def pair(self) -> Pair:
        pair = Pair()
        self.addCleanup(pair.close)
        return pair

    def region(self, position: int, length: int) -> FileRegion:
        return FileRegion(OpenFile(self.file.fileno()), position, length)

    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(st.lists(BYTES | REGIONS, max_size=5), max_size=5))
    def test_bytes_and_regions_arrive_in_order(self, calls: list[list[bytes | tuple[int, int]]]) -> None:
        pair = Pair()
        expected = b""
        for chunks in calls:
            pair.transport.send_chunks([c if isinstance(c, bytes) else self.region(*c) for c in chunks])
            for chunk in chunks:
                expected += chunk if isinstance(chunk, bytes) else CONTENT[chunk[0] : chunk[0] + chunk[1]]
        self.assertEqual(pair.read_all(), expected)
        self.assertEqual((pair.transport.unsent_bytes, pair.transport.unsent_chunks), (0, 0))
        pair.close()

    def test_small_chunks_are_sent_in_the_same_call(self) -> None:
        pair = self.pair()
        pair.transport.send_chunks([b"at once"])
        self.assertEqual(pair.peer.recv(100), b"at once")
        self.assertEqual(pair.reactor.writers, set())

    def test_more_chunks_than_one_call_takes(self) -> None:
        pair = self.pair()
        most = os.sysconf("SC_IOV_MAX")
        chunks = [CONTENT[number : number + number % 3 + 1] for number in range(3 * most)]
        pair.transport.send_chunks([*chunks, self.region(0, 100)])
        self.assertEqual(pair.read_all(), b"".join(chunks) + CONTENT[:100])

    def test_unsent_bytes_count_memory_and_not_files(self) -> None:
        pair = self.pair()
        pair.transport.send_chunks([self.region(0, 400_000), b"x" * 1000])
        self.assertEqual(pair.transport.unsent_bytes, 1000)
        pair.read_all()
        self.assertEqual(pair.receiver.drained, 1)

    def test_close_waits_for_unsent_chunks(self) -> None:
        pair = self.pair()
        pair.transport.send_chunks([CONTENT])
        pair.transport.loseConnection()
        self.assertEqual(pair.read_all(), CONTENT)
        self.assertFalse(pair.transport.connected)

    def test_a_file_that_ends_before_its_region_ends_the_connection(self) -> None:
        pair = self.pair()
        pair.transport.send_chunks([self.region(399_990, 100)])
        self.assertEqual(pair.read_all(), CONTENT[-10:])
        pair.reactor.advance(0)
        self.assertFalse(pair.transport.connected)

    @patch("pylogbroker.net.transport._PIECE", 1000)
    def sent_in_one_call(self, sizes: list[int | bytes], others_wait: bool) -> int:
        """Number of bytes of these regions and this memory that the peer gets before the connection yields."""
        pair = self.pair()
        chunks = [self.region(0, size) if isinstance(size, int) else size for size in sizes]
        with select.epoll() as poller:
            pair.reactor._poller = EagerPoller(poller)
            poller.register(pair.transport.fileno(), select.EPOLLOUT)  # who sends is no other
            other, speaking = map(self.enterContext, socket.socketpair())
            poller.register(other.fileno(), select.EPOLLIN)
            if others_wait:
                speaking.send(b"x")
            pair.transport.send_chunks(chunks)
        count = len(pair.peer.recv(8000))
        self.assertEqual(pair.transport in pair.reactor.writers, pair.transport.unsent_chunks > 0)
        return count

    def test_a_large_file_region_yields_to_waiting_connections(self) -> None:
        self.assertEqual(self.sent_in_one_call([3500], True), 1000)
        self.assertEqual(self.sent_in_one_call([3500], False), 3500)

    def test_many_small_regions_yield_to_waiting_connections(self) -> None:
        self.assertEqual(self.sent_in_one_call([400] * 6, True), 1200)
        self.assertEqual(self.sent_in_one_call([400] * 6, False), 2400)
        self.assertEqual(self.sent_in_one_call([b"x" * 300, 300] * 4, True), 1200)

    @patch("pylogbroker.net.transport._PIECE", 1000)
    def test_waiting_connections_are_checked_once_per_yield_size(self) -> None:
        pair = self.pair()
        with patch("pylogbroker.net.transport.others_wait", return_value=False) as asked:
            pair.transport.send_chunks([self.region(0, 400) for _ in range(9)])
        self.assertEqual(asked.call_count, 2)  # after 1200 and 2400 bytes, of 3600

    def test_empty_chunks_are_passed_over(self) -> None:
        pair = self.pair()
        pair.transport.send_chunks([b"", self.region(5, 0), b"", b"a", self.region(9, 0), b"", b"b", self.region(0, 0)])
        self.assertEqual(pair.peer.recv(100), b"ab")
        self.assertTrue(pair.transport.connected)
        self.assertEqual((pair.transport.unsent_chunks, pair.reactor.writers), (0, set()))

    def test_a_lost_peer_ends_the_connection_and_frees_unsent_chunks(self) -> None:
        pair = self.pair()
        pair.transport.send_chunks([CONTENT, self.region(0, 1000)])
        pair.peer.close()
        self.assertIs(pair.transport.doWrite(), CONNECTION_LOST)
        pair.transport.connectionLost(Failure(CONNECTION_LOST))
        self.assertEqual(pair.transport.unsent_chunks, 0)

    def test_a_frames_buffer_is_received_into(self) -> None:
        pair = self.pair()
        pair.peer.send(b"abcdef")
        pair.receiver.buffer = memoryview(bytearray(4))
        pair.transport.doRead()
        pair.transport.doRead()
        self.assertEqual(pair.receiver.received, [b"abcd", b"ef"])
        pair.peer.close()
        self.assertIs(pair.transport.doRead(), CONNECTION_DONE)
