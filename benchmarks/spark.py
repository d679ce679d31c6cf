"""`python -m benchmarks.spark`: Spark reads, loads, writes and streams, with this project's source and its own.

    python -m benchmarks.spark                 # the whole table
    python -m benchmarks.spark --quick         # everything once, with little data, as a smoke test
    python -m benchmarks.spark --only scan     # only work with `scan` in its title
    python -m benchmarks.spark --processor     # by processor time instead of elapsed time

One Spark session, local[2], and this project's broker run on one machine; topics have four partitions. The sources
alternate, in changing order, each with its default settings. Topics to read are written before, in batches of 100 KB,
without keys; writes come from a DataFrame in memory, with keys of ten bytes.

The time of a micro-batch runs from the sending of records, one to each partition of an idle stream, until Spark has
recorded them as processed. So it includes the wait for the records.

With `--processor`, seconds are the processor time of the broker, of the JVM and of Spark's Python processes. Other load
on the machine changes them little.
"""

import itertools
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import attrs
import click
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import TICKS, own, scratch
from benchmarks.driver import Block, pump
from benchmarks.errors import BenchmarkError
from benchmarks.machine import touch_memory
from benchmarks.requests import batch, produce_request
from benchmarks.session import Session, expect, try_produce
from pylogbroker.spark.loading.load import load
from tests.peers.maven import jars

OWN, SPARK = "pylogbroker", "kafka"
NAMES: Mapping[str, str] = {OWN: "pylogbroker", SPARK: "Spark's connector"}
PARTITIONS = 4
BATCH_BYTES = 100_000
WAIT_SECONDS_MAX = 60.0
PAUSE_SECONDS = (0.03, 0.09)  # between two micro-batches, so that the stream is idle again
TRIALS = 3  # micro-batches at the start of a stream that do not count


@attrs.frozen
class Topic:
    """Topic to read: its name, the number of its records, and the size of their values."""

    name: str
    value_bytes: int
    count: int


