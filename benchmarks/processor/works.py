"""Works: requests on non-blocking connections, whose server runs in the same thread, step by step.

An exchange sends requests, runs the loop of the server, and takes the answers. Only the loop is timed.
"""

import itertools
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import attrs

from benchmarks.driver import SCRATCH, SIZE
from benchmarks.errors import BenchmarkError
from benchmarks.many_connections import FetchForm
from benchmarks.requests import batch as share_batch
from benchmarks.requests import fetch_request, produce_request
from benchmarks.session import NO_SETTINGS, Session, try_fetch, try_produce
from benchmarks.share import BATCH_RECORDS, Member, begin_at_earliest, join, next_answer
from benchmarks.workloads import (
    MEGABYTE_OF_KILOBYTES,
    ONE_KILOBYTE,
    PARTITION_BYTES,
    SINGLE,
    SIXTEEN_KILOBYTES,
    Batches,
)

Iterate = Callable[[], None]
ANSWER_SECONDS_MAX = 30.0
FETCHED_BATCHES = 4
SHARED_BATCHES = 4  # as many as a member acquires: 500 records, and the rest of a batch
MANY_PARTITIONS = 100
CROWD_CONNECTIONS = 10
_number = itertools.count()


@attrs.define
class Stopwatch:
    """Runs iterations of a server's loop, and adds up their processor time."""

    _iterate: Iterate
    nanoseconds: int = 0

    def iterate_untimed(self) -> None:
        """Run an iteration that does not belong to the work."""
        self._iterate()

    def iterate(self) -> None:
        clock = time.thread_time_ns
        begin = clock()
        self._iterate()
        self.nanoseconds += clock() - begin


@attrs.frozen
class Flight:
    """Requests that are in flight together on one connection."""

    sock: socket.socket
    requests: bytes
    count: int
    answer_bytes: int  # of all requests
    records: bytes  # of one request, or of its answer
    batches: int = 1  # of one request

    @property
    def sent_bytes(self) -> int:
        return len(self.requests)

    def run(self, stopwatch: Stopwatch) -> None:
        """Send the requests, as far as the socket's buffer goes before each iteration, and take all answers."""
        rest = memoryview(self.requests)
        received, deadline = 0, Deadline()
        while received < self.answer_bytes:
            rest = rest[send(self.sock, rest) :]
            stopwatch.iterate()
            received += receive(self.sock)
            deadline.check()
        expect_size(received, self.answer_bytes)


@attrs.define
class WaitingFetch:
    """Fetch that waits at the end of a partition, and the produce request that answers it."""

    producer: socket.socket
    consumer: socket.socket
    request: bytes
    form: FetchForm
    produce_answer_bytes: int
    fetch_answer_bytes: int
    records: bytes
    offset: int
    count: int = 1  # a pair

    @property
    def sent_bytes(self) -> int:
        return len(self.request)

    def run(self, stopwatch: Stopwatch) -> None:
        """Send the fetch, let the server find nothing, produce a record, and take both answers."""
        self.consumer.sendall(self.form.fetch(self.offset))
        stopwatch.iterate()
        self.producer.sendall(self.request)
        produced = fetched = 0
        deadline = Deadline()
        while produced < self.produce_answer_bytes or fetched < self.fetch_answer_bytes:
            stopwatch.iterate()
            produced += receive(self.producer)
            fetched += receive(self.consumer)
            deadline.check()
        expect_size(produced, self.produce_answer_bytes)
        expect_size(fetched, self.fetch_answer_bytes)
        self.offset += 1


@attrs.define
class ShareFetch:
    """Fetch of a member of a share group, which accepts the records of the one before.

    The records are produced before it, outside of the measurement.
    """

    producer: socket.socket
    member: Member
    produce: bytes
    produce_answer_bytes: int
    fetch_answer_bytes: int
    records: bytes
    batches: int
    acquired: list[tuple[int, int]]
    count: int = 1

    @property
    def sent_bytes(self) -> int:
        return len(self.produce)

    def run(self, stopwatch: Stopwatch) -> None:
        """Produce as many records as were acquired, and let the member acquire them."""
        self.producer.sendall(self.produce)
        received, deadline = 0, Deadline()
        while received < self.produce_answer_bytes:
            stopwatch.iterate_untimed()
            received += receive(self.producer)
            deadline.check()
        expect_size(received, self.produce_answer_bytes)
        self.member.fetch(self.acquired)
        received = 0
        while received < self.fetch_answer_bytes:
            stopwatch.iterate()
            received += receive(self.member.sock)
            deadline.check()
        expect_size(received, self.fetch_answer_bytes)
        self.acquired = following(self.acquired)


