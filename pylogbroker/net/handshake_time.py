"""Time for handshakes of TLS in one iteration of the reactor, so that other connections do not wait for many of them.

A handshake costs up to a millisecond, and clients that are not authenticated choose when they send it. Connections
beyond the time wait in a queue, and their bytes in the kernel. Each iteration reads some of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, Protocol

import attrs
from twisted.internet.interfaces import IReactorTime

HANDSHAKE_SECONDS: Final = 0.0005
RESUMED_MAX: Final = 4
"""Connections of the queue that are read in one iteration; those for which there is no time wait again."""


class Handshaking(Protocol):
    @property
    def connected(self) -> Any: ...
    def stopReading(self) -> None: ...
    def startReading(self) -> None: ...


@attrs.define(eq=False)
class HandshakeTime:
    _clock: IReactorTime
    _now: Callable[[], float] = perf_counter
    _left: float = attrs.field(default=HANDSHAKE_SECONDS, init=False)
    _waiting: deque[Handshaking] = attrs.field(factory=deque, init=False)
    _is_scheduled: bool = attrs.field(default=False, init=False)

    def run(self, connection: Handshaking, step: Callable[[], Any]) -> Any:
        """Run a step of a handshake, and return its result; if this iteration's time is used up, read later."""
        if self._left <= 0:
            connection.stopReading()
            self._waiting.append(connection)
            return None
        self._schedule()
        began = self._now()
        result = step()
        self._left -= self._now() - began
        return result

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.callLater(0, self._begin)

    def _begin(self) -> None:
        """Begin an iteration of the reactor."""
        self._is_scheduled = False
        self._left = HANDSHAKE_SECONDS
        for _ in range(min(len(self._waiting), RESUMED_MAX)):
            connection = self._waiting.popleft()
            if connection.connected:
                connection.startReading()
        if self._waiting:
            self._schedule()
