"""`python -m benchmarks.table`: topics into Arrow, beside confluent-kafka in a loop, and SQL on ten million records.

    python -m benchmarks.table                 # the whole table
    python -m benchmarks.table --scale 0.01    # everything once, with little data, as a smoke test
    python -m benchmarks.table --only scan

This project's broker runs on the same machine. Topics have four partitions, batches of 100 KB, and no keys. The readers
alternate, in changing order. Each makes Arrow columns of keys, values, partitions, offsets and timestamps:
confluent-kafka's consumer returns messages, of which lists become arrays.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import attrs
import click
import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import own
from benchmarks.driver import Block, pump
from benchmarks.errors import BenchmarkError
from benchmarks.machine import touch_memory
from benchmarks.requests import batch, produce_request
from benchmarks.session import Session, try_produce
from pylogbroker.table import read_batches, read_table

PARTITIONS = 4
BATCH_BYTES = 100_000
CONSUMED_AT_ONCE = 10_000
WAIT_SECONDS_MAX = 60.0
COLUMNS = ("partition", "offset", "timestamp", "key", "value")


@attrs.frozen
class Topic:
    """Topic to read: its name, and the number of its records."""

    name: str
    count: int
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
        yield Topic(topic, number * per_batch * PARTITIONS, session)


def table(topic: Topic) -> int:
    return int(read_table(topic.name, bootstrap_servers=topic.bootstrap, columns=COLUMNS).num_rows)


def stream(topic: Topic) -> int:
    batches = read_batches(topic.name, bootstrap_servers=topic.bootstrap, columns=COLUMNS)
    return sum(rows.num_rows for rows in batches)


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


OWN = "read_table"
READERS: Mapping[str, Callable[[Topic], int]] = {
    OWN: table,
    "read_batches": stream,
    "confluent-kafka": confluent,
}


@attrs.frozen
class Work:
    title: str
    value_bytes: int
    count: int


SCANS = (Work("scan, 100 B", 100, 2_000_000), Work("scan, 1 KB", 1000, 400_000))


def measured(read: Callable[[Topic], int], topic: Topic) -> float:
    """Return the records per second of one read."""
    begin = time.perf_counter()
    rows = read(topic)
    seconds = time.perf_counter() - begin
    if rows != topic.count:
        raise BenchmarkError(f"{rows} of {topic.count} records were read")
    return rows / seconds


def compare(topic: Topic, rounds: int) -> dict[str, float]:
    results: dict[str, list[float]] = {name: [] for name in READERS}
    for number in range(-1, rounds):
        for name in READERS if number % 2 else reversed(list(READERS)):
            rate = measured(READERS[name], topic)
            if number >= 0:
                results[name].append(rate)
    return {name: statistics.median(rates) for name, rates in results.items()}


@click.command()
@click.option("--rounds", default=3, show_default=True, help="Measurements of each figure.")
@click.option("--scale", default=1.0, show_default=True, help="Number of records, relative to the default.")
@click.option("--only", multiple=True, help="Run only work with this in its title; may be repeated.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(rounds: int, scale: float, only: tuple[str, ...], markdown: bool) -> None:
    """Compare reads of topics into Arrow."""
    touch_memory()
    rows = []
    with own(None) as running:
        for work in SCANS:
            if only and not any(part in work.title for part in only):
                continue
            with filled(running.session, work.value_bytes, max(int(work.count * scale), PARTITIONS)) as topic:
                rates = compare(topic, rounds)
            figures = [f"{rate:,.0f}" for rate in rates.values()]
            rows.append([work.title, "records/s", *figures, f"{rates[OWN] / rates['confluent-kafka']:.1f} x", "10 x"])
    show(Console(), ["read", "unit", *READERS, "to confluent-kafka", "wanted"], rows, markdown)
    print(f"With pyarrow {pa.__version__}.")


if __name__ == "__main__":
    main()
