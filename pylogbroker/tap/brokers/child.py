"""The process of one broker, and its log in the supervisor's."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from twisted.internet.error import ProcessDone
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

_LINE: Final = re.compile(r"\S+ \[([^\]#]*)(?:#(\w+))?\] (.*)")
_TWISTD: Final = "twisted.scripts."  # logs that it starts, and its reactor
_PROGRAM: Final = "from twisted.scripts.twistd import run; run()"
_STDIN, _STDOUT, _STDERR = 0, 1, 2


def command(arguments: Sequence[str]) -> list[str]:
    """Return the command of a broker that stops when its standard input is closed."""
    twistd = [sys.executable, "-c", _PROGRAM, "--nodaemon", "--pidfile=", "pylogbroker"]
    return [*twistd, "--stop-with-stdin", *arguments]


class BrokerProcess(ProcessProtocol):
    """Logs the lines of its process with the broker's id; calls `ended` with a text once the process has ended."""

    def __init__(self, broker_id: int, ended: Callable[[BrokerProcess, str], None]) -> None:
        self.broker_id = broker_id
        self.last_line = ""
        self._ended = ended
        self._rests = {_STDOUT: b"", _STDERR: b""}
        self._level = LogLevel.info
        self.transport: Any = None

    def start(self, reactor: Any, arguments: Sequence[str]) -> None:
        program = command(arguments)
        descriptors = {_STDIN: "w", _STDOUT: "r", _STDERR: "r"}
        reactor.spawnProcess(self, program[0], program, env=None, childFDs=descriptors)

    def stop(self) -> None:
        """Let the broker stop as SIGTERM does."""
        self._signal("TERM")

    def reload(self) -> None:
        """Let the broker reload its settings."""
        self._signal("HUP")

    def _signal(self, name: str) -> None:
        if self.transport.pid is not None:
            self.transport.signalProcess(name)

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        *lines, self._rests[childFD] = (self._rests[childFD] + data).split(b"\n")
        for line in lines:
            self._log_line(line.decode(errors="backslashreplace"))

    def processEnded(self, reason: Failure) -> None:
        self.transport.pid = None
        for rest in filter(None, self._rests.values()):
            self._log_line(rest.decode(errors="backslashreplace"))
        self._ended(self, "it stopped" if reason.check(ProcessDone) else _cause(reason.value))

    def _log_line(self, line: str) -> None:
        match = _LINE.fullmatch(line)
        namespace, text = "pylogbroker", line
        if match is not None:
            namespace, text = match[1], match[3]
            self._level = LogLevel.levelWithName(match[2]) if match[2] else LogLevel.info
        elif line.startswith("pylogbroker: "):
            text, self._level = line.removeprefix("pylogbroker: "), LogLevel.critical
        if text and not namespace.startswith(_TWISTD):
            self.last_line = text
            Logger(namespace=namespace).emit(self._level, "broker {id}: {text}", id=self.broker_id, text=text)


def _cause(ended: Any) -> str:
    if getattr(ended, "signal", None):
        return f"signal {ended.signal}"
    return f"exit status {getattr(ended, 'exitCode', None)}"
