"""`python -m benchmarks.cold`: the effect on producers of a consumer that reads old data from the disk.

    python -m benchmarks.cold                      # this broker alone
    python -m benchmarks.cold --kafka              # and Apache Kafka, downloaded and started for the run
    python -m benchmarks.cold --directory /data    # on the disk of that directory

A topic is written and dropped from the page cache (`posix_fadvise`).  Producers then send batches at a fixed rate:
first alone, then while another process reads that topic from its start.  The data read is dropped again before the
next round.  A time runs from the moment at which a batch was due to its acknowledgement.

Producers and reader stand for separate machines.  So the measuring process has real-time priority, if permitted, and
never waits for a processor; the reader takes no processor time from the broker.
"""

import gc
import multiprocessing
import multiprocessing.connection
import multiprocessing.process
import os
import select
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import Running, kafka, own
from benchmarks.driver import SCRATCH, Block, pump
from benchmarks.errors import BenchmarkError
from benchmarks.many_connections import Consumer, FetchForm, run
from benchmarks.requests import fetch_request, produce_request
from benchmarks.session import Session, try_fetch, try_produce
from benchmarks.workloads import MEGABYTE, MEGABYTE_OF_KILOBYTES, SIXTEEN_KILOBYTES

PRODUCERS = 4
PARTITION_BYTES = 1 << 20
WAIT_SECONDS_MAX = 60.0
WARM_UP_SECONDS = 3.0
MOST = 2.0  # times the p99 without the consumer


