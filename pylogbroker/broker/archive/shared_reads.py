"""Reads from the remote storage that several fetches wait for.

A fetch waits for a limited time. When it is over, the read goes on, and the consumer's next fetch waits for the same
one: a slow store is not asked twice, and each read makes progress.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from typing import Any

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure


@attrs.define(eq=False, repr=False)
class SharedReads:
    """Reads of all partitions. Beyond `limit` no more begin; who waits then gets None."""

    _clock: IReactorTime
    limit: Callable[[], int]
    _waiting: dict[Hashable, list[Deferred[Any]]] = attrs.field(factory=dict, init=False)
    _beyond_limit: set[Deferred[Any]] = attrs.field(factory=set, init=False)  # they wait for the end of their time

    @property
    def count(self) -> int:
        return len(self._waiting)

    def wait(
        self, key: Hashable, seconds: float, begin: Callable[[], Coroutine[Deferred[Any], Any, Any]]
    ) -> Deferred[Any]:
        """Return a Deferred of the result of a read, or None when the time is over. It may be cancelled."""
        waiter: Deferred[Any] = Deferred()
        timer = self._clock.callLater(seconds, _end_wait, waiter)
        others = self._waiting.get(key)
        if others is not None:
            others.append(waiter)
        elif len(self._waiting) < self.limit():
            self._waiting[key] = [waiter]
            ensureDeferred(begin()).addBoth(self._finish, key)
        else:
            self._beyond_limit.add(waiter)

        def end(result: Any) -> Any:
            self._beyond_limit.discard(waiter)
            if timer.active():
                timer.cancel()
            return result

        return waiter.addBoth(end)

    def stop(self) -> None:
        """End the waits for reads that did not begin. The others end with their reads."""
        for waiter in tuple(self._beyond_limit):
            _end_wait(waiter)

    def _finish(self, result: Any, key: Hashable) -> None:
        for waiter in self._waiting.pop(key):
            if waiter.called:
                continue
            if isinstance(result, Failure):
                waiter.errback(result)
            else:
                waiter.callback(result)


def _end_wait(waiter: Deferred[Any]) -> None:
    if not waiter.called:
        waiter.callback(None)
