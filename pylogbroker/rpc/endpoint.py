"""Connecting to a broker: name resolution, and connections without copies (`transport`)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from twisted.internet import tcp
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as HandshakeTimedOut
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.interfaces import IReactorPluggableNameResolver, IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.interfaces.network import INetwork
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.rpc.malloc_tuning import retain_freed_memory
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.rpc.tls_transport import TlsConnection
from pylogbroker.rpc.transport import ChunkConnection, ChunkReceiver
from pylogbroker.security.tls.engine import MakeEngine, TlsEngine
from pylogbroker.security.tls.failures import PEER_CLOSED, ClosedInHandshake, TlsFailed

P = TypeVar("P", bound=Protocol)

_ATTEMPT_DELAY = 0.05  # seconds between attempts at the addresses of a name


class ChunkClient(ChunkConnection, tcp.Client):
    """Client side of one connection."""


class TlsClient(TlsConnection, ChunkClient):
    """Client side of one connection with TLS; the handshake begins when the protocol is connected."""

    def __init__(self, engine: TlsEngine, *args: Any) -> None:
        super().__init__(*args)
        self._engine = engine
        self._cause: TlsFailed | None = None
        self.handshake: Deferred[None] = Deferred()
        """Fires when the handshake is over; fails with TlsFailed, or with why the connection ended."""

    def deliver_to(self, receiver: ChunkReceiver) -> None:
        super().deliver_to(receiver)
        self.begin_tls(self._engine)

    def secured(self, certificate: bytes | None) -> None:
        self.handshake.callback(None)

    def tls_failed(self, cause: str) -> None:
        is_early = cause == PEER_CLOSED and not self._is_secured
        self._cause = ClosedInHandshake() if is_early else TlsFailed(f"TLS: {cause}")

    def connectionLost(self, reason: Any) -> None:
        if self.connected and not self._is_secured and self._cause is None:
            self.tls_failed(PEER_CLOSED)
        if self._cause is not None:
            reason = Failure(self._cause)
        super().connectionLost(reason)
        if not self.handshake.called:
            self.handshake.errback(reason)
        self.handshake.addErrback(lambda _: None)  # of an attempt at another address, nobody waits


class ChunkConnector(tcp.Connector):
    engine: TlsEngine | None = None

    def _makeTransport(self) -> ChunkClient:
        where = self.host, self.port, self.bindAddress, self, self.reactor
        return ChunkClient(*where) if self.engine is None else TlsClient(self.engine, *where)


@implementer(IReactorTime, IReactorPluggableNameResolver)
class _ChunkReactor:
    """Proxy of a reactor for Twisted's endpoints; makes `ChunkClient`s, with TLS if it can make engines."""

    def __init__(self, reactor: Any, make_engine: Callable[[], TlsEngine] | None) -> None:
        self._reactor = reactor
        self._make_engine = make_engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float, bindAddress: Any) -> ChunkConnector:
        connector = ChunkConnector(host, port, factory, timeout, bindAddress, self._reactor)
        if self._make_engine is not None:
            connector.engine = self._make_engine()
        connector.connect()
        return connector


def endpoint(
    reactor: Any, host: str, port: int, timeout: float, make_engine: MakeEngine | None = None
) -> IStreamClientEndpoint:
    """Return an endpoint: the first address of the name that answers, or one of the reactor's own network."""
    if INetwork.providedBy(reactor):
        in_memory: IStreamClientEndpoint = reactor.client_endpoint(host, port)
        return in_memory
    chunks = cast(Any, _ChunkReactor(reactor, None if make_engine is None else partial(make_engine, host)))
    if isIPAddress(host):
        return TCP4ClientEndpoint(chunks, host, port, timeout)
    if isIPv6Address(host):
        return TCP6ClientEndpoint(chunks, host, port, timeout)
    return HostnameEndpoint(chunks, host, port, timeout, attemptDelay=_ATTEMPT_DELAY)


async def dial(
    reactor: Any, address: Address, settings: ConnectionSettings, make: Callable[[Any, Address, ConnectionSettings], P]
) -> P:
    """Return a connection with the protocol from `make`, after the handshake of TLS; raise NotConnected."""
    retain_freed_memory()
    started, seconds = reactor.seconds(), settings.setup_timeout
    factory = _Factory(partial(make, reactor, address, settings))
    try:
        dialling = endpoint(reactor, address.host, address.port, seconds, settings.security.make_engine).connect(
            factory
        )
        made: Any = await dialling.addTimeout(seconds, reactor)  # name resolution has no timeout of its own
        if isinstance(made.transport, TlsClient):
            await _handshake(made.transport, max(0.001, started + seconds - reactor.seconds()), reactor)
    except Exception as error:
        reason = Failure(error).getErrorMessage().rstrip(".")
        if isinstance(error, ClosedInHandshake):
            reason += f" See {settings.security.names.protocol}"
        raise NotConnected(f"cannot connect to {address}: {reason}") from None
    connection: P = made
    return connection


async def _handshake(transport: TlsClient, seconds: float, reactor: Any) -> None:
    """Wait for the handshake; raise an error with the cause, and close, if it fails."""
    try:
        await transport.handshake.addTimeout(seconds, reactor)
    except HandshakeTimedOut:
        transport.abortConnection()
        raise TlsFailed(f"the broker did not answer the TLS handshake within {seconds:.1f} s") from None
    except BaseException:
        transport.abortConnection()
        raise


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
