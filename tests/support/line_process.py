"""A child process whose output lines are events that a test waits for.

A thread reads the child's standard output and error into one list of lines; `expect` returns the first
line, after the one that it returned last, that matches a pattern, as soon as it is there. Nothing sleeps. Several
children may share one condition, `changed`, which is notified at every line of any of them and at their ends.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.forks import ForkedProcess
from tests.support.forks import can_start as can_fork
from tests.support.forks import start as start_fork


class ProcessFailed(Exception):
    """The child did not do what was expected; the message carries the end of its output."""


class LineProcess:
    """A started child; use as a context manager, or call `kill` in the end.

    A program of Python may be `forked` from a process that has imported the package; see `tests.support.forks`.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        changed: threading.Condition | None = None,
        forked: bool = False,
    ) -> None:
        self.name = Path(argv[0]).name
        self._lines: list[str] = []
        self._position = 0
        self._ended = False
        self._changed = changed or threading.Condition()
        self._child = self._start([str(each) for each in argv], cwd, environment, forked)
        self._reader = threading.Thread(target=self._read, name=f"output of {self.name}", daemon=True)
        self._reader.start()

    def _start(
        self, argv: list[str], cwd: Path | None, environment: Mapping[str, str] | None, forked: bool
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        complete = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        if forked and can_fork(argv, environment):
            return start_fork(argv[1:], cwd or Path.cwd(), complete)
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=cwd, env=complete, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)

    def __enter__(self) -> LineProcess:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    @property
    def lines(self) -> list[str]:
        """Every line so far."""
        with self._changed:
            return list(self._lines)

    def send(self, line: str) -> None:
        """Write one line to the child's standard input."""
        assert self._child.stdin is not None
        self._child.stdin.write(line.encode() + b"\n")
        self._child.stdin.flush()

    def close_input(self) -> None:
        """End the child's standard input."""
        assert self._child.stdin is not None
        self._child.stdin.close()

    def expect(self, pattern: str, timeout: float = 120) -> re.Match[str]:
        """The first not yet consumed line that matches; ProcessFailed at the child's end or the time's."""
        wanted = re.compile(pattern)
        deadline = time.monotonic() + timeout
        with self._changed:
            is_late = False
            while True:
                while self._position < len(self._lines):
                    self._position += 1
                    if match := wanted.search(self._lines[self._position - 1]):
                        return match
                if self._ended or is_late:
                    raise ProcessFailed(self._error_line(f"no line {pattern!r} within {timeout} s"))
                is_late = not self._changed.wait(deadline - time.monotonic())

    def lines_left(self) -> list[str]:
        """Return the lines that no `expect` has consumed, and consume them."""
        with self._changed:
            lines, self._position = self._lines[self._position :], len(self._lines)
            return lines

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def wait(self, timeout: float = 120) -> int:
        """The exit status."""
        try:
            status = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(self._error_line(f"still running after {timeout} s")) from None
        self._reader.join(timeout)
        return status

    def terminate(self, timeout: float = 120) -> int:
        """SIGTERM, and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        """SIGKILL, whether it still runs or not; every pipe is closed."""
        self._child.kill()
        self._child.wait()
        self._reader.join(10)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self._changed:
                self._lines.append(line.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _error_line(self, what: str) -> str:
        tail = "\n  ".join(self._lines[-40:])
        return f"{self.name} (status {self._child.poll()}): {what}; the end of its output:\n  {tail}"
