"""HTTPS for factories of Twisted's protocols, over an engine of TLS without I/O.

    transport --bytes--> TlsLayer (engine) --plain bytes--> protocol of the site

Twisted's own TLS needs pyOpenSSL, which brokers do without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from twisted.internet.interfaces import IAddress, IPullProducer, IPushProducer, ISSLTransport
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.security.tls.failures import TlsFailed

log = Logger()
_HANDSHAKE_SECONDS: Final = 10


class TlsFactory(Factory):
    """Gives each connection a layer of TLS before the protocol of another factory."""

    noisy = False

    def __init__(self, reactor: Any, factory: Any, make_engine: Callable[[], TlsEngine]) -> None:
        self._reactor = reactor
        self._factory = factory
        self._make_engine = make_engine

    def buildProtocol(self, addr: IAddress) -> TlsLayer | None:  # type: ignore[override]  # a factory may reject
        protocol = self._factory.buildProtocol(addr)
        return None if protocol is None else TlsLayer(self._reactor, protocol, self._make_engine())

    def doStart(self) -> None:
        self._factory.doStart()

    def doStop(self) -> None:
        self._factory.doStop()


@implementer(ISSLTransport)  # by which requests know that they are secure
class TlsLayer(Protocol):
    """Protocol of the network, and the transport of the protocol above it."""

    transport: Any
    disconnecting = False

    def __init__(self, reactor: Any, protocol: Any, engine: TlsEngine) -> None:
        self._protocol = protocol
        self._engine = engine
        self._timeout = reactor.callLater(_HANDSHAKE_SECONDS, self._abort)
        self._is_open = False

    # of the network

    def connectionMade(self) -> None:
        self._engine.start()
        self._send()

    def dataReceived(self, data: bytes) -> None:
        try:
            self._engine.feed(data)
            if self._engine.is_established and not self._is_open:
                self._open()
            while self._is_open and (plain := self._engine.read()):
                self._protocol.dataReceived(plain)
        except TlsFailed as failure:
            log.debug("a handshake of the schema registry failed: {why}", why=str(failure))
            self._send()
            self.transport.loseConnection()
            return
        self._send()
        if self._engine.is_closed_by_peer:
            self.loseConnection()

    def _abort(self) -> None:
        self.transport.abortConnection()

    def _open(self) -> None:
        self._is_open = True
        self._timeout.cancel()
        self._protocol.makeConnection(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._timeout.active():
            self._timeout.cancel()
        if self._is_open:
            self._protocol.connectionLost(reason)

    def _send(self) -> None:
        data = self._engine.take_output()
        if data:
            self.transport.write(data)

    # transport of the protocol above

    def write(self, data: bytes) -> None:
        if not self.disconnecting:
            self._engine.write(data)
            self._send()

    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        if not self.disconnecting:
            self.disconnecting = True
            self._engine.close()
            self._send()
            self.transport.loseConnection()

    def loseWriteConnection(self) -> None:
        """Send nothing more, but read on."""
        if not self.disconnecting:
            self.disconnecting = True
            self._engine.close()
            self._send()
            self.transport.loseWriteConnection()

    def abortConnection(self) -> None:
        self.disconnecting = True
        self.transport.abortConnection()

    def getPeer(self) -> Any:
        return self.transport.getPeer()

    def getHost(self) -> Any:
        return self.transport.getHost()

    def registerProducer(self, producer: IPushProducer | IPullProducer, streaming: bool) -> None:
        self.transport.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        self.transport.unregisterProducer()

    def pauseProducing(self) -> None:
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        self.transport.resumeProducing()

    def stopProducing(self) -> None:
        self.loseConnection()

    def setTcpNoDelay(self, enabled: bool) -> None:
        self.transport.setTcpNoDelay(enabled)

    def getTcpNoDelay(self) -> bool:
        return bool(self.transport.getTcpNoDelay())

    def getTcpKeepAlive(self) -> bool:
        return bool(self.transport.getTcpKeepAlive())

    def setTcpKeepAlive(self, enabled: bool) -> None:
        self.transport.setTcpKeepAlive(enabled)

    def getPeerCertificate(self) -> bytes | None:
        return self._engine.peer_certificate
