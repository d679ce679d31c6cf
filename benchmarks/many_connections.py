"""Many connections in one epoll loop: producers that keep their window full, and consumers that follow.

The responses to a consumer differ in size. It reads each one up to the length of the records, at a place that a trial
has found (`FetchForm`); the kernel discards the rest. All batches of a run have one size and one number of records, so
this length gives the next offset.
"""

import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Self

import attrs

from benchmarks import requests
from benchmarks.driver import SCRATCH, SIZE, Block
from benchmarks.errors import BenchmarkError

OFFSET = struct.Struct(">q")
MARKER = 0x0123456789ABCDEF
LENGTH_BYTES = 4
BOTH = select.EPOLLIN | select.EPOLLOUT
WAIT_SECONDS_MAX = 60.0


@attrs.frozen
class FetchForm:
    """Places of the varying parts of a fetch request and its response, for one partition of one topic."""

    request: bytes
    offset_at: int
    length_at: int

    @classmethod
    def of(cls, topic: str, partition: int, partition_bytes: int, frame: bytes, records_size: int) -> Self:
        """Find the places from a complete response with records of a known size."""
        request = requests.fetch_request(topic, [(partition, MARKER)], partition_bytes)
        tags = 3  # tagged fields of partition, topic and response: empty, one byte each
        length_at = len(frame) - tags - records_size - len(_unsigned_varint(records_size + 1))
        return cls(request, request.index(OFFSET.pack(MARKER)), length_at)

    def fetch(self, offset: int) -> bytearray:
        request = bytearray(self.request)
        OFFSET.pack_into(request, self.offset_at, offset)
        return request

    @property
    def head_size(self) -> int:
        """Bytes to read of a response: the size of the shortest one."""
        return self.length_at + LENGTH_BYTES

    def records_size(self, head: bytearray) -> int:
        """Return the length of the records from the first bytes of a response."""
        value = shift = 0
        for byte in head[self.length_at :]:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return max(value - 1, 0)
        raise BenchmarkError("a response has more bytes of records than requested")


def _unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


@attrs.define
class Producer:
    """Connection that sends `count` requests, several of them in flight."""

    sock: socket.socket
    block: Block
    count: int
    in_flight: int
    answer_size: int
    sent: int = 0
    answer_bytes: int = 0
    unsent: memoryview = attrs.field(factory=lambda: memoryview(b""))

    @property
    def done(self) -> bool:
        return self.answer_bytes == self.count * self.answer_size

    @property
    def blocked(self) -> bool:
        return bool(self.unsent)

    def start(self) -> None:
        self.fill()

    def ready(self) -> None:
        """Count the received responses, and fill the window again."""
        try:
            got = self.sock.recv_into(SCRATCH)
        except BlockingIOError:
            got = -1
        if got == 0:
            raise BenchmarkError("the broker closed a producer's connection")
        self.answer_bytes += max(got, 0)
        self.fill()

    def fill(self) -> None:
        """Send until the window or the socket is full."""
        try:
            while self.unsent or (room := self.room()) > 0:
                if not self.unsent:
                    self.unsent = self.block.part(self.sent, room)
                    self.sent += len(self.unsent) // self.block.size
                self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            return

    def room(self) -> int:
        """Return how many more requests may be sent now."""
        answered = self.answer_bytes // self.answer_size
        return min(answered + self.in_flight, self.count) - self.sent


@attrs.define
class Consumer:
    """Connection that reads one partition from `offset` to `end`, and waits for more at the end of the log."""

    sock: socket.socket
    form: FetchForm
    batch_size: int
    batch_records: int
    end: int
    offset: int = 0
    head: bytearray = attrs.field(factory=bytearray)
    rest: int = 0
    arrivals: list[tuple[int, float]] = attrs.field(factory=list)

    @property
    def done(self) -> bool:
        return self.offset >= self.end and not self.rest

    @property
    def blocked(self) -> bool:
        """Always False: there is only one small request at a time."""
        return False

    def start(self) -> None:
        self.sock.send(self.form.fetch(self.offset))

    def ready(self) -> None:
        """Read the received part of a response; at its end, count it and send the next request."""
        if not self.rest:
            self._read_head()
        if self.rest:
            self._discard()

    def _read_head(self) -> None:
        chunk = self._receive(self.form.head_size - len(self.head), 0)
        self.head += memoryview(SCRATCH)[:chunk]
        if len(self.head) < self.form.head_size:
            return
        (size,) = SIZE.unpack_from(self.head)
        batches, cut_off = divmod(self.form.records_size(self.head), self.batch_size)
        if cut_off and not batches:
            raise BenchmarkError("an answer without a whole batch")
        self.offset += batches * self.batch_records
        self.rest = size + SIZE.size - len(self.head)
        self.head.clear()
        if not self.rest:
            self._finish()

    def _discard(self) -> None:
        self.rest -= self._receive(min(self.rest, len(SCRATCH)), socket.MSG_TRUNC)
        if not self.rest:
            self._finish()

    def _finish(self) -> None:
        self.arrivals.append((self.offset, time.perf_counter()))
        if self.offset < self.end:
            self.start()

    def _receive(self, most: int, flags: int) -> int:
        try:
            got = self.sock.recv_into(SCRATCH, most, flags)
        except BlockingIOError:
            return 0
        if not got:
            raise BenchmarkError("the broker closed a consumer's connection")
        return got


def run(members: Sequence[Producer | Consumer]) -> float:
    poll, by_descriptor = select.epoll(), {member.sock.fileno(): member for member in members}
    for member in members:
        member.sock.setblocking(False)
        poll.register(member.sock, select.EPOLLIN)
    begin = time.perf_counter()
    for member in members:
        member.start()
    waiting = set(by_descriptor)
    while waiting:
        events = poll.poll(WAIT_SECONDS_MAX)
        if not events:
            raise BenchmarkError(f"{len(waiting)} of {len(members)} connections make no progress")
        for descriptor, _ in events:
            member = by_descriptor[descriptor]
            blocked = member.blocked
            member.ready()
            if member.blocked != blocked:
                poll.modify(descriptor, BOTH if member.blocked else select.EPOLLIN)
            if member.done:
                waiting.discard(descriptor)
    poll.close()
    return time.perf_counter() - begin
