"""`python -m benchmarks.mirror`: a mirror between two brokers, beside MirrorMaker 2 of Apache Kafka 3.9.

    python -m benchmarks.mirror                     # this project's mirror alone
    python -m benchmarks.mirror --mirror-maker      # and MirrorMaker 2, with exactly-once support and without
    python -m benchmarks.mirror --kafka             # between brokers of Apache Kafka 3.9
    python -m benchmarks.mirror --only 100-byte-lz4
    python -m benchmarks.mirror --partitions 50 --partitions 5000    # what many partitions cost

Both copy the same kind of topic from one source to one target, in alternation, each run from and to new topics.
Throughput is that of a backlog, from a tenth of its records to all: before that, a JVM has not compiled its code.
Processor time is that of the mirror's process in this time; `with start` has all of its time. Lag is the
time from a record's acknowledgement by the source to its arrival at a consumer of the target, which reads committed
records. Meanwhile, the source gets 100 records a second. In the end the copy must have each record once.
"""

from __future__ import annotations

import itertools
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import attrs
import click
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import (
    PROJECT,
    Running,
    environment,
    kafka,
    own,
    process_cpu_seconds,
    process_resident_bytes,
    scratch,
)
from benchmarks.driver import Block, pump
from benchmarks.errors import BenchmarkError
from benchmarks.mirror_partitions import HEAD, measure_partitions
from benchmarks.requests import produce_request
from benchmarks.session import try_produce
from pylogbroker.records import Codec, Record, build
from tests.peers.mirror_maker import MirrorMaker
from tests.peers.processes import stop

PARTITIONS = 4
BATCH_BYTES = 16_384
BACKLOG_BYTES = 200_000_000
FIRST_SHARE = 0.1
PROBES_PER_SECOND = 100
WAIT_SECONDS_MAX = 300.0
WANTED = 2.0
_numbers = itertools.count()
MEGABYTE = 1e6


