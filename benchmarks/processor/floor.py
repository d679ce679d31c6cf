"""Floor of the works: the least that a server in Python does for the same requests, in a bare epoll loop.

It receives, splits frames, checks the CRC of each batch, appends the batch with `pwritev`, and sends an answer of the
broker's size. A fetch is answered with `sendfile`, or waits for the next produce request. It decodes no requests, and
knows no topics, offsets, limits or metrics.
"""

import os
import select
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import IO

import attrs

from benchmarks.driver import SIZE
from benchmarks.errors import BenchmarkError
from benchmarks.processor.works import Crowd, Exchange, Flight, Iterate, ShareFetch, WaitingFetch
from pylogbroker.records import crc32c
from pylogbroker.wire.primitives import compact_size

BUFFER_BYTES = 2 << 20
TAGS_BYTES = 3  # tagged fields at the end of a produce request: of partition, topic and request
HEAD_BYTES = 16  # of a batch: offset, size and leader epoch, which a broker sets
CRC_END = 21
PRODUCE_KEY = b"\0\0"  # first field of a request

Handle = Callable[[socket.socket, Sequence[memoryview]], None]


@attrs.define
class FloorConnection:
    """Connection of the bare loop, with the bytes that are no complete frame yet."""

    sock: socket.socket
    _buffer: memoryview = attrs.field(factory=lambda: memoryview(bytearray(BUFFER_BYTES)))
    _have: int = 0

    def receive(self, handle: Handle) -> None:
        """Read once and handle the complete frames."""
        have = self._have + self.sock.recv_into(self._buffer[self._have :])
        frames, position = [], 0
        while have - position >= SIZE.size:
            end = position + SIZE.size + int.from_bytes(self._buffer[position : position + SIZE.size], "big")
            if end > have:
                break
            frames.append(self._buffer[position + SIZE.size : end])
            position = end
        if frames:
            handle(self.sock, frames)
        if position and position < have:
            self._buffer[: have - position] = bytes(self._buffer[position:have])
        self._have = have - position


@attrs.define
class Appender:
    """File to which produced batches are appended."""

    file: IO[bytes]
    batch_bytes: int
    batches: int = 1
    position: int = 0
    head: bytes = bytes(HEAD_BYTES)

    def append(self, frame: memoryview) -> None:
        """Check the CRC of each batch of a produce request, and append the batches."""
        size = self.batch_bytes
        distance = 4 + len(compact_size(size)) + size + 1  # partition, size of the records, records, tagged fields
        end = len(frame) - TAGS_BYTES
        for stop in range(end - distance * (self.batches - 1), end + 1, distance):
            batch = frame[stop - size : stop]
            if crc32c(batch[CRC_END:]) != int.from_bytes(batch[CRC_END - 4 : CRC_END], "big"):
                raise BenchmarkError("floor: the CRC of a batch is wrong")
            self.position += os.pwritev(self.file.fileno(), (self.head, batch[HEAD_BYTES:]), self.position)


def appends(appender: Appender, answer: bytes) -> Handle:
    """Return a handler of produce requests that sends the answers to all frames of a read at once."""

    def handle(sock: socket.socket, frames: Sequence[memoryview]) -> None:
        for frame in frames:
            appender.append(frame)
        sock.sendall(answer * len(frames))

    return handle


def sends_file(file: IO[bytes], head: bytes, size: int) -> Handle:
    """Return a handler of fetches that sends a head and the first `size` bytes of a file."""

    def handle(sock: socket.socket, frames: Sequence[memoryview]) -> None:
        for _ in frames:
            sock.send(head, socket.MSG_MORE)
            if os.sendfile(sock.fileno(), file.fileno(), 0, size) != size:
                raise BenchmarkError("floor: the buffer of the socket has no space for an answer")

    return handle


