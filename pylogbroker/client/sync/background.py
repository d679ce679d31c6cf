"""A reactor in a background thread, and calls to it from other threads.

A process has one such reactor, a forked child its own (decision 0020). Daemon threads let a program end. Log lines go
to Python's `logging`, silent until configured.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import ILogObserver, LogEvent, STDLibLogObserver, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import provider

from pylogbroker.errors import PylogbrokerError
from pylogbroker.features import on_first_use
from pylogbroker.system import HAS_EPOLL

if TYPE_CHECKING:
    from twisted.internet import epollreactor, pollreactor
else:
    epollreactor = on_first_use("twisted.internet.epollreactor")
    pollreactor = on_first_use("twisted.internet.pollreactor")

T = TypeVar("T")
_PACKAGE = "pylogbroker"

#: for closing open objects
EXIT_TIMEOUT_SECONDS = 10.0


class TimedOut(PylogbrokerError, TimeoutError):
    """A call did not end within its timeout; the text says what becomes of the work."""


class WrongThread(PylogbrokerError):
    """A blocking call on the reactor's own thread would wait for ever."""


class OtherProcess(PylogbrokerError):
    """A client made before a fork was used in the child."""


@attrs.define(eq=False, repr=False)
class Pending(Generic[T]):
    """Future for any thread, and Deferred for the reactor thread only."""

    future: Future[T] = attrs.field(factory=Future)
    deferred: Deferred[T] | None = None

    def start(self, work: Callable[[], Awaitable[T]]) -> None:
        """Start on the reactor thread, once."""
        if self.deferred is None:
            self.deferred = ensureDeferred(_awaiting(work))
            self.deferred.addCallbacks(self.future.set_result, self._fail)

    def cancel(self) -> None:
        """Cancel on the reactor thread."""
        if self.deferred is not None:
            self.deferred.cancel()

    def _fail(self, failure: Failure) -> None:
        self.future.set_exception(failure.value)


async def _awaiting(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


class Background:
    def __init__(self) -> None:
        forward_log()
        self.reactor: ReactorBase = new_reactor()
        self._closers: dict[int, Callable[[], Awaitable[object]]] = {}
        self._stopped = False
        started = threading.Event()
        self.reactor.callWhenRunning(started.set)
        self._thread = threading.Thread(target=self._run, name="pylogbroker reactor", daemon=True)
        self._thread.start()
        started.wait()
        _stop_with_worker(self.stop)

    def begin(self, work: Callable[[], Awaitable[T]]) -> Pending[T]:
        """Start work on the reactor thread; thread-safe."""
        pending: Pending[T] = Pending()
        self.start(pending, work)
        return pending

    def start(self, pending: Pending[T], work: Callable[[], Awaitable[T]]) -> None:
        """Like `begin`, for a caller who keeps `pending` and may repeat the call after Ctrl-C."""
        self.reactor.callFromThread(pending.start, work)

    def call(self, work: Callable[[], Awaitable[T]], timeout: float | None, what: str, keep: bool = False) -> T:
        """Return the result, or raise `TimedOut`. Unless `keep`, that and Ctrl-C cancel the work."""
        self.check(what)
        pending: Pending[T] = Pending()
        try:
            self.start(pending, work)  # Ctrl-C may come from here on
            return self.wait(pending, timeout, what, "it goes on" if keep else "it was cancelled")
        except BaseException:
            if not keep and not pending.future.done():
                self.reactor.callFromThread(pending.cancel)
            raise

    def wait(self, pending: Pending[T], timeout: float | None, what: str, fate: str = "it goes on") -> T:
        """Return the result of started work, or raise `TimedOut`, whose text ends with `fate`."""
        wait([pending.future], timeout)
        if not pending.future.done():
            raise TimedOut(f"{what}: not done within {timeout:g} s; {fate}")
        return pending.future.result()

    def check(self, what: str) -> None:
        """Raise OtherProcess or WrongThread if waiting would never end."""
        if self is not _process.background:
            raise OtherProcess(f"{what}: made before a fork and unusable in the child; make a new one in the child")
        if threading.get_ident() == self._thread.ident:
            raise WrongThread(f"{what}: called on the reactor thread; use pylogbroker.client instead of `sync` there")

    def at_exit(self, owner: object, close: Callable[[], Awaitable[object]]) -> None:
        """Call `close` before the program ends; on the reactor thread."""
        self._closers[id(owner)] = close

    def forget(self, owner: object) -> None:
        """Unregister, on the reactor thread."""
        self._closers.pop(id(owner), None)

    def stop(self) -> None:
        """Close registered objects and the reactor. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        closing = [self.begin(close).future for close in list(self._closers.values())]
        done, late = wait(closing, EXIT_TIMEOUT_SECONDS + 1)
        problems = [str(error) for future in done if (error := future.exception()) is not None]
        if late:
            problems.append(f"some clients could not be closed within {EXIT_TIMEOUT_SECONDS + 1:g} s")
        for problem in problems:
            print(f"pylogbroker: {problem}", file=sys.stderr)
        self.reactor.callFromThread(self.reactor.stop)
        self._thread.join(EXIT_TIMEOUT_SECONDS)

    def _run(self) -> None:
        self.reactor.run(installSignalHandlers=False)


def new_reactor() -> ReactorBase:
    """Return a reactor that is not the global one."""
    if HAS_EPOLL:
        return epollreactor.EPollReactor()
    return pollreactor.PollReactor()


@cache
def forward_log() -> None:
    """Forward the log to Python's `logging`, once."""
    logging.getLogger(_PACKAGE).addHandler(logging.NullHandler())
    globalLogPublisher.addObserver(_forward)


@provider(ILogObserver)
def _forward(event: LogEvent) -> None:
    namespace = event.get("log_namespace", "")
    if namespace == _PACKAGE or namespace.startswith(f"{_PACKAGE}."):
        _observer(namespace)(event)


@cache
def _observer(namespace: str) -> ILogObserver:
    return STDLibLogObserver(namespace)


def _stop_with_worker(stop: Callable[[], None]) -> None:
    """Call `stop` at the end of a forked multiprocessing worker, which skips `atexit`."""
    process, util = (sys.modules.get(f"multiprocessing.{name}") for name in ("process", "util"))
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, stop, exitpriority=10)


class _Process:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.background: Background | None = None


_process = _Process()


def running() -> Background:
    with _process.lock:
        if _process.background is None:
            _process.background = Background()
        return _process.background


def _reset_after_fork() -> None:
    # The parent's thread does not exist in the child; its lock may be held.
    global _process
    _process = _Process()


def _end() -> None:
    if _process.background is not None:
        _process.background.stop()


os.register_at_fork(after_in_child=_reset_after_fork)
atexit.register(_end)
