"""`python -m benchmarks.page`: what viewers of new records and scrapes of metrics cost producers.

    python -m benchmarks.page

Producers send as fast as the broker takes it, in pairs of measurements: one alone, one while two viewers follow the
topic and /metrics is read each second. Each figure is the median of the pairs' ratios.

On a machine with other load these vary by more than the viewers cost. So a steady flow, which leaves the broker time,
shows the processor time itself: watched, less that of the same flow alone. A broker that is busy loses this share.
"""

import gc
import http.client
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import OwnBroker, exact_cpu_seconds, process_cpu_seconds, scratch
from benchmarks.driver import Block, call, pump
from benchmarks.errors import BenchmarkError
from benchmarks.machine import touch_memory
from benchmarks.requests import produce_request
from benchmarks.session import Session, expect, try_produce
from benchmarks.workloads import MEGABYTE, MEGABYTE_OF_KILOBYTES, SIXTEEN_KILOBYTES, Batches
from tests.peers.port_owners import check_owner
from tests.peers.processes import free_ports

HOST = "127.0.0.1"
VIEWERS = 2
SCRAPE_SECONDS = 1.0
WANTED = 0.99
IN_FLIGHT = 5
STEADY_REQUESTS_PER_SECOND = 40
STEADY_SECONDS = 10.0


@attrs.frozen
class Work:
    batches: Batches
    count: int


WORKLOADS = {"produce 16 KB": Work(SIXTEEN_KILOBYTES, 60_000), "produce 1 MB": Work(MEGABYTE_OF_KILOBYTES, 4_000)}


@attrs.define
class Watchers:
    """Viewers of a topic and a scraper; `events` and `scrapes` count what they got."""

    port: int
    topic: str
    events: int = 0
    scrapes: int = 0
    _stopped: threading.Event = attrs.field(factory=threading.Event)

    def view(self, sock: socket.socket) -> None:
        while data := sock.recv(1 << 16):
            self.events += data.count(b"event: records")

    def scrape(self) -> None:
        while not self._stopped.wait(SCRAPE_SECONDS):
            with closing(http.client.HTTPConnection(HOST, self.port, timeout=30)) as connection:
                connection.request("GET", "/metrics")
                connection.getresponse().read()
            self.scrapes += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        with ExitStack() as stack:
            threads = [threading.Thread(target=self.scrape)]
            sockets = []
            for _ in range(VIEWERS):
                sock = stack.enter_context(closing(socket.create_connection((HOST, self.port), 30)))
                sock.settimeout(None)
                sock.sendall(f"GET /api/topics/{self.topic}/live HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                if b" 200 " not in sock.recv(64):
                    raise BenchmarkError("a viewer is not served")
                sockets.append(sock)
                threads.append(threading.Thread(target=self.view, args=(sock,)))
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                self._stopped.set()
                for sock in sockets:
                    sock.shutdown(socket.SHUT_RDWR)
                for thread in threads:
                    thread.join()


def produce(session: Session, pid: int, work: Work, http_port: int | None) -> tuple[float, float]:
    """Produce, watched if there is an HTTP port; return MB per second, and per processor second of the broker."""
    with session.topic() as topic, session.connection() as sock, ExitStack() as stack:
        request = produce_request(topic, [(0, work.batches.build())])
        size = try_produce(sock, request, [0])
        watchers = None if http_port is None else Watchers(http_port, topic)
        if watchers is not None:
            stack.enter_context(watchers.running())
        begin = process_cpu_seconds(pid)
        elapsed = pump(sock, Block.of([request]), work.count, IN_FLIGHT, size)
        used = process_cpu_seconds(pid) - begin
        stack.close()
        expect(session.end_offsets(topic), [(work.count + 1) * work.batches.records], "log end")
        if watchers is not None and not watchers.events:
            raise BenchmarkError("the viewers got no records")
    megabytes = work.count * len(request) / MEGABYTE
    return megabytes / elapsed, megabytes / used


def steady(session: Session, pid: int, seconds: float, watch: Callable[[str], AbstractContextManager[object]]) -> float:
    """Produce at a fixed rate while somebody watches; return the broker's processor time of each second."""
    with session.topic() as topic, session.connection() as sock:
        request = produce_request(topic, [(0, SIXTEEN_KILOBYTES.build())])
        try_produce(sock, request, [0])
        with watch(topic):
            return steady_flow(sock, request, pid, seconds)


def steady_flow(
    sock: socket.socket, request: bytes, pid: int, seconds: float, rate: float = STEADY_REQUESTS_PER_SECOND
) -> float:
    """Send a request at a fixed rate; return the broker's processor time of each second."""
    begin, used, sent = time.monotonic(), exact_cpu_seconds(pid), 0
    while (elapsed := time.monotonic() - begin) < seconds:
        call(sock, request)
        sent += 1
        time.sleep(max(0.0, sent / rate - elapsed))
    return (exact_cpu_seconds(pid) - used) / elapsed


@click.command()
@click.option("--rounds", default=15, show_default=True, help="Pairs of measurements of each workload.")
@click.option("--warm-up", default=1, show_default=True, help="Pairs of each workload before those.")
@click.option("--scale", default=1.0, show_default=True, help="Length of each measurement, relative to the default.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(rounds: int, warm_up: int, scale: float, directory: Path | None, markdown: bool) -> None:
    """Measure the rate of a producer with two viewers and a scrape each second, and without."""
    touch_memory()
    rows = []
    with scratch(directory) as parent:
        port, http_port = free_ports(2)
        broker = OwnBroker(parent / "own", {"http.listeners": f"http://{HOST}:{http_port}"}, port)
        try:
            broker.start()
            assert broker.process is not None
            check_owner(http_port, broker.process.pid)
            gc.disable()
            for name, work in WORKLOADS.items():
                scaled = attrs.evolve(work, count=max(1, int(work.count * scale)))
                ratios: list[tuple[float, float]] = []
                for number in range(-warm_up, rounds):
                    pair = {}
                    for watched in (False, True) if number % 2 else (True, False):
                        pair[watched] = produce(
                            Session(HOST, port), broker.process.pid, scaled, http_port if watched else None
                        )
                    if number >= 0:
                        ratios.append((pair[True][0] / pair[False][0], pair[True][1] / pair[False][1]))
                rates, efficiencies = zip(*ratios, strict=True)
                rows.append(
                    [name, f"{statistics.median(rates):.3f}", f"{statistics.median(efficiencies):.3f}", f"{WANTED}"]
                )
            session, pid, length = Session(HOST, port), broker.process.pid, STEADY_SECONDS * scale
            shares = [
                steady(session, pid, length, lambda topic: Watchers(http_port, topic).running())
                - steady(session, pid, length, nullcontext)
                for _ in range(rounds)
            ]
            rows.append(["steady flow", "", f"{1 - statistics.median(shares):.4f}", f"{WANTED}"])
        finally:
            broker.stop()
    show(Console(), ["work", "rate", "per processor time", "wanted"], rows, markdown)


if __name__ == "__main__":
    main()
