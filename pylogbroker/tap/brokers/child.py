"""The process of one broker, and its log in the supervisor's."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.protocol import Protocol
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

_LINE: Final = re.compile(r"\S+ \[([^\]#]*)(?:#(\w+))?\] (.*)")
_TWISTD: Final = "twisted.scripts."  # logs that it starts, and its reactor


class BrokerProcess(Protocol):
    """Logs the lines of its process with the broker's id; calls `ended` with the cause once the process has ended.

    Its transport is the process's standard input and output.
    """

    transport: Any

    def __init__(self, broker_id: int, ended: Callable[[BrokerProcess, str], None]) -> None:
        self.broker_id = broker_id
        self.last_line = ""
        self._ended = ended
        self._rest = b""
        self._level = LogLevel.info
        self._signal: Callable[[signal.Signals], None] | None = None
        self._cause: str | None = None
        self._is_closed = False

    def forked(self, send_signal: Callable[[signal.Signals], None]) -> None:
        self._signal = send_signal

    def stop(self) -> None:
        """Let the broker stop as SIGTERM does, or as a closed standard input if it gets no signals."""
        if self._signal is None or self._cause is not None:
            self.transport.loseWriteConnection()
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)
        self.transport.abortConnection()

    def reload(self) -> None:
        """Let the broker reload its settings."""
        self._send(signal.SIGHUP)

    def _send(self, number: signal.Signals) -> None:
        if self._signal is not None and self._cause is None:
            self._signal(number)

    def dataReceived(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._log_line(line.decode(errors="backslashreplace"))

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Take the end of the output."""
        self._is_closed = True
        if self._rest:
            self._log_line(self._rest.decode(errors="backslashreplace"))
        self._end_when_complete()

    def process_ended(self, cause: str) -> None:
        """Take the cause; output may follow."""
        self._cause = cause
        self._end_when_complete()

    def _end_when_complete(self) -> None:
        if self._is_closed and self._cause is not None:
            self._ended(self, self._cause)

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
