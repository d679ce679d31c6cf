"""Wait for a change in a coordination tree, or for a deadline."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from pylogbroker.interfaces import Changed


@attrs.define(eq=False, repr=False)
class AwaitedChange:
    """A watch, for one node or several: the first change ends the wait."""

    _waiting: Deferred[None] = attrs.field(factory=Deferred, init=False)

    def __call__(self, change: Changed | None = None) -> None:
        if not self._waiting.called:
            self._waiting.callback(None)

    async def wait(self, clock: IReactorTime, deadline: float) -> None:
        """Return after a change, or when the clock shows `deadline`, in seconds."""
        timer = clock.callLater(max(0.0, deadline - clock.seconds()), self)
        try:
            await self._waiting
        finally:
            if timer.active():
                timer.cancel()
