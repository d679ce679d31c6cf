"""Limits of connections: memory, number, and time until they are set up.

Connections may hold `queued.max.request.bytes` in all. Beyond that, the one without progress for the longest time is
closed. Requests that outlive their connection count until their work is done.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeVar

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from pylogbroker.config.value_kinds import INT_MAX

_EXPIRED_MAX: Final = 4
"""Connections that end in one iteration of the reactor because they took too long."""


def automatic_memory_bound() -> int:
    """Return the limit for the setting -1, in bytes: a quarter of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


class MemoryHolder(Protocol):
    def close_because(self, reason: str) -> None:
        """Log the reason and close."""


class MemoryLimit:
    """Bytes that connections hold, up to `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._held: dict[MemoryHolder, int] = {}  # least recent progress first

    def holds(self, holder: MemoryHolder, size: int) -> None:
        """Note progress of `holder`, which holds `size` bytes."""
        self.total += size - self._held.pop(holder, 0)
        if size:
            self._held[holder] = size
        if self.total > self.limit:
            self._enforce()

    def leaves(self, holder: MemoryHolder, left_behind: int) -> None:
        """Note the end of a connection; `left_behind` bytes stay in use until `released`."""
        self.total += left_behind - self._held.pop(holder, 0)
        self._enforce()

    def released(self, size: int) -> None:
        self.total -= size

    def _enforce(self) -> None:
        while self.total > self.limit and self._held:
            self._evict()

    def _evict(self) -> None:
        stalest = next(iter(self._held))
        held = self._held.pop(stalest)
        self.total -= held
        stalest.close_because(
            f"connections hold more than queued.max.request.bytes={self.limit}, and this one, holding {held} bytes, "
            "has made no progress for the longest time"
        )


@attrs.define
class ConnectionLimit:
    """Admits up to `most` connections, per host `most_per_host` (or its override), and per listener `most_of`.

    As in Kafka, the listener of brokers alone, `protected`, is full only by its own number. Then other connections
    must end, so that there are `most` again.
    """

    most: int = INT_MAX
    most_per_host: int = INT_MAX
    overrides: dict[str, int] = attrs.field(factory=dict)
    most_of: dict[str, int] = attrs.field(factory=dict)
    protected: str | None = None
    _listeners: Counter[str] = attrs.field(factory=Counter, init=False)
    _hosts: Counter[str] = attrs.field(factory=Counter, init=False)
    _count: int = attrs.field(default=0, init=False)

    @property
    def is_exceeded(self) -> bool:
        return self._count > self.most

    def admit(self, host: str, listener: str = "") -> str | None:
        """Count a connection, or return the reason why it is rejected."""
        if self._listeners[listener] >= self.most_of.get(listener, self._listeners[listener] + 1):
            return f"{listener} has its {self.most_of[listener]} connections (max.connections of this listener)"
        if self._count >= self.most and listener != self.protected:
            return f"max.connections={self.most} is reached"
        most = self.overrides.get(host, self.most_per_host)
        if self._hosts[host] >= most:
            return f"{host} has its {most} connections (max.connections.per.ip)"
        self._count += 1
        self._hosts[host] += 1
        self._listeners[listener] += 1
        return None

    def leave(self, host: str, listener: str = "") -> None:
        self._count -= 1
        self._listeners[listener] -= 1
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]


C = TypeVar("C")


@attrs.frozen
class _Setup:
    host: str
    deadline: float
    expire: Callable[[], object]


@attrs.define(eq=False, repr=False)
class SetupLimit:
    """Time and number of connections before their first request: in handshakes, or in authentication.

    One timer serves all connections, the oldest first: a reactor sorts its timers, and there may be very many.
    """

    _clock: IReactorTime
    ms: int
    most_per_host: int
    _running: dict[object, _Setup] = attrs.field(factory=dict, init=False)  # in the order of their deadlines
    _hosts: Counter[str] = attrs.field(factory=Counter, init=False)
    _timer: IDelayedCall | None = attrs.field(default=None, init=False)

    def reject(self, host: str) -> str | None:
        """Return why a new connection is rejected, or None."""
        if self._hosts[host] < self.most_per_host:
            return None
        return f"{host} has {self.most_per_host} connections that are not set up (connection.setup.max.per.ip)"

    def start(self, connection: C, host: str, expire: Callable[[C], object]) -> None:
        self._hosts[host] += 1
        self._running[connection] = _Setup(host, self._clock.seconds() + self.ms / 1000, partial(expire, connection))
        if self._timer is None:
            self._timer = self._clock.callLater(self.ms / 1000, self._expire)

    def stop(self, connection: object) -> None:
        """Forget a connection that is set up, or closed."""
        setup = self._running.pop(connection, None)
        if setup is None:
            return
        self._hosts[setup.host] -= 1
        if not self._hosts[setup.host]:
            del self._hosts[setup.host]
        if not self._running and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        """End connections whose time is over, some in each iteration of the reactor."""
        self._timer = None
        for connection, setup in list(islice(self._running.items(), _EXPIRED_MAX)):
            if setup.deadline > self._clock.seconds():
                break
            self.stop(connection)
            setup.expire()
        if self._running and self._timer is None:
            first = next(iter(self._running.values()))
            self._timer = self._clock.callLater(max(0.0, first.deadline - self._clock.seconds()), self._expire)
