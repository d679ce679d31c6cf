"""Single flight: work that runs once for all concurrent callers.

Cancelling a returned Deferred ends only that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed


@attrs.define(eq=False, repr=False)
class SingleFlight:
    _waiting: list[Deferred[None]] | None = None

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Deferred[None]:
        if self._waiting is not None:
            return self._wait(self._waiting)
        waiting = self._waiting = []
        mine = self._wait(waiting)
        Deferred.fromCoroutine(work()).addBoth(self._end)
        return mine

    def over(self) -> Deferred[None]:
        """Fire when no work is in progress; ignore its outcome."""
        if self._waiting is None:
            return succeed(None)
        return self._wait(self._waiting).addErrback(lambda _: None)

    def _wait(self, waiting: list[Deferred[None]]) -> Deferred[None]:
        mine: Deferred[None] = Deferred()
        waiting.append(mine)
        return mine

    def _end(self, result: Any) -> None:
        waiting, self._waiting = self._waiting or [], None
        for waiter in waiting:
            waiter.callback(result)
