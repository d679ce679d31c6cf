"""`python -m benchmarks.archive`: the effect on producers of a consumer that reads records from the archive.

    python -m benchmarks.archive                      # the archive is a directory beside the data
    python -m benchmarks.archive --directory /data    # both on the disk of that directory
    python -m benchmarks.archive --hogs 2             # beside two processes that compute

A topic is written, and archived but for its newest segment. Producers send batches to another topic at a fixed rate.
In every second window of time, another process reads the archived topic, over and over. The cache of the broker is much
smaller than that.

Other work on the machine delays all windows alike, and the figures are medians of windows. The ratio is the median of
that of each pair of windows. The broker records long iterations of its reactor (`benchmarks.iterations`): time for
which it waits for a processor depends on the machine, the rest on the broker.

Times of producers, and priorities of processes, are those of `benchmarks.cold`.
"""

import gc
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import Running, own, scratch
from benchmarks.cold import MOST, PARTITION_BYTES, WARM_UP_SECONDS, OldData, Round, paced, producers
from benchmarks.driver import SCRATCH, SIZE, Block, pump, receive
from benchmarks.errors import BenchmarkError
from benchmarks.iterations import Iteration, iterations, program
from benchmarks.many_connections import FetchForm
from benchmarks.requests import fetch_request, produce_request
from benchmarks.session import Session, try_fetch, try_produce
from benchmarks.workloads import MEGABYTE, MEGABYTE_OF_KILOBYTES

ARCHIVED = {"remote.storage.enable": "true", "segment.bytes": "33554432", "local.retention.bytes": "1"}
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "0",
}
WAIT_SECONDS_MAX = 120.0
SETTLE_SECONDS = 0.2
LONG_SECONDS = 5e-3  # of an iteration


@attrs.frozen
class Window:
    """Window of time: the producers' figures, and when it was."""

    round: Round
    begin: float
    end: float

    def of(self, recorded: Sequence[Iteration]) -> list[Iteration]:
        return [iteration for iteration in recorded if self.begin <= iteration.begin < self.end]


@click.command()
@click.option("--gigabytes", default=0.5, show_default=True, help="Amount of archived data.")
@click.option("--rate", default=1000, show_default=True, help="Batches of 16 KB produced per second.")
@click.option("--seconds", default=2.0, show_default=True, help="Length of a window.")
@click.option("--pairs", default=15, show_default=True, help="Number of pairs of windows.")
@click.option("--hogs", default=0, show_default=True, help="Processes that compute meanwhile.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(
    gigabytes: float, rate: int, seconds: float, pairs: int, hogs: int, directory: Path | None, markdown: bool
) -> None:
    """Measure producers with and without a consumer that reads from the archive at the same time."""
    gc.disable()
    with ExitStack() as stack:
        place = stack.enter_context(scratch(directory))
        record = place / "iterations"
        settings = SETTINGS | {"remote.log.storage": f"directory:{place}"}
        broker = stack.enter_context(own(directory, settings, program(record)))
        topic = stack.enter_context(archived_data(broker, int(gigabytes * 1e9)))
        reader = stack.enter_context(reading(broker.session, topic))
        stack.enter_context(computing(hogs))
        sockets, requests = stack.enter_context(producers(broker.session))
        paced(sockets, requests, rate, WARM_UP_SECONDS)
        windows = [measure(reader, sockets, requests, rate, seconds) for _ in range(pairs)]
        rows = list(rows_of(windows, iterations(record)))
    head = ["producers", "p50 ms", "p99 ms", "p99 ratio", "wanted", "MB/s read"]
    head += ["iterations > 5 ms", "without a processor", "longest other"]
    show(Console(), head, rows, markdown)


def rows_of(pairs: Sequence[tuple[Window, Window]], recorded: Sequence[Iteration]) -> Iterator[list[str]]:
    """Return a row for the windows without the reader, and one for those with it."""
    ratio = statistics.median(beside.round.p99 / alone.round.p99 for alone, beside in pairs)
    for number, name in enumerate(("alone", "beside a reader of the archive")):
        windows = [pair[number] for pair in pairs]
        speed = statistics.median(window.round.bytes_per_second for window in windows) / MEGABYTE
        long_ones = [iteration for window in windows for iteration in window.of(recorded)]
        yield [
            name,
            f"{statistics.median(window.round.p50 for window in windows) * 1e3:.3g}",
            f"{statistics.median(window.round.p99 for window in windows) * 1e3:.3g}",
            f"{ratio:.2f} x" if number else "",
            f"{MOST} x" if number else "",
            f"{speed:,.0f}" if number else "",
            f"{sum(iteration.seconds > LONG_SECONDS for iteration in long_ones)}",
            f"{sum(iteration.processor for iteration in long_ones) * 1e3:.0f} ms",
            f"{max((iteration.other for iteration in long_ones), default=0.0) * 1e3:.1f} ms",
        ]


