"""A reactor in a background thread, and how other threads have work done there.

    background = running()                                       # started when it is first asked for
    metadata = background.call(work, timeout=30, what="...")     # waits for the Deferred or coroutine of `work()`
    future = background.begin(work).future                       # does not wait

One reactor serves all of a process. It is not the global `twisted.internet.reactor`, which cannot be started a second
time and may belong to somebody else: a Twisted program, a notebook's event loop, a test runner. So

- a child of `fork` starts a reactor of its own when it first asks for one; its parent's is of no use to it;
- Ctrl-C reaches the waiting thread, never the reactor: the wait ends, and the work is cancelled unless told otherwise;
- any number of threads may wait at once, but not the reactor's, whose work nobody would do meanwhile.

The thread is a daemon, and so are those of its pool: they do not keep a program from ending. `at_exit` says what shall
be closed before that.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

import attrs
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from pylogbroker.client.sync.python_logging import forward_log
from pylogbroker.errors import PylogbrokerError

T = TypeVar("T")

#: Seconds that a program waits in the end for what is still open.
LAST_SECONDS = 10.0


class TimedOut(PylogbrokerError, TimeoutError):
    """A call did not end within its timeout; the text says which, and what becomes of it."""


class WrongThread(PylogbrokerError):
    """A call that waits, made on the reactor's own thread, where it would wait for ever."""


class OtherProcess(PylogbrokerError):
    """A client was made before a fork, and used in the child."""


@attrs.define(eq=False)
class Pending(Generic[T]):
    """Work under way: a future that any thread may wait for, and the Deferred, which is the reactor thread's."""

    future: Future[T] = attrs.field(factory=Future)
    deferred: Deferred[T] | None = None

    def start(self, work: Callable[[], Awaitable[T]]) -> None:
        """On the reactor's thread."""
        self.deferred = ensureDeferred(_awaiting(work))
        self.deferred.addCallbacks(self.future.set_result, self._fail)

    def cancel(self) -> None:
        """On the reactor's thread."""
        if self.deferred is not None:
            self.deferred.cancel()

    def _fail(self, failure: Failure) -> None:
        self.future.set_exception(failure.value)


async def _awaiting(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


class Background:
    """A running reactor and its thread."""

    def __init__(self) -> None:
        forward_log()
        self.reactor = _new_reactor()
        self._closers: dict[int, Callable[[], Awaitable[object]]] = {}
        self._stopped = False
        started = threading.Event()
        self.reactor.callWhenRunning(started.set)
        self._thread = threading.Thread(target=self._run, name="pylogbroker reactor", daemon=True)
        self._thread.start()
        started.wait()
        _stop_with_worker(self.stop)

    def begin(self, work: Callable[[], Awaitable[T]]) -> Pending[T]:
        """Starts work on the reactor's thread; from any thread."""
        pending: Pending[T] = Pending()
        self.reactor.callFromThread(pending.start, work)
        return pending

    def call(self, work: Callable[[], Awaitable[T]], timeout: float | None, what: str, keep: bool = False) -> T:
        """What the work gives, or `TimedOut`. What is not waited for any more is cancelled, unless it is to be kept."""
        self.check(what)
        return self.wait(self.begin(work), timeout, what, keep)

    def wait(self, pending: Pending[T], timeout: float | None, what: str, keep: bool = False) -> T:
        """What work that was begun gives; otherwise like `call`."""
        try:
            wait([pending.future], timeout)
        except BaseException:
            self._give_up(pending, keep)
            raise
        if not pending.future.done():
            self._give_up(pending, keep)
            fate = "it goes on" if keep else "it was given up"
            raise TimedOut(f"{what}: not done within {timeout:g} s; {fate}")
        return pending.future.result()

    def check(self, what: str) -> None:
        """Raises if whoever waits here would do so for ever."""
        if self is not _process.background:
            raise OtherProcess(f"{what}: made before a fork, and of no use in the child; make a new one there")
        if threading.get_ident() == self._thread.ident:
            raise WrongThread(f"{what}: called on the reactor's own thread; use the client without `sync` there")

    def at_exit(self, owner: object, close: Callable[[], Awaitable[object]]) -> None:
        """What to do about `owner` before the program ends; on the reactor's thread."""
        self._closers[id(owner)] = close

    def forget(self, owner: object) -> None:
        """It was closed; on the reactor's thread."""
        self._closers.pop(id(owner), None)

    def stop(self) -> None:
        """Closes what is open, stops the reactor and joins its thread: the end of the program. Again is no error."""
        if self._stopped:
            return
        self._stopped = True
        closing = [self.begin(close).future for close in list(self._closers.values())]
        done, late = wait(closing, LAST_SECONDS + 1)
        complaints = [str(error) for each in done if (error := each.exception()) is not None]
        if late:
            complaints.append(f"not everything could be closed within {LAST_SECONDS + 1:g} s")
        for complaint in complaints:
            print(f"pylogbroker: {complaint}", file=sys.stderr)
        self.reactor.callFromThread(self.reactor.stop)
        self._thread.join(LAST_SECONDS)

    def _give_up(self, pending: Pending[T], keep: bool) -> None:
        if not keep:
            self.reactor.callFromThread(pending.cancel)

    def _run(self) -> None:
        self.reactor.run(installSignalHandlers=False)


def _new_reactor() -> ReactorBase:
    if sys.platform == "linux":
        from twisted.internet.epollreactor import EPollReactor

        return EPollReactor()
    from twisted.internet.selectreactor import SelectReactor

    return SelectReactor()


def _stop_with_worker(stop: Callable[[], None]) -> None:
    """A forked worker of multiprocessing ends without `atexit`, but not without this."""
    process, util = (sys.modules.get(f"multiprocessing.{name}") for name in ("process", "util"))
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, stop, exitpriority=10)


class _Process:
    """The background of this process, once there is one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.background: Background | None = None


_process = _Process()


def running() -> Background:
    """This process's background, started if it is not there yet."""
    with _process.lock:
        if _process.background is None:
            _process.background = Background()
        return _process.background


def _start_anew() -> None:
    # the parent's thread is not in the child, and its lock may have been held
    global _process
    _process = _Process()


def _end() -> None:
    if _process.background is not None:
        _process.background.stop()


os.register_at_fork(after_in_child=_start_anew)
atexit.register(_end)
