"""Brokers under measurement: this project's, in a process of its own, and any other one by its address.

Brokers started here get a new directory, and delete a topic's files at once, so that the workloads of one run reuse the
same memory.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from benchmarks.errors import BenchmarkError
from benchmarks.session import NO_SETTINGS, Session
from tests.peers.kafka import KafkaBroker
from tests.peers.port_owners import check_owner
from tests.peers.processes import free_ports, stop

PROJECT = Path(__file__).parents[1]
SETTINGS: Mapping[str, str] = {"log.segment.delete.delay.ms": "100"}
START_SECONDS = 180.0
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
TWISTD = "from twisted.scripts.twistd import run; run()"
"""Python code of a broker's process: twistd, with the package of the current directory."""


@attrs.frozen
class Running:
    """Running broker: its name in the table, its address, and its process and log directory if known."""

    name: str
    session: Session
    pid: int | None = None
    data: Path | None = None

    def resident_bytes(self) -> int:
        return process_resident_bytes(self.pid)

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self.pid)


def process_resident_bytes(pid: int | None) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def process_cpu_seconds(pid: int | None) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def exact_cpu_seconds(pid: int) -> float:
    """Return the processor time of a process to the nanosecond; its threads must live on."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def own_command(
    directory: Path, listener: str, settings: Mapping[str, str], *options: str, program: str = TWISTD
) -> list[str]:
    """Return the command that starts this project's broker on a data directory."""
    command = [sys.executable, "-c", program]
    command += ["-n", "--pidfile=", "pylogbroker"]
    command += ["--data-dir", str(directory), "--listener", listener, *options]
    return [*command, *(f"--override={name}={value}" for name, value in {**SETTINGS, **settings}.items())]


def environment() -> dict[str, str]:
    """Return the environment of a broker: its modules are compiled once, as those of an installation are."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@attrs.define
class OwnBroker:
    """This project's broker on one data directory: `twistd -n pylogbroker`."""

    directory: Path
    settings: Mapping[str, str] = attrs.field(factory=dict)
    port: int = attrs.field(factory=lambda: free_ports(1)[0])
    program: str = TWISTD
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start the broker and return the seconds until it accepted a connection."""
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        command = own_command(self.directory, listener, self.settings, program=self.program)
        log = self.directory.parent / f"{self.directory.name}.log"
        begin = time.perf_counter()
        with log.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, cwd=PROJECT, env=environment())
        while not _accepts(self.port):
            if self.process.poll() is not None or time.perf_counter() - begin > START_SECONDS:
                raise BenchmarkError(f"the broker does not start:\n{log.read_text()[-4000:]}")
            time.sleep(0.001)
        seconds = time.perf_counter() - begin
        check_owner(self.port, self.process.pid)
        return seconds

    def stop(self) -> None:
        if self.process is not None:
            stop(self.process)
            self.process = None

    @property
    def running(self) -> Running:
        pid = self.process.pid if self.process else None
        return Running("pylogbroker", Session("127.0.0.1", self.port), pid, self.directory)


def _accepts(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def own(parent: Path | None, settings: Mapping[str, str] = NO_SETTINGS, program: str = TWISTD) -> Iterator[Running]:
    """Run this project's broker on a new directory for the length of a `with` block."""
    with scratch(parent) as directory:
        broker = OwnBroker(directory / "data", settings, program=program)
        try:
            broker.start()
            yield broker.running
        finally:
            broker.stop()


@contextmanager
def kafka(
    parent: Path | None, settings: Mapping[str, str] = NO_SETTINGS, release: str = "kafka-3.9"
) -> Iterator[Running]:
    """Run Apache Kafka on a new directory for the length of a `with` block."""
    settings = {**SETTINGS, **settings}
    with scratch(parent) as directory, KafkaBroker(directory, settings, kafka_release=release) as broker:
        pid = broker.process.pid if broker.process else None
        yield Running("Apache Kafka", Session("127.0.0.1", broker.port), pid, broker.data)


@contextmanager
def scratch(parent: Path | None) -> Iterator[Path]:
    """Create a directory below `parent`, or a temporary one; it is removed at the end of the `with` block."""
    directory = Path(tempfile.mkdtemp(prefix="benchmark-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
