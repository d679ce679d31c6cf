"""This project's brokers for all cores, `--brokers N`: a supervisor, its fork server, and the brokers."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from benchmarks.brokers import PROJECT, START_SECONDS, own_command, process_cpu_seconds, scratch
from benchmarks.errors import BenchmarkError
from benchmarks.session import NO_SETTINGS, FollowingSession, Session
from tests.peers.maven import PeerError
from tests.peers.processes import stop, wait_for_line


@attrs.frozen
class Measured:
    """Running brokers of one kind: their name in the table, a session, and all of their processes."""

    name: str
    session: Session
    pids: tuple[int, ...]

    def cpu_seconds(self) -> float:
        return sum(map(process_cpu_seconds, self.pids))


@attrs.frozen
class ManyBrokers(Measured):
    """N brokers with their supervisor.

    Their start is the time from the supervisor's readiness to that of all brokers, and the processor time of both.
    """

    start_seconds: float
    start_cpu_seconds: float

    def supervisor_bytes(self) -> int:
        """Return the memory of the supervisor and of its fork server."""
        return sum(map(proportional_bytes, self.pids[:2]))

    def broker_bytes(self) -> int:
        """Return the memory of the largest broker."""
        return max(map(proportional_bytes, self.pids[2:]))


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process; of pages that several processes share, each has its part."""
    found = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


@contextmanager
def many_brokers(parent: Path | None, count: int) -> Iterator[ManyBrokers]:
    """Run N brokers on a new directory for the length of a `with` block."""
    with scratch(parent) as directory:
        log = directory / "log"
        command = own_command(directory / "data", "PLAINTEXT://127.0.0.1:0", NO_SETTINGS, "--brokers", str(count))
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd=PROJECT)
        try:
            yield _serving(process, log, count)
        finally:
            stop(process, START_SECONDS)


def _serving(process: "subprocess.Popen[bytes]", log: Path, count: int) -> ManyBrokers:
    try:
        wait_for_line(log, f"{count} brokers start;", process, START_SECONDS)
        begin = time.perf_counter()
        found = wait_for_line(log, rf"{count} brokers serve: PLAINTEXT://127\.0\.0\.1:(\d+)", process, START_SECONDS)
    except PeerError as error:
        raise BenchmarkError(f"the brokers do not start: {error}") from None
    seconds = time.perf_counter() - begin
    [fork_server] = _children(process.pid)
    pids = (process.pid, fork_server, *_children(fork_server))
    session = FollowingSession("127.0.0.1", int(found[1]))
    return ManyBrokers(f"--brokers {count}", session, pids, seconds, sum(map(process_cpu_seconds, pids)))


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
