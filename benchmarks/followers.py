"""`python -m benchmarks.followers`: memory and delays of many connections that follow one topic.

All followers read server-sent events of one topic by HTTP. The memory of a follower is the growth of the broker's
resident memory, divided by their number. The delay of a record is the time from its request until the last follower
has its event. Meanwhile another process asks for /livez again and again: its longest answer is how long others wait.

Then no follower reads any more, while some megabytes are written: what grows is what slow followers cost.
"""

import json
import selectors
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import OwnBroker, process_cpu_seconds, process_resident_bytes, scratch
from benchmarks.errors import BenchmarkError
from benchmarks.page import HOST
from tests.peers.port_owners import check_owner
from tests.peers.processes import free_ports

TOPIC = "followed"
WARM = 1000
SPARE_CONNECTIONS = 50
SECONDS_MAX = 120.0
STALLED_RECORDS = 100
STALLED_BYTES = 64 * 1024


@attrs.define
class Followers:
    """Connections that follow the topic; each event ends with a marker."""

    port: int
    sockets: list[socket.socket] = attrs.field(factory=list)
    _selector: selectors.BaseSelector = attrs.field(factory=selectors.DefaultSelector)

    def add(self, count: int) -> None:
        request = f"GET /api/topics/{TOPIC}/records HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        for _ in range(count):
            sock = socket.create_connection((HOST, self.port), 30)
            sock.sendall(request.encode())
            self.sockets.append(sock)
        for sock in self.sockets[-count:]:
            if b" 200 OK" not in sock.recv(4096):
                raise BenchmarkError("a follower is not served")
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ)

    def wait_for(self, marker: bytes) -> None:
        """Return when all have an event with a marker."""
        left = set(self.sockets)
        end = time.monotonic() + SECONDS_MAX
        while left:
            if time.monotonic() > end:
                raise BenchmarkError(f"{len(left)} followers have not got the event within {SECONDS_MAX:.0f} s")
            for key, _ in self._selector.select(1.0):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if marker in sock.recv(1 << 20):
                    left.discard(sock)

    def close(self) -> None:
        self._selector.close()
        for sock in self.sockets:
            sock.close()


@contextmanager
def probe(port: int) -> Iterator[Connection]:
    """Let a process of its own ask for /livez again and again; it sends its longest answer when it gets anything."""
    here, there = Pipe()
    process = Process(target=_probe, args=(port, there))
    process.start()
    try:
        yield here
    finally:
        process.kill()
        process.join()


def _probe(port: int, control: Connection) -> None:
    longest = 0.0
    connection = HTTPConnection(HOST, port)
    while not control.poll():
        began = time.perf_counter()
        connection.request("GET", "/livez")
        connection.getresponse().read()
        longest = max(longest, time.perf_counter() - began)
        time.sleep(0.001)
    control.send(longest)


def post(port: int, path: str, body: object) -> None:
    connection = HTTPConnection(HOST, port)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status != 200:
        raise BenchmarkError(f"{path}: {text.decode()}")


def measure(port: int, pid: int, count: int, records: int) -> list[str]:
    path = f"/api/topics/{TOPIC}/records"
    post(port, "/api/topics", {"name": TOPIC, "partitions": 1})
    followers = Followers(port)
    try:
        followers.add(WARM)  # the first ones use memory that is free
        post(port, path, {"value": "warm"})
        followers.wait_for(b"warm")
        before = process_resident_bytes(pid)
        followers.add(count - WARM)
        each = (process_resident_bytes(pid) - before) / (count - WARM)
        delays = []
        busy = process_cpu_seconds(pid)
        with probe(port) as prober:
            for number in range(records):
                began = time.perf_counter()
                post(port, path, {"value": f"<{number}>"})
                followers.wait_for(f"<{number}>".encode())
                delays.append(time.perf_counter() - began)
            prober.send("")
            longest = prober.recv()
        busy = (process_cpu_seconds(pid) - busy) / records
        at_rest = process_resident_bytes(pid)
        for _ in range(STALLED_RECORDS):
            post(port, path, {"value": "x" * STALLED_BYTES})
        time.sleep(1.0)
        stalled = (process_resident_bytes(pid) - at_rest) / count
    finally:
        followers.close()
    return [
        f"{count:,}",
        f"{each / 1024:.1f} KiB",
        f"{1000 * statistics.median(delays):.0f} ms",
        f"{1000 * busy:.0f} ms",
        f"{1000 * longest:.0f} ms",
        f"{stalled / 1024:.1f} KiB",
    ]


@click.command()
@click.option("--followers", default=9_000, show_default=True, help="Connections that follow the topic.")
@click.option("--records", default=10, show_default=True, help="Records whose delay is measured.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(followers: int, records: int, directory: Path | None, markdown: bool) -> None:
    """Measure what followers of one topic cost."""
    with scratch(directory) as parent:
        port, http_port = free_ports(2)
        settings = {
            "http.listeners": f"http://{HOST}:{http_port}",
            "http.max.connections": str(followers + SPARE_CONNECTIONS),
        }
        broker = OwnBroker(parent / "own", settings, port)
        try:
            broker.start()
            assert broker.process is not None
            check_owner(http_port, broker.process.pid)
            row = measure(http_port, broker.process.pid, followers, records)
        finally:
            broker.stop()
    head = ("followers", "memory each", "record at all", "processor time", "longest /livez", "each, stalled")
    show(Console(), head, [row], markdown)


if __name__ == "__main__":
    main()