@attrs.frozen
class Reader:
    """Process that reads the archived topic while `go` is set."""

    go: Event
    bytes_read: "Synchronized[int]"


def measure(
    reader: Reader, sockets: Sequence[socket.socket], requests: Sequence[bytes], rate: int, seconds: float
) -> tuple[Window, Window]:
    """Measure producers in two windows: alone, and beside the reader."""
    alone = _window(reader, sockets, requests, rate, seconds)
    reader.go.set()
    try:
        return alone, _window(reader, sockets, requests, rate, seconds)
    finally:
        reader.go.clear()


def _window(
    reader: Reader, sockets: Sequence[socket.socket], requests: Sequence[bytes], rate: int, seconds: float
) -> Window:
    time.sleep(SETTLE_SECONDS)
    bytes_before, begin = reader.bytes_read.value, time.perf_counter()
    times = paced(sockets, requests, rate, seconds)
    end = time.perf_counter()
    return Window(Round.of(times, (reader.bytes_read.value - bytes_before) / (end - begin)), begin, end)


@contextmanager
def reading(session: Session, old: OldData) -> Iterator[Reader]:
    """Start a process that reads, for the length of a `with` block."""
    context = multiprocessing.get_context("spawn")
    reader = Reader(context.Event(), context.Value("q", 0))
    process = context.Process(target=read_again, args=(session, old, reader.go, reader.bytes_read), daemon=True)
    process.start()
    try:
        yield reader
    finally:
        process.terminate()
        process.join()


def read_again(session: Session, old: OldData, go: Event, bytes_read: "Synchronized[int]") -> None:
    """Read the topic from its start to its end, and again, while `go` is set."""
    os.nice(20)  # stands for another machine, and must not take processor time from the measurement
    size, step = len(old.batch), MEGABYTE_OF_KILOBYTES.records
    with session.connection() as sock:
        frame = try_fetch(sock, fetch_request(old.name, [(0, 0)], size), [old.batch])
        form = FetchForm.of(old.name, 0, PARTITION_BYTES, frame, size)
        number = 0
        while True:
            go.wait()
            sock.sendall(form.fetch(number * step))
            head = bytearray(receive(sock, form.head_size))
            number = (number + form.records_size(head) // size) % old.batches
            left = SIZE.unpack_from(head)[0] + SIZE.size - len(head)
            while left:
                count = sock.recv_into(SCRATCH, min(left, len(SCRATCH)), socket.MSG_TRUNC)
                if not count:
                    raise BenchmarkError("the broker closed the reader's connection")
                left -= count
                bytes_read.value += count


@contextmanager
def computing(count: int) -> Iterator[None]:
    """Keep processors busy with processes of normal priority."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_compute, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _compute() -> None:
    while True:
        sum(range(100_000))


@contextmanager
def archived_data(broker: Running, size: int) -> Iterator[OldData]:
    """Write a topic, and wait until it is archived, for the length of a `with` block."""
    records = MEGABYTE_OF_KILOBYTES.build()
    count = max(size // len(records), 2)
    with broker.session.topic(settings=ARCHIVED) as topic, broker.session.connection() as sock:
        request = produce_request(topic, [(0, records)])
        answer_size = try_produce(sock, request, [0])
        pump(sock, Block.of([request]), count - 1, 5, answer_size)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while _local_bytes(broker, topic) > 2 * int(ARCHIVED["segment.bytes"]):
            if time.monotonic() > deadline:
                raise BenchmarkError("the topic is not archived")
            time.sleep(0.1)
        yield OldData(topic, (), records, count)


def _local_bytes(broker: Running, topic: str) -> int:
    if broker.data is None:
        raise BenchmarkError("the files of a broker elsewhere cannot be seen")
    return sum(path.stat().st_size for path in broker.data.glob(f"**/{topic}*/*.kafka"))


if __name__ == "__main__":
    main()
