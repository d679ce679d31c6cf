"""Bodies of requests that are handled while they arrive.

    OPEN --end--> ENDED        all pieces have arrived
    OPEN --close--> CLOSED     the answer is complete before the body is: the rest is dropped

The connection is paused while pieces wait that nobody takes, so a sender is as fast as the work on its pieces.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred

WAITING_BYTES_MAX: Final = 128 * 1024
"""Bytes of a body that wait, but for one read of the connection; with more, the connection is paused."""


class BodyState(Enum):
    OPEN = auto()
    ENDED = auto()
    CLOSED = auto()


@attrs.define(eq=False, repr=False)
class StreamedBody:
    """Pieces of a body in their order. One coroutine takes them."""

    _transport: Any
    """Transport of the connection."""
    state: BodyState = attrs.field(default=BodyState.OPEN, init=False)
    received: int = attrs.field(default=0, init=False)
    _pieces: deque[bytes] = attrs.field(factory=deque, init=False)
    _size: int = attrs.field(default=0, init=False)
    _is_paused: bool = attrs.field(default=False, init=False)
    _arrival: Deferred[None] = attrs.field(factory=Deferred, init=False)

    @property
    def is_at_hand(self) -> bool:
        """True if `take` does not wait."""
        return bool(self._pieces) or self.state is not BodyState.OPEN

    def add(self, data: bytes) -> None:
        if self.state is not BodyState.OPEN or not data:
            return
        self._pieces.append(data)
        self._size += len(data)
        self.received += len(data)
        if self._size > WAITING_BYTES_MAX:
            self._is_paused = True
            self._transport.pauseProducing()  # again if the connection has resumed by itself
        self._arrived()

    def end(self) -> None:
        if self.state is BodyState.OPEN:
            self.state = BodyState.ENDED
            self._arrived()

    def close(self) -> None:
        """Drop what waits and what comes."""
        self.state = BodyState.CLOSED
        self._pieces.clear()
        self._size = 0
        self._resume()

    async def take(self) -> bytes:
        """Return the next bytes, all that have arrived; nothing at the end."""
        while not self.is_at_hand:
            await self._arrival
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._resume()
        return data

    async def take_all(self, bytes_max: int) -> bytes | None:
        """Return the whole body; None for one that is longer."""
        pieces: list[bytes] = []
        while data := await self.take():
            pieces.append(data)
            if self.received > bytes_max:
                return None
        return b"".join(pieces)

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resumeProducing()

    def _arrived(self) -> None:
        arrival, self._arrival = self._arrival, Deferred()
        arrival.callback(None)
