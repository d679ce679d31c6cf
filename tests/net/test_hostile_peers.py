"""Peers that don't keep to the protocol, against a broker in a process: they alone are closed, with a line in the log.

The others don't notice, and the broker's memory stays where it was.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest

from pylogbroker.records import Record, build
from pylogbroker.wire import Request, request_codec
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.legacy07 import message_sets
from tests.support.broker_process import BrokerProcess

MEGABYTE = 1 << 20
SETTINGS = {
    "socket.request.max.bytes": str(200 * MEGABYTE),
    "queued.max.request.bytes": str(64 * MEGABYTE),
    "max.connections.per.ip": "100",
}
IDLE_SECONDS = 1.0
ANSWER_SECONDS_MAX = 120.0


class Peer:
    """A connection to the broker, by hand."""

    def __init__(self, process: BrokerProcess, receive_buffer: int | None = None) -> None:
        host, port = process.bootstrap.split(":")
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(ANSWER_SECONDS_MAX)
        self.socket.connect((host, int(port)))

    def ask(self, request: Request, version: int) -> bytes:
        self.send(request, version)
        return self.answer()

    def send(self, request: Request, version: int) -> None:
        for chunk in request_codec(request.api_key, version).frame(1, "peer", request):
            self.socket.sendall(chunk)  # type: ignore[arg-type]

    def answer(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def wait_for_end(self) -> None:
        """Return when the broker has closed the connection."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("hostile"), SETTINGS)
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def impatient_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that closes idle connections soon: those of a test, too, if the machine stands still."""
    settings = {**SETTINGS, "connections.max.idle.ms": str(int(1000 * IDLE_SECONDS))}
    running = BrokerProcess(tmp_path_factory.mktemp("impatient"), settings)
    running.start()
    yield running
    running.kill()


@contextmanager
def connecting(process: BrokerProcess) -> Iterator[Callable[..., Peer]]:
    peers: list[Peer] = []

    def connect(**arguments: int) -> Peer:
        peers.append(Peer(process, **arguments))
        return peers[-1]

    yield connect
    for peer in peers:
        peer.socket.close()


@pytest.fixture
def connect(process: BrokerProcess) -> Iterator[Callable[..., Peer]]:
    with connecting(process) as connect:
        yield connect


@pytest.fixture
def connect_impatient(impatient_process: BrokerProcess) -> Iterator[Callable[..., Peer]]:
    with connecting(impatient_process) as connect:
        yield connect


def resident_bytes(process: BrokerProcess) -> int:
    pages = Path(f"/proc/{process.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def is_served(connect: Callable[..., Peer]) -> bool:
    return len(connect().ask(ApiVersionsRequest(), 0)) > 100


def _unknown_api() -> bytes:
    return struct.pack(">ihhih", 10, 32000, 0, 1, -1)


def _unknown_version() -> bytes:
    return struct.pack(">ihhih", 10, 3, 99, 1, -1)


def _cut_off_request() -> bytes:
    whole = b"".join(map(bytes, request_codec(3, 9).frame(1, "peer", MetadataRequest())))
    return struct.pack(">i", len(whole) - 6) + whole[4:-2]


def _simple_request() -> bytes:
    return message_sets.produce(b"my_topic", 0, message_sets.ONE)


BAD_FRAMES = {
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00", "this looks like TLS"),
    "kafka 0.7": (_simple_request(), "this looks like a request of Kafka 0.7's protocol (Produce of topic 'my_topic')"),
    "negative length": (struct.pack(">i", -1), "negative"),
    "oversized": (struct.pack(">i", 2**31 - 1), "larger than socket.request.max.bytes"),
    "nonsense": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "this looks like HTTP"),
    "too short": (struct.pack(">ib", 1, 7), "too short"),
    "unknown api": (_unknown_api(), "an API that is not known (32000) is not offered"),
    "unknown version": (_unknown_version(), "Metadata is not offered in version 99, but in 0 to 13"),
    "cut-off request": (_cut_off_request(), "bad request"),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_bad_frame_closes_its_connection_with_a_line_and_no_other(
    name: str, process: BrokerProcess, connect: Callable[..., Peer]
) -> None:
    frame, line = BAD_FRAMES[name]
    bystander, culprit = connect(), connect()
    bystander.ask(ApiVersionsRequest(), 0)
    culprit.socket.sendall(frame)
    culprit.wait_for_end()
    process.process.expect(rf"closing the connection from 127\.0\.0\.1:\d+ on PLAINTEXT: .*{re.escape(line)}")
    assert bystander.ask(ApiVersionsRequest(), 0)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(connect: Callable[..., Peer]) -> None:
    peer = connect()
    peer.socket.sendall(struct.pack(">ihhih", 10, 18, 77, 5, -1))
    answer = peer.answer()
    correlation_id, error, count = struct.unpack_from(">ihi", answer)
    assert (correlation_id, error) == (5, 35)
    assert len(answer) == 10 + 6 * count
    assert peer.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)


def test_large_frames_that_are_claimed_and_not_sent_cost_nothing(
    process: BrokerProcess, connect: Callable[..., Peer]
) -> None:
    before = resident_bytes(process)
    for _ in range(50):
        connect().socket.sendall(struct.pack(">i", 150 * MEGABYTE) + b"\0" * 100)
    assert is_served(connect)
    assert resident_bytes(process) - before < 20 * MEGABYTE


def test_many_half_sent_frames_together_stay_within_the_bound(
    process: BrokerProcess, connect: Callable[..., Peer]
) -> None:
    before = resident_bytes(process)
    for _ in range(20):
        peer = connect()
        try:
            peer.socket.sendall(struct.pack(">i", 150 * MEGABYTE) + bytes(8 * MEGABYTE))
        except OSError:
            continue  # the broker chose this one
    process.process.expect("more than queued.max.request.bytes")
    assert is_served(connect)
    assert resident_bytes(process) - before < 64 * MEGABYTE + 30 * MEGABYTE


def test_a_peer_that_never_reads_is_held_back_and_later_closed(
    impatient_process: BrokerProcess, connect_impatient: Callable[..., Peer], topic: str
) -> None:
    process, connect, name = impatient_process, connect_impatient, topic
    connect().ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)
    records = build([Record(0, 1, None, bytes(900_000))])
    data = [TopicProduceData(name, [PartitionProduceData(0, records)])]
    connect().ask(ProduceRequest(acks=1, topic_data=data), 9)
    before = resident_bytes(process)
    greedy = connect(receive_buffer=4096)
    fetch = FetchRequest(max_bytes=2 * MEGABYTE, topics=[FetchTopic(name, partitions=[_whole_partition()])])
    metadata = MetadataRequest(topics=None)
    greedy.socket.settimeout(0.2)
    try:
        for _ in range(20_000):
            greedy.send(fetch, 4)
            greedy.send(metadata, 9)
    except (TimeoutError, OSError):
        pass  # its requests are no longer read
    assert is_served(connect)
    assert resident_bytes(process) - before < 30 * MEGABYTE
    process.process.expect("closing the connection .*idle for connections.max.idle.ms")


def _whole_partition() -> FetchPartition:
    return FetchPartition(0, partition_max_bytes=2 * MEGABYTE)


def test_a_peer_that_closes_half_way_leaves_no_trace(process: BrokerProcess, connect: Callable[..., Peer]) -> None:
    bystander = connect()

    def close_half_way(times: int) -> int:
        for _ in range(times):
            peer = connect()
            peer.socket.sendall(struct.pack(">i", MEGABYTE) + bytes(300_000))
            peer.socket.close()
            assert bystander.ask(ApiVersionsRequest(), 0)
        return resident_bytes(process)

    warm = close_half_way(20)
    assert close_half_way(200) - warm < 20 * MEGABYTE


def test_peers_that_leave_while_their_answers_are_prepared(
    process: BrokerProcess, connect: Callable[..., Peer]
) -> None:
    """Small records take long to convert for an old client: it leaves before, while or after that is done."""
    bystander = connect()
    bystander.ask(MetadataRequest([MetadataRequestTopic(name="small-records")]), 4)
    now_ms = int(time.time() * 1000)  # retention would take older ones
    batch = build([Record(n, now_ms, None, b"small") for n in range(20_000)])
    data = [TopicProduceData("small-records", [PartitionProduceData(0, batch)])]
    for _ in range(10):
        bystander.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data), 7)
    topics = [FetchTopic("small-records", partitions=[FetchPartition(0, partition_max_bytes=8 * MEGABYTE)])]
    few = [FetchTopic("small-records", partitions=[FetchPartition(0, partition_max_bytes=1000)])]

    def leave(times: int) -> int:
        for number in range(times):
            peer = connect()
            peer.send(FetchRequest(max_wait_ms=number % 3, min_bytes=2**31 - 1, topics=topics), 2)
            for _ in range(number % 7):
                assert bystander.ask(ApiVersionsRequest(), 0)
            peer.socket.close()
        bystander.ask(FetchRequest(topics=few), 2)  # answered after the requests that they left
        return resident_bytes(process)

    warm = leave(8)
    assert leave(40) - warm < 40 * MEGABYTE
    assert process.unexpected_errors() == []


def test_connections_beyond_the_limit_per_address_are_rejected(
    process: BrokerProcess, connect: Callable[..., Peer]
) -> None:
    served = takewhile(lambda _: _is_accepted(connect()), range(200))
    assert len(list(served)) <= 100
    process.process.expect(r"rejected a connection from 127\.0\.0\.1:\d+ on PLAINTEXT: .*max.connections.per.ip")


def test_idle_connections_are_closed_and_busy_ones_are_not(connect_impatient: Callable[..., Peer]) -> None:
    while not _outlives(connect_impatient(), connect_impatient()):
        pass


def _outlives(busy: Peer, idle: Peer) -> bool:
    """Let a connection be busy until an idle one is closed; False if it was idle too, since the machine stood still."""
    idle.socket.setblocking(False)
    asked = time.monotonic()
    try:
        while _is_open(idle.socket):
            busy.ask(ApiVersionsRequest(), 0)
            asked = time.monotonic()
        return bool(busy.ask(ApiVersionsRequest(), 0))
    except (EOFError, OSError):
        assert time.monotonic() - asked > IDLE_SECONDS / 2, "a busy connection was closed"
        return False


def test_a_byte_now_and_then_is_no_progress_that_others_pay_for(connect: Callable[..., Peer]) -> None:
    slow = connect()
    for byte in struct.pack(">i", 1000):
        slow.socket.sendall(bytes([byte]))
        assert is_served(connect)


def _is_accepted(peer: Peer) -> bool:
    try:
        return bool(peer.ask(ApiVersionsRequest(), 0))
    except (EOFError, ConnectionResetError):
        return False


def _is_open(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
