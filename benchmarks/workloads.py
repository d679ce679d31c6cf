"""Workloads: the load, the figures measured, and the wanted ratio to Kafka.

Every measurement creates a topic, verifies the response to a first request, measures, and verifies by the log end
offset that everything was written. `scale` shortens or lengthens all measurements.
"""

import socket
import statistics
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack

import attrs

from benchmarks.driver import Block, pump, round_trips
from benchmarks.latency import end_to_end
from benchmarks.many_connections import Consumer, FetchForm, Producer, run
from benchmarks.requests import batch, fetch_request, produce_request
from benchmarks.session import Session, expect, try_fetch, try_produce

MEGABYTE = 1e6
PRELOADED_BYTES = 64 << 20
PARTITION_BYTES = 1 << 20
Figures = Mapping[str, float]


@attrs.frozen
class Batches:
    """One kind of batch, sent repeatedly."""

    records: int
    value_bytes: int

    def build(self) -> bytes:
        return batch(self.records, self.value_bytes)


MEGABYTE_OF_KILOBYTES = Batches(1024, 1000)
SIXTEEN_KILOBYTES = Batches(16, 1000)
ONE_KILOBYTE = Batches(1, 940)
SINGLE = Batches(1, 100)


def produce(session: Session, batches: Batches, count: int, in_flight: int, acks: int = 1) -> Figures:
    """Produce to one partition over one connection; return requests and megabytes per second."""
    with session.topic() as topic, session.connection() as sock:
        request = produce_request(topic, [(0, batches.build())], acks)
        size = try_produce(sock, request, [0])
        elapsed = pump(sock, Block.of([request]), count, in_flight, size)
        expect(session.end_offsets(topic), [(count + 1) * batches.records], "log end")
    return {"requests/s": count / elapsed, "MB/s": count * len(request) / MEGABYTE / elapsed}


