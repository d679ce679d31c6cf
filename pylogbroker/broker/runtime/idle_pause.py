"""Pause of a loop without work, until there is some."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred


@attrs.define(eq=False, repr=False)
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
