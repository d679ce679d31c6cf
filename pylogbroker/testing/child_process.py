"""Brokers in a child process, which ends with this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from threading import Timer
from typing import IO, Any, Final, Self, cast

import attrs

from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.testing.control.client import ControlClient

_COMMAND: Final = ("-m", "pylogbroker.testing", "--child")
_STOP_SECONDS: Final = 30.0


@attrs.frozen(eq=False, repr=False)
class ControlledProcess:
    """`python -m pylogbroker.testing`, controlled by HTTP."""

    control: ControlClient
    _process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, settings: Mapping[str, str], brokers: int, timeout: float) -> Self:
        """Return when clients can connect; raise StartupError or ConfigError."""
        process = subprocess.Popen(
            (sys.executable, *_COMMAND, "--brokers", str(brokers)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
        )
        overdue = Timer(timeout, process.kill)
        overdue.start()
        try:
            stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
            stdin.write(json.dumps(settings).encode() + b"\n")  # not in its arguments, which other users see
            stdin.flush()
            line = stdout.readline()
            started = cls(ControlClient(_control_of(line)), process)
        except BaseException:
            process.kill()
            _close(process)
            raise
        finally:
            overdue.cancel()
        return started

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def listeners(self) -> list[dict[str, str]]:
        """Addresses of each broker by the names of its listeners."""
        addresses: list[dict[str, str]] = self.control.get("/broker")["listeners"]
        return addresses

    @property
    def ids(self) -> list[int]:
        """Ids of the brokers."""
        numbers: list[int] = self.control.get("/broker")["ids"]
        return numbers

    def stop(self) -> None:
        """Let it stop cleanly; kill it if it takes long."""
        cast("IO[bytes]", self._process.stdin).close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        _close(self._process)


def _control_of(line: bytes) -> str:
    if not line:
        raise StartupError("the broker's process ended at its start, or took too long: see its output")
    message: dict[str, Any] = json.loads(line)
    if "error" in message:
        raise (ConfigError if message["type"] == "ConfigError" else StartupError)(message["error"])
    return str(message["control"])


def _close(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
