"""`python -m benchmarks.table`: topics into Arrow, beside confluent-kafka in a loop, and SQL on ten million records.

    python -m benchmarks.table                 # the whole table
    python -m benchmarks.table --scale 0.01    # everything once, with little data, as a smoke test
    python -m benchmarks.table --only scan
    python -m benchmarks.table --processor     # by processor time instead of elapsed time
    python -m benchmarks.table --spark         # also this project's loader in Spark, which writes Parquet files

This project's broker runs on the same machine. Topics have four partitions, batches of 100 KB, and no keys. The readers
alternate, in changing order. Each makes Arrow columns of keys, values, partitions, offsets and timestamps, and drops
them but for `read_table`, which keeps all: confluent-kafka's consumer returns messages, of which lists become arrays.

`plain socket` is the floor: it fetches the same bytes into one buffer with the same requests, and does nothing with
them. So no reader can do better, whatever it makes of the bytes.

With `--processor`, seconds are the processor time of this process, of the broker, and of Spark. Other load on the
machine changes them little.
"""

import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import click
import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import own, scratch
from benchmarks.driver import SIZE, Block, pump
from benchmarks.errors import BenchmarkError
from benchmarks.machine import touch_memory
from benchmarks.requests import batch, fetch_request, produce_request
from benchmarks.session import Session, try_produce
from benchmarks.spark import processor_seconds, started
from pylogbroker.rpc.malloc_tuning import retain_freed_memory
from pylogbroker.spark.loading.load import load
from pylogbroker.table import connect, read_batches, read_table

PARTITIONS = 4
BATCH_BYTES = 100_000
CONSUMED_AT_ONCE = 10_000
FETCH_BYTES = 8 << 20
ANSWER_BYTES = FETCH_BYTES + (1 << 20)
WAIT_SECONDS_MAX = 600.0
COLUMNS = ("partition", "offset", "timestamp", "key", "value")


@attrs.frozen
class Topic:
    """Topic to read: its name, and the number of its records."""

    name: str
    count: int
    batch_records: int
    batch_bytes: int
    session: Session

    @property
    def bootstrap(self) -> str:
        return f"{self.session.host}:{self.session.port}"


@contextmanager
def filled(session: Session, value_bytes: int, count: int) -> Iterator[Topic]:
    """Write a topic of about `count` records, for the length of a `with` block."""
    per_batch = min(BATCH_BYTES // value_bytes, max(count // PARTITIONS, 1))
    number = max(count // per_batch // PARTITIONS, 1)
    records = batch(per_batch, value_bytes)
    with session.topic(PARTITIONS) as topic, session.connection() as sock:
        request = produce_request(topic, [(partition, records) for partition in range(PARTITIONS)])
        size = try_produce(sock, request, [0] * PARTITIONS)
        pump(sock, Block.of([request]), number - 1, 5, size)
        yield Topic(topic, number * per_batch * PARTITIONS, per_batch, len(records), session)


def table(topic: Topic) -> int:
    return int(read_table(topic.name, bootstrap_servers=topic.bootstrap, columns=COLUMNS).num_rows)


def stream(topic: Topic) -> int:
    batches = read_batches(topic.name, bootstrap_servers=topic.bootstrap, columns=COLUMNS)
    return sum(rows.num_rows for rows in batches)


def plain_socket(topic: Topic) -> int:
    """Fetch all batches into one buffer."""
    retain_freed_memory()
    rows, buffer = 0, memoryview(bytearray(ANSWER_BYTES))
    with topic.session.connection() as sock:
        for partition in range(PARTITIONS):
            offset, end = 0, topic.count // PARTITIONS
            while offset < end:
                sock.sendall(fetch_request(topic.name, [(partition, offset)], FETCH_BYTES))
                (size,) = SIZE.unpack(sock.recv(SIZE.size, socket.MSG_WAITALL))
                if sock.recv_into(buffer, size, socket.MSG_WAITALL) < size:
                    raise BenchmarkError(f"the broker did not send an answer of {size} bytes")
                offset += size // topic.batch_bytes * topic.batch_records
            rows += offset
    return rows


def confluent(topic: Topic) -> int:
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic.name, partition, 0) for partition in range(PARTITIONS)])
    rows, deadline = 0, time.monotonic() + WAIT_SECONDS_MAX
    try:
        while rows < topic.count:
            messages = consumer.consume(CONSUMED_AT_ONCE, 1.0)
            rows += arrow(messages).num_rows
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{rows} of {topic.count} records were read")
    finally:
        consumer.close()
    return rows


