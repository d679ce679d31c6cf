"""Work that several callers may wait for, and that is done once.

    closing = Joint()
    done = closing.run(self._close)      # begins it, or waits with those who came before

To cancel what is returned ends the wait alone.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed


@attrs.define(eq=False)
class Joint:
    """One piece of work at a time, and who waits for its end."""

    _waiting: list[Deferred[None]] | None = None

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Deferred[None]:
        """Do the work, unless it is being done; fires or fails as that does."""
        if self._waiting is not None:
            return self._wait(self._waiting)
        waiting = self._waiting = []
        mine = self._wait(waiting)
        Deferred.fromCoroutine(work()).addBoth(self._end)
        return mine

    def over(self) -> Deferred[None]:
        """Fires when nothing is being done, however that ends."""
        if self._waiting is None:
            return succeed(None)
        return self._wait(self._waiting).addErrback(lambda _: None)

    def _wait(self, waiting: list[Deferred[None]]) -> Deferred[None]:
        mine: Deferred[None] = Deferred()
        waiting.append(mine)
        return mine

    def _end(self, result: Any) -> None:
        waiting, self._waiting = self._waiting or [], None
        for each in waiting:
            each.callback(result)
