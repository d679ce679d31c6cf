"""`python -m benchmarks.client`: records per second of this project's client and of three others, on one broker.

    python -m benchmarks.client                # this project's broker
    python -m benchmarks.client --kafka        # Apache Kafka 3.9

The clients (`benchmarks.clients`) alternate, in changing order, each in a process of its own for the whole run.
A producer sends to a topic, which must grow by exactly its records. A consumer reads a topic written before, in batches
of 100 KB, and must get exactly its records. The second table compares producers with and without idempotence.
"""

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import PROJECT, Running, kafka, own
from benchmarks.clients import NAMES
from benchmarks.driver import Block, pump
from benchmarks.errors import BenchmarkError
from benchmarks.machine import touch_memory
from benchmarks.requests import produce_request
from benchmarks.session import Session, expect, try_produce
from benchmarks.workloads import Batches

OWN = "own"
PURE_PYTHON = ("aio", "plain")
C_CLIENT = "confluent"
WANTED = 1.5
BATCH_BYTES = 100_000
SETTINGS: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0"}


@attrs.define
class Worker:
    """Process of a client, which runs commands."""

    name: str
    process: "subprocess.Popen[str]"

    @classmethod
    @contextmanager
    def started(cls, name: str) -> Iterator[Self]:
        """Run the process for the length of a `with` block."""
        command = [sys.executable, "-m", "benchmarks.clients", name]
        with subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as process:
            try:
                yield cls(name, process)
            finally:
                process.kill()

    def do(self, what: str, session: Session, topic: str, count: int, value_bytes: int) -> "Rate":
        if self.process.stdin is None or self.process.stdout is None:
            raise BenchmarkError(f"{NAMES[self.name]} has no pipes")
        fields = [what, f"{session.host}:{session.port}", topic, str(count), str(value_bytes)]
        print(*fields, sep="\t", file=self.process.stdin, flush=True)
        per_second, _, used = self.process.stdout.readline().partition("\t")
        if not used:
            raise BenchmarkError(f"{NAMES[self.name]} could not {what} {count} records of {value_bytes} bytes")
        return Rate(float(per_second), float(used) / count * 1e6)


@attrs.frozen
class Rate:
    """Records per second, and the client's processor time per record in microseconds."""

    per_second: float
    cost: float


def produce(session: Session, worker: Worker, count: int, value_bytes: int, what: str = "produce") -> Rate:
    with session.topic() as topic:
        rate = worker.do(what, session, topic, count, value_bytes)
        expect(session.end_offsets(topic), [count + 1], "log end")
    return rate


def produce_plain(session: Session, worker: Worker, count: int, value_bytes: int) -> Rate:
    return produce(session, worker, count, value_bytes, "produce-plain")


def consume(session: Session, worker: Worker, count: int, value_bytes: int) -> Rate:
    batches = Batches(min(BATCH_BYTES // value_bytes, count), value_bytes)
    number = count // batches.records
    with session.topic() as topic, session.connection() as sock:
        request = produce_request(topic, [(0, batches.build())])
        size = try_produce(sock, request, [0])
        pump(sock, Block.of([request]), number - 1, 5, size)
        return worker.do("consume", session, topic, number * batches.records, value_bytes)


@attrs.frozen
class Row:
    """Row of the table: the task, the number of records and their size."""

    title: str
    measure: Callable[[Session, Worker, int, int], Rate]
    value_bytes: int
    count: int


ROWS = (
    Row("produce 100 B", produce, 100, 300_000),
    Row("produce 1 KB", produce, 1000, 100_000),
    Row("produce 100 B, plain", produce_plain, 100, 300_000),
    Row("produce 1 KB, plain", produce_plain, 1000, 100_000),
    Row("consume 100 B", consume, 100, 1_000_000),
    Row("consume 1 KB", consume, 1000, 200_000),
)


@click.command()
@click.option("--kafka", "with_kafka", is_flag=True, help="Measure on Apache Kafka instead of this project's broker.")
@click.option("--rounds", default=5, show_default=True, help="Measurements of each figure.")
@click.option("--warm-up", default=1, show_default=True, help="Runs before the measurements.")
@click.option("--scale", default=1.0, show_default=True, help="Number of records, relative to the default.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the broker's data.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--verbose", is_flag=True, help="Print every measurement.")
def main(
    with_kafka: bool, rounds: int, warm_up: int, scale: float, directory: Path | None, markdown: bool, verbose: bool
) -> None:
    """Compare this project's client with others."""
    console = Console()
    touch_memory()
    with ExitStack() as stack:
        broker = stack.enter_context(kafka(directory) if with_kafka else own(directory, SETTINGS))
        workers = [stack.enter_context(Worker.started(name)) for name in NAMES]
        results = measure(broker, workers, warm_up, rounds, scale, console if verbose else None)
    head = ["work", "unit", *NAMES.values(), "to Python's", "wanted", "to C's"]
    show(console, head, [cells(row, results) for row in ROWS], markdown)
    head = ["idempotent, to plain", "unit", *NAMES.values()]
    show(console, head, [row for size in ("100 B", "1 KB") for row in plain_cells(size, results)], markdown)
    print(f"On {broker.name}.")


Results = dict[tuple[str, str], list[Rate]]


def measure(
    broker: Running, workers: Sequence[Worker], warm_up: int, rounds: int, scale: float, console: Console | None
) -> Results:
    """Run every task on every client in turn: first the warm-up, then the measurements."""
    results: Results = {(row.title, worker.name): [] for row in ROWS for worker in workers}
    for number in range(-warm_up, rounds):
        for row in ROWS:
            for worker in workers if number % 2 else reversed(workers):
                rate = row.measure(broker.session, worker, max(int(row.count * scale), 1), row.value_bytes)
                if number >= 0:
                    results[row.title, worker.name].append(rate)
                if console:
                    text = f"{rate.per_second:,.0f} records/s, {rate.cost:.2f} us of processor time each"
                    console.print(f"{NAMES[worker.name]}: {row.title}: {text}")
    return results


def cells(row: Row, results: Results) -> list[str]:
    """Return one row of the table: medians, and how this project's client compares."""
    rates = {name: statistics.median(rate.per_second for rate in results[row.title, name]) for name in NAMES}
    ours, faster = rates[OWN], max(rates[name] for name in PURE_PYTHON)
    figures = [f"{rate:,.0f}" for rate in rates.values()]
    return [
        row.title,
        "records/s",
        *figures,
        f"{ours / faster:.2f} x",
        f"{WANTED} x",
        f"{ours / rates[C_CLIENT]:.2f} x",
    ]


def plain_cells(size: str, results: Results) -> list[list[str]]:
    """Return two rows of the second table: rates and processor time of idempotent producers, by those of plain ones."""
    work = f"produce {size}"
    rates, costs = [], []
    for name in NAMES:
        idempotent, plain = results[work, name], results[f"{work}, plain", name]
        rate, plain_rate = (statistics.median(each.per_second for each in side) for side in (idempotent, plain))
        cost, plain_cost = (statistics.median(each.cost for each in side) for side in (idempotent, plain))
        rates.append(f"{rate / plain_rate:.2f} x")
        costs.append(f"{cost / plain_cost:.2f} x")
    return [[work, "records/s", *rates], [work, "processor time", *costs]]


if __name__ == "__main__":
    main()