def arrow(messages: list[Message]) -> pa.RecordBatch:
    """Return messages as a record batch."""
    rows = [(one.partition(), one.offset(), one.timestamp()[1], one.key(), one.value()) for one in messages]
    lists = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(COLUMNS)
    kinds = [pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC"), pa.binary(), pa.binary()]
    return pa.RecordBatch.from_arrays(list(map(pa.array, lists, kinds)), names=list(COLUMNS))


OWN = "read_batches"
READERS: Mapping[str, Callable[[Topic], int]] = {
    OWN: stream,
    "read_table": table,
    "confluent-kafka": confluent,
    "plain socket": plain_socket,
}


@attrs.frozen
class Work:
    title: str
    value_bytes: int
    count: int


SCANS = (Work("scan, 100 B", 100, 2_000_000), Work("scan, 1 KB", 1000, 400_000))
QUERIES = {
    "SQL, count and latest time": "SELECT count(*), max(timestamp) FROM {}",
    "SQL, lengths by partition": (
        "SELECT sum(n) FROM (SELECT partition, count(*) AS n, sum(length(value)) FROM {} GROUP BY 1)"
    ),
}
QUERIED = Work("", 100, 10_000_000)
QUERY_SECONDS_MAX = 3.0
Clock = Callable[[], float]


def query_seconds(topic: Topic, sql: str, clock: Clock) -> float:
    """Return the seconds of a query over all records."""
    database = connect(topic.bootstrap, topics=[topic.name])
    begin = clock()
    [row] = database.sql(sql.format(f'"{topic.name}"')).fetchall()
    seconds = clock() - begin
    if row[0] != topic.count:
        raise BenchmarkError(f"{row[0]} of {topic.count} records were read")
    return seconds


def measured(read: Callable[[Topic], int], topic: Topic, clock: Clock) -> float:
    """Return the records per second of one read."""
    begin = clock()
    rows = read(topic)
    seconds = clock() - begin
    if rows != topic.count:
        raise BenchmarkError(f"{rows} of {topic.count} records were read")
    return rows / seconds


@contextmanager
def loader() -> Iterator[dict[str, Callable[[Topic], int]]]:
    """Run Spark for the length of a `with` block; yield the reader that loads a topic into Parquet files."""
    with scratch(None) as place, started(place) as spark:

        def loaded(topic: Topic) -> int:
            with tempfile.TemporaryDirectory(dir=place) as target:
                return load(spark, topic.bootstrap, topic.name, Path(target, "files")).records

        yield {"Spark's loader": loaded}


Readers = Mapping[str, Callable[[Topic], int]]


def compare(readers: Readers, topic: Topic, rounds: int, clock: Clock) -> dict[str, float]:
    results: dict[str, list[float]] = {name: [] for name in readers}
    for number in range(-1, rounds):
        for name in readers if number % 2 else reversed(list(readers)):
            rate = measured(readers[name], topic, clock)
            if number >= 0:
                results[name].append(rate)
    return {name: statistics.median(rates) for name, rates in results.items()}


@click.command()
@click.option("--rounds", default=3, show_default=True, help="Measurements of each figure.")
@click.option("--scale", default=1.0, show_default=True, help="Number of records, relative to the default.")
@click.option("--only", multiple=True, help="Run only work with this in its title; may be repeated.")
@click.option("--processor", is_flag=True, help="Measure processor time.")
@click.option("--spark", is_flag=True, help="Compare this project's loader in Spark, too.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(rounds: int, scale: float, only: tuple[str, ...], processor: bool, spark: bool, markdown: bool) -> None:
    """Compare reads of topics into Arrow."""
    touch_memory()
    rows = []
    console = Console()
    clock = _processor_seconds if processor else time.perf_counter
    with own(None) as running, ExitStack() as stack:
        readers = {**READERS, **(stack.enter_context(loader()) if spark else {})}
        for work in SCANS:
            if only and not any(part in work.title for part in only):
                continue
            with filled(running.session, work.value_bytes, max(int(work.count * scale), PARTITIONS)) as topic:
                rates = compare(readers, topic, rounds, clock)
            figures = [f"{rate:,.0f}" for rate in rates.values()]
            rows.append([work.title, "records/s", *figures, f"{rates[OWN] / rates['confluent-kafka']:.1f} x", "10 x"])
        if not only or any("SQL" in part for part in only):
            queries = list(query_rows(running.session, max(int(QUERIED.count * scale), PARTITIONS), rounds, clock))
            show(console, ["query", "unit", "seconds", "wanted"], queries, markdown)
    if rows:
        show(console, ["read", "unit", *readers, "to confluent-kafka", "wanted"], rows, markdown)
    print(f"With pyarrow {pa.__version__}.")


def query_rows(session: Session, count: int, rounds: int, clock: Clock) -> Iterator[list[str]]:
    with filled(session, QUERIED.value_bytes, count) as topic:
        for title, sql in QUERIES.items():
            seconds = [query_seconds(topic, sql, clock) for _ in range(rounds)]
            yield [
                f"{title}, {topic.count:,} records",
                "s",
                f"{statistics.median(seconds):.2f}",
                f"{QUERY_SECONDS_MAX:g}",
            ]


def _processor_seconds() -> float:
    """Return the processor time of this process, the broker and Spark, which are its descendants."""
    return time.process_time() + processor_seconds()


if __name__ == "__main__":
    main()
