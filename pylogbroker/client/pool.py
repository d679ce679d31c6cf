"""Connection pool of a client: one connection for each broker in use, opened on demand and closed when idle.

    idle --send--> connecting --ready--> open ----------------+--> (lost) connecting again, after a backoff
      ^                |                                      |
      |                +-- failed: all waiting requests fail, |
      |                    connecting again after a backoff   |
      +---------------- unused for a while, or the broker is gone

Twisted's ClientService holds each connection and paces attempts. A request without an open connection waits for the
current or next attempt, and fails with it. While the broker throttles a connection (KIP-219), requests wait in order;
requests for any broker use another one.

A node number is a broker's number, or stands for a separate connection:
  - `coordinator_node(n)`: to broker n, not behind its fetches. Numbers as in Kafka's Java client;
  - negative: to a bootstrap address, before brokers' numbers are known.

A broker's channels to other brokers (`pylogbroker.rpc.channel_pool`) need none of these states. Their users retry each
request, the cluster's image has the addresses, and a channel to a live broker stays open. Both pools connect with
`rpc.connection.connect` and pause by `rpc.backoff`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from twisted.application.internet import ClientService
from twisted.internet.address import HostnameAddress
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, fail
from twisted.internet.interfaces import IAddress, IDelayedCall, IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.client.connection_settings import connection_settings
from pylogbroker.client.coordinator_requests import broker_of
from pylogbroker.client.errors import Closed, ConnectionLost, NotAuthenticated, NotConnected
from pylogbroker.config import Values
from pylogbroker.errors import PylogbrokerError
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.connection import BrokerConnection, connect
from pylogbroker.rpc.settings import Address, ConnectionSettings

T = TypeVar("T")

Dial = Callable[[Any, Address, ConnectionSettings], Awaitable[BrokerConnection]]

_SWEEP_SECONDS = 10.0


class _Session(Protocol):
    connection: BrokerConnection


@implementer(IStreamClientEndpoint)
class _BrokerEndpoint:
    """Endpoint that negotiates versions before ClientService sees the connection.

    ClientService's own hook, `prepareConnection`, fails if the connection is lost meanwhile.
    """

    def __init__(self, reactor: Any, address: Address, settings: ConnectionSettings, dial: Dial) -> None:
        self._dialling = reactor, address, settings
        self._dial = dial
        self._address = HostnameAddress(address.host.encode(), address.port)

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        return ensureDeferred(self._connect(protocolFactory))

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        connection = await self._dial(*self._dialling)
        session: Any = factory.buildProtocol(cast(IAddress, self._address))
        session.connection = connection
        session._protocol.connection = connection
        session.makeConnection(connection.transport)
        connection.when_lost = session.connectionLost
        return cast(IProtocol, session)


class Channel:
    # Stages without types: connections and pauses come and go

    def __init__(
        self, reactor: Any, address: Address, settings: ConnectionSettings, backoff: Backoff, dial: Dial
    ) -> None:
        self.address = address
        self.connection: BrokerConnection | None = None  # None while requests wait for it
        self.newest: BrokerConnection | None = None
        self._reactor = reactor
        self._waiting: deque[Deferred[BrokerConnection]] = deque()
        self._sent = -1
        self._idle_since = reactor.seconds()
        self._service = ClientService(
            _BrokerEndpoint(reactor, address, settings, dial),
            Factory.forProtocol(_Session),
            retryPolicy=backoff.pause,
            clock=reactor,
        )
        self._attempting = False
        self._is_resolving = False  # waiting requests are getting the outcome
        self._backing_off: IDelayedCall | None = None
        self._closed = False

    @property
    def is_needed(self) -> bool:
        in_flight = self.newest is not None and self.newest.in_flight > 0
        return bool(self._waiting) or in_flight or self._backing_off is not None

    def when_connected(self) -> Deferred[BrokerConnection]:
        """Fire in the order of the calls."""
        if self._closed:
            return fail(Closed(f"the connection to {self.address} was closed"))
        self.connection = None  # a caller would have used an open connection
        waiting: Deferred[BrokerConnection] = Deferred()
        self._waiting.append(waiting)
        if not self._attempting and self._backing_off is None:
            self._attempt()
        return waiting

    def back_off(self, seconds: float) -> None:
        if self._closed:
            return
        due = self._reactor.seconds() + seconds
        if self._backing_off is not None:
            due = max(due, self._backing_off.getTime())
            self._backing_off.cancel()
        self.connection = None
        self._backing_off = self._reactor.callLater(due - self._reactor.seconds(), self._backed_off)

    def idle_seconds(self, now: float) -> float:
        """Return the seconds without use, as these calls see it."""
        sent = self.newest.sent if self.newest is not None else -1
        if sent != self._sent or self.is_needed:
            self._sent, self._idle_since = sent, now
        return float(now - self._idle_since)

    def close(self, reason: Exception) -> Deferred[None]:
        self._closed = True
        if self._backing_off is not None:
            self._backing_off.cancel()
        if self.newest is not None and self.newest.is_open:
            self.newest.close(reason)
        self._fail(reason)
        if not self._service.running:
            return cast("Deferred[None]", ensureDeferred(_nothing()))
        if self._is_resolving:  # ClientService must not be called from its callback
            return deferLater(self._reactor, 0).addCallback(lambda _: self._service.stopService())
        return self._service.stopService()

    def _attempt(self) -> None:
        self._attempting = True
        if not self._service.running:
            self._service.startService()
        attempt = self._service.whenConnected(failAfterFailures=1)
        attempt.addBoth(self._resolve)

    def _resolve(self, attempt: IProtocol | Failure) -> None:
        self._is_resolving = True
        try:
            self._not_made(attempt) if isinstance(attempt, Failure) else self._made(attempt)
        finally:
            self._is_resolving = False

    def _made(self, session: IProtocol) -> None:
        connection = cast(_Session, session).connection
        if not connection.is_open:  # dropped; the service notices in the next iteration
            self._reactor.callLater(0, self._attempt_again)
            return
        self.newest = connection
        if self._backing_off is not None:  # `_backed_off` continues
            self._attempting = False
            return
        while self._waiting:  # new requests must not overtake waiting ones
            self._waiting.popleft().callback(connection)
        self._attempting = False
        if connection.is_open and not self._closed:
            self.connection = connection

    def _attempt_again(self) -> None:
        self._attempting = False
        if self._waiting and not self._closed and self._backing_off is None:
            self._attempt()

    def _backed_off(self) -> None:
        self._backing_off = None
        if self._attempting:
            return
        if self._waiting:
            self._attempt()
        elif self.newest is not None and self.newest.is_open:
            self.connection = self.newest

    def _not_made(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, PylogbrokerError):
            what = "closed" if isinstance(error, CancelledError) else failure.getErrorMessage()
            error = NotConnected(f"cannot connect to {self.address}: {what}")
        self._fail(error)
        later = self._stop_attempts if isinstance(error, NotAuthenticated) else self._attempt_again
        self._reactor.callLater(0, later)  # not from its callback

    def _stop_attempts(self) -> None:
        """Stop reconnecting: the broker would reject the same credentials again. The next request tries once more."""
        if not self._closed:
            self._service.stopService()
        self._attempt_again()

    def _fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            waiter.errback(Failure(error))


async def _nothing() -> None:
    return None


class ConnectionPool:
    def __init__(self, reactor: Any, settings: Values, dial: Dial = connect) -> None:
        self._reactor = reactor
        self._settings = connection_settings(settings)
        self._backoff = Backoff.of(settings, "reconnect.backoff")
        self._dial = dial
        self._idle = settings.integer("connections.max.idle.ms") / 1000
        self._channels: dict[int, Channel] = {}
        self._addresses: dict[int, Address] = {}
        self._sweeping: Any = None
        self._closing: dict[Deferred[None], None] = {}
        self._closed = False

    def open_connection(self, node_id: int) -> BrokerConnection | None:
        """Return None while requests wait for the connection."""
        channel = self._channels.get(node_id)
        if channel is None:
            return None
        connection = channel.connection
        return connection if connection is not None and connection.is_open else None

    def newest_connection(self, node_id: int) -> BrokerConnection | None:
        """Return the connection, even while waiting requests are being sent."""
        channel = self._channels.get(node_id)
        connection = None if channel is None else channel.newest
        return connection if connection is not None and connection.is_open else None

    def connection(self, node_id: int) -> Deferred[BrokerConnection]:
        """Fail with NotConnected."""
        if self._closed:
            return fail(Closed("the client has been closed"))
        channel = self._channels.get(node_id)
        if channel is None:
            address = self._addresses.get(broker_of(node_id))
            if address is None:
                return fail(NotConnected(f"broker {broker_of(node_id)} is unknown"))
            channel = self._channels[node_id] = Channel(
                self._reactor, address, self._settings, self._backoff, self._dial
            )
            self._sweep_later()
        return channel.when_connected()

    def idlest(self) -> BrokerConnection | None:
        """Return the open connection with the fewest requests in flight, except coordinators'."""
        nodes = [node_id for node_id in self._channels if broker_of(node_id) == node_id]
        connections = [connection for connection in map(self.open_connection, nodes) if connection is not None]
        return min(connections, key=lambda connection: connection.in_flight, default=None)

    def know(self, addresses: Mapping[int, Address]) -> None:
        """Set the addresses; drop other connections."""
        for node_id, address in addresses.items():
            self._rename(address, node_id)
        self._addresses = dict(addresses)
        for node_id, channel in tuple(self._channels.items()):
            address_now = addresses.get(broker_of(node_id))
            if address_now != channel.address and not (node_id < 0 and channel.is_needed):
                self._drop(
                    node_id, ConnectionLost(f"broker {broker_of(node_id)} is not at {channel.address} any longer")
                )

    def honour_throttle(self, answer: T, connection: BrokerConnection) -> T:
        throttle = getattr(answer, "throttle_time_ms", 0)
        if throttle > 0:
            for channel in self._channels.values():
                if channel.newest is connection:
                    channel.back_off(throttle / 1000)
        return answer

    def disconnect(self, node_id: int) -> None:
        if node_id in self._channels:
            self._drop(node_id, ConnectionLost(f"the connection to broker {broker_of(node_id)} was dropped"))

    def add(self, node_id: int, address: Address) -> None:
        if self._addresses.get(node_id) != address:
            self.know({**self._addresses, node_id: address})

    async def close(self) -> None:
        self._closed = True
        if self._sweeping is not None and self._sweeping.active():
            self._sweeping.cancel()
        for node_id in tuple(self._channels):
            self._drop(node_id, Closed("the client has been closed"))
        for closing in tuple(self._closing):
            await _second_waiter(closing)

    def _rename(self, address: Address, node_id: int) -> None:
        if node_id < 0 or node_id in self._channels:
            return
        for number, channel in self._channels.items():
            if number < 0 and channel.address == address:
                self._channels[node_id] = self._channels.pop(number)
                return

    def _drop(self, node_id: int, reason: Exception) -> None:
        closing = self._channels.pop(node_id).close(reason)
        self._closing[closing] = None
        closing.addBoth(lambda _: self._closing.pop(closing, None))

    # idle connections

    def _sweep_later(self) -> None:
        if self._sweeping is None or not self._sweeping.active():
            often = min(_SWEEP_SECONDS, self._idle / 4) if self._idle > 0 else _SWEEP_SECONDS
            self._sweeping = self._reactor.callLater(often, self._sweep)

    def _sweep(self) -> None:
        now = self._reactor.seconds()
        for node_id, channel in tuple(self._channels.items()):
            idle = channel.idle_seconds(now)
            unconnected = self.open_connection(node_id) is None
            if (unconnected and not channel.is_needed) or 0 < self._idle <= idle:
                self._drop(
                    node_id, ConnectionLost(f"the connection to {channel.address} was closed because it was idle")
                )
        if self._channels:
            self._sweep_later()


def _second_waiter(deferred: Deferred[None]) -> Deferred[None]:
    second: Deferred[None] = Deferred()
    deferred.addBoth(lambda _: second.callback(None))
    return second
