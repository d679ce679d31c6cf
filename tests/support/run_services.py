"""Processes that a whole test run shares, however many workers of pytest-xdist it has.

    facts = run_services.of(config).get("tests.support.shared_brokers:start_broker")    # {"address": ..., "data": ...}

A service is named by the function that starts it, whose argument is a directory that is not there yet.  The run's first
process, xdist's controller, calls it when somebody first asks, and stops all services when the run ends.  Workers ask
over a socket in the run's temporary directory.  Without xdist there is one process, which asks itself.  A service dies
with the run's first process, even if that is killed.

What a service has logged of errors is looked at once, in the end: such a run has failed, and its summary has the lines.

This module is a plugin of pytest.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from pkgutil import resolve_name
from typing import Protocol

import attrs
import pytest

Facts = Mapping[str, str]

_KEY = pytest.StashKey["Services"]()
_ERROR_LINES = pytest.StashKey[Mapping[str, Sequence[str]]]()
_INPUT = "run_services"
_AUTHORITY = b"tests of pylogbroker"

#: Put before a command: the kernel kills what runs there when the thread that started it ends.
DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()


class Service(Protocol):
    """A process that has been started for the run."""

    @property
    def facts(self) -> Facts:
        """Facts for its users: addresses and directories."""

    def stop(self) -> list[str]:
        """End the process; returns the lines that must not be in its log."""


_configs: list[pytest.Config] = []


class Services(Protocol):
    """Source of services for a process of the run."""

    def get(self, name: str) -> Facts:
        """Facts of a running service, started first if need be; RuntimeError if it cannot be started."""

    def close(self) -> Mapping[str, Sequence[str]]:
        """Called at the end of the session; returns by service the lines that must not be in its log."""


@attrs.define
class OwnServices:
    """Services of this process.

    They are started by threads that last as long as the process: a service dies with the thread that started it.
    """

    directory: Path
    _threads: ThreadPoolExecutor = attrs.field(factory=lambda: ThreadPoolExecutor(4, "run services"))
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _started: dict[str, Future[Service]] = attrs.field(factory=dict)

    def get(self, name: str) -> Facts:
        """Start the service, or wait until it is."""
        with self._lock:
            if name not in self._started:
                self._started[name] = self._threads.submit(self._start, name)
        return self._started[name].result().facts

    def close(self) -> Mapping[str, Sequence[str]]:
        """Stop all of them."""
        lines = {}
        for name, started in self._started.items():
            with suppress(Exception):  # one that could not be started has failed its tests
                lines[name] = started.result().stop()
        self._threads.shutdown()
        return {name: found for name, found in lines.items() if found}

    def _start(self, name: str) -> Service:
        starter: Callable[[Path], Service] = resolve_name(name)
        return starter(self.directory / name.replace(":", "."))


@attrs.define
class ServedServices:
    """Services of this process, for itself and over a socket for xdist's workers."""

    _own: OwnServices
    _listener: Listener

    @classmethod
    def serve(cls, own: OwnServices) -> ServedServices:
        """Listen until `close`."""
        served = cls(own, Listener(str(own.directory / "socket"), "AF_UNIX", authkey=_AUTHORITY))
        threading.Thread(target=served._accept, name="run services", daemon=True).start()
        return served

    @property
    def address(self) -> str:
        """Address for workers."""
        return str(self._listener.address)

    def get(self, name: str) -> Facts:
        """Facts of a service of this process."""
        return self._own.get(name)

    def close(self) -> Mapping[str, Sequence[str]]:
        """Stop listening, and all services."""
        self._listener.close()
        return self._own.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection, suppress(EOFError):
            name = connection.recv()
            try:
                connection.send(dict(self.get(name)))
            except Exception as error:  # any: the worker's test fails with its text
                connection.send(f"{name} could not be started: {error}")


@attrs.frozen
class RemoteServices:
    """Services of the process that listens at this address."""

    address: str

    def get(self, name: str) -> Facts:
        """Ask for the service."""
        with Client(self.address, "AF_UNIX", authkey=_AUTHORITY) as connection:
            connection.send(name)
            answer = connection.recv()
        if isinstance(answer, str):
            raise RuntimeError(answer)
        facts: Facts = answer
        return facts

    def close(self) -> Mapping[str, Sequence[str]]:
        """They belong to another process: nothing is done."""
        return {}


def of(config: pytest.Config) -> Services:
    """Return the services of this run."""
    return config.stash[_KEY]


def current() -> Services | None:
    """Return the services of the run that this process belongs to, for what no fixture reaches; None outside a run."""
    return of(_configs[-1]) if _configs else None


def pytest_configure(config: pytest.Config) -> None:
    """Make them; nothing is started yet."""
    _configs.append(config)
    config.add_cleanup(lambda: _configs.remove(config))
    worker_input: Mapping[str, str] | None = getattr(config, "workerinput", None)
    if worker_input is not None:
        config.stash[_KEY] = RemoteServices(worker_input[_INPUT])
    else:
        directory = Path(tempfile.mkdtemp(prefix="run-"))  # a short path: that of a Unix socket has 107 bytes at most
        config.stash[_KEY] = OwnServices(directory)
        config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Give a new worker of xdist the address of the services."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]
    services = config.stash[_KEY]
    if isinstance(services, OwnServices):
        services = config.stash[_KEY] = ServedServices.serve(services)
    assert isinstance(services, ServedServices)
    node.workerinput[_INPUT] = services.address  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop everything; the run has failed if a service complains."""
    unexpected_errors = of(session.config).close()
    if unexpected_errors and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    session.config.stash[_ERROR_LINES] = unexpected_errors


def has_errors(config: pytest.Config) -> bool:
    """Return whether services complained at the end of the run."""
    return bool(config.stash.get(_ERROR_LINES, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show what the services complain of."""
    for name, lines in config.stash.get(_ERROR_LINES, {}).items():
        terminalreporter.section(f"errors logged by what {name} has started", red=True)
        for line in lines:
            terminalreporter.write_line(line)
