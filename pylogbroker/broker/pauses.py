"""Pauses of loops: between attempts, until the loop is no longer wanted, and without work, until there is some."""

from __future__ import annotations

from contextlib import suppress

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater


@attrs.define(eq=False)
class RetryPauses:
    _clock: IReactorTime
    has_ended: bool = attrs.field(default=False, init=False)
    _pausing: dict[Deferred[None], None] = attrs.field(factory=dict, init=False)

    async def pause(self, seconds: float) -> None:
        """Return after some seconds, or as soon as `end` is called."""
        if self.has_ended:
            return
        pausing: Deferred[None] = deferLater(self._clock, seconds)
        self._pausing[pausing] = None
        try:
            with suppress(CancelledError):
                await pausing
        finally:
            self._pausing.pop(pausing, None)

    def end(self) -> None:
        """End the pauses, also later ones: the caller of `pause` looks at `has_ended`."""
        self.has_ended = True
        for pausing in tuple(self._pausing):
            pausing.cancel()


@attrs.define(eq=False)
class IdlePause:
    """Pause of one loop that has no work, until `wake`."""

    _pausing: Deferred[None] | None = attrs.field(default=None, init=False)

    async def until_woken(self) -> None:
        self._pausing = Deferred()
        await self._pausing

    def wake(self) -> None:
        """Let the loop go on; without effect while it works, so the loop looks for work before it pauses."""
        pausing, self._pausing = self._pausing, None
        if pausing is not None:
            pausing.callback(None)
