"""How a broker is reached: its address found, and a connection made that receives and sends without copying.

    connection = await dial(reactor, Address("localhost", 9092), settings, BrokerConnection)

`pylogbroker.transport` is what the connections are made of.
"""

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

from pylogbroker.client.address import Address
from pylogbroker.client.errors import NotConnected
from pylogbroker.client.memory import keep_what_is_freed
from pylogbroker.config import Values
from pylogbroker.transport import ChunkConnection

P = TypeVar("P", bound=Protocol)

_ATTEMPT_DELAY = 0.05  # seconds from one address of a name to the next


class ChunkClient(ChunkConnection, tcp.Client):
    """The client's side of one connection."""


class ChunkConnector(tcp.Connector):
    """Makes `ChunkClient`s."""

    def _makeTransport(self) -> ChunkClient:
        return ChunkClient(self.host, self.port, self.bindAddress, self, self.reactor)


@implementer(IReactorTime, IReactorPluggableNameResolver)
class _ChunkReactor:
    """A reactor as Twisted's endpoints use it, whose connections are `ChunkClient`s."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float, bindAddress: Any) -> ChunkConnector:
        connector = ChunkConnector(host, port, factory, timeout, bindAddress, self._reactor)
        connector.connect()
        return connector


def endpoint(reactor: Any, host: str, port: int, timeout: float) -> IStreamClientEndpoint:
    """Where a broker listens; of a name with several addresses, the first one that answers counts."""
    chunks = cast(Any, _ChunkReactor(reactor))
    if isIPAddress(host):
        return TCP4ClientEndpoint(chunks, host, port, timeout)
    if isIPv6Address(host):
        return TCP6ClientEndpoint(chunks, host, port, timeout)
    return HostnameEndpoint(chunks, host, port, timeout, attemptDelay=_ATTEMPT_DELAY)


async def dial(reactor: Any, address: Address, settings: Values, make: Callable[[Any, Address, Values], P]) -> P:
    """A connection; NotConnected says why there is none. `make` makes its protocol."""
    keep_what_is_freed()
    seconds = settings.integer("socket.connection.setup.timeout.ms") / 1000
    factory = _Factory(partial(make, reactor, address, settings))
    try:
        dialling = endpoint(reactor, address.host, address.port, seconds).connect(factory)
        made: Any = await dialling.addTimeout(seconds, reactor)  # to look a name up has no limit of its own
    except Exception as error:
        reason = Failure(error).getErrorMessage().rstrip(".")
        raise NotConnected(f"cannot connect to {address}: {reason}") from None
    connection: P = made
    return connection


class _Factory(Factory):
    """Makes a protocol for each attempt at an address."""

    noisy = False

    def __init__(self, make: Callable[[], Protocol]) -> None:
        self._make = make

    def buildProtocol(self, addr: Any) -> Protocol:
        return self._make()


def set_options(transport: Any, send_buffer: int, receive_buffer: int) -> None:
    """No delays for small requests, signs of life for idle connections, and the buffers' sizes (-1: as they are)."""
    transport.setTcpNoDelay(True)
    transport.setTcpKeepAlive(True)
    for option, size in ((socket.SO_SNDBUF, send_buffer), (socket.SO_RCVBUF, receive_buffer)):
        if size > 0:
            transport.socket.setsockopt(socket.SOL_SOCKET, option, size)
