"""The broker's own worker threads: a pool for blocking calls, and one for reading from the disk.

Readers wait for the disk and hardly need a processor.  What they do need, in the kernel, they take from nobody: their
threads are nicer than the others (Linux knows a niceness for each thread).  With a pool of their own, consumers that
read old data keep neither syncs nor conversions waiting.

The threads are daemons, so that a program that ends without stopping its broker does end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from pylogbroker.config import BrokerConfig

READER_NICENESS = 10

T = TypeVar("T")


class Threads:
    """Both pools, in the sizes that the settings say; until the reactor runs, every call is made at once."""

    def __init__(self, reactor: Any, config: BrokerConfig) -> None:
        self._reactor = reactor
        self._config = config
        self._workers = _pool("workers", WorkerThread)
        self._readers = _pool("readers", NiceThread)
        self._calls = 0  # under way
        self._idle: Deferred[None] | None = None
        self._resize()
        config.observe(lambda changed: self._resize())

    def in_thread(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        """The result of a blocking call, made in a worker thread."""
        return self._call(self._workers, function, *arguments)

    def in_reading_thread(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        """The result of a call that waits for the disk, made in a thread that gives way to all others."""
        return self._call(self._readers, function, *arguments)

    async def wait_until_idle(self) -> None:
        """Wait until no call is under way."""
        while self._calls and self._reactor.running:
            self._idle = Deferred()
            await self._idle

    async def stop(self) -> None:
        """End all threads, after the calls that are under way."""
        await self.wait_until_idle()
        self._workers.stop()
        self._readers.stop()

    def _call(self, pool: ThreadPool, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        if not self._reactor.running:
            return maybeDeferred(function, *arguments)
        self._calls += 1
        return deferToThreadPool(self._reactor, pool, function, *arguments).addBoth(self._returned)

    def _returned(self, result: Any) -> Any:
        self._calls -= 1
        if not self._calls and self._idle is not None:
            idle, self._idle = self._idle, None
            self._reactor.callLater(0, idle.callback, None)  # the result may lead to another call at once
        return result

    def _resize(self) -> None:
        number = self._config.integer
        cleaners = number("log.cleaner.threads")  # a thread waits for each
        self._workers.adjustPoolsize(0, number("background.threads") + cleaners)
        self._readers.adjustPoolsize(0, number("num.io.threads"))


class WorkerThread(threading.Thread):
    """A thread that does not keep the process from ending."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, daemon=True, **named)


class NiceThread(WorkerThread):
    """A thread that gets a processor when others leave it one."""

    def run(self) -> None:
        """Become nice, and work."""
        with suppress(OSError):  # it is nice enough, then
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), READER_NICENESS)
        super().run()


def _pool(name: str, thread: type[threading.Thread]) -> ThreadPool:
    pool = ThreadPool(0, 1, name)
    pool.threadFactory = thread
    pool.start()
    return pool