@attrs.frozen
class Crowd:
    """Requests of many connections that arrive together, one of each connection."""

    socks: Sequence[socket.socket]
    requests: Sequence[bytes]
    answer_bytes: int  # of one request
    records: bytes  # of one request

    @property
    def count(self) -> int:
        return len(self.socks)

    @property
    def sent_bytes(self) -> int:
        return sum(map(len, self.requests))

    def run(self, stopwatch: Stopwatch) -> None:
        """Send all requests before the first iteration, and take all answers."""
        for sock, request in zip(self.socks, self.requests, strict=True):
            sock.sendall(request)
        received, expected, deadline = 0, self.answer_bytes * self.count, Deadline()
        while received < expected:
            stopwatch.iterate()
            received += sum(map(receive, self.socks))
            deadline.check()
        expect_size(received, expected)


Exchange = Flight | WaitingFetch | ShareFetch | Crowd


def following(acquired: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return as many offsets behind some, in equal ranges."""
    count = acquired[-1][1] - acquired[0][0] + 1
    return [(first + count, last + count) for first, last in acquired]


class Deadline:
    """Time until which all answers must have come."""

    def __init__(self) -> None:
        self._end = time.monotonic() + ANSWER_SECONDS_MAX

    def check(self) -> None:
        if time.monotonic() > self._end:
            raise BenchmarkError(f"the answers did not come within {ANSWER_SECONDS_MAX:.0f} s")


def send(sock: socket.socket, data: memoryview) -> int:
    """Send what the socket's buffer has space for, and return the number of bytes."""
    if not data:
        return 0
    try:
        return sock.send(data)
    except BlockingIOError:
        return 0


def receive(sock: socket.socket) -> int:
    """Take all that has come, and return the number of bytes."""
    received = 0
    try:
        while size := sock.recv_into(SCRATCH):
            received += size
    except BlockingIOError:
        return received
    raise BenchmarkError("the broker closed the connection")


def expect_size(size: int, expected: int) -> None:
    if size != expected:
        raise BenchmarkError(f"{size} bytes of answers instead of {expected}")


@attrs.frozen
class Work:
    """One row of the table; `prepare` makes its topic, tries it once, and returns what is repeated."""

    name: str
    title: str
    prepare: Callable[[Session, ExitStack], Exchange]


def produce(batches: Batches, in_flight: int, partitions: int = 1) -> Callable[[Session, ExitStack], Flight]:
    """Return the preparation of produce requests, each with a batch for each partition."""

    def prepare(session: Session, stack: ExitStack) -> Flight:
        topic, sock = _topic(session, partitions), stack.enter_context(session.connection())
        records = batches.build()
        request = produce_request(topic, [(partition, records) for partition in range(partitions)])
        size = try_produce(sock, request, [0] * partitions)
        sock.setblocking(False)
        return Flight(sock, request * in_flight, in_flight, size * in_flight, records * partitions, partitions)

    return prepare


def produce_by_many(partitions: int) -> Callable[[Session, ExitStack], Crowd]:
    """Return the preparation of produce requests of many connections, whose partitions are taken in turn."""

    def prepare(session: Session, stack: ExitStack) -> Crowd:
        topic, records = _topic(session, partitions), SINGLE.build()
        socks = [stack.enter_context(session.connection()) for _ in range(CROWD_CONNECTIONS)]
        requests = [produce_request(topic, [(n % partitions, records)]) for n in range(CROWD_CONNECTIONS)]
        for number, (sock, request) in enumerate(zip(socks, requests, strict=True)):
            size = try_produce(sock, request, [number // partitions])
            sock.setblocking(False)
        return Crowd(socks, requests, size, records)

    return prepare


def fetch(session: Session, stack: ExitStack) -> Flight:
    """Prepare fetches of the same records of a partition."""
    topic, sock, records = _topic(session), stack.enter_context(session.connection()), SIXTEEN_KILOBYTES.build()
    request = produce_request(topic, [(0, records)])
    for number in range(FETCHED_BATCHES + 1):
        try_produce(sock, request, [number * SIXTEEN_KILOBYTES.records])
    fetched = records * FETCHED_BATCHES
    question = fetch_request(topic, [(0, 0)], len(fetched))
    answer = try_fetch(sock, question, [fetched])
    sock.setblocking(False)
    return Flight(sock, question, 1, len(answer), fetched)


def fetch_many(session: Session, stack: ExitStack) -> Flight:
    """Prepare fetches of the same batch of each of many partitions."""
    topic, sock = _topic(session, MANY_PARTITIONS), stack.enter_context(session.connection())
    records, partitions = ONE_KILOBYTE.build(), range(MANY_PARTITIONS)
    try_produce(sock, produce_request(topic, [(partition, records) for partition in partitions]), [0] * MANY_PARTITIONS)
    question = fetch_request(topic, [(partition, 0) for partition in partitions], len(records))
    answer = try_fetch(sock, question, [records] * MANY_PARTITIONS)
    sock.setblocking(False)
    return Flight(sock, question, 1, len(answer), records * MANY_PARTITIONS)


def waiting_fetch(session: Session, stack: ExitStack) -> WaitingFetch:
    """Prepare a producer and a consumer of one partition, at offset 1."""
    topic, records = _topic(session), SINGLE.build()
    producer, consumer = (stack.enter_context(session.connection()) for _ in range(2))
    request = produce_request(topic, [(0, records)])
    size = try_produce(producer, request, [0])
    answer = try_fetch(consumer, fetch_request(topic, [(0, 0)], PARTITION_BYTES), [records])
    form = FetchForm.of(topic, 0, PARTITION_BYTES, answer, len(records))
    for sock in (producer, consumer):
        sock.setblocking(False)
    return WaitingFetch(producer, consumer, request, form, size, len(answer), records, offset=1)


def share_fetch(session: Session, stack: ExitStack) -> ShareFetch:
    """Prepare a producer, and the only member of a share group, which has acquired the first records."""
    topic, group = _topic(session), f"benchmark-{next(_number)}"
    producer, sock = (stack.enter_context(session.connection()) for _ in range(2))
    topic_id = begin_at_earliest(sock, group, topic)
    records = share_batch(BATCH_RECORDS, 100)
    request = produce_request(topic, [(0, records)])
    offsets = range(0, 2 * SHARED_BATCHES * BATCH_RECORDS, BATCH_RECORDS)
    sizes = [try_produce(producer, request, [offset]) for offset in offsets]
    join(sock, group, topic, topic_id)
    member = Member(sock, "member", group, topic_id)
    member.fetch([])
    acquired = member.acquired()
    member.fetch(acquired)
    answer_bytes = SIZE.size + len(next_answer(sock))
    for connection in (producer, sock):
        connection.setblocking(False)
    return ShareFetch(
        producer,
        member,
        request * SHARED_BATCHES,
        sum(sizes[:SHARED_BATCHES]),
        answer_bytes,
        records * SHARED_BATCHES,
        SHARED_BATCHES,
        following(acquired),
    )


def _topic(session: Session, partitions: int = 1) -> str:
    """Create a topic, which ends with the broker, and return its name."""
    name = f"benchmark-{next(_number)}"
    with session.connection() as sock:
        session.create(sock, name, partitions, NO_SETTINGS)
    return name


_ALL = (
    Work("produce-latency", "produce single 100 B records, one at a time", produce(SINGLE, 1)),
    Work("produce-single", "produce single 100 B records, 64 in flight", produce(SINGLE, 64)),
    Work("produce-16k", "produce 16 KB requests, 5 in flight", produce(SIXTEEN_KILOBYTES, 5)),
    Work("produce-1m", "produce 1 MB requests, one at a time", produce(MEGABYTE_OF_KILOBYTES, 1)),
    Work("fetch-64k", "fetch 64 KB answers, one at a time", fetch),
    Work(
        "produce-100",
        "produce 1 KB to each of 100 partitions, one request at a time",
        produce(ONE_KILOBYTE, 1, MANY_PARTITIONS),
    ),
    Work("fetch-100", "fetch 1 KB from each of 100 partitions, one request at a time", fetch_many),
    Work(
        "produce-crowd",
        f"produce single 100 B records to one partition from {CROWD_CONNECTIONS} connections at once",
        produce_by_many(1),
    ),
    Work(
        "produce-crowd-apart",
        f"the same from {CROWD_CONNECTIONS} connections, each to a partition of its own",
        produce_by_many(CROWD_CONNECTIONS),
    ),
    Work("share-fetch", "fetch of 600 records by a share group, which accepts 600", share_fetch),
    Work("end-to-end", "a waiting fetch and the produce request that answers it", waiting_fetch),
)
WORKS: Mapping[str, Work] = {work.name: work for work in _ALL}
