"""Connections of the HTTP server, which are taken before there is a site that answers them.

    HttpConnection: waiting, paused --HttpFactory.serve--> protocol of the site gets what arrives
                                                        --HttpFactory.switch--> another protocol gets it

Twisted's HTTP, the pages and their templates take half a second and 12 MB: a broker whose pages nobody opens does
without. So nothing here imports `twisted.web`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from typing import Protocol as Typed

import attrs
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress, IProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure


class HttpSiteFactory(Typed):
    """Answers connections, and may give one away."""

    connections: HttpFactory | None

    def buildProtocol(self, addr: IAddress, /) -> IProtocol | None: ...


@attrs.define(eq=False, repr=False, slots=False)
class HttpFactory(Factory):
    """Closes connections beyond a number at once; calls `need_site` for each one that waits for `serve`."""

    noisy = False
    need_site: Callable[[], None]
    connections_max: int
    connections: dict[Any, HttpConnection] = attrs.field(factory=dict, init=False)
    """Connections by their transports."""
    connected: Callable[[HttpConnection], None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.connected = self._wait

    def buildProtocol(self, addr: IAddress) -> HttpConnection | None:  # type: ignore[override]  # a factory may reject
        return None if len(self.connections) >= self.connections_max else HttpConnection(self, addr)

    def serve(self, site: HttpSiteFactory) -> None:
        """Let `site` answer all connections."""
        site.connections = self
        self.connected = partial(HttpConnection.begin, site=site)
        for connection in tuple(self.connections.values()):
            connection.begin(site)

    def switch(self, transport: Any, protocol: IProtocol) -> None:
        """Let another protocol have a connection; for the one before, it is lost."""
        connection = self.connections.get(transport)
        if connection is None:
            protocol.connectionLost(Failure(ConnectionDone()))
        else:
            connection.switch(protocol)

    def close_connections(self) -> None:
        for connection in tuple(self.connections.values()):
            connection.transport.abortConnection()

    def _wait(self, connection: HttpConnection) -> None:
        connection.transport.pauseProducing()
        self.need_site()


class HttpConnection(Protocol):
    transport: Any
    factory: HttpFactory

    def __init__(self, factory: HttpFactory, address: IAddress) -> None:
        self.factory = factory
        self._address = address
        self._protocol: IProtocol = Protocol()  # which ignores everything

    def connectionMade(self) -> None:
        self.factory.connections[self.transport] = self
        self.factory.connected(self)

    def switch(self, protocol: IProtocol) -> None:
        former, self._protocol = self._protocol, protocol
        former.connectionLost(Failure(ConnectionDone()))
        self.transport.unregisterProducer()
        self.transport.resumeProducing()
        protocol.makeConnection(self.transport)

    def begin(self, site: HttpSiteFactory) -> None:
        protocol = site.buildProtocol(self._address)
        if protocol is None:
            self.transport.loseConnection()
            return
        self._protocol = protocol
        self.transport.resumeProducing()
        protocol.makeConnection(self.transport)

    def dataReceived(self, data: bytes) -> None:
        self._protocol.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.factory.connections.pop(self.transport, None)
        self._protocol.connectionLost(reason)
