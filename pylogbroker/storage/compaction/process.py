"""The cleaner process as the broker sees it: started with the first job, killed to abort one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import IO, Final, cast

import attrs

from pylogbroker.errors import PylogbrokerError
from pylogbroker.storage.compaction.jobs import Cleaned, CleanerJob, Failed, outcome
from pylogbroker.system import lower_process_priority

_COMMAND: Final = ("-P", "-m", "pylogbroker.storage.compaction")
_NICENESS: Final = 5
_STDERR_BYTES_MAX: Final = 4096


class CleanerDied(PylogbrokerError):
    """The process ended before it answered."""


@attrs.define(eq=False, repr=False)
class CleanerProcess:
    """Runs one job at a time. `run` blocks; other threads may call `abort`."""

    _running: _Running | None = attrs.field(default=None, init=False)
    _stopped: bool = attrs.field(default=False, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def run(self, job: CleanerJob) -> Cleaned | Failed:
        """Do a job; raise CleanerDied, or OSError if no process can be started."""
        with self._lock:
            if self._stopped:
                raise CleanerDied("it was stopped")
            if self._running is None:
                self._running = _Running.start()
            running = self._running
        line = running.exchange(job.to_json().encode() + b"\n")
        if line.endswith(b"\n"):
            return outcome(line)
        status = running.process.wait()
        with self._lock:  # the next job gets another process
            reason = running.reason(status)
            self._close()
        raise CleanerDied(reason)

    def abort(self, for_good: bool = False) -> None:
        """Kill the process during its job; start no other `for_good`."""
        with self._lock:
            self._stopped = self._stopped or for_good
            if self._running is not None:
                self._running.process.kill()

    def close(self) -> None:
        """Kill the process for good. Blocks for a moment."""
        self.abort(for_good=True)
        with self._lock:
            if self._running is not None:
                self._running.process.wait()
                self._close()

    def _close(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None


@attrs.frozen(eq=False, repr=False)
class _Running:
    process: subprocess.Popen[bytes]
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    @classmethod
    def start(cls) -> _Running:
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 (`close` closes it)
        process = subprocess.Popen(
            (sys.executable, *_COMMAND),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
        )
        lower_process_priority(process.pid, _NICENESS)
        return cls(process, cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout), stderr)

    def exchange(self, line: bytes) -> bytes:
        """Return the answer to a line, incomplete if the process died."""
        with suppress(BrokenPipeError):
            self.stdin.write(line)
            self.stdin.flush()
            return self.stdout.readline()
        return b""

    def reason(self, status: int) -> str:
        self.stderr.seek(max(os.fstat(self.stderr.fileno()).st_size - _STDERR_BYTES_MAX, 0))
        last_line = self.stderr.read().decode("utf-8", "replace").rstrip().rpartition("\n")[2]
        how = f"killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"{how}: {last_line}" if last_line else how

    def close(self) -> None:
        for file in (self.stdin, self.stdout, self.stderr):
            with suppress(OSError):  # a job's unsent rest cannot be flushed
                file.close()
