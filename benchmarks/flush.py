"""`python -m benchmarks.flush`: producers whose records are on the disk when they are acknowledged.

    python -m benchmarks.flush --kafka                   # the machine's own disk
    python -m benchmarks.flush --kafka --sync-ms 2       # a disk whose syncs take two milliseconds

With `flush.messages=1`, a producer that waits for each acknowledgement costs one sync per batch. Sixty-four such
producers share syncs; the ratio of their rate to that of one producer shows how well.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import Running, kafka, own, scratch
from benchmarks.driver import Block
from benchmarks.many_connections import Producer, run
from benchmarks.requests import produce_request
from benchmarks.session import Session, expect, try_produce
from benchmarks.slow_disk import slow_syncs
from benchmarks.workloads import SINGLE

SETTINGS: Mapping[str, str] = {"flush.messages": "1"}
PRODUCERS = 64
SECONDS = 2.0
WANTED = 20
LOOP = """
import os, sys, time
path, size, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
fd, count, begin = os.open(path, os.O_WRONLY | os.O_CREAT), 0, time.perf_counter()
while (elapsed := time.perf_counter() - begin) < seconds:
    os.write(fd, bytes(size))
    os.fdatasync(fd)
    count += 1
print(count / elapsed)
"""


@click.command()
@click.option("--kafka", "with_kafka", is_flag=True, help="Start Apache Kafka and measure it as well.")
@click.option("--sync-ms", default=0.0, help="Least time of a sync; by default the disk's own.")
@click.option("--rounds", default=5, show_default=True, help="Measurements of each figure.")
@click.option("--warm-up", default=2, show_default=True, help="Runs before the measurements.")
@click.option("--scale", default=1.0, show_default=True, help="Length of each measurement, relative to the default.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data, on the disk to measure.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(
    with_kafka: bool, sync_ms: float, rounds: int, warm_up: int, scale: float, directory: Path | None, markdown: bool
) -> None:
    """Measure the rate of synced records."""
    with ExitStack() as stack:
        place = stack.enter_context(scratch(directory))
        stack.enter_context(slow_syncs(sync_ms, place))
        plain = [one_by_one(place, scale) for _ in range(rounds)]
        brokers = [stack.enter_context(own(directory))]
        if with_kafka:
            brokers.append(stack.enter_context(kafka(directory)))
        ones, manies = measure(brokers, plain, warm_up, rounds, scale)
        disk = filesystem(place)
    names = [broker.name for broker in brokers]
    head = ["work", "unit", *names]
    rates = [statistics.median(plain)] * len(brokers)
    ratios = [f"{many / one:.1f} x" for many, one in zip(manies, ones, strict=True)]
    rows = [
        ["a file alone: write, sync, write, sync", "batches/s", *map(_figure, rates)],
        ["1 producer, each batch acknowledged from the disk", "batches/s", *map(_figure, ones)],
        [f"{PRODUCERS} such producers at once", "batches/s", *map(_figure, manies)],
        [f"the {PRODUCERS} against the one, wanted {WANTED} x", "", *ratios],
    ]
    show(Console(), head, rows, markdown)
    print(f"Data on {disk}; {f'each sync held for {sync_ms:g} ms' if sync_ms else 'syncs as they are'}.")


def measure(
    brokers: Sequence[Running], plain: Sequence[float], warm_up: int, rounds: int, scale: float
) -> tuple[list[float], list[float]]:
    """Return, for each broker, the median rates of one producer and of many."""
    count = max(int(statistics.median(plain) * SECONDS / 2 * scale), 10)
    ones: list[list[float]] = [[] for _ in brokers]
    manies: list[list[float]] = [[] for _ in brokers]
    for number in range(-warm_up, rounds):
        for index, broker in enumerate(brokers):
            one = produce_together(broker.session, 1, count)
            many = produce_together(broker.session, PRODUCERS, max(count // 4, 5))
            if number >= 0:
                ones[index].append(one)
                manies[index].append(many)
    return [statistics.median(rates) for rates in ones], [statistics.median(rates) for rates in manies]


def produce_together(session: Session, producers: int, count: int) -> float:
    """Send `count` single records per producer, one at a time, to one partition; return acknowledgements per second."""
    with session.topic(settings=SETTINGS) as topic, ExitStack() as stack:
        request, members = produce_request(topic, [(0, SINGLE.build())]), []
        for number in range(producers):
            sock = stack.enter_context(session.connection())
            size = try_produce(sock, request, [number])
            members.append(Producer(sock, Block.of([request]), count, 1, size))
        elapsed = run(members)
        expect(session.end_offsets(topic), [producers * (count + 1)], "log end")
    return producers * count / elapsed


def one_by_one(place: Path, scale: float) -> float:
    """Return how many batches per second can be written to a file and synced, without a broker."""
    path, size = place / "alone", len(SINGLE.build())
    command = [sys.executable, "-c", LOOP, str(path), str(size), str(SECONDS / 4 * scale)]
    rate = float(subprocess.run(command, check=True, capture_output=True).stdout)
    path.unlink()
    time.sleep(0.1)
    return rate


def filesystem(place: Path) -> str:
    """Return the file system of the directory and its mount point; in memory, a sync costs nothing."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    found = max((mount for mount in mounts if _holds(mount[1], place)), key=lambda mount: len(mount[1]))
    return f"{found[2]} of {found[0]} at {found[1]}"


def _holds(mount_point: str, place: Path) -> bool:
    return os.path.commonpath([mount_point, place.resolve()]) == mount_point


def _figure(rate: float) -> str:
    return f"{rate:,.0f}"


if __name__ == "__main__":
    main()
