"""`python -m benchmarks.cores`: several brokers on one machine, `--brokers N`, beside a single one and Apache Kafka.

    python -m benchmarks.cores                            # N = 1, 2, 4, ... up to the number of cores
    python -m benchmarks.cores --kafka --brokers 2        # one N, and Apache Kafka with all cores

Every connection goes to the leader of its partition, as the metadata says. The load comes from processes of their own.
"""

import multiprocessing
import os
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import Running, kafka, own
from benchmarks.errors import BenchmarkError
from benchmarks.machine import touch_memory
from benchmarks.many_brokers import ManyBrokers, Measured, many_brokers
from benchmarks.many_connections import Consumer, Producer, run
from benchmarks.session import FollowingSession, Session, expect
from benchmarks.workloads import (
    MEGABYTE,
    MEGABYTE_OF_KILOBYTES,
    SIXTEEN_KILOBYTES,
    Batches,
    preload,
    producer,
    stream_members,
)

PARTITIONS = 12
PRELOADED_BYTES = 8 << 20
CORES = os.cpu_count() or 1
COUNTS = tuple(1 << power for power in range(CORES.bit_length()) if 1 << power <= CORES)
PROCESSES_HEAD = (
    "processes",
    "start s",
    "start, processor s",
    "supervisor MB",
    "idle broker MB",
    "broker after the loads MB",
)
Member = Producer | Consumer
Connect = Callable[[Session, ExitStack, str, Iterable[int], int], list[Member]]


@attrs.frozen
class Load:
    """Load on a topic: `connect` gives the connections for some of its partitions, each with `count` units of work."""

    name: str
    title: str
    partitions: int
    count: int
    unit_bytes: int
    connect: Connect
    records: int = 0  # written for each unit


def produce(batches: Batches) -> Connect:
    def connect(session: Session, stack: ExitStack, topic: str, partitions: Iterable[int], count: int) -> list[Member]:
        leaders = {partition: session.leader(topic, partition) for partition in partitions}
        return [producer(leader, stack, topic, each, batches, count) for each, leader in leaders.items()]

    return connect


def fetch(answer_bytes: int, in_flight: int) -> Connect:
    """Fetch repeatedly through partitions just written."""

    def connect(session: Session, stack: ExitStack, topic: str, partitions: Iterable[int], count: int) -> list[Member]:
        members: list[Member] = []
        for partition in partitions:
            sock = stack.enter_context(session.leader(topic, partition).connection())
            fetches, size = preload(sock, topic, partition, PRELOADED_BYTES, answer_bytes)
            members.append(Producer(sock, fetches, count, in_flight, size))
        return members

    return connect


def crowd(session: Session, stack: ExitStack, topic: str, partitions: Iterable[int], count: int) -> list[Member]:
    return stream_members(session, stack, topic, partitions, count, 0)


def loads(pairs: int) -> list[Load]:
    small, large = SIXTEEN_KILOBYTES, MEGABYTE_OF_KILOBYTES
    small_bytes, large_bytes = len(small.build()), len(large.build())
    title = f"{pairs} producers and {pairs} consumers at once, 16 KB batches"
    return [
        Load("crowd", title, pairs, 1_500, small_bytes, crowd, small.records),
        Load("produce-16k", "produce 16 KB requests", PARTITIONS, 2_500, small_bytes, produce(small), small.records),
        Load("produce-1m", "produce 1 MB requests", PARTITIONS, 60, large_bytes, produce(large), large.records),
        Load("fetch-64k", "fetch 64 KB answers", PARTITIONS, 2_500, 1 << 16, fetch(1 << 16, 4)),
        Load("fetch-1m", "fetch 1 MB answers", PARTITIONS, 300, 1 << 20, fetch(1 << 20, 1)),
    ]


NAMES = [load.name for load in loads(1)]


@attrs.frozen
class Figure:
    """Result of one load: throughput, and the processor time of all processes of the brokers."""

    megabytes_per_second: float
    ms_per_megabyte: float


def measure_one(load: Load, brokers: Measured, scale: float, generators: int) -> Figure:
    """Run one load from several processes at once, and check the log ends of what was written."""
    count = max(int(load.count * scale), 1)
    with brokers.session.topic(load.partitions) as topic:
        shares = [range(number, load.partitions, generators) for number in range(min(generators, load.partitions))]
        seconds, used = generate(brokers, topic, load, shares, count)
        if load.records:
            ends = [(count + 1) * load.records] * load.partitions
            expect(brokers.session.end_offsets(topic, load.partitions), ends, "log ends")
    megabytes = count * load.partitions * load.unit_bytes / MEGABYTE
    return Figure(megabytes / seconds, used * 1e3 / megabytes)


def generate(brokers: Measured, topic: str, load: Load, shares: Sequence[range], count: int) -> tuple[float, float]:
    """Run a process for each share of the partitions; return seconds and the brokers' processor time.

    All processes connect first, then start at once. The time ends with the last of them.
    """
    context = multiprocessing.get_context("fork")
    started = []
    try:
        for share in shares:
            here, there = context.Pipe()
            process = context.Process(target=_generator, args=(there, brokers.session, topic, load, share, count))
            process.start()
            there.close()
            started.append((process, here))
        for _, pipe in started:
            _received(pipe)
        used, begin = brokers.cpu_seconds(), time.perf_counter()
        for _, pipe in started:
            pipe.send(None)
        seconds = max(_received(pipe) for _, pipe in started) - begin
        return seconds, brokers.cpu_seconds() - used
    finally:
        for process, pipe in started:
            pipe.close()
            process.join()