@attrs.frozen
class Round:
    """Result of one round: the producers' p50 and p99 in seconds, and the speed at which the old data was read."""

    p50: float
    p99: float
    bytes_per_second: float = 0.0

    @classmethod
    def of(cls, times: list[float], bytes_per_second: float = 0.0) -> "Round":
        times.sort()
        return cls(times[len(times) // 2], times[len(times) * 99 // 100], bytes_per_second)


@click.command()
@click.option("--kafka", "with_kafka", is_flag=True, help="Start Apache Kafka and measure it as well.")
@click.option("--gigabytes", default=2.0, show_default=True, help="Amount of old data.")
@click.option("--rate", default=1000, show_default=True, help="Batches of 16 KB produced per second.")
@click.option("--seconds", default=5.0, show_default=True, help="Length of the measurement of producers alone.")
@click.option("--rounds", default=5, show_default=True, help="Number of measurements.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(
    with_kafka: bool, gigabytes: float, rate: int, seconds: float, rounds: int, directory: Path | None, markdown: bool
) -> None:
    """Measure producers with and without a consumer that reads from the disk at the same time."""
    gc.disable()
    with ExitStack() as stack:
        brokers = [stack.enter_context(own(directory))]
        if with_kafka:
            brokers.append(stack.enter_context(kafka(directory)))
        topics = [stack.enter_context(old_data(broker, int(gigabytes * 1e9))) for broker in brokers]
        rows: list[Sequence[str]] = []
        results: list[list[tuple[Round, Round]]] = [[] for _ in brokers]
        for broker in brokers:
            with producers(broker.session) as (sockets, requests):
                paced(sockets, requests, rate, WARM_UP_SECONDS)
        for _ in range(rounds):
            for broker, topic, found in zip(brokers, topics, results, strict=True):
                found.append(measure(broker, topic, rate, seconds))
        rows = [row for broker, found in zip(brokers, results, strict=True) for row in rows_of(broker, found)]
    head = ["broker", "producers", "p50 ms", "p99 ms", "p99 ratio", "wanted", "MB/s read"]
    show(Console(), head, rows, markdown)


def rows_of(broker: Running, found: Sequence[tuple[Round, Round]]) -> list[list[str]]:
    """Return two rows of the table: the medians without and with the consumer."""
    alone, beside = ([pair[n] for pair in found] for n in (0, 1))
    ratio = statistics.median(after.p99 / before.p99 for before, after in found)
    speed = statistics.median(each.bytes_per_second for each in beside) / MEGABYTE
    return [
        [broker.name, "alone", *_milliseconds(alone), "", "", ""],
        [broker.name, "beside a cold reader", *_milliseconds(beside), f"{ratio:.2f} x", f"{MOST} x", f"{speed:,.0f}"],
    ]


def _milliseconds(rounds: Sequence[Round]) -> list[str]:
    return [
        f"{statistics.median(each.p50 for each in rounds) * 1e3:.3g}",
        f"{statistics.median(each.p99 for each in rounds) * 1e3:.3g}",
    ]


@attrs.frozen
class OldData:
    """Topic of one partition: its files, the batch that it repeats, and the number of batches."""

    name: str
    files: Sequence[Path]
    batch: bytes
    batches: int

    def drop(self) -> None:
        for path in self.files:
            with path.open("rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def old_data(broker: Running, size: int) -> Iterator[OldData]:
    """Write a topic for the length of a `with` block."""
    records = MEGABYTE_OF_KILOBYTES.build()
    count = size // len(records)
    with broker.session.topic() as topic, broker.session.connection() as sock:
        request = produce_request(topic, [(0, records)])
        answer_size = try_produce(sock, request, [0])
        pump(sock, Block.of([request]), count - 1, 5, answer_size)
        if broker.data is None:
            raise BenchmarkError("the files of a broker elsewhere cannot be dropped from the page cache")
        files = [path for path in broker.data.glob(f"**/{topic}*/*") if path.is_file()]
        yield OldData(topic, files, records, count)


def measure(broker: Running, old: OldData, rate: int, seconds: float) -> tuple[Round, Round]:
    """Measure producers alone, then with a reader of the old data until it has read all."""
    context = multiprocessing.get_context("spawn")
    old.drop()
    with producers(broker.session) as (sockets, requests):
        alone = Round.of(paced(sockets, requests, rate, seconds))
        old.drop()
        ready, go = context.Event(), context.Event()
        receiver, sender = context.Pipe(duplex=False)
        reader = context.Process(target=read_all, args=(broker.session, old, ready, go, sender))
        reader.start()
        if not ready.wait(WAIT_SECONDS_MAX):
            raise BenchmarkError("the reader does not start")
        old.drop()
        go.set()
        times = paced(sockets, requests, rate, WAIT_SECONDS_MAX, reader)
        reader.join()
    return alone, Round.of(times, receiver.recv())


def read_all(
    session: Session, old: OldData, ready: Event, go: Event, sender: multiprocessing.connection.Connection
) -> None:
    """Read the whole topic in a process of its own; send the bytes per second to the parent."""
    os.nice(20)  # stands for another machine, and must not take processor time from the measurement
    size, step = len(old.batch), MEGABYTE_OF_KILOBYTES.records
    with session.connection() as sock:
        frame = try_fetch(sock, fetch_request(old.name, [(0, 0)], size), [old.batch])
        form = FetchForm.of(old.name, 0, PARTITION_BYTES, frame, size)
        consumer = Consumer(sock, form, size, step, old.batches * step)
        ready.set()
        go.wait()
        elapsed = run([consumer])
    sender.send(old.batches * size / elapsed)


@contextmanager
def producers(session: Session) -> Iterator[tuple[list[socket.socket], list[bytes]]]:
    """Connect producers; yield their connections and requests, one for each partition."""
    with session.topic(PRODUCERS) as topic, ExitStack() as stack:
        sockets = [stack.enter_context(session.connection()) for _ in range(PRODUCERS)]
        requests = [produce_request(topic, [(n, SIXTEEN_KILOBYTES.build())]) for n in range(PRODUCERS)]
        for sock, request in zip(sockets, requests, strict=True):
            try_produce(sock, request, [0])
        yield sockets, requests


def paced(
    sockets: Sequence[socket.socket],
    requests: Sequence[bytes],
    rate: float,
    seconds: float,
    reader: multiprocessing.process.BaseProcess | None = None,
) -> list[float]:
    """Produce at a fixed rate for some seconds, or until `reader` ends; return the time of each batch.

    The producers alternate.  One that still waits for a response sends late; its time counts from when it was due.
    """
    with priority():
        return _paced(sockets, requests, rate, seconds, reader)


@contextmanager
def priority() -> Iterator[None]:
    """Give this process real-time priority within the block, if permitted."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _paced(
    sockets: Sequence[socket.socket],
    requests: Sequence[bytes],
    rate: float,
    seconds: float,
    reader: multiprocessing.process.BaseProcess | None,
) -> list[float]:
    clock, times, sent = time.perf_counter, list[float](), 0
    due: dict[socket.socket, list[float]] = {sock: [] for sock in sockets}
    request_of = dict(zip(sockets, requests, strict=True))
    begin = clock()
    while True:
        now = clock()
        is_over = now > begin + seconds or (reader is not None and not reader.is_alive())
        if is_over and not any(due.values()):
            break
        if now > begin + seconds + WAIT_SECONDS_MAX:
            raise BenchmarkError("produce requests are not answered")
        next_due = begin + sent / rate
        if not is_over and now >= next_due:
            sock = sockets[sent % len(sockets)]
            due[sock].append(next_due)
            sent += 1
            if len(due[sock]) == 1:
                sock.sendall(request_of[sock])
            continue
        for sock in select.select(sockets, (), (), 0.1 if is_over else next_due - now)[0]:
            sock.recv_into(SCRATCH)
            times.append(clock() - due[sock].pop(0))
            if due[sock]:
                sock.sendall(request_of[sock])
    return times


if __name__ == "__main__":
    main()