def sends_file_and_appends(sends: Handle, appender: Appender, produce_answer: bytes) -> Handle:
    """Return a handler that appends what is produced, and sends a file to those that fetch."""

    def handle(sock: socket.socket, frames: Sequence[memoryview]) -> None:
        for frame in frames:
            if frame[: len(PRODUCE_KEY)] == PRODUCE_KEY:
                appender.append(frame)
                sock.sendall(produce_answer)
            else:
                sends(sock, [frame])

    return handle


def answers_waiting(appender: Appender, produce_answer: bytes, fetch_answer: bytes) -> Handle:
    """Return a handler that keeps a fetch until the next produce request."""
    waiting: list[socket.socket] = []

    def handle(sock: socket.socket, frames: Sequence[memoryview]) -> None:
        for frame in frames:
            if frame[: len(PRODUCE_KEY)] != PRODUCE_KEY:
                waiting.append(sock)
                continue
            appender.append(frame)
            sock.sendall(produce_answer)
            while waiting:
                waiting.pop().sendall(fetch_answer)

    return handle


@contextmanager
def floor(exchange: Exchange, directory: str) -> Iterator[tuple[Exchange, Iterate]]:
    """Give the exchange with the bare loop instead of the broker, and the loop's iteration."""
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile(dir=directory))
        poller = stack.enter_context(select.epoll())
        pairs = [_pair(stack) for _ in range(_connections(exchange))]
        connections = {server.fileno(): FloorConnection(server) for _, server in pairs}
        for fd in connections:
            poller.register(fd, select.EPOLLIN)
        handle = _handle(exchange, file)

        def iterate() -> None:
            for fd, _ in poller.poll(0):
                connections[fd].receive(handle)

        yield _moved(exchange, [client for client, _ in pairs]), iterate


def _connections(exchange: Exchange) -> int:
    if isinstance(exchange, Crowd):
        return exchange.count
    return 1 if isinstance(exchange, Flight) else 2


def _pair(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection of the loopback interface, non-blocking."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = stack.enter_context(closing(socket.create_connection(listener.getsockname())))
        server = stack.enter_context(closing(listener.accept()[0]))
    for sock in (client, server):
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client, server


def _handle(exchange: Exchange, file: IO[bytes]) -> Handle:
    if isinstance(exchange, WaitingFetch):
        appender = Appender(file, len(exchange.records))
        return answers_waiting(appender, bytes(exchange.produce_answer_bytes), bytes(exchange.fetch_answer_bytes))
    if isinstance(exchange, ShareFetch):
        os.pwrite(file.fileno(), exchange.records, 0)
        sends = sends_file(file, bytes(exchange.fetch_answer_bytes - len(exchange.records)), len(exchange.records))
        appender = Appender(file, len(exchange.records) // exchange.batches)
        return sends_file_and_appends(sends, appender, bytes(exchange.produce_answer_bytes // exchange.batches))
    if isinstance(exchange, Crowd):
        return appends(Appender(file, len(exchange.records)), bytes(exchange.answer_bytes))
    if exchange.requests[SIZE.size : SIZE.size + len(PRODUCE_KEY)] != PRODUCE_KEY:
        os.pwrite(file.fileno(), exchange.records, 0)
        return sends_file(file, bytes(exchange.answer_bytes - len(exchange.records)), len(exchange.records))
    appender = Appender(file, len(exchange.records) // exchange.batches, exchange.batches)
    return appends(appender, bytes(exchange.answer_bytes // exchange.count))


def _moved(exchange: Exchange, clients: Sequence[socket.socket]) -> Exchange:
    if isinstance(exchange, WaitingFetch):
        return attrs.evolve(exchange, producer=clients[0], consumer=clients[1])
    if isinstance(exchange, ShareFetch):
        return attrs.evolve(exchange, producer=clients[0], member=attrs.evolve(exchange.member, sock=clients[1]))
    if isinstance(exchange, Crowd):
        return attrs.evolve(exchange, socks=clients)
    return attrs.evolve(exchange, sock=clients[0])
