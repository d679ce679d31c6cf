"""Ports of servers: what is reached there is the server that was started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from benchmarks.brokers import OwnBroker
from tests.peers.java_server import JavaServer
from tests.peers.maven import PeerError
from tests.peers.port_owners import check_owner
from tests.support.broker_process import BrokerProcess

LISTEN = """
import socket, sys
listening = socket.create_server((sys.argv[1], int(sys.argv[2])), reuse_port=True)
print(listening.getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def another(host: str = "127.0.0.1", port: int = 0) -> Iterator[tuple[int, int]]:
    """A process that listens: its port, and its pid."""
    command = [sys.executable, "-c", LISTEN, host, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
        process.kill()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_is_of_the_process_that_listens(host: str) -> None:
    with another(host) as (port, pid):
        check_owner(port, pid)
        check_owner(port, os.getpid())  # the other one is a child
        with closing(socket.create_server(("127.0.0.1", 0))) as closed:
            unused = closed.getsockname()[1]
        with pytest.raises(PeerError, match=f"process {pid} should listen on 127.0.0.1:{unused}, but nobody does"):
            check_owner(unused, pid)
    with closing(socket.create_server((host, 0))) as own, another() as (_, pid):
        port = own.getsockname()[1]
        with pytest.raises(PeerError, match=rf"{port} was to be .* process {pid}, but process {os.getpid()} \(.*py"):
            check_owner(port, pid)


def test_the_exact_address_is_reached_first() -> None:
    """Another process may have the port on all addresses."""
    with closing(socket.socket()) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        own.bind(("0.0.0.0", 0))
        port = own.getsockname()[1]
        own.listen()
        with another("127.0.0.1", port) as (_, pid):
            check_owner(port, pid)


def test_a_benchmark_does_not_measure_another_broker(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        broker = OwnBroker(tmp_path / "data", port=taken.getsockname()[1])
        try:
            with pytest.raises(PeerError, match=f"but process {os.getpid()} "):
                broker.start()
        finally:
            broker.stop()


class OnAnotherPort(BrokerProcess):
    """A broker that says a port which is not its own."""

    def _command(self) -> list[str | Path]:
        say = f"import time\nprint('listening on PLAINTEXT://127.0.0.1:{self._port}', flush=True)\ntime.sleep(600)"
        return [sys.executable, "-c", say]


def test_a_test_does_not_ask_another_broker(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        broker = OnAnotherPort(tmp_path, port=taken.getsockname()[1])
        try:
            with pytest.raises(PeerError, match=f"but process {os.getpid()} "):
                broker.start()
        finally:
            broker.kill()


class Talkative(JavaServer):
    """A server that starts, but not on its port."""

    def start(self) -> Talkative:
        say = "import time\nprint('started', flush=True)\ntime.sleep(600)"
        log = self.directory / "log"
        self._run([sys.executable, "-c", say], log, log, "started", 60)
        return self


def test_a_peer_is_asked_on_its_own_port(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        server = Talkative(tmp_path, port=taken.getsockname()[1])
        with pytest.raises(PeerError, match=f"but process {os.getpid()} "):
            server.start()
        assert server.process is None
