"""This project's brokers for all cores, `--brokers N`: a supervisor and its child processes."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from benchmarks.brokers import PROJECT, START_SECONDS, own_command, process_cpu_seconds, process_resident_bytes, scratch
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
        return process_resident_bytes(self.pids[0])

    def broker_bytes(self) -> int:
        """Return the resident memory of the largest broker."""
        return max(map(process_resident_bytes, self.pids[1:]))


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
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    pids = (process.pid, *map(int, children))
    session = FollowingSession("127.0.0.1", int(found[1]))
    return ManyBrokers(f"--brokers {count}", session, pids, seconds, sum(map(process_cpu_seconds, pids)))
