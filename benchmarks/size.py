"""`python -m benchmarks.size`: start-up time and memory of this project's broker.

python -m benchmarks.size                       # everything; the flow of 20 GB takes a minute or two
python -m benchmarks.size --only start --only idle
python -m benchmarks.size --only flow --gigabytes 100
python -m benchmarks.size --only growth --partitions 1000 --partitions 10000 --plot FILE
"""

import gc
import resource
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import click
from rich.console import Console
from rich.table import Table

from benchmarks import requests
from benchmarks.brokers import OwnBroker, Running, scratch
from benchmarks.driver import call
from benchmarks.errors import BenchmarkError
from benchmarks.growth_plot import Size, draw
from benchmarks.machine import description, touch_memory
from benchmarks.session import Session, expect, try_produce
from benchmarks.workloads import SINGLE, SIXTEEN_KILOBYTES, stream

MEGABYTE = 1e6
STARTS = 5
SETTLING_SECONDS = 1.0
PARTITIONS = (100, 1_000, 10_000, 100_000)
TOPIC_PARTITIONS = 100
LIMITED_PARTITIONS = 10_000
CONNECTIONS = 2_000
FLOW_PAIRS = 4
FLOW_CHUNK_BYTES = 500_000_000
FLOW_SETTINGS: Mapping[str, str] = {"retention.bytes": "200000000", "segment.bytes": "50000000"}
FLOW_BROKER_SETTINGS: Mapping[str, str] = {"log.retention.check.interval.ms": "500"}


@attrs.frozen
class Amounts:
    """Sizes of the measured work, and where its plot goes."""

    gigabytes: int
    partitions: Sequence[int]
    plot: Path | None


@attrs.frozen
class Figure:
    """Row of the table: a measured value and its limit."""

    title: str
    value: float
    unit: str
    most: float | None = None

    def cells(self) -> list[str]:
        verdict = "" if self.most is None else f"{self.most:g} {self.unit}"
        return [self.title, f"{self.value:,.4g} {self.unit}", verdict]


