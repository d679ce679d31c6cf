"""Process that forks others which have imported the package already: an import takes most of a short life.

It is started by `tests.support.forks`, which sends requests over a socket, its standard input. It has one thread, and
imports nothing that starts threads or installs a reactor.

    request     JSON with `arguments` of the interpreter, `cwd` and `environment`; descriptors for the child's 0, 1, 2
    answer      {"pid": number}, and a descriptor of that process
    at an end   {"pid": number, "status": exit status as of `subprocess`}

When the socket is closed, all processes are killed.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import attrs

#: Modules that brokers and clients in processes of their own need.
PRELOADED: Final = (
    "twisted.scripts.twistd",
    "pylogbroker.tap.twistd",
    "pylogbroker.tree.zookeeper",
    "pylogbroker.broker.membership.cluster_role",
    "pylogbroker.broker.security.sasl_listeners",
)
MESSAGE_BYTES_MAX: Final = 200_000


@attrs.frozen
class Child:
    """The request and the standard streams of a process that has been forked."""

    request: dict[str, Any]
    descriptors: list[int]


class ForkServer:
    """Forks on request, and reports ends."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._children: set[int] = set()
        self._ended, ending = socket.socketpair()
        for each in (self._ended, ending):
            each.setblocking(False)
        self._ending = ending
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ending.fileno(), warn_on_full_buffer=False)

    def serve(self) -> Child | None:
        """Answer until the other side has closed the socket. In a child, the call returns what it is to run."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests, selectors.EVENT_READ)
            selector.register(self._ended, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._ended in ready:
                    self._report_ends()
                if self._requests not in ready:
                    continue
                message, descriptors, _, _ = socket.recv_fds(self._requests, MESSAGE_BYTES_MAX, 3)
                if not message:
                    self._kill_all()
                    return None
                if child := self._start(json.loads(message), descriptors):
                    return child

    def _kill_all(self) -> None:
        self._report_ends()
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)

    def _report_ends(self) -> None:
        with suppress(BlockingIOError):
            self._ended.recv(4096)
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._children.remove(pid)
                self._send({"pid": pid, "status": os.waitstatus_to_exitcode(status)})

    def _start(self, request: dict[str, Any], descriptors: list[int]) -> Child | None:
        pid = os.fork()
        if pid == 0:
            return Child(request, descriptors)
        self._children.add(pid)
        reference = os.pidfd_open(pid)
        self._send({"pid": pid}, reference)
        for each in (reference, *descriptors):
            os.close(each)
        return None

    def _send(self, answer: dict[str, int], *descriptors: int) -> None:
        with suppress(BrokenPipeError):  # the other side has ended
            socket.send_fds(self._requests, [json.dumps(answer).encode()], descriptors)

    def become(self, child: Child) -> None:
        """Let the child forget the server: signals, sockets, environment, standard streams."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, descriptor in enumerate(child.descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        for each in (self._requests, self._ended, self._ending):
            each.close()
        os.chdir(child.request["cwd"])
        os.environ.clear()
        os.environ.update(child.request["environment"])
        sys.path[1:1] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        random.seed()


def run(option: str, code: str, arguments: Sequence[str]) -> None:
    """Run `-c code` or `-m module` as the interpreter does."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    sys.argv = [option, *arguments]
    if option == "-m":
        sys.path[0] = os.getcwd()
        runpy.run_module(code, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = ""
        exec(compile(code, "<string>", "exec"), vars(main))


def main() -> None:
    """Serve on standard input."""
    for name in PRELOADED:
        import_module(name)
    import_module("pylogbroker.broker.apis").import_all()
    server = ForkServer(socket.socket(fileno=os.dup(0)))
    child = server.serve()
    if child is not None:
        server.become(child)
        option, code, *arguments = child.request["arguments"]
        run(option, code, arguments)


if __name__ == "__main__":
    main()
