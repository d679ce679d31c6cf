"""Listeners of a broker.

start   bind, and note the actual port in `LocalNode.listeners`
stop    stop accepting, send the answers of running requests, close; abort after `CLOSING_SECONDS`
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger

from pylogbroker.broker.runtime.resources import PeriodicCall
from pylogbroker.broker.services import Services
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.config.listeners import SIMPLE
from pylogbroker.features import on_first_use
from pylogbroker.net.connection_rates import ConnectionRates, ThrottledConnection
from pylogbroker.net.joined_reads import joined_reads_of
from pylogbroker.net.large_requests import LargeRequests
from pylogbroker.net.latencies import ReadSampler
from pylogbroker.net.limits import ConnectionLimit, MemoryLimit, SetupLimit, automatic_memory_bound
from pylogbroker.net.protocol import HasMeters, KafkaProtocol
from pylogbroker.net.routes import Routes
from pylogbroker.net.setup_steps import SetupSteps
from pylogbroker.net.transport import ChunkPort, ChunkServerEndpoint
from pylogbroker.peer_log_limit import PeerLogLimit
from pylogbroker.security.principals import ANONYMOUS
from pylogbroker.security.tls.engine import TlsEngine

if TYPE_CHECKING:
    from pylogbroker.net import sasl_protocol
else:
    sasl_protocol = on_first_use("pylogbroker.net.sasl_protocol")

log = Logger()

CLOSING_SECONDS = 1.0
_TLS_LINES_MAX = 3  # a minute, for each address and cause
THROTTLED_MAX = 1000  # connections of a listener that wait for their end
_IDLE_TICKS = 10


def _listener_of_brokers(config: BrokerConfig) -> str | None:
    """Return the name of the listener of other brokers, None if it is the only one."""
    if len(config.listeners) == 1 or all(listener.protocol == SIMPLE for listener in config.listeners):
        return None
    return config.inter_broker_listener.name


def _connection_limit(config: BrokerConfig) -> ConnectionLimit:
    """Return a limit that follows the settings; connections that exist stay."""
    limit = ConnectionLimit(protected=_listener_of_brokers(config))

    def take_limits(changed: frozenset[str] = frozenset()) -> None:
        limit.most = config.max_connections
        limit.most_per_host = config.max_connections_per_ip
        limit.overrides = config.address_limits
        limit.most_of = {listener.name: config.connections_of(listener) for listener in config.listeners}

    take_limits()
    config.observe(take_limits)
    return limit


@attrs.define(eq=False, repr=False)
class SharedLimits:
    memory: MemoryLimit
    connections: ConnectionLimit
    bad_requests: PeerLogLimit
    not_offered: PeerLogLimit
    setup: SetupLimit
    steps: SetupSteps
    rejected: PeerLogLimit
    not_secured: PeerLogLimit
    rates: ConnectionRates
    large_requests: LargeRequests
    factories: list[KafkaFactory] = attrs.field(factory=list)
    """Those whose connections may end so that other brokers can connect."""

    @classmethod
    def of(cls, services: Services) -> SharedLimits:
        config, clock = services.config, services.runtime.clock
        memory = config.queued_max_request_bytes
        return cls(
            MemoryLimit(memory if memory > 0 else automatic_memory_bound()),
            _connection_limit(config),
            PeerLogLimit(clock, "closed {count} more connections from {host} for bad requests within a minute"),
            PeerLogLimit(clock, "closed {count} more connections from {host} within a minute", 1),
            SetupLimit(
                clock,
                config.connection_setup_timeout_ms,
                config.connection_setup_max_per_ip,
            ),
            SetupSteps(clock),
            PeerLogLimit(clock, "rejected {count} more connections from {host} within a minute"),
            PeerLogLimit(clock, "closed {count} more connections from {host} within a minute", _TLS_LINES_MAX),
            ConnectionRates(config, services.quotas.store, clock),
            LargeRequests(clock),
        )

    def endpoint(
        self, reactor: Any, listener: Listener, port: int, backlog: int, make_engine: Callable[[], TlsEngine]
    ) -> ChunkServerEndpoint:
        """Return the endpoint of a listener, at `port`."""
        security = listener.security
        return ChunkServerEndpoint(
            reactor,
            listener.host,
            port,
            backlog,
            self.steps if security.has_setup else None,
            make_engine if security.has_tls else None,
        )

    def log_suppressed(self) -> None:
        self.bad_requests.log_suppressed()
        self.not_offered.log_suppressed()
        self.rejected.log_suppressed()
        self.not_secured.log_suppressed()


@attrs.define(eq=False, repr=False)
class ConnectionCounts:
    """Connections of one listener since the start, for metrics."""

    accepted: int = 0
    authenticated: int = 0
    """By TLS or SASL."""
    not_authenticated: int = 0
    expired: int = 0
    """Closed because a client has used a connection after the end of its SASL session."""
    setups: Counter[tuple[str, bool]] = attrs.field(factory=Counter)
    """By step, TLS or SASL, and whether it succeeded."""

    def expect(self, step: str) -> None:
        """Begin to count a step."""
        self.setups.update({(step, True): 0, (step, False): 0})


class KafkaFactory(Factory):
    noisy = False
    protocol_class = KafkaProtocol

    def __init__(self, reactor: Any, services: Services, listener: Listener, bounds: SharedLimits) -> None:
        self.reactor = reactor
        self.services = services
        self.authorizer = services.authorizer
        self.quotas: HasMeters = services.quotas
        self.listener_name = listener.name
        self._security = listener.security
        self._has_setup = listener.security.has_setup
        if listener.security.has_sasl:
            self.protocol_class = sasl_protocol.SaslProtocol
        self.deferred_actions = services.runtime.deferred_actions
        self.memory = bounds.memory
        self.large_requests = bounds.large_requests
        self.bad_requests = bounds.bad_requests
        self.not_offered = bounds.not_offered
        self._rejected = bounds.rejected
        self._not_secured = bounds.not_secured
        self._setup = bounds.setup
        self._rates = bounds.rates
        self._listener = listener
        self._throttled: dict[ThrottledConnection, None] = {}
        self.pause_accepting: Callable[[int], object] = lambda ms: None
        self.routes = Routes(services.apis, services)
        self.read_sampler = ReadSampler()
        self.joined_reads = joined_reads_of(reactor)
        self.max_request_bytes = services.config.socket_request_max_bytes
        self.connections: dict[KafkaProtocol, None] = {}
        self.idle_tick = 0
        self.counts = ConnectionCounts()
        for step, is_required in (("TLS", listener.security.has_tls), ("SASL", listener.security.has_sasl)):
            if is_required:
                self.counts.expect(step)
        self._bound = bounds.connections
        self._factories = bounds.factories
        if listener.name != bounds.connections.protected:
            bounds.factories.append(self)
        self._all_closed: Deferred[None] | None = None
        self._socket_buffers = (
            (socket.SO_SNDBUF, services.config.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, services.config.socket_receive_buffer_bytes),
        )

    @property
    def is_rate_limited(self) -> bool:
        """True if connections are accepted one by one."""
        return self._rates.is_limited(self._listener)

    def buildProtocol(self, addr: IAddress | None) -> Protocol | None:
        host, port = cast(str, getattr(addr, "host", "")), cast(int, getattr(addr, "port", 0))
        if delay_ms := self._rates.accept_delay_ms(self._listener):
            self.pause_accepting(delay_ms)
        if delay_ms := self._rates.address_delay_ms(host):
            return self._throttle(host, delay_ms)
        rejection = self._setup.reject(host) if self._has_setup else None
        rejection = rejection or self._bound.admit(host, self.listener_name)
        if rejection is not None:
            if self._rejected.is_due(host):
                log.warn(
                    "rejected a connection from {host}:{port} on {listener}: {why}",
                    host=host,
                    port=port,
                    listener=self.listener_name,
                    why=rejection,
                )
            return None
        if self._bound.is_exceeded:
            self._close_longest_idle()
        protocol = self.protocol_class(host, port)
        protocol.factory = self
        return protocol

    def _close_longest_idle(self) -> None:
        """Close the connection of a client without progress for the longest time: another broker connects."""
        idle = [
            (factory.idle_tick - protocol.idle_since, -number, protocol)
            for factory in self._factories
            for number, protocol in enumerate(factory.connections)
            if not protocol.is_closing
        ]
        if idle:
            *_, longest = max(idle, key=lambda candidate: candidate[:2])
            longest.close_because(f"max.connections={self._bound.most} is reached, and another broker connects", False)

    def _throttle(self, host: str, ms: int) -> ThrottledConnection | None:
        """Return a connection that is closed later, or None to close it at once if too many wait for that."""
        is_full = len(self._throttled) >= THROTTLED_MAX
        if self._rejected.is_due(host):
            log.warn(
                "{host} creates more connections than its quota: they are closed{when}",
                host=host,
                when=f" at once, as {THROTTLED_MAX} others wait for that" if is_full else "",
            )
        if is_full:
            return None
        connection = ThrottledConnection(self.reactor, ms, self._throttled.pop)
        self._throttled[connection] = None
        return connection

    def connection_made(self, protocol: KafkaProtocol) -> None:
        self.connections[protocol] = None
        self.counts.accepted += 1
        if self._has_setup:
            self._setup.start(protocol, protocol.host, self._setup_timed_out)
        for option, size in self._socket_buffers:
            if size > 0:
                protocol.transport.socket.setsockopt(socket.SOL_SOCKET, option, size)

    def connection_secured(self, protocol: KafkaProtocol, certificate: bytes | None) -> str:
        """Return the principal of a client whose handshake is over; raise TlsFailed if it has none.

        With SASL, the certificate does not count, and authentication follows.
        """
        if self._security.has_sasl:
            self.counts.setups["TLS", True] += 1
            return ANONYMOUS
        principal = self.services.tls[self.listener_name].principal_of(certificate)
        self.counts.setups["TLS", True] += 1
        self._set_up(protocol)
        return principal

    def setup_failed(self, protocol: KafkaProtocol, step: str, cause: str) -> None:
        """Log why the step TLS or SASL failed, a few times a minute for each cause."""
        self.count_failure(step)
        if self._not_secured.is_due(f"{protocol.host}: {step}: {cause},"):
            log.warn("closed the connection from {peer}: {step}: {cause}", peer=protocol.peer, step=step, cause=cause)

    def count_failure(self, step: str) -> None:
        """Count a step that failed for a cause that is logged elsewhere."""
        self.counts.not_authenticated += 1
        self.counts.setups[step, False] += 1

    def authenticated(self, protocol: KafkaProtocol) -> None:
        self.counts.setups["SASL", True] += 1
        self._set_up(protocol)

    def _set_up(self, protocol: KafkaProtocol) -> None:
        self.counts.authenticated += 1
        self._setup.stop(protocol)
        protocol.transport.is_set_up = True

    def session_expired(self) -> None:
        self.counts.expired += 1

    def _setup_timed_out(self, protocol: KafkaProtocol) -> None:
        limit = f"connection.setup.timeout.ms={self._setup.ms}"
        if self._security.has_sasl:
            self.setup_failed(protocol, "SASL", f"the authentication took longer than {limit}")
        else:
            protocol.tls_failed(f"the handshake took longer than {limit}")
        protocol.transport.abortConnection()

    def connection_lost(self, protocol: KafkaProtocol) -> None:
        self._bound.leave(protocol.host, self.listener_name)
        self._setup.stop(protocol)
        self.connections.pop(protocol, None)
        if not self.connections and self._all_closed is not None:
            done, self._all_closed = self._all_closed, None
            done.callback(None)

    def close_idle(self) -> None:
        """Close connections without progress for `_IDLE_TICKS` calls."""
        self.idle_tick += 1
        for protocol in tuple(self.connections):
            if self.idle_tick - protocol.idle_since > _IDLE_TICKS:
                protocol.close_because("idle for connections.max.idle.ms", is_fault=False)

    async def close(self) -> None:
        """Close; abort connections with unsent answers after `CLOSING_SECONDS`."""
        for throttled in tuple(self._throttled):
            throttled.transport.abortConnection()
        if not self.connections:
            return
        done: Deferred[None] = Deferred()
        self._all_closed = done
        for protocol in tuple(self.connections):
            protocol.finish()
        overdue = self.reactor.callLater(CLOSING_SECONDS, self._abort)
        await done
        if overdue.active():
            overdue.cancel()

    def _abort(self) -> None:
        for protocol in tuple(self.connections):
            protocol.transport.abortConnection()


MakeFactory = Callable[[Any, Services, Listener, SharedLimits], KafkaFactory]


@attrs.define(eq=False, repr=False)
class KafkaListener:
    _reactor: Any
    _services: Services
    _listener: Listener
    _bounds: SharedLimits
    _make_factory: MakeFactory = KafkaFactory
    _factory: KafkaFactory = attrs.field(init=False)
    _port: ChunkPort | None = attrs.field(default=None, init=False)
    _idle_check: PeriodicCall = attrs.field(init=False)
    _resume: IDelayedCall | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._factory = self._make_factory(self._reactor, self._services, self._listener, self._bounds)
        self._idle_check = PeriodicCall(self._reactor, self._factory.close_idle)

    async def start(self) -> int:
        """Bind; return the port. Raises CannotListenError."""
        listener, config = self._listener, self._services.config
        backlog = config.socket_listen_backlog_size
        endpoint = self._bounds.endpoint(self._reactor, listener, listener.port, backlog, self._make_engine)
        self._port = port = cast(ChunkPort, await endpoint.listen(self._factory))
        self._factory.pause_accepting = self._pause
        number = int(port.getHost().port)
        self._services.node.listeners[listener.name] = attrs.evolve(
            listener, port=number, advertised_port=listener.advertised_port or number
        )
        idle = config.connections_max_idle_ms
        if idle > 0:
            self._idle_check.start(idle / 1000 / _IDLE_TICKS, now=False)
        return number

    @property
    def factory(self) -> KafkaFactory:
        return self._factory

    def _make_engine(self) -> TlsEngine:
        return self._services.tls[self._listener.name].engine()

    def _pause(self, ms: int) -> None:
        """Accept no connections for a time."""
        if self._port is not None and self._resume is None:
            self._port.stopReading()
            self._resume = self._reactor.callLater(ms / 1000, self._accept_again)

    def _accept_again(self) -> None:
        self._resume = None
        if self._port is not None:
            self._port.startReading()

    async def stop_accepting(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        if self._port is not None:
            port, self._port = self._port, None
            if self._reactor.running:
                await cast(Deferred[None], port.stopListening())
            else:  # a failed start, or a stopped reactor: nothing else closes the socket
                port.close_now()

    async def close(self) -> None:
        if self._idle_check.running:
            self._idle_check.stop()
        await self._factory.close()
        self._bounds.log_suppressed()
