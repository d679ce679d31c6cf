"""Simulated network: TCP connections whose bytes arrive in order, after delays that follow from the seed.

| fault             | what happens                                                                                   |
|-------------------|------------------------------------------------------------------------------------------------|
| cut (one way)     | nothing arrives until the end of the cut; connection attempts wait                              |
| loss              | both ends lose the connection, each at its time, and perhaps the last bytes sent                |
| end of a process  | its connections are reset; after a loss of power only once the host is up and is sent something |
| pause             | bytes arrive when the process runs again; its kernel accepts connections meanwhile             |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final
from zlib import crc32

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import (
    ConnectError,
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
    TimeoutError,
)
from twisted.internet.interfaces import IListeningPort, IStreamClientEndpoint, IStreamServerEndpoint
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.rpc.transport import BUFFERS
from tests.simulation.world import Process, World

_SYN_SECONDS: Final = 0.5
_FIRST_CLIENT_PORT: Final = 40_000
_RESET: Final = Failure(ConnectionLost())


@attrs.frozen
class Latency:
    """Delays of messages in seconds: most are usual, a share of them is long."""

    usual: float = 0.001
    long: float = 0.1
    long_share: float = 0.03


@attrs.define(eq=False)
class Network:
    world: World
    latency: Latency = attrs.field(factory=Latency)
    _ports: dict[tuple[str, int], SimulatedPort] = attrs.field(factory=dict, init=False)
    _cuts: dict[tuple[str, str], None] = attrs.field(factory=dict, init=False)
    connections: dict[Connection, None] = attrs.field(factory=dict, init=False)
    _client_ports: int = attrs.field(default=_FIRST_CLIENT_PORT, init=False)

    def delay(self) -> float:
        rng, latency = self.world.rng, self.latency
        longest = latency.long if rng.random() < latency.long_share else latency.usual
        return rng.random() * longest

    def reaches(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) not in self._cuts

    def cut(self, sender: str, receiver: str) -> None:
        """Let nothing arrive at the receiver."""
        self._cuts[sender, receiver] = None

    def heal(self, sender: str, receiver: str) -> None:
        del self._cuts[sender, receiver]
        for connection in tuple(self.connections):
            connection.healed(sender, receiver)

    def listen(self, port: SimulatedPort) -> None:
        self._ports[port.process.host, port.number] = port
        port.process.on_end.append(lambda silently: self.close(port))

    def close(self, port: SimulatedPort) -> None:
        if self._ports.get((port.process.host, port.number)) is port:
            del self._ports[port.process.host, port.number]

    def is_up(self, host: str) -> bool:
        """Return whether a host answers for connections of an ended process: it serves again."""
        return any(port_host == host for port_host, _ in self._ports)

    def port(self, host: str, number: int) -> SimulatedPort | None:
        return self._ports.get((host, number))

    def next_client_port(self) -> int:
        self._client_ports += 1
        return self._client_ports


class Pipe:
    """One direction of a connection: a queue of bytes, and perhaps its end."""

    def __init__(self, network: Network, receiver: SimulatedTransport, sender: SimulatedTransport) -> None:
        self._network = network
        self._sender = sender
        self._receiver = receiver
        self._in_transit: deque[bytes | Failure] = deque()
        self._arrival = 0.0
        self._held = 0
        """Arrivals that wait for the end of a cut."""

    @property
    def _is_open(self) -> bool:
        return self._network.reaches(self._sender.process.host, self._receiver.process.host)

    def send(self, data: bytes | Failure) -> None:
        world = self._network.world
        if not self._receiver.process.is_alive and self._network.is_up(self._receiver.process.host):
            world.call_later(2 * self._network.delay(), self._sender.ended, _RESET, process=self._sender.process)
            return
        self._in_transit.append(data)
        self._arrival = max(self._arrival, world.now + self._network.delay())
        world.call_later(self._arrival - world.now, self._arrived, process=self._receiver.process)

    def _arrived(self) -> None:
        if self._held or not self._is_open:
            self._held += 1
        else:
            self._deliver()

    def healed(self) -> None:
        """Deliver what waited, in its order."""
        held, self._held = self._held, 0
        world = self._network.world
        self._arrival = max(self._arrival, world.now + self._network.delay())
        for _ in range(held):
            world.call_later(self._arrival - world.now, self._arrived, process=self._receiver.process)

    def _deliver(self) -> None:
        if not self._in_transit:  # the connection was reset
            return
        data = self._in_transit.popleft()
        if isinstance(data, Failure):
            self._receiver.ended(data)
        else:
            self._receiver.received(data)

    def reset(self, loses_bytes: bool) -> None:
        if loses_bytes:
            self._in_transit.clear()
        self.send(Failure(ConnectionLost()))


class Connection:
    def __init__(self, network: Network, client: SimulatedTransport, server: SimulatedTransport) -> None:
        self.client = client
        self.server = server
        self._network = network
        self._pipes = (Pipe(network, client, server), Pipe(network, server, client))
        client.connection = server.connection = self
        network.connections[self] = None

    def _to(self, receiver: SimulatedTransport) -> Pipe:
        return self._pipes[receiver is self.server]

    def send(self, sender: SimulatedTransport, data: bytes | Failure) -> None:
        self._to(self.client if sender is self.server else self.server).send(data)

    def healed(self, sender: str, receiver: str) -> None:
        for one, other in ((self.client, self.server), (self.server, self.client)):
            if (one.process.host, other.process.host) == (sender, receiver):
                self._to(other).healed()

    def reset(self, loses_bytes: bool) -> None:
        """Let both ends lose the connection, perhaps without the bytes on the way."""
        for pipe in self._pipes:
            pipe.reset(loses_bytes)

    def closed_by(self, closer: SimulatedTransport, why: Failure) -> None:
        other = self.server if closer is self.client else self.client
        if other.is_closed:
            self._network.connections.pop(self, None)
        else:
            self.send(closer, why)


class SimulatedTransport:
    """One end of a connection, as `KafkaProtocol` and `BrokerConnection` use it."""

    socket = None
    unsent_bytes = 0
    unsent_chunks = 0

    def __init__(self, network: Network, process: Process, own: IPv4Address, peer: IPv4Address) -> None:
        self.process = process
        self.connection: Connection
        self.protocol: Any = None
        self._network = network
        self._own = own
        self._peer = peer
        self.is_closed = False
        self._is_reading = False
        self._unread: deque[bytes | Failure] = deque()
        process.on_end.append(self._process_ended)

    def connected(self, protocol: Any) -> None:
        """Deliver to a protocol from now on."""
        self.protocol = protocol
        self._is_reading = True
        protocol.makeConnection(self)
        self._read_on()

    # what protocols call

    def getHost(self) -> IPv4Address:
        return self._own

    def getPeer(self) -> IPv4Address:
        return self._peer

    def write(self, data: bytes) -> None:
        self.send_chunks((data,))

    def writeSequence(self, chunks: Iterable[Any]) -> None:
        self.send_chunks(chunks)

    def send_chunks(self, chunks: Iterable[Any]) -> None:
        if self.is_closed or not self.process.is_alive:
            return
        data = b"".join(chunk if isinstance(chunk, BUFFERS) else chunk.read() for chunk in chunks)
        self._network.world.note(f"{self.process.host}>{self._peer.host} {len(data)} {crc32(data):x}\n")
        self.connection.send(self, data)

    def loseConnection(self) -> None:
        self._close(ConnectionDone())

    def abortConnection(self) -> None:
        self._close(ConnectionLost())

    def stopReading(self) -> None:
        self._is_reading = False

    def startReading(self) -> None:
        self._is_reading = True
        self.process.reactor.callLater(0, self._read_on)

    # what happens to it

    def received(self, data: bytes) -> None:
        self._unread.append(data)
        self._read_on()

    def ended(self, why: Failure) -> None:
        self._unread.append(why)
        self._read_on()

    def _read_on(self) -> None:
        while self._unread and self._is_reading and not self.is_closed:
            data = self._unread.popleft()
            if isinstance(data, Failure):
                self._closed(data)
            else:
                self.protocol.dataReceived(data)

    def _close(self, why: Exception) -> None:
        if not self.is_closed and self.process.is_alive:
            self.process.reactor.callLater(0, self._closed, Failure(why))

    def _closed(self, why: Failure) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._unread.clear()
            self.connection.closed_by(self, why)
            if self.protocol is not None:
                self.protocol.connectionLost(why)

    def _process_ended(self, silently: bool) -> None:
        if not self.is_closed:
            self.is_closed = True
            if not silently:
                self.connection.closed_by(self, Failure(ConnectionLost()))


@implementer(IListeningPort)
class SimulatedPort:
    def __init__(self, network: Network, process: Process, number: int, factory: Any) -> None:
        self.process = process
        self.number = number
        self.factory = factory
        self._network = network

    def startListening(self) -> None:
        self._network.listen(self)

    def stopListening(self) -> Deferred[None]:
        self.close()
        return succeed(None)

    def close(self) -> None:
        self._network.close(self)

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", self.process.host, self.number)


@implementer(IStreamServerEndpoint)
@attrs.frozen(eq=False)
class ServerEndpoint:
    network: Network
    process: Process
    port: int

    def listen(self, protocolFactory: Any) -> Deferred[SimulatedPort]:
        port = SimulatedPort(self.network, self.process, self.port, protocolFactory)
        port.startListening()
        return succeed(port)


@implementer(IStreamClientEndpoint)
@attrs.define(eq=False)
class ClientEndpoint:
    """One attempt to connect."""

    network: Network
    process: Process
    host: str
    port: int
    timeout: float
    _deadline: float = attrs.field(default=0.0, init=False)
    _factory: Any = attrs.field(default=None, init=False)
    _done: Deferred[Any] = attrs.field(factory=Deferred, init=False)

    def connect(self, protocolFactory: Any) -> Deferred[Any]:
        self._factory = protocolFactory
        self._deadline = self.network.world.now + self.timeout
        self._done = Deferred(lambda _: None)
        self._send_syn()
        return self._done

    def _send_syn(self) -> None:
        self.network.world.call_later(self.network.delay(), self._syn_arrived)

    def _syn_arrived(self) -> None:
        network, world = self.network, self.network.world
        own = self.process.host
        if not (network.reaches(own, self.host) and network.reaches(self.host, own)):
            if world.now + _SYN_SECONDS > self._deadline:
                self._later(self._fail, TimeoutError())
            else:
                world.call_later(_SYN_SECONDS, self._syn_arrived)
            return
        port = network.port(self.host, self.port)
        if port is None:
            self._later(self._fail, ConnectionRefusedError())
        else:
            self._establish(port)

    def _establish(self, port: SimulatedPort) -> None:
        """Connect as the kernels do; the server's process may be paused."""
        network = self.network
        own = IPv4Address("TCP", self.process.host, network.next_client_port())
        client = SimulatedTransport(network, self.process, own, port.getHost())
        server = SimulatedTransport(network, port.process, port.getHost(), own)
        Connection(network, client, server)
        port.process.reactor.callLater(0, self._accept, port, server)
        self._later(self._connected, client)

    def _accept(self, port: SimulatedPort, server: SimulatedTransport) -> None:
        protocol = port.factory.buildProtocol(server.getPeer())
        if protocol is None:
            server.abortConnection()
        else:
            server.connected(protocol)

    def _connected(self, client: SimulatedTransport) -> None:
        if self._done.called:  # cancelled meanwhile
            client.abortConnection()
            return
        protocol = self._factory.buildProtocol(client.getPeer())
        client.connected(protocol)
        self._done.callback(protocol)

    def _later(self, call: Any, *arguments: Any) -> None:
        self.network.world.call_later(self.network.delay(), call, *arguments, process=self.process)

    def _fail(self, error: ConnectError) -> None:
        if not self._done.called:
            self._done.errback(Failure(error))
