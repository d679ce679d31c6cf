"""Ports of brokers that do not exist: connections to them reach the real broker, which knows by which port."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.services import Services
from pylogbroker.config import Listener
from pylogbroker.net.service import SharedLimits
from pylogbroker.net.transport import ChunkPort
from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.testing.faults.connections import ConnectionFaults, FaultyFactory


@attrs.frozen(eq=False, repr=False)
class OpenedListener:
    """A listener of the real broker."""

    reactor: Any
    services: Services
    listener: Listener
    bounds: SharedLimits


@attrs.define(eq=False, repr=False)
class Doors:
    _faults: ConnectionFaults
    _listeners: dict[str, OpenedListener] = attrs.field(factory=dict, init=False)
    _open: dict[tuple[int, str], tuple[ChunkPort, FaultyFactory]] = attrs.field(factory=dict, init=False)

    @property
    def brokers(self) -> list[int]:
        return sorted({broker for broker, _ in self._open})

    def note(self, opened: OpenedListener) -> None:
        self._listeners[opened.listener.name] = opened

    def port(self, broker: int, listener: str) -> int | None:
        """Return the port of a broker; None if it was removed."""
        opened = self._open.get((broker, listener))
        return None if opened is None else int(opened[0].getHost().port)

    def ports(self, listener: str) -> list[tuple[int, int]]:
        """Return each broker and its port."""
        return [(broker, port) for broker in self.brokers if (port := self.port(broker, listener)) is not None]

    async def open(self, broker: int) -> None:
        """Listen for one more broker on each listener."""
        for name, opened in self._listeners.items():
            if (broker, name) in self._open:
                continue
            factory = FaultyFactory(
                opened.reactor, opened.services, opened.listener, opened.bounds, self._faults, broker
            )
            endpoint = opened.bounds.endpoint(opened.reactor, opened.listener, 0, 50, partial(_engine, opened))
            self._open[broker, name] = cast(ChunkPort, await endpoint.listen(factory)), factory

    async def close(self, broker: int) -> None:
        """Stop listening, and close the connections."""
        for key in [key for key in self._open if key[0] == broker]:
            port, factory = self._open.pop(key)
            if factory.reactor.running:
                await cast(Deferred[None], port.stopListening())
            else:
                port.close_now()
            for connection in tuple(factory.connections):
                connection.close_because("its broker was removed", is_fault=False)

    async def close_brokers(self) -> None:
        for broker in self.brokers:
            await self.close(broker)

    async def close_all(self) -> None:
        """Close them before the real broker stops."""
        await self.close_brokers()
        self._listeners.clear()


def _engine(opened: OpenedListener) -> TlsEngine:
    return opened.services.tls[opened.listener.name].engine()
