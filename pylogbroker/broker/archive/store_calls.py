"""Calls of the remote storage in worker threads.

A change or a listing counts only if the mark of the cluster's store is there afterwards. What a mount point has without
its file system is no archive, and a copy there is none.

Coroutines of the archive wait for such calls, for the quota of reads (`limits.ReadLimits`), or for a lock of another
coroutine that waits for these. A stop fails all calls and quotas, those of later on, too: so no coroutine is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import attrs
from twisted.internet.defer import Deferred, fail

from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.storage.remote.checked_store import MissingObject, StoreFailure
from pylogbroker.storage.remote.store_marker import StoreMarker

T = TypeVar("T")


class ArchiveStopped(KafkaError):
    """The broker stops: the remote storage is not waited for any more."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self) -> None:
        super().__init__("the broker stops")


class HealthNotes(Protocol):
    def note_success(self) -> None: ...
    def note_failure(self, why: StoreFailure, /) -> None: ...


@attrs.define(eq=False, repr=False)
class StoreCalls:
    """Runs calls of the store, and notes whether it works."""

    _in_reading_thread: InThread
    _in_copying_thread: InThread
    _health: HealthNotes
    _marker: StoreMarker
    _pending: set[Deferred[Any]] = attrs.field(factory=set, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)

    @property
    def count(self) -> int:
        """Number of calls that coroutines wait for."""
        return len(self._pending)

    async def read(self, call: Callable[..., T], *arguments: object) -> T:
        """Return the result of a call that reads objects. Raise StoreFailure, or ArchiveStopped."""
        return await self._noted(self._in_reading_thread, call, *arguments)

    async def list(self, call: Callable[..., T], *arguments: object) -> T:
        """Return the result of a call that lists objects. Raise StoreFailure, or ArchiveStopped."""
        return await self._noted(self._in_reading_thread, self._marked, call, *arguments)

    async def write(self, call: Callable[..., T], *arguments: object) -> T:
        """Return the result of a call that copies or deletes. Raise StoreFailure, or ArchiveStopped."""
        return await self._noted(self._in_copying_thread, self._change, call, *arguments)

    def stop(self) -> None:
        """Fail all calls. Their threads may run on, and nobody gets their results."""
        self._is_stopped = True
        for waiter in tuple(self._pending):
            waiter.errback(ArchiveStopped())

    async def _noted(self, in_thread: InThread, call: Callable[..., T], *arguments: object) -> T:
        try:
            result: T = await self._result(in_thread, call, *arguments)
        except MissingObject:
            raise
        except StoreFailure as failure:
            self._health.note_failure(failure)
            raise
        self._health.note_success()
        return result

    def _change(self, call: Callable[..., T], *arguments: object) -> T:
        self._marker.check()
        return self._marked(call, *arguments)

    def _marked(self, call: Callable[..., T], *arguments: object) -> T:
        result = call(*arguments)
        self._marker.check()
        return result

    def _result(self, in_thread: InThread, call: Callable[..., T], *arguments: object) -> Deferred[T]:
        if self._is_stopped:
            return fail(ArchiveStopped())
        waiter: Deferred[T] = Deferred()
        self._pending.add(waiter)
        waiter.addBoth(self._forget, waiter)
        in_thread(call, *arguments).addBoth(_pass, waiter)
        return waiter

    def _forget(self, result: Any, waiter: Deferred[Any]) -> Any:
        self._pending.discard(waiter)
        return result


def _pass(result: Any, waiter: Deferred[Any]) -> None:
    """Give the result of a thread, or its Failure, to the coroutine that waits, unless it has been stopped."""
    if not waiter.called:
        waiter.callback(result)