@attrs.frozen
class RecordForm:
    """Records of a backlog: their batches have about 16 KB before compression."""

    name: str
    value_bytes: int
    codec: Codec = Codec.NONE

    def batch(self) -> tuple[bytes, int]:
        """Return a batch, and the number of its records; half of each value can be compressed."""
        source, count, now = random.Random(self.name), BATCH_BYTES // self.value_bytes, int(time.time() * 1000)
        values = [source.randbytes(self.value_bytes // 2).hex().encode() for _ in range(count)]
        records = [Record(offset=place, timestamp=now, key=None, value=value) for place, value in enumerate(values)]
        return build(records, codec=self.codec), count


FORMS = (
    RecordForm("100-byte", 100),
    RecordForm("1-kilobyte", 1000),
    RecordForm("100-byte-lz4", 100, Codec.LZ4),
    RecordForm("1-kilobyte-zstd", 1000, Codec.ZSTD),
)


@attrs.frozen
class Backlog:
    """Topic of the source with a number of records."""

    topic: str
    records: int
    value_bytes: int


@attrs.frozen
class Figures:
    """Results of one run of a mirror."""

    records_per_second: float
    megabytes_per_second: float
    cpu_per_megabyte: float
    cpu_with_start: float
    resident_megabytes: float
    lags: tuple[float, float]


@attrs.frozen
class Mirrors:
    """A kind of mirror: `start` runs one for a topic in the `with` block, and yields its process and topic."""

    name: str
    start: Callable[[Path, Running, Running, str, RecordForm], Started]


@attrs.frozen
class Started:
    pid: int
    topic: str
    end: Callable[[], object]
    is_exactly_once: bool = True


def start_own(directory: Path, source: Running, target: Running, topic: str, form: RecordForm) -> Started:
    """Start this project's mirror, as a user does."""
    alias = f"own{next(_numbers)}"
    command = [sys.executable, "-m", "pylogbroker.cli", "mirror", "--from", address(source), "--to", address(target)]
    command += ["--from-alias", alias, "--to-alias", "target", "--names", "prefix", "--topics", topic, "--quiet"]
    with (directory / f"{alias}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=PROJECT, env=environment())
    return Started(process.pid, f"{alias}.{topic}", lambda: stop(process))


def start_mirror_maker(
    directory: Path, source: Running, target: Running, topic: str, form: RecordForm, *, exactly_once: bool = True
) -> Started:
    """Start MirrorMaker 2 with a heap that it does not outgrow."""
    alias = f"mm{next(_numbers)}"
    settings = {
        f"{alias}->target.enabled": "true",
        f"{alias}->target.topics": topic,
        "target.producer.compression.type": form.codec.name.lower(),
        f"{alias}.consumer.auto.offset.reset": "earliest",
    }
    clusters = {alias: address(source), "target": address(target)}
    options = ("-Xmx1G", "-Xms256M", "-XX:+UseG1GC")
    maker = MirrorMaker(
        directory / alias, settings, clusters=clusters, java_options=options, exactly_once=exactly_once
    ).start()
    return Started(maker.pid, f"{alias}.{topic}", maker.stop, exactly_once)


OWN = Mirrors("pylogbroker", start_own)
MIRROR_MAKER = Mirrors("MirrorMaker 2", start_mirror_maker)
AT_LEAST_ONCE = Mirrors("MirrorMaker 2, at least once", partial(start_mirror_maker, exactly_once=False))


def address(running: Running) -> str:
    return f"{running.session.host}:{running.session.port}"


@contextmanager
def backlog(source: Running, form: RecordForm, scale: float) -> Iterator[Backlog]:
    """Write a topic for the length of a `with` block."""
    batch, count = form.batch()
    requests = max(int(BACKLOG_BYTES * scale / (count * form.value_bytes) / PARTITIONS), 1)
    with source.session.topic(PARTITIONS) as topic:
        for partition in range(PARTITIONS):
            with source.session.connection() as sock:
                request = produce_request(topic, [(partition, batch)])
                size = try_produce(sock, request, [0])
                pump(sock, Block.of([request]), requests - 1, 5, size)
        yield Backlog(topic, requests * count * PARTITIONS, form.value_bytes)


def measure(
    directory: Path, mirrors: Mirrors, source: Running, target: Running, form: RecordForm, scale: float
) -> Figures:
    with backlog(source, form, scale) as data:
        started = mirrors.start(directory, source, target, data.topic, form)
        try:
            return figures_of(started, source, target, data, scale)
        finally:
            started.end()


def figures_of(started: Started, source: Running, target: Running, data: Backlog, scale: float) -> Figures:
    begin, first = until_copied(target, started.topic, data.records * FIRST_SHARE)
    cpu = process_cpu_seconds(started.pid)
    end, last = until_copied(target, started.topic, data.records)
    cpu_at_end = process_cpu_seconds(started.pid)
    records, seconds = last - first, end - begin
    megabytes = records * data.value_bytes / MEGABYTE
    lags = measured_lags(source, target, data.topic, started.topic, int(PROBES_PER_SECOND * 5 * scale) + 20)
    check_records(target, started.topic, data.records + lags.probes, exactly=started.is_exactly_once)
    return Figures(
        records / seconds,
        megabytes / seconds,
        (cpu_at_end - cpu) / megabytes,
        cpu_at_end / (data.records * data.value_bytes / MEGABYTE),
        process_resident_bytes(started.pid) / MEGABYTE,
        (lags.median, lags.p99),
    )


def until_copied(target: Running, topic: str, records: float) -> tuple[float, int]:
    """Wait until the target's log has so many records; return the time, and how many there are."""
    deadline = time.perf_counter() + WAIT_SECONDS_MAX
    while True:
        copied = sum(max(0, offset) for offset in target.session.end_offsets(topic, PARTITIONS))
        now = time.perf_counter()
        if copied >= records:
            return now, copied
        if now > deadline:
            raise BenchmarkError(f"{copied} records of {records:.0f} are mirrored after {WAIT_SECONDS_MAX:g} s")
        time.sleep(0.01)


@attrs.frozen
class Lags:
    """Times from acknowledgement to arrival, in seconds."""

    probes: int
    median: float
    p99: float


def measured_lags(source: Running, target: Running, topic: str, copy: str, probes: int) -> Lags:
    """Write probes at a constant rate to partition 0, and read them in the target."""
    settings = {"bootstrap.servers": address(target), "group.id": "probes", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "fetch.wait.max.ms": 500, "enable.auto.commit": False})
    consumer.assign([TopicPartition(copy, 0, target.session.end_offsets(copy, PARTITIONS)[0])])
    producer = Producer({"bootstrap.servers": address(source), "linger.ms": 0})
    acknowledged: dict[bytes, float] = {}
    arrived: dict[bytes, float] = {}

    def note(error: object, message: object) -> None:
        acknowledged[message.value()] = time.perf_counter()  # type: ignore[attr-defined]

    begin = time.perf_counter()
    sent = 0
    while len(arrived) < probes:
        now = time.perf_counter()
        if now > begin + WAIT_SECONDS_MAX:
            raise BenchmarkError(f"{len(arrived)} probes of {probes} have arrived")
        while sent < probes and begin + sent / PROBES_PER_SECOND <= now:
            producer.produce(topic, b"probe-%d" % sent, partition=0, on_delivery=note)
            sent += 1
        producer.poll(0)
        message = consumer.poll(0.001)
        if message is not None and message.error() is None and message.value().startswith(b"probe-"):
            arrived[message.value()] = time.perf_counter()
    producer.flush(10)
    consumer.close()
    times = sorted(arrived[value] - acknowledged[value] for value in arrived)
    return Lags(probes, statistics.median(times), times[len(times) * 99 // 100])


def check_records(target: Running, topic: str, records: int, *, exactly: bool) -> None:
    """Read the copy, and raise BenchmarkError unless it has all records, each once if that is promised."""
    settings = {"bootstrap.servers": address(target), "group.id": "check", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    count = ends = 0
    while ends < PARTITIONS:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                count += 1
            else:
                ends += 1
    consumer.close()
    if count < records or (exactly and count != records):
        raise BenchmarkError(f"{topic} has {count} records instead of {records}")


@click.command()
@click.option("--mirror-maker", is_flag=True, help="Measure MirrorMaker 2 as well.")
@click.option("--kafka", "with_kafka", is_flag=True, help="Mirror between brokers of Apache Kafka 3.9.")
@click.option("--only", multiple=True, type=click.Choice([form.name for form in FORMS]), help="Measure these only.")
@click.option("--rounds", default=3, show_default=True, help="Number of runs of each mirror.")
@click.option("--partitions", multiple=True, type=int, help="Measure a mirror of so many partitions instead.")
@click.option("--scale", default=1.0, show_default=True, help="Shorten or lengthen the backlog.")
@click.option("--directory", type=click.Path(path_type=Path), help="Put the data here.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--verbose", is_flag=True, help="Print every run.")
def main(
    mirror_maker: bool,
    with_kafka: bool,
    only: Sequence[str],
    rounds: int,
    partitions: Sequence[int],
    scale: float,
    directory: Path | None,
    markdown: bool,
    verbose: bool,
) -> None:
    """Compare a mirror with MirrorMaker 2."""
    kinds = (OWN, MIRROR_MAKER, AT_LEAST_ONCE) if mirror_maker else (OWN,)
    broker = kafka if with_kafka else own
    rows: list[Sequence[str]] = []
    with ExitStack() as stack:
        files = stack.enter_context(scratch(directory))
        source, target = (stack.enter_context(broker(directory)) for _ in range(2))
        if partitions:
            phases = [(count, measure_partitions(files, source, target, count)) for count in partitions]
            show(Console(), HEAD, [costs.row(count) for count, of_count in phases for costs in of_count], markdown)
            return
        for form in [form for form in FORMS if not only or form.name in only]:
            runs: Mapping[str, list[Figures]] = {kind.name: [] for kind in kinds}
            for _, kind in itertools.product(range(rounds), kinds):
                figures = measure(files, kind, source, target, form, scale)
                runs[kind.name].append(figures)
                if verbose:
                    click.echo(f"{form.name} {kind.name}: {figures}")
            rows += rows_of(form, runs)
    head = ["records", "mirror", "records/s", "MB/s", "ms/MB", "ratio", "with start", "MB", "lag ms", "p99 ms"]
    show(Console(), head, rows, markdown)


def rows_of(form: RecordForm, runs: Mapping[str, Sequence[Figures]]) -> list[Sequence[str]]:
    costs = {name: statistics.median(figures.cpu_per_megabyte for figures in rounds) for name, rounds in runs.items()}
    rows: list[Sequence[str]] = []
    for name, rounds in runs.items():
        ratio = "" if name != OWN.name or len(costs) == 1 else f"{costs[MIRROR_MAKER.name] / costs[name]:.1f} x"
        rows.append(
            [
                form.name,
                name,
                f"{statistics.median(figures.records_per_second for figures in rounds):,.0f}",
                f"{statistics.median(figures.megabytes_per_second for figures in rounds):,.0f}",
                f"{costs[name] * 1e3:.2f}",
                ratio,
                f"{statistics.median(figures.cpu_with_start for figures in rounds) * 1e3:.2f}",
                f"{statistics.median(figures.resident_megabytes for figures in rounds):,.0f}",
                f"{statistics.median(figures.lags[0] for figures in rounds) * 1e3:.0f}",
                f"{statistics.median(figures.lags[1] for figures in rounds) * 1e3:.0f}",
            ]
        )
    return rows


if __name__ == "__main__":
    main()
