"""Group commit: all appends to a log that wait for the disk share an fsync.

idle --wanted--> running --done--> idle
                  |  ^ wanted meanwhile: one more run for all of these
                  +--+
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.errors import StorageFailure
from pylogbroker.storage import Log


def _ignore(log: Log, failure: StorageFailure) -> None:
    """Leave failures to the callers."""


@attrs.define
class GroupCommit:
    """Runs `Log.sync` in worker threads, one at a time for each log; reports failing disks."""

    _in_thread: InThread
    _on_failure: Callable[[Log, StorageFailure], None] = _ignore
    _next: dict[Log, list[Deferred[None]]] = attrs.field(factory=dict, init=False)

    def sync(self, log: Log) -> Deferred[None]:
        """Fire when the log is synced up to its present end, or fail with StorageFailure."""
        done: Deferred[None] = Deferred()
        waiting = self._next.get(log)
        if waiting is not None:
            waiting.append(done)
        else:
            self._next[log] = [done]
            self._run(log)
        return done

    def _run(self, log: Log) -> None:
        served, self._next[log] = self._next[log], []
        self._in_thread(log.sync).addBoth(self._finished, log, served)

    def _finished(self, result: Any, log: Log, served: list[Deferred[None]]) -> None:
        if self._next[log]:
            self._run(log)
        else:
            del self._next[log]
        for done in served:
            if isinstance(result, Failure):
                done.errback(result)
            else:
                done.callback(None)
        if isinstance(result, Failure) and isinstance(result.value, StorageFailure):
            self._on_failure(log, result.value)