@attrs.frozen
class Ground:
    """Environment shared by all measurements."""

    spark: SparkSession
    session: Session
    directory: Path
    clock: Callable[[], float] = time.perf_counter

    def options(self) -> dict[str, str]:
        """Return the options that give the broker's address to either source."""
        return {"kafka.bootstrap.servers": f"{self.session.host}:{self.session.port}"}

    def rows(self, source: str, topic: str) -> DataFrame:
        return self.spark.read.format(source).options(**self.options(), subscribe=topic).load()

    @contextmanager
    def filled(self, value_bytes: int, count: int) -> Iterator[Topic]:
        """Write a topic of about `count` records, for the length of a `with` block."""
        per_batch = min(BATCH_BYTES // value_bytes, max(count // PARTITIONS, 1))
        number = max(count // per_batch // PARTITIONS, 1)
        records = batch(per_batch, value_bytes)
        with self.session.topic(PARTITIONS) as topic, self.session.connection() as sock:
            request = produce_request(topic, [(partition, records) for partition in range(PARTITIONS)])
            size = try_produce(sock, request, [0] * PARTITIONS)
            pump(sock, Block.of([request]), number - 1, 5, size)
            yield Topic(topic, value_bytes, number * per_batch * PARTITIONS)


def scan(ground: Ground, source: str, topic: Topic) -> float:
    """Read all columns and discard them; return the seconds."""
    begin = ground.clock()
    ground.rows(source, topic.name).write.format("noop").mode("overwrite").save()
    return ground.clock() - begin


def aggregate(ground: Ground, source: str, topic: Topic) -> float:
    """Count records and bytes of values by partition; return the seconds."""
    begin = ground.clock()
    rows = ground.rows(source, topic.name).groupBy("partition")
    found = rows.agg(fn.count("*"), fn.sum(fn.length("value")), fn.max("offset")).collect()
    elapsed = ground.clock() - begin
    share = topic.count // PARTITIONS
    wanted = [(number, share, share * topic.value_bytes, share - 1) for number in range(PARTITIONS)]
    expect(sorted(map(tuple, found)), wanted, "aggregation")
    return elapsed


def load_files(ground: Ground, source: str, topic: Topic) -> float:
    """Write all columns to Parquet files, by this project's loader or by Spark; return the seconds."""
    with scratch(ground.directory) as place:
        target = place / "files"
        begin = ground.clock()
        if source == OWN:
            load(ground.spark, ground.options()["kafka.bootstrap.servers"], topic.name, target)
        else:
            ground.rows(source, topic.name).write.parquet(str(target))
        elapsed = ground.clock() - begin
        found = sum(parquet.read_metadata(file).num_rows for file in target.rglob("*.parquet"))
        expect(found, topic.count, "rows in files")
    return elapsed


def write(ground: Ground, source: str, count: int) -> float:
    number = fn.col("id").cast("string")
    value = fn.lpad(number, 100, "value ").cast("binary").alias("value")
    rows = ground.spark.range(0, count, 1, PARTITIONS).select(
        fn.lpad(number, 10, "0").cast("binary").alias("key"), value
    )
    rows.persist()
    rows.count()
    with ground.session.topic(PARTITIONS) as topic:
        begin = ground.clock()
        rows.write.format(source).options(**ground.options(), topic=topic).mode("append").save()
        elapsed = ground.clock() - begin
        expect(sum(ground.session.end_offsets(topic, PARTITIONS)), count, "log ends")
    rows.unpersist(blocking=True)
    return elapsed


def micro_batches(ground: Ground, source: str, partitions: int, count: int) -> float:
    """Send records to an idle stream; return the median of the seconds until they are processed."""
    with ground.session.topic(partitions) as topic, scratch(ground.directory) as checkpoint, ExitStack() as stack:
        sock = stack.enter_context(ground.session.connection())
        request = produce_request(topic, [(partition, batch(1, 100)) for partition in range(partitions)])
        try_produce(sock, request, [0] * partitions)
        rows = ground.spark.readStream.format(source).options(**ground.options(), subscribe=topic)
        stream = rows.option("startingOffsets", "earliest").load().writeStream.format("noop")
        query = stream.option("checkpointLocation", str(checkpoint)).start()
        stack.callback(query.stop)
        wait_for_batch(query, checkpoint, 0)
        times = []
        for number in range(1, TRIALS + count + 1):
            time.sleep(random.uniform(*PAUSE_SECONDS))
            begin = ground.clock()
            try_produce(sock, request, [number] * partitions)
            wait_for_batch(query, checkpoint, number)
            times.append(ground.clock() - begin)
    return statistics.median(times[TRIALS:])


def wait_for_batch(query: StreamingQuery, checkpoint: Path, number: int) -> None:
    done = checkpoint / "commits" / str(number)
    deadline = time.perf_counter() + WAIT_SECONDS_MAX
    while not done.exists():
        if time.perf_counter() > deadline:
            raise BenchmarkError(f"there is no micro-batch {number}: {query.status} {query.exception()}")
        time.sleep(0.001)


def processor_seconds() -> float:
    """Return the processor time of all descendants of this process, also of ended ones."""
    total, left = 0.0, _children(os.getpid())
    while left:
        pid = left.pop()
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended: its parent's counters include it
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / TICKS
            left += _children(pid)
    return total


def _children(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    texts = (task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/children"))
    return [int(child) for text in texts for child in text.split()]


@attrs.frozen
class Work:
    """Row of the table: how a figure is measured, and its wanted value."""

    title: str
    unit: str
    measure: Callable[[Ground, str, float], float]
    wanted: float
    is_time: bool = False

    def ratio(self, own_figure: float, other: float) -> float:
        return other / own_figure if self.is_time else own_figure / other


def reading(
    measure: Callable[[Ground, str, Topic], float], value_bytes: int, count: int, *, megabytes: bool = False
) -> Callable[[Ground, str, float], float]:
    """Return a measurement of records, or megabytes of values, per second on a topic written for it."""

    def figure(ground: Ground, source: str, scale: float) -> float:
        with ground.filled(value_bytes, int(count * scale)) as topic:
            elapsed = measure(ground, source, topic)
        return topic.count * (value_bytes / 1e6 if megabytes else 1) / elapsed

    return figure


def writing(count: int) -> Callable[[Ground, str, float], float]:

    def figure(ground: Ground, source: str, scale: float) -> float:
        number = int(count * scale)
        return number / write(ground, source, number)

    return figure


def waiting(partitions: int, count: int) -> Callable[[Ground, str, float], float]:
    return lambda ground, source, scale: 1e3 * micro_batches(ground, source, partitions, max(int(count * scale), 3))


WORK = (
    Work("scan 100 B", "rows/s", reading(scan, 100, 4_000_000), 3e6),
    Work("scan 1 KB", "MB/s", reading(scan, 1000, 1_000_000, megabytes=True), 800),
    Work("aggregate 100 B", "rows/s", reading(aggregate, 100, 4_000_000), 3e6),
    Work("aggregate 1 KB", "MB/s", reading(aggregate, 1000, 1_000_000, megabytes=True), 800),
    Work("load 100 B into files", "rows/s", reading(load_files, 100, 4_000_000), 4e6),
    Work("write 100 B", "rows/s", writing(2_000_000), 2e6),
    Work("micro-batch of one task", "ms", waiting(1, 30), 200, is_time=True),
    Work("micro-batch of four tasks", "ms", waiting(4, 30), 300, is_time=True),
)


@click.command()
@click.option("--only", multiple=True, help="Run only work with this in its title; may be repeated.")
@click.option("--rounds", default=5, show_default=True, help="Measurements of each figure.")
@click.option("--warm-up", default=2, show_default=True, help="Runs before the measurements.")
@click.option("--scale", default=1.0, show_default=True, help="Amount of data, relative to the default.")
@click.option("--quick", is_flag=True, help="Measure everything once, with little data.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--processor", is_flag=True, help="Measure processor time instead of elapsed time.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--verbose", is_flag=True, help="Print every measurement.")
def main(
    only: Sequence[str],
    rounds: int,
    warm_up: int,
    scale: float,
    quick: bool,
    directory: Path | None,
    processor: bool,
    markdown: bool,
    verbose: bool,
) -> None:
    """Compare Spark with this project's source and with its own."""
    works = [work for work in WORK if not only or any(part in work.title for part in only)]
    console = Console()
    if quick:
        rounds, warm_up, scale = 1, 0, 0.01
    else:
        touch_memory()
    with own(directory) as broker, scratch(directory) as place, started(place) as spark:
        ground = Ground(spark, broker.session, place, processor_seconds if processor else time.perf_counter)
        results = measure(ground, works, warm_up, rounds, scale, console if verbose else None)
        version = spark.version
    head = ["work", "unit", *NAMES.values(), "ratio", "wanted"]
    show(console, head, [cells(work, results) for work in works], markdown)
    print(f"Spark {version}.")


@contextmanager
def started(directory: Path) -> Iterator[SparkSession]:
    """Run Spark, with both sources, for the length of a `with` block."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": ",".join(map(str, jars("spark-kafka"))),
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


Results = dict[tuple[str, str], list[float]]


def measure(
    ground: Ground, works: Sequence[Work], warm_up: int, rounds: int, scale: float, console: Console | None
) -> Results:
    """Run all work with both sources in turn: first the warm-up, then the measurements."""
    results: Results = {(work.title, source): [] for work in works for source in NAMES}
    for number, work in itertools.product(range(-warm_up, rounds), works):
        for source in NAMES if number % 2 else reversed(list(NAMES)):
            figure = work.measure(ground, source, scale)
            if number >= 0:
                results[work.title, source].append(figure)
            if console:
                console.print(
                    f"{NAMES[source]}: {work.title}: {figure:,.0f} {work.unit} (load {os.getloadavg()[0]:.1f})"
                )
    return results


def cells(work: Work, results: Results) -> list[str]:
    """Return one row of the table: medians, and how this project's source compares."""
    ours, other = (statistics.median(results[work.title, source]) for source in NAMES)
    ratio = f"{work.ratio(ours, other):.2f} x"
    return [work.title, work.unit, f"{ours:,.0f}", f"{other:,.0f}", ratio, f"{work.wanted:,.0f}"]


if __name__ == "__main__":
    main()
