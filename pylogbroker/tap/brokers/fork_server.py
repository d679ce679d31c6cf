"""Process that has imported the broker, and forks brokers: they start without imports, and share its memory.

The supervisor starts it, with a Unix socket as standard input. Each message is a line of JSON.

    to fork     {"arguments": [...], "title": text, "tree_password": text}, with the descriptor of the broker's
                standard streams
    forked      {"pid": number}
    to signal   {"pid": number, "signal": number}
    ended       {"pid": number, "status": exit status, or a signal's number below 0}

It has one thread and no reactor. It ends when the supervisor closes the socket.
"""

from __future__ import annotations

import gc
import json
import os
import random
import selectors
import signal
import socket
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import attrs
from setproctitle import setproctitle

from pylogbroker.features import on_first_use
from pylogbroker.tap import tree_login

if TYPE_CHECKING:
    from twisted.scripts import twistd
else:
    twistd = on_first_use("twisted.scripts.twistd")

_PRELOADED: Final = (
    "twisted.scripts.twistd",
    "pylogbroker.tap.twistd",
    "pylogbroker.tree.zookeeper",
    "pylogbroker.broker.membership.cluster_role",
    "pylogbroker.broker.security.sasl_listeners",
)
_RECEIVED_BYTES: Final = 64 * 1024
_IGNORED: Final = (signal.SIGINT, signal.SIGHUP)  # a terminal sends them to all processes; the supervisor handles them


@attrs.frozen
class Forked:
    """The arguments of a new process, its title in lists of processes, and the descriptor of its standard streams.

    The password of the tree is no argument: other users of the machine see the arguments of a process.
    """

    arguments: Sequence[str]
    title: str
    tree_password: str = attrs.field(repr=False)
    descriptor: int


@attrs.define(eq=False, repr=False)
class ForkServer:
    _socket: socket.socket
    _wakeups: socket.socket
    _received: bytes = b""
    _descriptors: deque[int] = attrs.field(factory=deque)
    _children: set[int] = attrs.field(factory=set)

    def serve(self) -> Forked | None:
        """Return what to run in a forked process, None at the end of the server."""
        with selectors.DefaultSelector() as selector:
            for source in (self._socket, self._wakeups):
                selector.register(source, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._wakeups in ready:
                    self._report_ends()
                if self._socket in ready:
                    received, descriptors, _, _ = socket.recv_fds(self._socket, _RECEIVED_BYTES, 1)
                    if not received:
                        return None
                    self._descriptors += descriptors
                    *lines, self._received = (self._received + received).split(b"\n")
                    for line in lines:
                        forked = self._handle(json.loads(line))
                        if forked is not None:
                            return forked

    def _handle(self, message: dict[str, Any]) -> Forked | None:
        if "arguments" in message:
            return self._fork(message["arguments"], message["title"], message["tree_password"])
        if message["pid"] in self._children:
            os.kill(message["pid"], message["signal"])
        return None

    def _fork(self, arguments: Sequence[str], title: str, tree_password: str) -> Forked | None:
        descriptor = self._descriptors.popleft()
        pid = os.fork()
        if pid == 0:
            for inherited in self._descriptors:  # of the next brokers: nobody would see their ends
                os.close(inherited)
            return Forked(arguments, title, tree_password, descriptor)
        os.close(descriptor)
        self._children.add(pid)
        self._send({"pid": pid})
        return None

    def _report_ends(self) -> None:
        with suppress(BlockingIOError):
            self._wakeups.recv(_RECEIVED_BYTES)
        for pid in tuple(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._children.remove(pid)
                self._send({"pid": pid, "status": os.waitstatus_to_exitcode(status)})

    def _send(self, message: dict[str, int]) -> None:
        with suppress(BrokenPipeError):  # the supervisor has ended
            self._socket.sendall(json.dumps(message).encode() + b"\n")


def run() -> None:
    """Serve on standard input; run a broker in each forked process."""
    setproctitle("pylogbroker: starts the brokers")
    gc.disable()
    _preload()
    gc.freeze()
    wakeups, signalled = socket.socketpair()
    for endpoint in (wakeups, signalled):
        endpoint.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(signalled.fileno(), warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in _IGNORED}
    requests = socket.socket(fileno=os.dup(0))
    forked = ForkServer(requests, wakeups).serve()
    if forked is None:
        return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for endpoint in (requests, wakeups, signalled):
        endpoint.close()
    _run_broker(forked)


def _preload() -> None:
    """Import all that brokers of a cluster may use, so that they share its memory."""
    for name in _PRELOADED:
        import_module(name)
    import_module("pylogbroker.broker.apis").import_all()


def _run_broker(forked: Forked) -> None:
    for number in (0, 1, 2):
        os.dup2(forked.descriptor, number)
    os.close(forked.descriptor)
    setproctitle(forked.title)
    random.seed()
    gc.enable()
    tree_login.keep(forked.tree_password)
    sys.argv = ["twistd", "--nodaemon", "--pidfile=", "pylogbroker", "--stop-with-stdin", *forked.arguments]
    twistd.run()
