"""Real sockets and real time under pytest: a coroutine, or a Deferred, is run on Twisted's reactor until it is done.

    metadata = run(lambda: producer.send("topic", b"value"), timeout=10)

The reactor is the global one, run in the main thread as trial does it: it is started for the work, and crashed, not
stopped, when the work is done, so that the next may start it again. What the work leaves behind on the reactor, a timer
or a socket, has a moment to go away by itself, is cleared then, and fails the run: a closed client leaves nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from twisted.internet import defer, error
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

T = TypeVar("T")

#: Default timeout in seconds.
LIMIT = 300.0
#: Seconds in which closed sockets must disappear; one or two iterations of the reactor.
LINGER = 2.0
#: An iteration counts for so much of them at most: a machine that stands still ends no connection.
ITERATION_SECONDS_MAX = 0.05
#: Who is cut off may try again, and would be found by every later test: so often it is cut off again.
CUTS = 10


class LeftBehind(AssertionError):
    """Timers or sockets were still there when the work was done."""


def run(work: Callable[[], Awaitable[T]], timeout: float = LIMIT) -> T:
    """Run `work()` on the reactor and return the result of its coroutine or Deferred; TimeoutError after `timeout`."""
    reactor = _reactor()
    before = set(_things(reactor))
    try:
        result = _until_done(reactor, work, timeout)
    except BaseException:
        _clear(reactor, before)
        raise
    finally:
        if reactor.threadpool is not None:  # as trial does it; its threads would keep the process from ending
            reactor._stopThreadPool()
    left = _clear(reactor, before)
    if left:
        raise LeftBehind(f"left on the reactor: {left}")
    return result


async def wait_for(condition: Callable[[], object], timeout: float = LIMIT, interval: float = 0.01) -> None:
    """Until the condition is true, looked at every few milliseconds; TimeoutError after `timeout`."""
    reactor = _reactor()
    deadline = reactor.seconds() + timeout
    while not condition():
        if reactor.seconds() > deadline:
            raise TimeoutError(f"not true within {timeout:g} s: {condition}")
        await sleep(interval)


def sleep(seconds: float) -> Deferred[None]:
    """Lets the reactor go on for so long: for what must not happen. To wait for what shall, there is `wait_for`."""
    waiting: Deferred[None] = Deferred(lambda _: timer.cancel())
    timer = _reactor().callLater(seconds, waiting.callback, None)
    return waiting


def _reactor() -> ReactorBase:
    from twisted.internet import reactor

    assert isinstance(reactor, ReactorBase)
    return reactor


def _until_done(reactor: ReactorBase, work: Callable[[], Awaitable[T]], timeout: float) -> T:
    outcome: list[T | Failure] = []

    def begin() -> None:
        started.addTimeout(timeout, reactor)
        started.addBoth(outcome.append).addBoth(lambda _: reactor.crash())

    async def call() -> T:
        return await work()

    starting: Deferred[None] = Deferred()
    started = defer.ensureDeferred(_after(starting, call))
    reactor.callWhenRunning(lambda: (begin(), starting.callback(None)))
    with _interruptible(reactor):
        reactor.run(installSignalHandlers=False)
    if not outcome:
        raise KeyboardInterrupt
    if not isinstance(outcome[0], Failure):
        return outcome[0]
    if outcome[0].check(defer.TimeoutError):
        raise TimeoutError(f"not done within {timeout:g} s") from outcome[0].value
    raise outcome[0].value


async def _after(starting: Deferred[None], call: Callable[[], Awaitable[T]]) -> T:
    await starting
    return await call()


@contextmanager
def _interruptible(reactor: ReactorBase) -> Iterator[None]:
    """The reactor swallows a KeyboardInterrupt: Ctrl-C crashes it, without an outcome."""
    before = signal.signal(signal.SIGINT, lambda *_: reactor.callFromThread(reactor.crash))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _things(reactor: ReactorBase) -> list[object]:
    return [*reactor.getDelayedCalls(), *reactor.getReaders(), *reactor.getWriters()]


def _clear(reactor: ReactorBase, before: set[object]) -> list[str]:
    """Wait until everything new is gone; cancel, close and return what stays."""

    def new() -> list[object]:
        return [thing for thing in _things(reactor) if thing not in before and thing not in reactor._internalReaders]

    waited = 0.0
    while new() and waited < LINGER:
        before_it = reactor.seconds()
        reactor.iterate(0.01)
        waited += min(reactor.seconds() - before_it, ITERATION_SECONDS_MAX)
    reported = [_name(thing) for thing in new()]
    for _ in range(CUTS):
        for thing in new():
            _remove(reactor, thing)
        reactor.iterate(0)
    return reported


def _name(thing: object) -> str:
    """Return what stays, without a call's arguments: the text of a whole broker takes minutes."""
    function = getattr(thing, "func", None)
    return str(thing) if function is None else getattr(function, "__qualname__", type(function).__name__)


def _remove(reactor: ReactorBase, thing: object) -> None:
    if hasattr(thing, "cancel"):
        thing.cancel()
        return
    reactor.removeReader(thing)
    reactor.removeWriter(thing)
    thing.connectionLost(Failure(error.ConnectionAborted()))
