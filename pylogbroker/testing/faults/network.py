"""Network between clients and broker: delays, bandwidth, small pieces, stalls and resets.

    socket --> received --> up: Flow --> the connection     bytes leave a flow in their order, when they are due
    socket <-- sent     <-- down: Flow <-- the connection

It shapes what connections receive and send from then on, with TLS the plain bytes. Connections between brokers are
left alone if these have a listener of their own, `inter.broker.listener.name`, as clusters of tests have.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol, TypedDict, Unpack

import attrs
from twisted.internet.interfaces import IReactorTime

_PIECE_BYTES: Final = 64 * 1024


class Direction(StrEnum):
    """The direction of bytes: from clients (up), to clients (down), or both."""

    UP = "up"
    DOWN = "down"
    BOTH = "both"


@attrs.frozen
class Conditions:
    """Conditions of one direction; the times are in seconds."""

    latency: float = 0.0
    jitter: float = 0.0
    """Up to so much is added to the latency, at random by `seed`."""
    bytes_per_second: float = 0.0
    """0: not limited."""
    piece_bytes: int = 0
    """Bytes that arrive together at most; 0: not limited."""
    reset_after_bytes: int = -1
    """The connection is reset after so many bytes; -1: never."""
    stalled: bool = False
    seed: int = 0


class ConditionFields(TypedDict, total=False):
    """Fields of `Conditions`, as tests write them."""

    latency: float
    jitter: float
    bytes_per_second: float
    piece_bytes: int
    reset_after_bytes: int
    stalled: bool
    seed: int


NONE: Final = Conditions()


@attrs.define(eq=False, repr=False)
class Flow:
    """One direction of a connection."""

    _clock: IReactorTime
    _deliver: Callable[[bytes], None]
    _reset: Callable[[], None]
    _conditions: Conditions = NONE
    _queue: deque[bytes] = attrs.field(factory=deque, init=False)
    _due: deque[float] = attrs.field(factory=deque, init=False)
    _timer: Any = attrs.field(default=None, init=False)
    _free_at: float = attrs.field(default=0.0, init=False)
    _passed: int = attrs.field(default=0, init=False)
    _random: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = random.Random(self._conditions.seed)

    @property
    def is_shaped(self) -> bool:
        return self._conditions != NONE or bool(self._queue)

    def shape(self, conditions: Conditions) -> None:
        """Use other conditions; what waits goes on at once, unless they stall."""
        self._conditions, self._passed = conditions, 0
        self._random = random.Random(conditions.seed)
        now = self._clock.seconds()
        self._free_at = now
        self._due = deque(now for _ in self._queue)
        self._schedule()

    def put(self, data: bytes) -> None:
        conditions = self._conditions
        size = conditions.piece_bytes or _PIECE_BYTES
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            now = self._clock.seconds()
            begin = max(now, self._free_at)
            if conditions.bytes_per_second:
                begin += len(piece) / conditions.bytes_per_second
            self._free_at = begin
            due = begin + conditions.latency + conditions.jitter * self._random.random()
            self._queue.append(piece)
            self._due.append(max(due, self._due[-1] if self._due else 0.0))
        self._schedule()

    def close(self) -> None:
        self._queue.clear()
        self._due.clear()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _schedule(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self._queue and not self._conditions.stalled:
            delay = max(0.0, self._due[0] - self._clock.seconds())
            self._timer = self._clock.callLater(delay, self._pass_on)

    def _pass_on(self) -> None:
        """Deliver one piece: the next one is received by itself."""
        limit = self._conditions.reset_after_bytes
        piece = self._queue.popleft()
        self._due.popleft()
        is_over = 0 <= limit <= self._passed + len(piece)
        if is_over:
            piece = piece[: limit - self._passed]
        self._passed += len(piece)
        if piece:
            self._deliver(piece)
        if is_over:
            self._reset()
        self._schedule()


class ShapedConnection(Protocol):
    @property
    def broker_id(self) -> int: ...
    def shape(self, up: Conditions | None, down: Conditions | None, /) -> None:
        """Change the conditions of the directions that are not None."""

    def reset(self) -> None:
        """End the connection at once, without what was not sent."""


@attrs.define(eq=False, repr=False)
class NetworkFaults:
    """Methods for tests; any thread may call them."""

    _connections: Callable[[], Sequence[ShapedConnection]]
    _run: Callable[..., Any]
    _up: Conditions = attrs.field(default=NONE, init=False)
    _down: Conditions = attrs.field(default=NONE, init=False)

    def shape(self, direction: str = "both", **conditions: Unpack[ConditionFields]) -> None:
        """Set the conditions of clients' connections, also of later ones: the names are those of `Conditions`."""
        given = Conditions(**conditions)
        where = Direction(direction)
        up = None if where is Direction.DOWN else given
        down = None if where is Direction.UP else given
        self._up, self._down = up or self._up, down or self._down
        self._run(self._shape, up, down)

    def stall(self, direction: str = "both") -> None:
        """Pass nothing on until `heal`."""
        self.shape(direction, stalled=True)

    def heal(self) -> None:
        """Pass everything on at once, as without faults."""
        self.shape()

    def reset(self, broker: int | None = None) -> None:
        """Reset all connections of clients, or those to one broker."""
        self._run(self._reset, broker)

    def welcome(self, connection: ShapedConnection) -> None:
        """Shape a new connection."""
        connection.shape(self._up, self._down)

    def _shape(self, up: Conditions | None, down: Conditions | None) -> None:
        for connection in self._connections():
            connection.shape(up, down)

    def _reset(self, broker: int | None) -> None:
        for connection in self._connections():
            if broker in (None, connection.broker_id):
                connection.reset()