def _generator(pipe: Connection, session: Session, topic: str, load: Load, share: range, count: int) -> None:
    with ExitStack() as stack:
        members = load.connect(session, stack, topic, share, count)
        pipe.send(0.0)
        pipe.recv()
        run(members)
        pipe.send(time.perf_counter())


def _received(pipe: Connection) -> float:
    try:
        return float(pipe.recv())
    except EOFError:
        raise BenchmarkError("a process of the load generator has failed; see its traceback") from None


@attrs.define
class CoresResults:
    """Measured figures by load and brokers."""

    figures: dict[tuple[str, str], list[Figure]] = attrs.field(factory=lambda: defaultdict(list))

    def throughput(self, load: Load, brokers: Measured) -> float:
        return statistics.median(each.megabytes_per_second for each in self.figures[load.name, brokers.name])

    def cost(self, load: Load, brokers: Measured) -> float:
        return statistics.median(each.ms_per_megabyte for each in self.figures[load.name, brokers.name])

    def cells(self, load: Load, brokers: Measured, single: Measured, peer: Measured | None) -> list[str]:
        """Return one row of the table: throughput, its ratios to the single broker and to Kafka, and the cost."""
        rate = self.throughput(load, brokers)
        ratios = [f"{rate / self.throughput(load, each):.2f} x" for each in (single, peer) if each is not None]
        return [load.title, brokers.name, f"{rate:,.0f}", *ratios, f"{self.cost(load, brokers):.3f}"]


@click.command()
@click.option("--brokers", "counts", multiple=True, type=click.IntRange(1), default=COUNTS, show_default=True)
@click.option("--kafka", "with_kafka", is_flag=True, help="Start Apache Kafka and measure it as well.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Run this load only; may be repeated.")
@click.option("--pairs", default=10, show_default=True, help="Producers and consumers of `crowd`.")
@click.option("--generators", default=max(CORES // 2, 1), show_default=True, help="Processes that make the load.")
@click.option("--rounds", default=5, show_default=True, help="Measurements of each load.")
@click.option("--warm-up", default=3, show_default=True, help="Runs of each load before its measurements.")
@click.option("--scale", default=1.0, show_default=True, help="Length of each measurement, relative to the default.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown.")
@click.option("--verbose", is_flag=True, help="Print every measurement.")
def main(
    counts: Sequence[int],
    with_kafka: bool,
    only: Sequence[str],
    pairs: int,
    generators: int,
    rounds: int,
    warm_up: int,
    scale: float,
    directory: Path | None,
    markdown: bool,
    verbose: bool,
) -> None:
    """Measure `--brokers N` for several N, beside a single broker."""
    console = Console()
    chosen = [load for load in loads(pairs) if load.name in (only or NAMES)]
    touch_memory()
    with ExitStack() as stack:
        many = [stack.enter_context(many_brokers(directory, count)) for count in counts]
        idle = [brokers.broker_bytes() for brokers in many]
        single = following(stack.enter_context(own(directory)))
        peer = following(stack.enter_context(kafka(directory))) if with_kafka else None
        measured = [single, *many, *([peer] if peer else [])]
        results = measure(chosen, measured, warm_up, rounds, scale, generators, console if verbose else None)
        processes = [process_cells(*each) for each in zip(many, idle, strict=True)]
    head = ["work", "brokers", "MB/s", "to single", *(["to Kafka"] if peer else []), "ms of processor/MB"]
    show(console, head, [results.cells(load, each, single, peer) for load in chosen for each in measured], markdown)
    show(console, PROCESSES_HEAD, processes, markdown)


def following(running: Running) -> Measured:
    """Return a single broker with clients that follow the metadata, as those of several brokers do."""
    session = FollowingSession(running.session.host, running.session.port)
    return Measured(running.name, session, (running.pid,) if running.pid else ())


def process_cells(brokers: ManyBrokers, idle_bytes: int) -> list[str]:
    sizes = [brokers.supervisor_bytes(), idle_bytes, brokers.broker_bytes()]
    start = [brokers.start_seconds, brokers.start_cpu_seconds]
    return [brokers.name, *(f"{each:.2f}" for each in start), *(f"{size / MEGABYTE:.0f}" for size in sizes)]


def measure(
    chosen: Sequence[Load],
    measured: Sequence[Measured],
    warm_up: int,
    rounds: int,
    scale: float,
    generators: int,
    console: Console | None,
) -> CoresResults:
    """Run every load on all brokers in turn: first the warm-up, then the measurements."""
    results = CoresResults()
    for number in range(-warm_up, rounds):
        for load in chosen:
            for brokers in measured if number % 2 else reversed(measured):
                begin = _children_seconds()
                figure = measure_one(load, brokers, scale, generators)
                if number >= 0:
                    results.figures[load.name, brokers.name].append(figure)
                if console:
                    text = f"{figure.megabytes_per_second:,.0f} MB/s, {figure.ms_per_megabyte:.3f} ms of processor/MB"
                    usage = f"generators {_children_seconds() - begin:.2f} s; load {os.getloadavg()[0]:.1f}"
                    console.print(f"{brokers.name} {load.name}: {text} ({usage})", highlight=False, soft_wrap=True)
    return results


def _children_seconds() -> float:
    """Return the processor time of the generators that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
