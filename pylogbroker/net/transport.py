"""Broker's side of a TCP connection: sends bytes and file regions in order.

`sendfile` sends file regions from the page cache, not through Python. After every `_PIECE` bytes a connection with much
to send yields to others that wait, until the reactor's next iteration.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol, cast

from twisted.internet import main, tcp
from twisted.internet.defer import Deferred, execute
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IStreamServerEndpoint
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.interfaces.network import INetwork
from pylogbroker.net.poller import others_wait
from pylogbroker.net.setup_steps import SetupSteps, Stepwise
from pylogbroker.rpc.tls_transport import PIECE_BYTES_MAX, TlsConnection
from pylogbroker.rpc.transport import BUFFERS, ChunkConnection, ChunkReceiver
from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.system import send_file

_PIECE = 1024 * 1024  # of a file: a few hundred microseconds for the kernel


class OpenFile(Protocol):
    @property
    def fd(self) -> int: ...


class SendableRegion(Protocol):
    """Bytes of a file from `position` on."""

    @property
    def file(self) -> OpenFile: ...
    @property
    def position(self) -> int: ...
    def __len__(self) -> int: ...


class ChunkServer(ChunkConnection, tcp.Server):
    """Connection whose protocol is a `ChunkReceiver`."""

    bufferSize = 256 * 1024
    is_set_up = True
    """False while a handshake or authentication is missing; the protocol then sets it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_sent = 0
        self.deliver_to(cast(ChunkReceiver, self.protocol))
        self.setTcpNoDelay(True)

    @property
    def unsent_bytes(self) -> int:
        """Unsent bytes in memory, without file regions."""
        return sum(len(chunk) for chunk in self._unsent if isinstance(chunk, BUFFERS)) if self._unsent else 0

    def _send_on(self) -> bool:
        """Send until done, the socket is full or others wait; return False if a file ends too early."""
        unsent = self._unsent
        piece = 0
        while unsent:
            sent = self._send_run() if isinstance(unsent[0], BUFFERS) else self._send_region(unsent[0])
            if sent < 0:
                return False
            piece += sent
            if piece >= _PIECE and unsent:
                if others_wait(self.reactor, self.socket.fileno()):
                    return True
                piece = 0
        return True

    def _send_region(self, region: SendableRegion) -> int:
        """Send a piece; return its bytes, or -1 at the end of the file."""
        done = self._head_sent
        left = len(region) - done
        sent = send_file(self.socket.fileno(), region.file.fd, region.position + done, min(left, _PIECE))
        if sent < left:
            self._head_sent = done + sent
            return sent or -1
        self._head_sent = 0
        self._unsent.popleft()
        return sent


class SetupServer(Stepwise, ChunkServer):
    """Connection of a client that authenticates itself: until then it is read step by step."""

    is_set_up = False

    def doRead(self) -> Any:
        if self.is_set_up:
            return self.read_step()
        return cast(SetupPort, self.server).steps.run(self, self.read_step)

    def read_step(self) -> Any:
        return super().doRead()


class _RegionBuffer(threading.local):
    """Memory that the connections of a thread share: the engine copies from it at once."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(PIECE_BYTES_MAX))


_region = _RegionBuffer()


class TlsReceiver(ChunkReceiver, Protocol):
    """Protocol's side of a connection with TLS."""

    def secured(self, certificate: bytes | None) -> None:
        """Take the end of the handshake and the peer's certificate in DER; raise TlsFailed to end the connection."""

    def tls_failed(self, cause: str) -> None:
        """Log the cause of a failure; the connection ends."""


class TlsServer(TlsConnection, SetupServer):
    """Connection with TLS whose protocol is a `TlsReceiver`; file regions are read and encrypted in pieces."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.begin_tls(cast(TlsPort, self.server).make_engine())

    def doRead(self) -> Any:
        return SetupServer.doRead(self)

    def read_step(self) -> Any:
        return TlsConnection.doRead(self)

    @property
    def unsent_bytes(self) -> int:
        return super().unsent_bytes + (len(self._records) if self._records is not None else 0)

    def secured(self, certificate: bytes | None) -> None:
        cast(TlsReceiver, self.protocol).secured(certificate)

    def tls_failed(self, cause: str) -> None:
        cast(TlsReceiver, self.protocol).tls_failed(cause)

    def _ended(self) -> Any:
        if not self._engine.has_begun:
            return main.CONNECTION_DONE  # a look whether the port is open, not worth a line in the log
        return super()._ended()

    def _others_wait(self) -> bool:
        return others_wait(self.reactor, self.socket.fileno())

    def _take_region(self, region: SendableRegion, size: int) -> memoryview:
        done = self._head_sent
        buffer = _region.view[: min(size, len(region) - done)]
        data = buffer[: os.preadv(region.file.fd, (buffer,), region.position + done)]
        self._head_sent = done + len(data)
        if self._head_sent == len(region):
            self._head_sent = 0
            self._unsent.popleft()
        return data


class ChunkPort(tcp.Port):
    transport = ChunkServer
    accepted_max = 10
    """Connections to accept in one iteration of the reactor, while others wait."""

    def doRead(self) -> None:
        if getattr(self.factory, "is_rate_limited", False):
            self.numberAccepts = 1  # the factory may stop reading after each one
        self.numberAccepts = min(self.numberAccepts, self.accepted_max)
        super().doRead()

    def close_now(self) -> None:
        """Close before the reactor's next iteration."""
        self.stopReading()
        self.connectionLost(Failure(ConnectionDone()))


class SetupPort(Stepwise, ChunkPort):
    """Port whose clients authenticate themselves: to accept a connection is a step."""

    transport = SetupServer
    accepted_max = 1
    steps: SetupSteps

    def doRead(self) -> None:
        self.steps.run(self, self.read_step)

    def read_step(self) -> None:
        super().doRead()


class TlsPort(SetupPort):
    transport = TlsServer
    make_engine: Callable[[], TlsEngine]


@implementer(IStreamServerEndpoint)
class ChunkServerEndpoint:
    """TCP server endpoint with the transport above.

    `host` is an address or a name; empty for every interface. Colons choose IPv6. With `steps`, a connection's
    `is_set_up` is False at first; with `make_engine`, too, there is TLS.
    """

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        backlog: int,
        steps: SetupSteps | None = None,
        make_engine: Callable[[], TlsEngine] | None = None,
    ) -> None:
        self._reactor = reactor
        self._host = host
        self._port = port
        self._backlog = backlog
        self._steps = steps
        self._make_engine = make_engine

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Return a Deferred of the port; it fails with CannotListenError."""
        return execute(self._start, protocolFactory)

    def _start(self, factory: IProtocolFactory) -> IListeningPort:
        if INetwork.providedBy(self._reactor):
            in_memory: IListeningPort = self._reactor.listen(self._host, self._port, factory)
            return in_memory
        port = self._kind(self._port, factory, self._backlog, self._host, self._reactor)
        if isinstance(port, SetupPort) and self._steps is not None:
            port.steps = self._steps
        if isinstance(port, TlsPort) and self._make_engine is not None:
            port.make_engine = self._make_engine
        port.startListening()
        return cast(IListeningPort, port)

    @property
    def _kind(self) -> type[ChunkPort]:
        if self._steps is None:
            return ChunkPort
        return SetupPort if self._make_engine is None else TlsPort
