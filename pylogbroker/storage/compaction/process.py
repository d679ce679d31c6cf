"""The cleaner's process as the broker sees it: started with the first job, asked job by job, and killed to stop it.

It ends by itself when its standard input does, as happens when the broker dies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import IO, Final

import attrs

from pylogbroker.errors import PylogbrokerError
from pylogbroker.storage.compaction.jobs import Cleaned, CleanerJob, Failed, outcome

_COMMAND: Final = ("-P", "-m", "pylogbroker.storage.compaction")
_NICENESS: Final = 5
_OOM_SCORE: Final = "500"  # where memory is short, this process goes before the broker does
_LAST_WORDS: Final = 4096  # bytes


class CleanerDied(PylogbrokerError):
    """The process ended before it had said what became of its job."""


@attrs.define(eq=False)
class CleanerProcess:
    """A process that cleans, one job at a time.  `run` blocks; `abort` may come from another thread."""

    _process: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)
    _errors: IO[bytes] | None = attrs.field(default=None, init=False)
    _stopped: bool = attrs.field(default=False, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def run(self, job: CleanerJob) -> Cleaned | Failed:
        """Have a log cleaned.  CleanerDied; OSError if there can be no process."""
        process = self._started()
        line = b""
        if process.stdin is not None and process.stdout is not None:
            with suppress(BrokenPipeError):
                process.stdin.write(job.to_json().encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
        if not line.endswith(b"\n"):
            raise CleanerDied(self._last_words(process))
        return outcome(line)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise CleanerDied("it was stopped")
            if self._process is None:
                self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the process is gone)
                self._process = subprocess.Popen(
                    (sys.executable, *_COMMAND),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
                )
                _put_behind(self._process.pid)
            return self._process

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        """Why it died: its exit status, and the last line that it left.  The next job gets another process."""
        status = process.wait()
        with self._lock:
            words = ""
            if self._errors is not None:
                self._errors.seek(max(os.fstat(self._errors.fileno()).st_size - _LAST_WORDS, 0))
                words = self._errors.read().decode("utf-8", "replace").rstrip().rpartition("\n")[2]
            self._forget()
        how = f"killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"{how}: {words}" if words else how

    def abort(self, for_good: bool = False) -> None:
        """Give up the job that is being done, if any, and if it is `for_good` all others."""
        with self._lock:
            self._stopped = self._stopped or for_good
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """No job is being done, and there will be no more.  Blocks for a moment."""
        self.abort(for_good=True)
        with self._lock:
            if self._process is not None:
                self._process.wait()
                self._forget()

    def _forget(self) -> None:
        for file in (self._process and self._process.stdin, self._process and self._process.stdout, self._errors):
            if file:
                with suppress(OSError):  # what is in its buffer nobody wants
                    file.close()
        self._process = self._errors = None


def _put_behind(pid: int) -> None:
    """Let the broker go first, where there is not enough of processor time or memory."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _NICENESS)
    with suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)
