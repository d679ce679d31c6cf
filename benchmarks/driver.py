"""Load generator on plain sockets, as cheap as Python can make it, so that the broker is the bottleneck.

Requests are encoded beforehand and stored one after the other in a `Block`; one call sends as many as the window of
requests in flight allows. All responses of a workload have one size, which a decoded and checked trial (`trial`) has
shown; from then on only bytes are counted. The kernel discards large responses (`MSG_TRUNC`), which costs no copy.
"""

import socket
import struct
import time
from collections.abc import Sequence

import attrs

from benchmarks.errors import BenchmarkError

SIZE = struct.Struct(">i")
SCRATCH = bytearray(1 << 20)
LARGE_ANSWER = 16384
TIMEOUT_SECONDS = 60
BLOCK_BYTES = 1 << 20


def connect(host: str, port: int) -> socket.socket:
    """Connect; calls on the socket block, and fail after a minute without data."""
    sock = socket.create_connection((host, port), TIMEOUT_SECONDS)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", TIMEOUT_SECONDS, 0))
    return sock


def call(sock: socket.socket, request: bytes) -> bytes:
    """Send one framed request and return the body of its response."""
    sock.sendall(request)
    (size,) = SIZE.unpack(receive(sock, 4))
    return receive(sock, size)


def receive(sock: socket.socket, size: int) -> bytes:
    buffer = bytearray(size)
    view, have = memoryview(buffer), 0
    while have < size:
        got = sock.recv_into(view[have:])
        if not got:
            raise BenchmarkError("the broker closed the connection")
        have += got
    return bytes(buffer)


@attrs.frozen
class Block:
    """Framed requests of one size, one after the other, which the workload repeats."""

    requests: memoryview
    size: int
    count: int

    @classmethod
    def of(cls, requests: Sequence[bytes]) -> "Block":
        """Join `requests`; a single one is repeated, so that one call can send several."""
        size = len(requests[0])
        if any(len(request) != size for request in requests):
            raise BenchmarkError("requests of one block have one size")
        if len(requests) == 1:
            requests = [requests[0]] * max(1, BLOCK_BYTES // size)
        return cls(memoryview(b"".join(requests)), size, len(requests))

    def part(self, first: int, count: int) -> memoryview:
        """Return the bytes of `count` requests from the one at `first` on, or of fewer at the end of the block."""
        start = first % self.count
        end = min(start + count, self.count)
        return self.requests[start * self.size : end * self.size]


def pump(sock: socket.socket, block: Block, count: int, in_flight: int, answer_size: int) -> float:
    """Send `count` requests of `block` with up to `in_flight` unanswered, and return the seconds it took.

    `answer_size` is the size of each response, with its length prefix.
    """
    flags = socket.MSG_TRUNC if answer_size >= LARGE_ANSWER else 0
    receive_into, send, scratch = sock.recv_into, sock.sendall, SCRATCH
    most = len(scratch)
    sent = answered = 0
    begin = time.perf_counter()
    have = 0
    while answered < count:
        while (room := min(in_flight + answered, count) - sent) > 0:
            part = block.part(sent, room)
            send(part)
            sent += len(part) // block.size
        try:
            got = receive_into(scratch, most, flags)
        except BlockingIOError:
            raise BenchmarkError(f"{answered} answers of {count}, and no more within {TIMEOUT_SECONDS} s") from None
        if not got:
            raise BenchmarkError("the broker closed the connection")
        have += got
        answered = have // answer_size
    elapsed = time.perf_counter() - begin
    if have != count * answer_size:
        raise BenchmarkError(f"{have} bytes of answers instead of {count} of {answer_size}")
    return elapsed


def round_trips(sock: socket.socket, block: Block, count: int, answer_size: int) -> list[float]:
    """Send `count` requests, each after the response to the one before; return the seconds of each."""
    clock, times = time.perf_counter, []
    receive_into, send, scratch = sock.recv_into, sock.sendall, SCRATCH
    for number in range(count):
        part = block.part(number, 1)
        begin = clock()
        send(part)
        have = receive_into(scratch)
        while 0 < have < answer_size:
            have += receive_into(scratch)
        times.append(clock() - begin)
        if have != answer_size:
            raise BenchmarkError(f"{have} bytes of answer instead of {answer_size}")
    return times
