"""`python -m benchmarks.unit_costs`: what a connection and a partition cost a broker, in memory and processor time.

    python -m benchmarks.unit_costs             # 1,000 and 10,000 connections, 1,000 and 4,000 partitions
    python -m benchmarks.unit_costs --connections 500 --partitions 100

Processor time is that of the broker's process, as Linux counts it: it stands while others have the processor. The
longest iteration of the reactor is measured so, too (`benchmarks.iterations`). It may be a full garbage collection: a
broker runs one when it is idle.
"""

import gc
import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import socket

import click
from rich.console import Console
from rich.table import Table

from benchmarks import iterations, requests
from benchmarks.brokers import OwnBroker, Running, exact_cpu_seconds, scratch
from benchmarks.driver import SIZE, call, receive
from benchmarks.machine import description, touch_memory
from benchmarks.session import try_produce
from benchmarks.size import TOPIC_PARTITIONS, Figure
from benchmarks.workloads import SINGLE

CONNECTIONS = (1_000, 10_000)
PARTITIONS = (1_000, 4_000)
SETTLING_SECONDS = 2.0
SPARE_FILES = 500
ROUNDS = 3
GROUP = 100
"""Connections whose requests are on the way at the same time."""


@contextmanager
def measured_broker(parent: Path, name: str) -> Iterator[tuple[Running, Path]]:
    """Run a broker that records its iterations; yield it and the file of them."""
    record = parent / f"{name}-iterations"
    started = OwnBroker(parent / name, program=iterations.program(record))
    try:
        started.start()
        time.sleep(SETTLING_SECONDS)
        yield started.running, record
    finally:
        started.stop()


def cpu_seconds(running: Running) -> float:
    assert running.pid is not None
    return exact_cpu_seconds(running.pid)


def connections(parent: Path, count: int, seconds: float) -> Iterator[Figure]:
    """Open connections, leave them idle, and let each send a request a second."""
    title = f"{count:,} connections"
    with measured_broker(parent, f"connections-{count}") as (running, record), ExitStack() as stack:
        topic = stack.enter_context(running.session.topic())
        memory, cpu = running.resident_bytes(), cpu_seconds(running)
        socks = [stack.enter_context(running.session.connection()) for _ in range(count)]
        request = requests.produce_request(topic, [(0, SINGLE.build())])
        call(socks[-1], request)  # those before it are accepted, too
        yield Figure(f"{title}: processor time of each that is opened", _micro(cpu_seconds(running) - cpu, count), "µs")
        yield Figure(f"{title}: memory of each, idle", _kilo(running.resident_bytes() - memory, count), "KB")
        cpu = cpu_seconds(running)
        time.sleep(seconds)
        idle = (cpu_seconds(running) - cpu) / seconds
        yield Figure(f"{title}: processor time while idle", 100 * idle, "% of a core")
        begin, cpu = time.perf_counter(), cpu_seconds(running)
        _requests_each_second(socks, request)
        used = (cpu_seconds(running) - cpu) / (ROUNDS * count)
        yield Figure(f"{title}: processor time of a request, one a second from each", 1e6 * used, "µs")
        yield Figure(f"{title}: share of a core of these requests", 100 * used * count, "% of a core")
        yield Figure(f"{title}: memory of each, used", _kilo(running.resident_bytes() - memory, count), "KB")
        yield Figure(f"{title}: longest iteration of the reactor", _longest(record, begin), "ms")


def _requests_each_second(socks: Sequence[socket], request: bytes) -> None:
    """Send a request on each connection, spread over a second, `ROUNDS` times."""
    begin = time.perf_counter()
    for number in range(ROUNDS):
        for first in range(0, len(socks), GROUP):
            time.sleep(max(0.0, begin + number + first / len(socks) - time.perf_counter()))
            some = socks[first : first + GROUP]
            for sock in some:
                sock.sendall(request)
            for sock in some:
                receive(sock, SIZE.unpack(receive(sock, SIZE.size))[0])


def partitions(parent: Path, count: int, seconds: float) -> Iterator[Figure]:
    """Write to partitions, and leave them idle: the broker writes its checkpoints meanwhile."""
    names = [f"topic-{number}" for number in range(-(-count // TOPIC_PARTITIONS))]
    made = len(names) * TOPIC_PARTITIONS
    title = f"{made:,} partitions"
    with measured_broker(parent, f"partitions-{count}") as (running, record):
        memory, files = running.resident_bytes(), _open_files(running)
        with running.session.connection() as sock:
            for name in names:
                running.session.create(sock, name, TOPIC_PARTITIONS, {})
            for offset in range(ROUNDS):
                begin, cpu = time.perf_counter(), cpu_seconds(running)
                for name in names:
                    batches = [(number, SINGLE.build()) for number in range(TOPIC_PARTITIONS)]
                    try_produce(sock, requests.produce_request(name, batches), [offset] * TOPIC_PARTITIONS)
                time.sleep(seconds)
                used = cpu_seconds(running) - cpu
        yield Figure(f"{title}: memory of each", _kilo(running.resident_bytes() - memory, made), "KB")
        yield Figure(f"{title}: open files of each", (_open_files(running) - files) / made, "")
        yield Figure(f"{title}: processor time of a record in each, and of the checkpoints", 1000 * used, "ms")
        yield Figure(f"{title}: longest iteration of the reactor", _longest(record, begin), "ms")
        cpu = cpu_seconds(running)
        time.sleep(seconds)
        yield Figure(f"{title}: processor time while idle", 100 * (cpu_seconds(running) - cpu) / seconds, "% of a core")


def _longest(record: Path, begin: float) -> float:
    """Return the processor time of the longest iteration since a time, in milliseconds."""
    work = [iteration.work for iteration in iterations.iterations(record) if iteration.begin >= begin]
    return 1000 * max(work, default=iterations.NOTED_SECONDS)


def _open_files(running: Running) -> int:
    return len(os.listdir(f"/proc/{running.pid}/fd"))


def _micro(seconds: float, count: int) -> float:
    return 1e6 * seconds / count


def _kilo(size: int, count: int) -> float:
    return size / 1e3 / count


def raise_file_limit(needed: int) -> None:
    """Let this process, and the brokers that it starts, open as many files as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < needed:
        raise click.UsageError(f"{needed} open files are needed, the system allows {most}: see `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@click.command(help=__doc__)
@click.option(
    "--connections",
    "counts",
    type=click.IntRange(1),
    multiple=True,
    default=CONNECTIONS,
    show_default=True,
    help="Connections; may be repeated.",
)
@click.option(
    "--partitions",
    "logs",
    type=click.IntRange(1),
    multiple=True,
    default=PARTITIONS,
    show_default=True,
    help="Partitions, in topics of 100; may be repeated.",
)
@click.option("--seconds", type=click.FloatRange(0.1), default=12.0, show_default=True, help="Time at rest.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
def main(counts: Sequence[int], logs: Sequence[int], seconds: float, directory: Path | None) -> None:
    raise_file_limit(SPARE_FILES + max(max(counts), 4 * max(logs)))
    gc.disable()
    touch_memory()
    table = Table("measured", "", caption=f"{description()}; {time.strftime('%Y-%m-%d')}")
    with scratch(directory) as parent:
        for count in counts:
            for figure in connections(parent, count, seconds):
                table.add_row(*figure.cells()[:2])
        for count in logs:
            for figure in partitions(parent, count, seconds):
                table.add_row(*figure.cells()[:2])
    Console().print(table)


if __name__ == "__main__":
    main()
