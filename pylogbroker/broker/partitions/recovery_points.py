"""Recovery points that are lowered before logs are cut: one write of the checkpoints serves all logs that wait.

idle --lowered--> writing --done--> idle
                   |  ^ lowered meanwhile: one more write for all of these
                   +--+

After a loss of power, the next start would trust what was written in place of synced records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.storage import Log


@attrs.define(eq=False, repr=False)
class RecoveryPointWrites:
    """`_save` writes the recovery points of all logs; it blocks, and reports failures at a later checkpoint."""

    _in_thread: InThread
    _save: Callable[[], object]
    _waiting: list[Deferred[None]] = attrs.field(factory=list, init=False)
    _is_writing: bool = attrs.field(default=False, init=False)

    def lower(self, log: Log, offset: int) -> Deferred[None]:
        """Lower a recovery point to an offset; fire when it is written, at once if it was not higher."""
        is_lowered = log.lower_recovery_point(offset)
        if not is_lowered and not self._is_writing:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        if not self._is_writing:
            self._write()
        return done

    def _write(self) -> None:
        self._is_writing = True
        served, self._waiting = self._waiting, []
        self._in_thread(self._save).addBoth(self._written, served)

    def _written(self, result: Any, served: list[Deferred[None]]) -> None:
        if self._waiting:
            self._write()
        else:
            self._is_writing = False
        for done in served:
            if isinstance(result, Failure):
                done.errback(result)
            else:
                done.callback(None)
