"""Time and connections in memory, for a broker and clients that share a `MemoryReactor`.

    transport --callLater(latency)--> other end --dataReceived--> protocol

Nothing happens but in `advance` and `run`, and the same calls happen in the same order each time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError, ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import IListeningPort, IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.client.sync.background import TimedOut
from pylogbroker.interfaces.network import INetwork
from pylogbroker.rpc.transport import BUFFERS

T = TypeVar("T")
log = Logger()

_CLIENT: Final = "127.0.0.1"
_FIRST_FREE_PORT: Final = 40_000


@implementer(INetwork)
class MemoryReactor(Clock):
    """A `task.Clock` with a network, as the reactor of brokers and clients. Bytes arrive after `latency` seconds.

    Like a reactor that does not run yet, it lets blocking work run at once.
    """

    running = False  # Twisted's name; tests ask `is_running`

    def __init__(self, latency: float = 0.0, now: float = 0.0) -> None:
        super().__init__()
        self.rightNow = now
        self.latency = latency
        self._ports: dict[int, MemoryPort] = {}
        self._last_port = _FIRST_FREE_PORT
        self._depth = 0  # of calls that are run

    # time

    @property
    def is_running(self) -> bool:
        return self._depth > 0

    def advance(self, amount: float) -> None:
        """Move the time; run what becomes due in the order of its times, each at its time."""
        end = self.rightNow + amount
        self._sortCalls()
        while self.calls and self.calls[0].getTime() <= end:
            self._run_next()
        self.rightNow = max(self.rightNow, end)

    def run(self, deferred: Deferred[T], what: str = "it", seconds: float = 60.0) -> T:
        """Advance until a Deferred has its result, and return that; raise its error, or TimedOut."""
        results: list[Any] = []
        deferred.addBoth(results.append)
        if not self.run_until(lambda: bool(results), seconds):
            deferred.cancel()
            raise TimedOut(f"{what}: not done within {seconds:g} s of the broker's time; it was cancelled")
        [result] = results
        if isinstance(result, Failure):
            result.raiseException()
        done: T = result
        return done

    def run_until(self, condition: Callable[[], bool], seconds: float = 60.0) -> bool:
        """Advance until a condition holds; return False if it does not before `seconds` have passed, or calls end."""
        end = self.rightNow + seconds
        self._sortCalls()
        while not condition() and self.calls and self.calls[0].getTime() <= end:
            self._run_next()
        return condition()

    def _run_next(self) -> None:
        call = self.calls.pop(0)
        self.rightNow = max(self.rightNow, call.getTime())
        call.called = 1
        self._depth += 1
        try:
            call.func(*call.args, **call.kw)
        except Exception:
            log.failure("a delayed call failed")
        finally:
            self._depth -= 1

    # what else brokers and clients ask of a reactor

    def callWhenRunning(self, function: Callable[..., object], *arguments: Any, **named: Any) -> None:
        self.callLater(0, function, *arguments, **named)

    callFromThread = callWhenRunning

    # INetwork

    def client_endpoint(self, host: str, port: int) -> MemoryEndpoint:
        return MemoryEndpoint(self, host, port)

    def listen(self, host: str, port: int, factory: Any) -> MemoryPort:
        number = port or self.free_port()
        if number in self._ports:
            raise CannotListenError(host, number, "the port is taken")
        self._ports[number] = listening = MemoryPort(self, IPv4Address("TCP", host, number), factory)
        return listening

    def free_port(self) -> int:
        self._last_port += 1
        return self._last_port

    def find_port(self, number: int) -> MemoryPort | None:
        return self._ports.get(number)

    def close_port(self, port: MemoryPort) -> None:
        self._ports.pop(port.address.port, None)


class MemoryTransport:
    """One end of a connection."""

    socket = None
    unsent_bytes = 0
    unsent_chunks = 0

    def __init__(self, reactor: MemoryReactor, own: IPv4Address, peer: IPv4Address) -> None:
        self.other: MemoryTransport
        self._reactor = reactor
        self._own = own
        self._peer = peer
        self._protocol: Any = None
        self._is_closing = False
        self._is_closed = False
        self._is_reading = True
        self._unread: deque[bytes | Failure] = deque()

    @classmethod
    def pair(cls, reactor: MemoryReactor, client: IPv4Address, server: IPv4Address) -> tuple[Any, Any]:
        """Return the client's and the server's end of a new connection."""
        one, other = cls(reactor, client, server), cls(reactor, server, client)
        one.other, other.other = other, one
        return one, other

    def connect(self, protocol: Any) -> None:
        """Deliver to a protocol from now on; None rejects the connection."""
        if protocol is None:
            self.abortConnection()
            return
        self._protocol = protocol
        protocol.makeConnection(self)
        self._deliver()

    # for protocols

    def getHost(self) -> IPv4Address:
        return self._own

    def getPeer(self) -> IPv4Address:
        return self._peer

    def write(self, data: bytes) -> None:
        self.send_chunks((data,))

    def writeSequence(self, chunks: Iterable[Any]) -> None:
        self.send_chunks(chunks)

    def send_chunks(self, chunks: Iterable[Any]) -> None:
        if not self._is_closing:
            self._send(b"".join(chunk if isinstance(chunk, BUFFERS) else chunk.read() for chunk in chunks))

    def loseConnection(self) -> None:
        self._close(ConnectionDone())

    def abortConnection(self) -> None:
        self._close(ConnectionLost())

    def stopReading(self) -> None:
        self._is_reading = False

    def startReading(self) -> None:
        self._is_reading = True
        self._reactor.callLater(0, self._deliver)

    # between the ends

    def _send(self, what: bytes | Failure) -> None:
        self._reactor.callLater(self._reactor.latency, self.other._arrived, what)

    def _arrived(self, what: bytes | Failure) -> None:
        self._unread.append(what)
        self._deliver()

    def _deliver(self) -> None:
        while self._protocol is not None and self._unread and self._is_reading and not self._is_closed:
            received = self._unread.popleft()
            if isinstance(received, Failure):
                self._is_closing = True
                self._ended(received)
            else:
                self._protocol.dataReceived(received)

    def _close(self, why: Exception) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._send(Failure(why))
            self._reactor.callLater(0, self._ended, Failure(why))

    def _ended(self, why: Failure) -> None:
        if not self._is_closed:
            self._is_closed = True
            if self._protocol is not None:
                self._protocol.connectionLost(why)


@implementer(IListeningPort)
@attrs.frozen(eq=False, repr=False)
class MemoryPort:
    _reactor: MemoryReactor
    address: IPv4Address
    factory: Any

    def startListening(self) -> None:
        """Listen already."""

    def stopListening(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        self._reactor.close_port(self)

    def getHost(self) -> IPv4Address:
        return self.address


@implementer(IStreamClientEndpoint)
@attrs.frozen(eq=False, repr=False)
class MemoryEndpoint:
    _reactor: MemoryReactor
    _host: str
    _port: int

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        """Return a Deferred of the protocol; it fails with ConnectionRefusedError."""
        done: Deferred[Any] = Deferred(lambda _: attempt.cancel())
        attempt = self._reactor.callLater(self._reactor.latency, self._arrived, protocolFactory, done)
        return done

    def _arrived(self, factory: Any, done: Deferred[Any]) -> None:
        port = self._reactor.find_port(self._port)
        if port is None:
            done.errback(ConnectionRefusedError())
            return
        own = IPv4Address("TCP", _CLIENT, self._reactor.free_port())
        client, server = MemoryTransport.pair(self._reactor, own, port.address)
        server.connect(port.factory.buildProtocol(own))
        protocol = factory.buildProtocol(port.address)
        client.connect(protocol)
        done.callback(protocol)
