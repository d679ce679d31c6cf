"""`python -m benchmarks.figures`: what two viewers of live figures cost a broker under constant load.

A producer sends 600 requests of 16 KB a second, so that the broker is busy; with `--rate 20` it counts as idle, and may
collect garbage. In every second interval, one viewer has the overview open and another one the topics, of
which there are 200: a full page. The cost is the broker's processor time of each second with the viewers, less that of
the interval beside it without them. Half of the pairs begin with the viewers. An interval begins once both pages have
their first figures: a viewer looks at them for longer.

The error is twice the standard error of the mean: pairs are added until it is small enough.
"""

import socket
import statistics
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from math import inf, sqrt
from pathlib import Path

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import OwnBroker, scratch
from benchmarks.errors import BenchmarkError
from benchmarks.page import HOST, steady_flow
from benchmarks.requests import produce_request
from benchmarks.session import Session, try_produce
from benchmarks.workloads import SIXTEEN_KILOBYTES
from tests.peers.port_owners import check_owner
from tests.peers.processes import free_ports

PAGES = ("/", "/topics")
TOPICS = 200
RATE = 600.0
ERROR_MAX = 0.005
COST_MAX = 0.01
PAIRS_MIN = 8
START_SECONDS_MAX = 60.0


@attrs.define
class Viewers:
    """Open pages; `events` counts the figures that they got."""

    port: int
    events: int = 0
    _has_figures: threading.Barrier = attrs.field(factory=lambda: threading.Barrier(len(PAGES) + 1))

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            sockets = [stack.enter_context(closing(socket.create_connection((HOST, self.port), 30))) for _ in PAGES]
            threads = []
            for sock, page in zip(sockets, PAGES, strict=True):
                sock.sendall(f"GET /figures{page} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                if b" 200 " not in sock.recv(64):
                    raise BenchmarkError(f"a viewer of {page} is not served")
                sock.settimeout(None)
                threads.append(threading.Thread(target=self._view, args=(sock,)))
            for thread in threads:
                thread.start()
            try:
                self._has_figures.wait(START_SECONDS_MAX)
                yield
            finally:
                for sock in sockets:
                    sock.shutdown(socket.SHUT_RDWR)
                for thread in threads:
                    thread.join()

    def _view(self, sock: socket.socket) -> None:
        events = 0
        while data := sock.recv(1 << 16):
            begun = data.count(b"event: figures")
            self.events += begun
            if begun and not events:
                self._has_figures.wait(START_SECONDS_MAX)
            events += begun


def error_of(costs: list[float]) -> float:
    """Return twice the standard error of the mean."""
    return 2 * statistics.stdev(costs) / sqrt(len(costs)) if len(costs) > 1 else inf


def measure(
    session: Session, pid: int, http_port: int, seconds: float, pairs: int, rate: float
) -> tuple[list[float], list[float]]:
    """Return the processor time of each second without viewers, and what they add, for each pair."""
    alone: list[float] = []
    costs: list[float] = []
    with ExitStack() as stack:
        topic, *_ = [stack.enter_context(session.topic()) for _ in range(TOPICS)]
        sock = stack.enter_context(session.connection())
        request = produce_request(topic, [(0, SIXTEEN_KILOBYTES.build())])
        try_produce(sock, request, [0])
        with Viewers(http_port).watching():  # it imports the pages, and compiles their templates
            steady_flow(sock, request, pid, seconds, rate)
        while len(costs) < pairs and (len(costs) < PAIRS_MIN or error_of(costs) > ERROR_MAX / 2):
            shares: dict[bool, float] = {}
            for is_watched in (False, True) if len(costs) % 2 else (True, False):
                if not is_watched:
                    shares[is_watched] = steady_flow(sock, request, pid, seconds, rate)
                    continue
                viewers = Viewers(http_port)
                with viewers.watching():
                    shares[is_watched] = steady_flow(sock, request, pid, seconds, rate)
                if viewers.events < 2 * len(PAGES):
                    raise BenchmarkError(f"the viewers got {viewers.events} figures in {seconds:g} s")
            alone.append(shares[False])
            costs.append(shares[True] - shares[False])
    return alone, costs


@click.command()
@click.option("--pairs", default=60, show_default=True, help="Pairs of measurements, if the error stays large.")
@click.option("--seconds", default=12.0, show_default=True, help="Length of each measurement.")
@click.option("--rate", default=RATE, show_default=True, help="Requests of the producer in a second.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(pairs: int, seconds: float, rate: float, directory: Path | None, markdown: bool) -> None:
    """Measure the processor time that viewers of live figures take."""
    with scratch(directory) as parent:
        port, http_port = free_ports(2)
        broker = OwnBroker(parent / "own", {"http.listeners": f"http://{HOST}:{http_port}"}, port)
        try:
            broker.start()
            assert broker.process is not None
            check_owner(http_port, broker.process.pid)
            alone, costs = measure(Session(HOST, port), broker.process.pid, http_port, seconds, pairs, rate)
        finally:
            broker.stop()
    row = [
        "overview and topics",
        str(len(costs)),
        f"{100 * statistics.mean(alone):.2f} %",
        f"{100 * statistics.mean(costs):.2f} %",
        f"{100 * error_of(costs):.2f} %",
        f"{100 * COST_MAX:g} %",
    ]
    show(Console(), ["viewers of", "pairs", "load alone", "viewers", "error", "at most"], [row], markdown)


if __name__ == "__main__":
    main()
