"""Time for handshakes of TLS in one iteration of the reactor, so that other connections do not wait for many of them.

A handshake costs up to a millisecond, and clients that are not authenticated choose when they send it. Connections
beyond the time are read in a later iteration: their bytes wait in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import attrs
from twisted.internet.interfaces import IReactorTime

HANDSHAKE_SECONDS: Final = 0.0005


@attrs.define(eq=False)
class HandshakeTime:
    _clock: IReactorTime
    _now: Callable[[], float] = perf_counter
    _left: float = attrs.field(default=HANDSHAKE_SECONDS, init=False)

    def run(self, step: Callable[[], Any]) -> Any:
        """Run a step of a handshake, and return its result; do nothing if this iteration's time is used up."""
        if self._left <= 0:
            return None
        if self._left == HANDSHAKE_SECONDS:
            self._clock.callLater(0, self._begin)
        began = self._now()
        result = step()
        self._left -= self._now() - began
        return result

    def _begin(self) -> None:
        self._left = HANDSHAKE_SECONDS
