"""Connections of the HTTP server, which are taken before there is a site that answers them.

    HttpConnection: waiting, paused --HttpFactory.serve--> protocol of the site gets what arrives

Twisted's HTTP, the pages and their templates take half a second and 12 MB: a broker whose pages nobody opens does
without. So nothing here imports `twisted.web`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
from twisted.internet.interfaces import IAddress, IProtocol, IProtocolFactory
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure


@attrs.define(eq=False, repr=False, slots=False)
class HttpFactory(Factory):
    """Closes connections beyond a number at once; calls `need_site` for each one that waits for `serve`."""

    noisy = False
    need_site: Callable[[], None]
    connections_max: int
    connections: set[HttpConnection] = attrs.field(factory=set, init=False)
    connected: Callable[[HttpConnection], None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.connected = self._wait

    def buildProtocol(self, addr: IAddress) -> HttpConnection | None:  # type: ignore[override]  # a factory may reject
        return None if len(self.connections) >= self.connections_max else HttpConnection(self, addr)

    def serve(self, site: IProtocolFactory) -> None:
        """Let `site` answer all connections."""
        self.connected = partial(HttpConnection.begin, site=site)
        for connection in tuple(self.connections):
            connection.begin(site)

    def close_connections(self) -> None:
        for connection in tuple(self.connections):
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
        self.factory.connections.add(self)
        self.factory.connected(self)

    def begin(self, site: IProtocolFactory) -> None:
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
        self.factory.connections.discard(self)
        self._protocol.connectionLost(reason)
