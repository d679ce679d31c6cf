"""Starts the processes of brokers: asks the fork server, which is a process too, and started when it is missing."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import attrs
from twisted.internet.protocol import Factory, ProcessProtocol, Protocol
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from pylogbroker.tap.brokers.child import BrokerProcess

_PROGRAM: Final = "from pylogbroker.tap.brokers.fork_server import run; run()"
log = Logger()


@attrs.define(eq=False, repr=False)
class BrokerForks:
    _reactor: Any
    _server: _Server | None = None

    def prepare(self) -> None:
        """Start the fork server: its imports take as long as a broker's start."""
        if self._server is None or self._server.has_ended:
            self._server = _Server.start(self._reactor)

    def fork(self, process: BrokerProcess, arguments: Sequence[str], title: str, tree_password: str) -> None:
        """Start a broker by its arguments of `twistd pylogbroker`; give it the password of its coordination tree."""
        self.prepare()
        if self._server is not None:
            self._server.fork(self._reactor, process, arguments, title, tree_password)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


class _Server(LineOnlyReceiver):
    """Connection to a fork server."""

    delimiter = b"\n"
    transport: Any

    def __init__(self) -> None:
        self.has_ended = False
        self._is_closed = False
        self._forking: deque[tuple[BrokerProcess, socket.socket]] = deque()
        self._running: dict[int, BrokerProcess] = {}

    @classmethod
    def start(cls, reactor: Any) -> _Server:
        server, (own, theirs) = cls(), socket.socketpair()
        adopt(reactor, own, server)
        with theirs:
            streams = {0: theirs.fileno(), 1: "r", 2: "r"}
            command = [sys.executable, "-c", _PROGRAM]
            reactor.spawnProcess(_Output(), command[0], command, env=None, childFDs=streams)
        return server

    def fork(
        self, reactor: Any, process: BrokerProcess, arguments: Sequence[str], title: str, tree_password: str
    ) -> None:
        own, theirs = socket.socketpair()
        adopt(reactor, own, process)
        self.transport.sendFileDescriptor(theirs.fileno())
        self._forking.append((process, theirs))
        self._send({"arguments": list(arguments), "title": title, "tree_password": tree_password})

    def close(self) -> None:
        self._is_closed = True
        self.transport.loseConnection()

    def lineReceived(self, line: bytes) -> None:
        message = json.loads(line)
        pid = message["pid"]
        if "status" in message:
            self._running.pop(pid).process_ended(_cause(message["status"]))
            return
        process, theirs = self._forking.popleft()
        theirs.close()
        self._running[pid] = process
        process.forked(partial(self._signal, pid))

    def connectionLost(self, reason: Failure | None = None) -> None:
        self.has_ended = True
        if not self._is_closed:
            log.error("the process that starts brokers has ended; the next start of a broker starts another one")
        for process, theirs in self._forking:
            theirs.close()
            process.process_ended("the end of the process that starts brokers")
        for process in self._running.values():
            process.process_ended("an unknown cause: the process that starts brokers has ended")

    def _signal(self, pid: int, number: signal.Signals) -> None:
        self._send({"pid": pid, "signal": number})

    def _send(self, message: dict[str, Any]) -> None:
        self.transport.write(json.dumps(message).encode() + self.delimiter)


class _Output(ProcessProtocol):
    """Logs what the fork server prints, which are errors."""

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        for line in data.decode(errors="backslashreplace").splitlines():
            log.error("{line}", line=line)


def adopt(reactor: Any, own: socket.socket, protocol: Protocol) -> None:
    """Let the reactor serve a socket."""
    with own:
        own.setblocking(False)
        reactor.adoptStreamConnection(own.fileno(), own.family, Factory.forProtocol(lambda: protocol))


def _cause(status: int) -> str:
    if status < 0:
        return f"signal {-status}"
    return f"exit status {status}" if status else "it stopped"