@contextmanager
def broker(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[tuple[Running, float]]:
    """Run the broker on a data directory; yield it and the seconds of its start."""
    started = OwnBroker(directory, settings or {})
    try:
        seconds = started.start()
        yield started.running, seconds
    finally:
        started.stop()


def megabytes(running: Running) -> float:
    return running.resident_bytes() / MEGABYTE


def start(parent: Path, amounts: Amounts) -> list[Figure]:
    times = []
    for number in range(STARTS):
        with broker(parent / f"start-{number}") as (_, seconds):
            times.append(seconds)
    return [Figure("first connection on an empty data directory", statistics.median(times), "s", 0.35)]


def idle(parent: Path, amounts: Amounts) -> list[Figure]:
    with broker(parent / "idle") as (running, _):
        time.sleep(SETTLING_SECONDS)
        return [Figure("resident when idle", megabytes(running), "MB", 55)]


def growth(parent: Path, amounts: Amounts) -> list[Figure]:
    """Write to some partitions, stop, and measure a start with them; do so with more and more partitions."""
    sizes, figures = [], []
    for count in sorted(amounts.partitions):
        size = _size(parent / f"partitions-{count}", count)
        sizes.append(size)
        limits = (1.5, 115) if count == LIMITED_PARTITIONS else (None, None)
        title = f"{count:,} partitions"
        figures += [
            Figure(f"{title} open and answered for after a clean stop", size.start_seconds, "s", limits[0]),
            Figure(f"resident with {title}", size.resident_megabytes, "MB", limits[1]),
        ]
    if len(sizes) > 1:
        added = (sizes[-1].resident_megabytes - sizes[0].resident_megabytes) * 1_000
        each = added / (sizes[-1].partitions - sizes[0].partitions)
        figures.append(Figure("resident for each further partition", each, "KB", 6))
    if amounts.plot is not None:
        amounts.plot.write_text(draw(sizes, f"{description()}; {time.strftime('%Y-%m-%d')}"))
    return figures


def _size(directory: Path, partitions: int) -> Size:
    per_topic = min(partitions, TOPIC_PARTITIONS)
    names = [f"topic-{number}" for number in range(partitions // per_topic)]
    with broker(directory) as (running, _):
        for name in names:
            _fill(running.session, name, per_topic)
    with broker(directory) as (running, seconds):
        begin = time.perf_counter()
        for name in names:
            expect(running.session.end_offsets(name, per_topic), [1] * per_topic, "log ends after a restart")
        seconds += time.perf_counter() - begin
        size = Size(partitions, seconds, megabytes(running))
    shutil.rmtree(directory)
    return size


def _fill(session: Session, topic: str, partitions: int) -> None:
    records = SINGLE.build()
    with session.connection() as sock:
        session.create(sock, topic, partitions, {})
        request = requests.produce_request(topic, [(number, records) for number in range(partitions)])
        try_produce(sock, request, [0] * partitions)


def connections(parent: Path, amounts: Amounts) -> list[Figure]:
    """Measure a broker with 2,000 open connections, all of which get responses."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with broker(parent / "connections") as (running, _), running.session.topic() as topic, ExitStack() as stack:
        begin = time.perf_counter()
        socks = [stack.enter_context(running.session.connection()) for _ in range(CONNECTIONS)]
        opened = time.perf_counter() - begin
        request = requests.produce_request(topic, [(0, SINGLE.build())])
        for number, sock in enumerate(socks):
            expect(requests.produced(call(sock, request)), [(0, number)], "produce")
        for sock in socks:
            sock.sendall(request)
        deadline = time.monotonic() + SETTLING_SECONDS * 30
        while running.session.end_offsets(topic) != [2 * CONNECTIONS]:
            if time.monotonic() > deadline:
                raise BenchmarkError("not every connection was served")
        title = f"{CONNECTIONS:,} connections"
        return [
            Figure(f"{title} opened", opened, "s"),
            Figure(f"resident with {title}, all used", megabytes(running), "MB"),
        ]


def flow(parent: Path, amounts: Amounts) -> list[Figure]:
    """Write and read much data through a few partitions with short retention; measure the growth of memory."""
    gigabytes = amounts.gigabytes
    batch_bytes = len(SIXTEEN_KILOBYTES.build())
    count = FLOW_CHUNK_BYTES // FLOW_PAIRS // batch_bytes
    chunks = gigabytes * 1_000_000_000 // FLOW_CHUNK_BYTES
    offsets = range(0, chunks * (count + 1) * SIXTEEN_KILOBYTES.records, (count + 1) * SIXTEEN_KILOBYTES.records)
    sizes, seconds = [], 0.0
    with (
        broker(parent / "flow", FLOW_BROKER_SETTINGS) as (running, _),
        running.session.topic(FLOW_PAIRS, FLOW_SETTINGS) as topic,
    ):
        for offset in offsets:
            seconds += stream(running.session, topic, FLOW_PAIRS, count, offset)
            sizes.append(megabytes(running))
    settled = max(sizes[: max(1, len(sizes) // 10)])
    title = f"flow of {gigabytes} GB in and out"
    return [
        Figure(f"{title}: speed", gigabytes * 1_000 / seconds, "MB/s"),
        Figure(f"{title}: resident after the first tenth", settled, "MB"),
        Figure(f"{title}: most that it grew after that", max(sizes) - settled, "MB", 10),
    ]


MEASUREMENTS: Mapping[str, Callable[[Path, Amounts], list[Figure]]] = {
    "start": start,
    "idle": idle,
    "growth": growth,
    "connections": connections,
    "flow": flow,
}


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(MEASUREMENTS)), help="Only this; may be repeated.")
@click.option("--gigabytes", default=20, show_default=True, help="Amount of data in `flow`.")
@click.option(
    "--partitions", multiple=True, type=int, default=PARTITIONS, show_default=True, help="Partitions in `growth`."
)
@click.option("--plot", type=click.Path(path_type=Path), help="File for a plot of `growth`, as SVG.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
def main(
    only: Sequence[str], gigabytes: int, partitions: Sequence[int], plot: Path | None, directory: Path | None
) -> None:
    """Measure the broker's start-up time and memory."""
    gc.disable()
    touch_memory()
    amounts = Amounts(gigabytes, partitions, plot)
    table = Table("measured", "", "at most", caption=f"{description()}; {time.strftime('%Y-%m-%d')}")
    with scratch(directory) as parent:
        for name in only or MEASUREMENTS:
            for figure in MEASUREMENTS[name](parent, amounts):
                table.add_row(*figure.cells())
    Console().print(table)


if __name__ == "__main__":
    main()
