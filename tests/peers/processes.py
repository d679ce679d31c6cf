"""Processes of peers: options of Java, free ports, a log to wait on, a stop that always ends, and a base of servers."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from tests.peers.maven import PeerError
from tests.peers.port_owners import check_owner

#: A short program is not worth the time of the second compiler, nor a garbage collector with threads.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SHORT_LIVED = (*QUICK, "-Xshare:auto", "-Xmx256M")


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback address that nobody listens on at this moment.

    The system gives none of them to clients.  A client that connects while a killed server's port is free could
    otherwise be given that very port, be connected to itself, and keep the server from it.  Nor does another worker of
    pytest-xdist choose one meanwhile: each has ports of its own.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    own = own_ports(range(min(15_000, lowest // 2), lowest), os.environ)
    chosen: list[int] = []
    while len(chosen) < count:
        port = random.SystemRandom().choice(own)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            chosen += [port] if port not in chosen else []
    return chosen


def own_ports(ports: range, environment: Mapping[str, str]) -> range:
    """Return the part of a worker of pytest-xdist; the first part belongs to processes that are none."""
    worker = environment.get("PYTEST_XDIST_WORKER", "")
    others = ports[: len(ports) // 8]
    if not worker:
        return others
    size = (len(ports) - len(others)) // int(environment["PYTEST_XDIST_WORKER_COUNT"])
    start = len(others) + int(worker.removeprefix("gw")) * size
    return ports[start : start + size]


def wait_for_line(log: Path, pattern: str, process: subprocess.Popen[bytes], timeout: float) -> re.Match[str]:
    """Return the first match of `pattern` in a growing log; an error if the process ends or time is up."""
    deadline = time.monotonic() + timeout
    while True:
        ended = process.poll() is not None
        text = log.read_text(errors="replace") if log.exists() else ""
        if found := re.search(pattern, text):
            return found
        if ended or time.monotonic() > deadline:
            state = f"ended with status {process.returncode}" if ended else f"not ready within {timeout} s"
            raise PeerError(f"{process.args!r} {state}:\n{text[-4000:]}")
        time.sleep(0.01)


def stop(process: subprocess.Popen[bytes], timeout: float = 60.0) -> int:
    """End `process` by SIGTERM, or by SIGKILL after `timeout` seconds; return its status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


class Server:
    """A server process that can be started again on the same data and port; a context manager."""

    port: int
    process: subprocess.Popen[bytes] | None
    stop_seconds_max: ClassVar[float] = 60.0

    @property
    def address(self) -> str:
        """Host and port, as clients' `bootstrap.servers` takes them."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start the server and wait until it serves."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the server cleanly."""
        if self.process is not None:
            stop(self.process, self.stop_seconds_max)
            self.process = None

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        """Stop the process where it is, as a long pause of the machine does; its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process continue."""
        self._signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        """The running process."""
        if self.process is None:
            raise PeerError("the server does not run")
        return self.process.pid

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None:
            raise PeerError("the server does not run")
        self.process.send_signal(number)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, command: Sequence[str], output: Path, log: Path, started: str, timeout: float) -> None:
        """Run `command` until the pattern `started` is in `log`; kill it if that fails, or its port is another's."""
        with output.open("wb") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        try:
            wait_for_line(log, started, self.process, timeout)
            check_owner(self.port, self.pid)
        except PeerError:
            self.kill()
            raise
