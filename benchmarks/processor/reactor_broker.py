"""This project's broker on the reactor of the calling thread, which runs step by step.

The module installs Twisted's reactor of this process: only the process that measures imports it.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
from twisted.internet import reactor as _reactor

from benchmarks.errors import BenchmarkError
from benchmarks.session import Session
from pylogbroker import tap
from tests.peers.processes import free_ports

START_SECONDS_MAX = 60.0
POLL_SECONDS = 0.001
Result = TypeVar("Result")


@attrs.frozen
class ReactorBroker:
    """Broker that works during `iterate` and `run` alone."""

    reactor: Any
    session: Session

    def iterate(self) -> None:
        """Run one iteration of the reactor, as its main loop does, without waiting."""
        self.reactor.runUntilCurrent()
        self.reactor.doIteration(0)

    def run(self, call: Callable[[], Result]) -> Result:
        """Run a call that blocks on the broker's answers, in another thread."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(call)
            while not future.done():
                self.reactor.iterate(POLL_SECONDS)
            return future.result()


@contextmanager
def reactor_broker(directory: Path) -> Iterator[ReactorBroker]:
    """Run a broker for the length of a `with` block; its reactor cannot be started again."""
    (port,) = free_ports(1)
    reactor: Any = _reactor
    options = tap.Options()
    options.parseOptions(["--data-dir", str(directory), "--listener", f"PLAINTEXT://127.0.0.1:{port}"])
    service: Any = tap.makeService(options)
    reactor.addSystemEventTrigger("before", "shutdown", service.stopService)
    service.privilegedStartService()
    service.startService()
    reactor.startRunning(installSignalHandlers=False)
    broker = ReactorBroker(reactor, Session("127.0.0.1", port))
    try:
        broker.run(lambda: _wait(broker.session))
        yield broker
    finally:
        if reactor.running:
            reactor.stop()
        while reactor.running:
            reactor.iterate(POLL_SECONDS)


def _wait(session: Session) -> None:
    """Wait until the broker accepts connections."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            with session.connection():
                return
        except OSError as error:
            if time.monotonic() > deadline:
                raise BenchmarkError(f"the broker does not start within {START_SECONDS_MAX:.0f} s: {error}") from None
        time.sleep(POLL_SECONDS)
