"""A TCP proxy before ZooKeeper that cuts, holds back or drops what passes; it runs on the test's reactor.

proxy = await ZooKeeperProxy.listen("127.0.0.1:2181")
proxy.drop_answers()        # requests pass: the outcome is unknown
proxy.cut()                 # connections are lost, new ones are possible
await proxy.close()
"""

from __future__ import annotations

from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, connectProtocol
from twisted.internet.protocol import Factory, Protocol

_LENGTH_BYTES = 4


class _ServerSide(Protocol):
    """Connection to ZooKeeper."""

    def __init__(self, client: _ClientSide) -> None:
        self.client = client

    def dataReceived(self, data: bytes) -> None:
        self.client.proxy.answered(self.client, data)

    def connectionLost(self, reason: object = None) -> None:
        self.client.transport.loseConnection()


class _ClientSide(Protocol):
    """Connection of a client; requests wait until that to ZooKeeper is there."""

    def __init__(self, proxy: ZooKeeperProxy) -> None:
        self.proxy = proxy
        self.is_ignored = False
        self.requests = b""  # the last part of a frame
        self._server: Deferred[_ServerSide] | None = None

    def connectionMade(self) -> None:
        self.proxy.clients[self] = None
        if self.proxy.is_closed_to_new:
            self.proxy.rejections += 1
            self.transport.abortConnection()
            return
        self.proxy.connections += 1
        self.is_ignored, self.proxy.ignores_next = self.proxy.ignores_next, False
        self._server = connectProtocol(self.proxy.server, _ServerSide(self))

    def dataReceived(self, data: bytes) -> None:
        self.proxy.requested(self, data)

    def pass_on(self, data: bytes) -> None:
        if self._server is not None:
            self._server.addCallback(self._write, data)

    def _write(self, server: _ServerSide, data: bytes) -> _ServerSide:
        server.transport.write(data)
        return server

    def connectionLost(self, reason: object = None) -> None:
        self.proxy.clients.pop(self, None)
        if self._server is not None:
            self._server.addCallback(lambda server: server.transport.abortConnection())
            self._server.addErrback(lambda failure: None)


@attrs.define(eq=False)
class ZooKeeperProxy:
    """`request_count` counts frames that passed to ZooKeeper, `answers` what came back, passed on or not."""

    server: Any
    port: Any = None
    clients: dict[_ClientSide, None] = attrs.field(factory=dict)
    is_closed_to_new: bool = False
    ignores_next: bool = False
    connections: int = 0
    rejections: int = 0
    request_count: int = 0
    answers: int = 0
    _drops_answers: bool = False
    _drops_requests: bool = False
    _held: list[tuple[_ClientSide, bytes]] | None = None

    @classmethod
    async def listen(cls, address: str) -> ZooKeeperProxy:
        from twisted.internet import reactor

        host, _, port = address.partition(":")
        proxy = cls(HostnameEndpoint(reactor, host.encode(), int(port)))
        factory = Factory.forProtocol(_ClientSide)
        factory.noisy = False
        factory.buildProtocol = lambda peer: _ClientSide(proxy)
        proxy.port = reactor.listenTCP(0, factory, interface="127.0.0.1")
        return proxy

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port.getHost().port}"

    def requested(self, client: _ClientSide, data: bytes) -> None:
        if self._drops_requests or client.is_ignored:
            return
        client.requests += data
        while len(client.requests) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(client.requests[:_LENGTH_BYTES], "big")
            if len(client.requests) < end:
                break
            client.requests = client.requests[end:]
            self.request_count += 1
        client.pass_on(data)

    def answered(self, client: _ClientSide, data: bytes) -> None:
        self.answers += 1
        if self._held is not None:
            self._held.append((client, data))
        elif not self._drops_answers:
            client.transport.write(data)

    def cut(self) -> None:
        """Cut all connections; later ones are not affected by what was dropped or held."""
        self._drops_answers = self._drops_requests = False
        self._held = None
        for client in list(self.clients):
            client.transport.abortConnection()

    def close_to_new(self) -> None:
        """Cut all connections, and each new one at once."""
        self.is_closed_to_new = True
        self.cut()

    def open_to_new(self) -> None:
        self.is_closed_to_new = False

    def ignore_next(self) -> None:
        """Accept the next connection, and never answer it."""
        self.ignores_next = True

    def drop_answers(self) -> None:
        self._drops_answers = True

    def drop_requests(self) -> None:
        self._drops_requests = True

    def hold_answers(self) -> None:
        self._held = []

    def release_answers(self) -> None:
        held, self._held = self._held or [], None
        for client, data in held:
            client.transport.write(data)

    async def close(self) -> None:
        await self.port.stopListening()
        self.cut()
