"""The threads that do what would hold up the reactor's: Twisted's own pool, and one for reading from the disk.

Readers wait for the disk and hardly need a processor.  What they do need, in the kernel, they take from nobody: their
threads are nicer than the others (Linux knows a niceness for each thread).  With a pool of their own, consumers that
read old data keep neither syncs nor conversions waiting.
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
    """Both pools, in the sizes that the settings say; until the reactor runs, everything is done at once."""

    def __init__(self, reactor: Any, config: BrokerConfig) -> None:
        self._reactor = reactor
        self._config = config
        self._readers = ThreadPool(0, config.integer("num.io.threads"), "readers")
        self._readers.threadFactory = NiceThread
        self._readers.start()
        self._resize()
        config.observe(lambda changed: self._resize())

    def in_thread(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        """The result of a blocking call, made in a worker thread."""
        return self._call(self._reactor.getThreadPool, function, *arguments)

    def in_reading_thread(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        """The result of a call that waits for the disk, made in a thread that gives way to all others."""
        return self._call(lambda: self._readers, function, *arguments)

    def stop(self) -> None:
        """End the readers' threads; Twisted ends its own.  Blocks until what they read is there."""
        self._readers.stop()

    def _call(self, pool: Callable[[], ThreadPool], function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        if self._reactor.running:
            return deferToThreadPool(self._reactor, pool(), function, *arguments)
        return maybeDeferred(function, *arguments)

    def _resize(self) -> None:
        number = self._config.integer
        cleaners = number("log.cleaner.threads")  # a thread waits for each
        self._reactor.suggestThreadPoolSize(number("background.threads") + cleaners)
        self._readers.adjustPoolsize(0, number("num.io.threads"))


class NiceThread(threading.Thread):
    """A thread that gets a processor when others leave it one."""

    def run(self) -> None:
        """Become nice, and work."""
        with suppress(OSError):  # it is nice enough, then
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), READER_NICENESS)
        super().run()