def produce_one_at_a_time(session: Session, count: int, acks: int = 1) -> Figures:
    """Produce single records, each after the response to the one before; return median and 99th percentile."""
    with session.topic() as topic, session.connection() as sock:
        request = produce_request(topic, [(0, SINGLE.build())], acks)
        size = try_produce(sock, request, [0])
        times = sorted(round_trips(sock, Block.of([request]), count, size))
        expect(session.end_offsets(topic), [count + 1], "log end")
    return {"us": statistics.median(times) * 1e6, "p99 us": times[len(times) * 99 // 100] * 1e6}


def fetch(session: Session, answer_bytes: int, count: int, in_flight: int) -> Figures:
    """Fetch repeatedly through a partition just written; return responses and megabytes per second."""
    with session.topic() as topic, session.connection() as sock:
        fetches, size = preload(sock, topic, 0, PRELOADED_BYTES, answer_bytes)
        elapsed = pump(sock, fetches, count, in_flight, size)
    return {"answers/s": count / elapsed, "MB/s": count * size / MEGABYTE / elapsed}


def preload(
    sock: socket.socket, topic: str, partition: int, partition_bytes: int, answer_bytes: int
) -> tuple[Block, int]:
    """Write to an empty partition; return fetches that read all of it, and the size of each response."""
    records = SIXTEEN_KILOBYTES.build()
    step = answer_bytes // len(records)
    steps = partition_bytes // answer_bytes
    request = produce_request(topic, [(partition, records)])
    size = try_produce(sock, request, [0])
    pump(sock, Block.of([request]), step * steps - 1, 5, size)
    offsets = range(0, step * steps * SIXTEEN_KILOBYTES.records, step * SIXTEEN_KILOBYTES.records)
    fetches = [fetch_request(topic, [(partition, offset)], step * len(records)) for offset in offsets]
    return Block.of(fetches), len(try_fetch(sock, fetches[0], [records * step]))


def many_partitions(session: Session, partitions: int, count: int) -> Figures:
    """Alternate produce and fetch requests of one batch per partition; return pairs of requests per second."""
    records = ONE_KILOBYTE.build()
    with session.topic(partitions) as topic, session.connection() as sock:
        request = produce_request(topic, [(partition, records) for partition in range(partitions)])
        question = fetch_request(topic, [(partition, 0) for partition in range(partitions)], len(records))
        size = try_produce(sock, request, [0] * partitions)
        size += len(try_fetch(sock, question, [records] * partitions))
        elapsed = pump(sock, Block.of([request + question]), count, 1, size)
        expect(session.end_offsets(topic, partitions), [count + 1] * partitions, "log ends")
    return {"pairs/s": count / elapsed}


def crowd(session: Session, pairs: int, count: int) -> Figures:
    """Run producers and consumers together, a partition for each pair; return megabytes per second, in and out."""
    with session.topic(pairs) as topic:
        elapsed = stream(session, topic, pairs, count, 0)
    return {"MB/s": (count * pairs * len(SIXTEEN_KILOBYTES.build())) / MEGABYTE / elapsed}


def stream(session: Session, topic: str, pairs: int, count: int, start: int) -> float:
    """Write `count` batches to each partition from offset `start` on, and read them meanwhile; return the seconds.

    One more batch comes first as a trial, so that the partitions end `count + 1` batches after `start`.
    """
    with ExitStack() as stack:
        return run(stream_members(session, stack, topic, range(pairs), count, start))


def stream_members(
    session: Session, stack: ExitStack, topic: str, partitions: Iterable[int], count: int, start: int
) -> list[Producer | Consumer]:
    """Connect a producer and a consumer for each partition; `stream` says what they do."""
    members: list[Producer | Consumer] = []
    for partition in partitions:
        leader = session.leader(topic, partition)
        members.append(producer(leader, stack, topic, partition, SIXTEEN_KILOBYTES, count, start))
        members.append(_consumer(leader, stack, topic, partition, SIXTEEN_KILOBYTES, count, start))
    return members


def producer(
    session: Session, stack: ExitStack, topic: str, partition: int, batches: Batches, count: int, start: int = 0
) -> Producer:
    """Return a producer of `count` batches after the one at `start`, which is its trial."""
    sock = stack.enter_context(session.connection())
    request = produce_request(topic, [(partition, batches.build())])
    size = try_produce(sock, request, [start])
    return Producer(sock, Block.of([request]), count, 5, size)


def latency(session: Session, rate: float, count: int) -> Figures:
    """Send single records at a fixed rate to a waiting consumer; return the median and the 99th percentile."""
    with session.topic() as topic, session.connection() as sock, ExitStack() as stack:
        request = produce_request(topic, [(0, SINGLE.build())])
        try_produce(sock, request, [0])
        consumer = _consumer(session, stack, topic, 0, SINGLE, count, 0)
        times = sorted(end_to_end(sock, request, consumer, rate))
    return {"p50 ms": times[len(times) // 2] * 1e3, "p99 ms": times[len(times) * 99 // 100] * 1e3}


def _consumer(
    session: Session, stack: ExitStack, topic: str, partition: int, batches: Batches, count: int, start: int
) -> Consumer:
    """Return a consumer of `count` batches after the one at `start`, which is its trial."""
    sock, records = stack.enter_context(session.connection()), batches.build()
    first = fetch_request(topic, [(partition, start)], PARTITION_BYTES)
    frame = try_fetch(sock, first, [records])
    form = FetchForm.of(topic, partition, PARTITION_BYTES, frame, len(records))
    end = start + (count + 1) * batches.records
    return Consumer(sock, form, len(records), batches.records, end, offset=start + batches.records)


@attrs.frozen
class Workload:
    """One or more rows of the table: a measurement, and the wanted ratio of each important figure."""

    name: str
    title: str
    measure: Callable[[Session, float], Figures]
    wanted: Mapping[str, float]
    less_is_better: bool = False

    def ratio(self, ours: float, theirs: float) -> float:
        return theirs / ours if self.less_is_better else ours / theirs


WORKLOADS: tuple[Workload, ...] = (
    Workload(
        "produce-1m",
        "produce 1 MB requests of 1 KB records, 5 in flight",
        lambda session, scale: produce(session, MEGABYTE_OF_KILOBYTES, int(600 * scale), 5),
        {"MB/s": 3},
    ),
    Workload(
        "produce-16k",
        "produce 16 KB requests, 5 in flight",
        lambda session, scale: produce(session, SIXTEEN_KILOBYTES, int(20_000 * scale), 5),
        {"requests/s": 3},
    ),
    Workload(
        "produce-single",
        "produce single 100 B records, 64 in flight",
        lambda session, scale: produce(session, SINGLE, int(40_000 * scale), 64),
        {"requests/s": 5},
    ),
    Workload(
        "produce-latency",
        "produce single 100 B records, one at a time",
        lambda session, scale: produce_one_at_a_time(session, int(10_000 * scale)),
        {"us": 1.3},
        less_is_better=True,
    ),
    Workload(
        "fetch-1m",
        "fetch 1 MB answers from the page cache",
        lambda session, scale: fetch(session, 1 << 20, int(3_000 * scale), 1),
        {"MB/s": 1.5},
    ),
    Workload(
        "fetch-64k",
        "fetch 64 KB answers, 4 in flight",
        lambda session, scale: fetch(session, 1 << 16, int(20_000 * scale), 4),
        {"answers/s": 1.5},
    ),
    Workload(
        "partitions",
        "produce and fetch over 100 partitions in one request of 1 KB each",
        lambda session, scale: many_partitions(session, 100, int(500 * scale)),
        {"pairs/s": 1.5},
    ),
    Workload(
        "crowd",
        "10 producers and 10 consumers at once, 16 KB batches",
        lambda session, scale: crowd(session, 10, int(1_500 * scale)),
        {"MB/s": 1.5},
    ),
    Workload(
        "end-to-end",
        "end-to-end latency at 1,000 records/s",
        lambda session, scale: latency(session, 1_000, int(3_000 * scale)),
        {"p50 ms": 2, "p99 ms": 2},
        less_is_better=True,
    ),
)
