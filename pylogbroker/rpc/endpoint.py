"""Connecting to a broker: name resolution, and connections without copies (`transport`)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from twisted.internet import tcp
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.interfaces import IReactorPluggableNameResolver, IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.rpc.errors import NotConnected
from pylogbroker.rpc.malloc_tuning import retain_freed_memory
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.rpc.transport import ChunkConnection

P = TypeVar("P", bound=Protocol)

_ATTEMPT_DELAY = 0.05  # seconds between attempts at the addresses of a name


class ChunkClient(ChunkConnection, tcp.Client):
    """Client side of one connection."""


class ChunkConnector(tcp.Connector):
    def _makeTransport(self) -> ChunkClient:
        return ChunkClient(self.host, self.port, self.bindAddress, self, self.reactor)


@implementer(IReactorTime, IReactorPluggableNameResolver)
class _ChunkReactor:
    """Proxy of a reactor for Twisted's endpoints; makes `ChunkClient`s."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float, bindAddress: Any) -> ChunkConnector:
        connector = ChunkConnector(host, port, factory, timeout, bindAddress, self._reactor)
        connector.connect()
        return connector


def endpoint(reactor: Any, host: str, port: int, timeout: float) -> IStreamClientEndpoint:
    """Return an endpoint: the first address of the name that answers."""
    chunks = cast(Any, _ChunkReactor(reactor))
    if isIPAddress(host):
        return TCP4ClientEndpoint(chunks, host, port, timeout)
    if isIPv6Address(host):
        return TCP6ClientEndpoint(chunks, host, port, timeout)
    return HostnameEndpoint(chunks, host, port, timeout, attemptDelay=_ATTEMPT_DELAY)


async def dial(
    reactor: Any, address: Address, settings: ConnectionSettings, make: Callable[[Any, Address, ConnectionSettings], P]
) -> P:
    """Return a connection with the protocol from `make`, or raise NotConnected."""
    retain_freed_memory()
    seconds = settings.setup_timeout
    factory = _Factory(partial(make, reactor, address, settings))
    try:
        dialling = endpoint(reactor, address.host, address.port, seconds).connect(factory)
        made: Any = await dialling.addTimeout(seconds, reactor)  # name resolution has no timeout of its own
    except Exception as error:
        reason = Failure(error).getErrorMessage().rstrip(".")
        raise NotConnected(f"cannot connect to {address}: {reason}") from None
    connection: P = made
    return connection


class _Factory(Factory):
    noisy = False

    def __init__(self, make: Callable[[], Protocol]) -> None:
        self._make = make

    def buildProtocol(self, addr: Any) -> Protocol:
        return self._make()


def set_options(transport: Any, send_buffer: int, receive_buffer: int) -> None:
    """Disable Nagle's algorithm, enable keep-alive, set buffer sizes (-1: the system's)."""
    transport.setTcpNoDelay(True)
    transport.setTcpKeepAlive(True)
    for option, size in ((socket.SO_SNDBUF, send_buffer), (socket.SO_RCVBUF, receive_buffer)):
        if size > 0:
            transport.socket.setsockopt(socket.SOL_SOCKET, option, size)
