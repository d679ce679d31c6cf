"""A reactor of its own in a thread, never the global one; other threads call it and wait."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from typing import Any, Final, TypeVar

from pylogbroker.client.sync.background import Pending, TimedOut, WrongThread, forward_log, new_reactor

T = TypeVar("T")

CALL_SECONDS: Final = 30.0
_JOIN_SECONDS: Final = 10.0


class ReactorThread:
    """Runs from `start` to `stop`."""

    def __init__(self) -> None:
        self.reactor: Any = new_reactor()
        self._thread = threading.Thread(target=self._run, name="pylogbroker test broker", daemon=True)

    def start(self) -> None:
        forward_log()
        started = threading.Event()
        self.reactor.callWhenRunning(started.set)
        self._thread.start()
        started.wait()

    def call(self, work: Callable[[], Awaitable[T]], what: str, timeout: float = CALL_SECONDS) -> T:
        """Run work on the reactor's thread and return its result; raise TimedOut, or its error."""
        if threading.get_ident() == self._thread.ident:
            raise WrongThread(f"{what}: called on the broker's own thread, which would wait for itself")
        pending: Pending[T] = Pending()
        self.reactor.callFromThread(pending.start, work)
        is_done = False
        try:
            is_done = bool(wait([pending.future], timeout).done)
        finally:  # also after Ctrl-C
            if not is_done:
                self.reactor.callFromThread(pending.cancel)
        if not is_done:
            raise TimedOut(f"{what}: not done within {timeout:g} s; it was cancelled")
        return pending.future.result()

    def stop(self) -> None:
        """Stop the reactor, and close what it holds open."""
        self.reactor.callFromThread(self.reactor.stop)
        self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive():
            raise TimedOut(f"the test broker's thread has not ended within {_JOIN_SECONDS:g} s")

    def _run(self) -> None:
        self.reactor.run(installSignalHandlers=False)
        _close(self.reactor)


def _close(reactor: Any) -> None:
    """Close the files of a stopped reactor: a process makes many of them."""
    for waker in tuple(reactor._internalReaders):
        reactor._internalReaders.discard(waker)
        reactor.removeReader(waker)
        waker.connectionLost(None)
    close = getattr(getattr(reactor, "_poller", None), "close", None)
    if close is not None:  # of epoll
        close()
