"""Worker threads of the broker: a pool for blocking calls, one for reads from the disk, and one for logins.

Readers and logins run at a low priority (Linux has a niceness per thread). In pools of their own, consumers of old data
do not delay syncs and conversions. Neither do clients that send passwords, whose check takes milliseconds.

With a remote storage there are two more, for reads and for copies: a store that does not answer delays nothing else.
They have the reactor's priority. They hold the interpreter at times, and the reactor waits for it longer if another
process then takes the processor from them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from pylogbroker.broker.security.login_queue import LOGIN_THREADS
from pylogbroker.config import BrokerConfig
from pylogbroker.system import lower_thread_priority

NICENESS = 10

T = TypeVar("T")


class Threads:
    """Runs blocking calls in worker threads; before the reactor runs, in the caller's."""

    def __init__(self, reactor: Any, config: BrokerConfig) -> None:
        self._reactor = reactor
        self._config = config
        self._workers = _pool("workers", WorkerThread)
        self._readers = _pool("readers", NiceThread)
        self._logins = _pool("logins", NiceThread)
        has_archive = config.remote_log_storage_system_enable
        self._archive_readers = _pool("archive readers", WorkerThread) if has_archive else None
        self._archive_copiers = _pool("archive copiers", WorkerThread) if has_archive else None
        self._calls = 0  # running or queued
        self._idle: Deferred[None] | None = None
        self._resize()
        config.observe(lambda changed: self._resize())

    def in_thread(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        return self._call(self._workers, function, *arguments)

    def in_reading_thread(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        return self._call(self._readers, function, *arguments)

    def in_login_thread(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        return self._call(self._logins, function, *arguments)

    def in_archive_reading_thread(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        return self._call(self._archive_readers or self._readers, function, *arguments)

    def in_archive_copying_thread(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        return self._call(self._archive_copiers or self._workers, function, *arguments)

    @property
    def is_busy(self) -> bool:
        """True if calls run or wait."""
        return self._calls > 0

    async def wait_until_idle(self) -> None:
        while self._calls and self._reactor.running:
            self._idle = Deferred()
            await self._idle

    async def stop(self) -> None:
        await self.wait_until_idle()
        self._workers.stop()
        self._readers.stop()
        self._logins.stop()
        for pool in (self._archive_readers, self._archive_copiers):
            if pool is not None:
                pool.stop()

    def _call(self, pool: ThreadPool, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        if not self._reactor.running:
            return maybeDeferred(function, *arguments)
        self._calls += 1
        return deferToThreadPool(self._reactor, pool, function, *arguments).addBoth(self._returned)

    def _returned(self, result: Any) -> Any:
        self._calls -= 1
        if not self._calls and self._idle is not None:
            idle, self._idle = self._idle, None
            self._reactor.callLater(0, idle.callback, None)  # the result may cause another call at once
        return result

    def _resize(self) -> None:
        number = self._config.integer
        cleaners = number("log.cleaner.threads")  # a thread waits for each
        self._workers.adjustPoolsize(0, number("background.threads") + cleaners)
        self._readers.adjustPoolsize(0, number("num.io.threads"))
        self._logins.adjustPoolsize(0, LOGIN_THREADS)
        if self._archive_readers is not None:
            self._archive_readers.adjustPoolsize(0, number("remote.log.reader.threads"))
        if self._archive_copiers is not None:
            self._archive_copiers.adjustPoolsize(0, number("remote.log.manager.copier.thread.pool.size"))


class WorkerThread(threading.Thread):
    """A program can exit without stopping its broker."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, daemon=True, **named)


class NiceThread(WorkerThread):
    def run(self) -> None:
        lower_thread_priority(NICENESS)
        super().run()


def _pool(name: str, thread: type[threading.Thread]) -> ThreadPool:
    pool = ThreadPool(0, 1, name)
    pool.threadFactory = thread
    pool.start()
    return pool
