"""Pause of a loop without work, until there is some."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime


@attrs.define(eq=False, repr=False)
class IdlePause:
    """Pause of one loop that has no work, until `wake`."""

    _pausing: Deferred[None] | None = attrs.field(default=None, init=False)

    async def until_woken(self) -> None:
        self._pausing = Deferred()
        await self._pausing

    async def for_seconds(self, clock: IReactorTime, seconds: float) -> None:
        """Pause until `wake`, or for so long."""
        timer = clock.callLater(max(seconds, 0.0), self.wake)
        await self.until_woken()
        if timer.active():
            timer.cancel()

    def wake(self) -> None:
        """Let the loop go on; without effect while it works, so the loop looks for work before it pauses."""
        pausing, self._pausing = self._pausing, None
        if pausing is not None:
            pausing.callback(None)
