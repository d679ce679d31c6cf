"""Starts programs of Python in processes that need not import the package first: a start takes a tenth of the time.

    child = forks.start(["-m", "tests.clients.members.aiokafka_member", address], ROOT, environment)    # or "-c", code
    child.pid, child.stdin, child.stdout, child.poll(), child.wait(10), child.send_signal(SIGTERM)    # as of Popen

Each process of a test run has one server (`tests.support.fork_server`), started when it is first needed. Its children
are killed when this process ends. Tests of the interpreter's start itself use `subprocess`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Final

import attrs

#: Variables that the interpreter, the loader of libraries or the package read when they start.
READ_AT_START: Final = ("PYTHON", "LD_", "PYLOGBROKER", "MALLOC")
#: Values of such variables that forked processes obey.
OBEYED: Final = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"}
AVAILABLE: Final = hasattr(signal, "pidfd_send_signal")
ROOT: Final = Path(__file__).parents[2]
ANSWER_BYTES_MAX: Final = 1_000


@attrs.define(eq=False)
class ForkedProcess:
    """The part of `subprocess.Popen` that tests use; a signal never reaches another process of the same number."""

    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]
    _reference: int
    returncode: int | None = None
    _has_ended: threading.Event = attrs.field(factory=threading.Event)

    def end(self, status: int) -> None:
        """Take the exit status, which the server reports."""
        self.returncode = status
        os.close(self._reference)
        self._has_ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._has_ended.wait(timeout) or self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        with _server().lock:  # `end` closes the reference
            if self.returncode is None:
                with suppress(ProcessLookupError):  # it has ended, and the server has not said so yet
                    signal.pidfd_send_signal(self._reference, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Server:
    """Connection to the process that forks."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._starting = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.support.fork_server"]
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=theirs)
        theirs.close()
        self._started: SimpleQueue[tuple[int, int]] = SimpleQueue()
        self._children: dict[int, ForkedProcess] = {}
        self._ended_early: dict[int, int] = {}
        threading.Thread(target=self._read, name="fork server", daemon=True).start()

    def start(self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> ForkedProcess:
        request = {"arguments": arguments, "cwd": str(cwd), "environment": dict(environment)}
        their_input, stdin = os.pipe()
        stdout, their_output = os.pipe()
        with self._starting:
            descriptors = (their_input, their_output, their_output)
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            os.close(their_input)
            os.close(their_output)
            pid, reference = self._started.get(timeout=60)
        child = ForkedProcess(pid, os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"), reference)
        with self.lock:
            self._children[pid] = child
            if pid in self._ended_early:
                self._end(pid, self._ended_early.pop(pid))
        return child

    def _read(self) -> None:
        """Take answers, until this process or the server ends."""
        while True:
            message, descriptors, _, _ = socket.recv_fds(self._socket, ANSWER_BYTES_MAX, 1)
            if not message:
                return
            answer = json.loads(message)
            if descriptors:
                self._started.put((answer["pid"], descriptors[0]))
                continue
            with self.lock:
                self._end(answer["pid"], answer["status"])

    def _end(self, pid: int, status: int) -> None:
        if pid in self._children:
            self._children.pop(pid).end(status)
        else:
            self._ended_early[pid] = status


@cache
def _server() -> _Server:
    return _Server()


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


_ENVIRONMENT: Final = _read_at_start(os.environ)


def can_start(argv: Sequence[str | Path], environment: Mapping[str, str] | None) -> bool:
    """True if a command may be forked: this interpreter with `-c` or `-m`, and nothing that changes its start."""
    if not AVAILABLE or len(argv) < 3 or argv[0] != sys.executable or argv[1] not in ("-c", "-m"):
        return False
    own = _read_at_start(environment or {})
    return own.items() <= OBEYED.items() and _read_at_start(os.environ) == _ENVIRONMENT


def start(arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> ForkedProcess:
    """Start a program; its standard output and error are one pipe."""
    sys.audit("subprocess.Popen", sys.executable, [sys.executable, *arguments], cwd, environment)
    return _server().start(arguments, cwd, environment)
