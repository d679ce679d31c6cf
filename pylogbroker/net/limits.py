"""Limits of connections: memory, number, and time until they are set up.

Connections may hold `queued.max.request.bytes` in all. Beyond that, the one without progress for the longest time is
closed. Requests that outlive their connection count until their work is done.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Protocol, TypeVar

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime


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
    """Admits up to `most` connections, per host `most_per_host` (or its override)."""

    most: int
    most_per_host: int
    overrides: dict[str, int] = attrs.field(factory=dict)
    _hosts: Counter[str] = attrs.field(factory=Counter, init=False)
    _count: int = attrs.field(default=0, init=False)

    def admit(self, host: str) -> str | None:
        """Count a connection, or return the reason why it is rejected."""
        if self._count >= self.most:
            return f"max.connections={self.most} is reached"
        most = self.overrides.get(host, self.most_per_host)
        if self._hosts[host] >= most:
            return f"{host} has its {most} connections (max.connections.per.ip)"
        self._count += 1
        self._hosts[host] += 1
        return None

    def leave(self, host: str) -> None:
        self._count -= 1
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]


C = TypeVar("C")


@attrs.define(eq=False)
class SetupLimit:
    """Time and number of connections before their first request: in handshakes, or in authentication."""

    _clock: IReactorTime
    ms: int
    most_per_host: int
    _running: dict[object, tuple[str, IDelayedCall]] = attrs.field(factory=dict, init=False)
    _hosts: Counter[str] = attrs.field(factory=Counter, init=False)

    def reject(self, host: str) -> str | None:
        """Return why a new connection is rejected, or None."""
        if self._hosts[host] < self.most_per_host:
            return None
        return f"{host} has {self.most_per_host} connections that are not set up (connection.setup.max.per.ip)"

    def start(self, connection: C, host: str, expire: Callable[[C], object]) -> None:
        self._hosts[host] += 1
        self._running[connection] = host, self._clock.callLater(self.ms / 1000, expire, connection)

    def stop(self, connection: object) -> None:
        """Forget a connection that is set up, or closed."""
        host, deadline = self._running.pop(connection, ("", None))
        if deadline is None:
            return
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]
        if deadline.active():
            deadline.cancel()
