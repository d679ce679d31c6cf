"""The load generator, against a server that answers by rule: it sends what it says and counts what came."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import cast
from unittest.mock import Mock

import pytest
from kafka.protocol.consumer import FetchResponse  # type: ignore[import-untyped]

from benchmarks.driver import Block, call, connect, pump, round_trips
from benchmarks.errors import BenchmarkError
from benchmarks.many_connections import Consumer, FetchForm, Producer, run
from benchmarks.requests import batch

REQUEST = b"\0\0\0\x04" + b"ping"
ANSWER = b"\0\0\0\x03" + b"yes"


@contextmanager
def server(talk: Callable[[socket.socket], None], connections: int = 1) -> Iterator[int]:
    """Serve so many connections, one after the other or side by side, each by `talk`; yield the port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threads = [threading.Thread(target=_serve, args=(listening, talk)) for _ in range(connections)]
        for thread in threads:
            thread.start()
        yield listening.getsockname()[1]
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()


def _serve(listening: socket.socket, talk: Callable[[socket.socket], None]) -> None:
    sock, _ = listening.accept()
    with closing(sock):
        talk(sock)


def answer_each(sock: socket.socket) -> None:
    """Answer every request with ANSWER."""
    stream = sock.makefile("rb")
    while stream.read(len(REQUEST)):
        sock.sendall(ANSWER)


class Windowed:
    """Answers only when a whole window of requests has come."""

    def __init__(self, window: int, count: int) -> None:
        self.window = window
        self.count = count
        self.received = 0

    def __call__(self, sock: socket.socket) -> None:
        stream = sock.makefile("rb")
        while self.received < self.count:
            wanted = min(self.window, self.count - self.received)
            assert stream.read(wanted * len(REQUEST)) == REQUEST * wanted
            self.received += wanted
            sock.sendall(ANSWER * wanted)


class CountedSocket:
    """A client's socket; `in_flight_most` is the highest number of requests without an answer so far."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sent = self._received_bytes = self.in_flight_most = 0

    def sendall(self, data: memoryview) -> None:
        self._sent += len(data) // len(REQUEST)
        self.in_flight_most = max(self.in_flight_most, self._sent - self._received_bytes // len(ANSWER))
        self._sock.sendall(data)

    def recv_into(self, buffer: bytearray, most: int, flags: int) -> int:
        received = self._sock.recv_into(buffer, most, flags)
        self._received_bytes += received
        return received


@pytest.mark.parametrize(("window", "count"), [(1, 5), (5, 23), (64, 200)])
def test_pump_keeps_the_window_full_and_never_overfull(window: int, count: int) -> None:
    talk = Windowed(window, count)
    with server(talk) as port, closing(connect("127.0.0.1", port)) as sock:
        counted = CountedSocket(sock)
        assert pump(cast(socket.socket, counted), Block.of([REQUEST]), count, window, len(ANSWER)) > 0
    assert (talk.received, counted.in_flight_most) == (count, window)


def test_pump_goes_round_the_requests_of_its_block() -> None:
    requests = [b"\0\0\0\x01" + bytes([letter]) for letter in b"abc"]
    seen = bytearray()

    def talk(sock: socket.socket) -> None:
        stream = sock.makefile("rb")
        while request := stream.read(5):
            seen.append(request[4])
            sock.sendall(ANSWER)

    with server(talk) as port, closing(connect("127.0.0.1", port)) as sock:
        pump(sock, Block.of(requests), 8, 2, len(ANSWER))
    assert seen == b"abcabcab"


def test_pump_notices_a_closed_connection() -> None:
    with (
        server(lambda sock: sock.sendall(ANSWER)) as port,
        closing(connect("127.0.0.1", port)) as sock,
        pytest.raises((BenchmarkError, ConnectionError)),
    ):
        pump(sock, Block.of([REQUEST]), 100, 2, len(ANSWER))


def test_requests_of_different_sizes_make_no_block() -> None:
    with pytest.raises(BenchmarkError, match="one size"):
        Block.of([b"aa", b"b"])


def test_round_trips_are_timed_one_by_one() -> None:
    with server(answer_each) as port, closing(connect("127.0.0.1", port)) as sock:
        times = round_trips(sock, Block.of([REQUEST]), 50, len(ANSWER))
    assert len(times) == 50
    assert min(times) > 0


def test_call_returns_an_answer_that_comes_in_pieces() -> None:
    with server(answer_each) as port, closing(connect("127.0.0.1", port)) as sock:
        slow = Mock(sendall=sock.sendall, recv_into=lambda view: sock.recv_into(view[:1]))
        assert call(slow, REQUEST) == b"yes"


def test_producers_do_their_work_side_by_side() -> None:
    with server(answer_each, 3) as port:
        socks = [connect("127.0.0.1", port) for _ in range(3)]
        producers = [Producer(sock, Block.of([REQUEST]), 40, 5, len(ANSWER)) for sock in socks]
        run(producers)
        for sock in socks:
            sock.close()
    assert [producer.answer_bytes for producer in producers] == [40 * len(ANSWER)] * 3


def fetch_answer(topic: str, records: bytes) -> bytes:
    """Return a whole fetch answer, made by another library."""
    response = FetchResponse
    topic_class = response.FetchableTopicResponse
    partition = topic_class.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=1,
        last_stable_offset=1,
        log_start_offset=0,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=records,
    )
    message = response(
        throttle_time_ms=0,
        error_code=0,
        session_id=0,
        responses=[topic_class(topic=topic, partitions=[partition])],
    )
    body = struct.pack(">i", 7) + b"\0" + bytes(message.encode(version=12))
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("batches", [0, 1, 2, 7, 130])
def test_consumer_continues_after_the_last_batch_of_an_answer(batches: int) -> None:
    records = batch(3, 200)
    form = FetchForm.of("t", 0, 1 << 20, fetch_answer("t", records), len(records))
    answers = [fetch_answer("t", records * batches), fetch_answer("t", records)]
    asked = []

    def talk(sock: socket.socket) -> None:
        for answer in answers:
            request = sock.recv(4096)
            asked.append(int.from_bytes(request[form.offset_at : form.offset_at + 8], "big"))
            sock.sendall(answer)

    with server(talk) as port, closing(connect("127.0.0.1", port)) as sock:
        consumer = Consumer(sock, form, len(records), 3, end=10 + (batches + 1) * 3, offset=10)
        run([consumer])
    assert asked == [10, 10 + batches * 3]
    assert [offset for offset, _ in consumer.arrivals] == [10 + batches * 3, 10 + (batches + 1) * 3]
