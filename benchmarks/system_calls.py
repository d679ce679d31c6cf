"""`python -m benchmarks.system_calls`: bare loops of the system calls of produce and fetch, without a broker.

They bound what fewer calls could save. A broker that appended all batches of one read at once would save at most the
difference between two rows.

    append each         one `pwritev` for each batch, of its 16-byte head and the rest, as the log appends.
    append all at once  one `pwritev` for all batches of a read.
    probe a region      `preadv` of a byte each 128 KiB of 1 MB, as before a `sendfile`.
    send a region       `sendfile` of 1 MB from the page cache to a connection, in pieces of 256 KiB.
"""

import os
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import scratch
from pylogbroker.broker.fetch.readahead import is_cached
from pylogbroker.storage import FileRegion
from pylogbroker.storage.files import FileHandle
from pylogbroker.system import send_file

HEAD_BYTES = 16
FILE_BYTES = 256 << 20
APPENDED_BYTES = 64 << 20
MEGABYTE = 1 << 20
PIECE_BYTES = 256 << 10
APPENDS = ((64, 170), (5, 16 << 10), (5, MEGABYTE))
"""Batches of one read, and the size of each: as in `produce-single`, `produce-16k` and `produce-1m`."""

Loop = Callable[[int], None]


@click.command()
@click.option("--rounds", default=9, show_default=True, help="Measurements of each loop.")
@click.option("--scale", default=1.0, show_default=True, help="Length of each measurement, relative to the default.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the file; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(rounds: int, scale: float, directory: Path | None, markdown: bool) -> None:
    """Measure bare loops of system calls; the figures are medians, in microseconds for each batch or region."""
    rows: list[tuple[str, float]] = []
    with scratch(directory) as place, open(place / "bare", "w+b") as file:
        os.ftruncate(file.fileno(), FILE_BYTES)
        for count, size in APPENDS:
            loops = appends_each(file.fileno(), size), appends_at_once(file.fileno(), size, count)
            figures = measure(loops, count * max(1, int(scale * APPENDED_BYTES / (count * size))), rounds)
            of = f"{count} batches of {size:,} bytes"
            rows += zip((f"append each of {of}", f"append all at once: {of}"), figures, strict=True)
        with region_loops(place / "bare") as loops:
            figures = measure(loops, max(1, int(400 * scale)), rounds)
        rows += zip(("probe a region of 1 MB", "send a region of 1 MB"), figures, strict=True)
    show(Console(), ["loop", "unit", "time"], [[title, "us", f"{value:.2f}"] for title, value in rows], markdown)


def measure(loops: Sequence[Loop], count: int, rounds: int) -> list[float]:
    """Return the median time of one batch or region for each loop; they alternate."""
    times: list[list[float]] = [[] for _ in loops]
    for number in range(rounds + 1):
        for loop, found in zip(loops, times, strict=True):
            begin = time.perf_counter()
            loop(count)
            if number:  # the first round warms up
                found.append((time.perf_counter() - begin) / count * 1e6)
    return [statistics.median(each) for each in times]


def appends_each(fd: int, size: int) -> Loop:
    head, rest = bytes(HEAD_BYTES), memoryview(bytes(size - HEAD_BYTES))

    def loop(count: int) -> None:
        position = 0
        for _ in range(count):
            os.pwritev(fd, (head, rest), position)
            position += size
            if position > FILE_BYTES - size:
                position = 0

    return loop


def appends_at_once(fd: int, size: int, batches: int) -> Loop:
    chunks = [bytes(HEAD_BYTES), memoryview(bytes(size - HEAD_BYTES))] * batches

    def loop(count: int) -> None:
        position = 0
        for _ in range(0, count, batches):
            os.pwritev(fd, chunks, position)
            position += size * batches
            if position > FILE_BYTES - size * batches:
                position = 0

    return loop


@contextmanager
def region_loops(path: Path) -> Iterator[tuple[Loop, Loop]]:
    """Give a loop that probes regions, and one that sends them to a connection whose peer drops all."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        dropping = threading.Thread(target=_drop, args=(receiver,))
        dropping.start()
        file = FileHandle.open(str(path))
        region = FileRegion(file, 0, MEGABYTE)

        def probe(count: int) -> None:
            for _ in range(count):
                is_cached(region)

        def send(count: int) -> None:
            for _ in range(count):
                position = 0
                while position < MEGABYTE:
                    piece = min(PIECE_BYTES, MEGABYTE - position)
                    position += send_file(sender.fileno(), file.fd, position, piece)

        try:
            yield probe, send
        finally:
            sender.shutdown(socket.SHUT_RDWR)
            dropping.join()
            receiver.close()


def _drop(receiver: socket.socket) -> None:
    buffer = bytearray(MEGABYTE)
    while receiver.recv_into(buffer):
        pass


if __name__ == "__main__":
    main()
