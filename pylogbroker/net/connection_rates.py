"""Rates at which connections may be created (KIP-612).

    rate of                     set by                                              beyond it
    --------------------------  --------------------------------------------------  --------------------------------
    the broker, one listener    max.connection.creation.rate, also of one listener  connections are accepted later
    an address                  the quota connection_creation_rate                  connections are closed, but later

Both wait one window at most. Brokers of a cluster that have a listener of their own are not limited by the rate of all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from pylogbroker.broker.services import QuotaChanges
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.config.value_kinds import INT_MAX
from pylogbroker.rpc.transport import ChunkConnection
from pylogbroker.security.quotas.keys import QuotaKey, parse_ip
from pylogbroker.security.quotas.rates import Measures, SampledRate, Windows

_LEAST_RATE: Final = 1e-6  # in place of 0


@attrs.define(eq=False, repr=False)
class ConnectionRates:
    _config: BrokerConfig
    _quotas: QuotaChanges
    _clock: IReactorTime
    _windows: Windows = attrs.field(init=False)
    _broker: SampledRate = attrs.field(init=False)
    _listeners: dict[str, SampledRate] = attrs.field(factory=dict, init=False)
    _addresses: Measures[str, SampledRate] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        config = self._config
        self._windows = Windows(config.quota_window_num, config.quota_window_size_seconds)
        self._broker = SampledRate(self._windows)
        self._addresses = Measures(self._windows, SampledRate)

    def is_limited(self, listener: Listener) -> bool:
        return min(self._rate(listener), self._rate_of_all(listener)) < INT_MAX

    def accept_delay_ms(self, listener: Listener) -> int:
        """Count a connection; return how long the listener must wait before it accepts the next one."""
        delay_ms, of_all = 0, self._rate_of_all(listener)
        if of_all < INT_MAX:
            delay_ms = self._delay_ms(self._broker, of_all)
        rate = self._rate(listener)
        if rate < INT_MAX:
            own = self._listeners.setdefault(listener.name, SampledRate(self._windows))
            delay_ms = max(delay_ms, self._delay_ms(own, rate))
        return delay_ms

    def address_delay_ms(self, host: str) -> int:
        """Count a connection; return 0, or when it must be closed without having been counted."""
        table = self._quotas.table
        if QuotaKey.CONNECTION_CREATION_RATE not in table.keys:
            return 0
        address = parse_ip(host) or host
        quota = table.connection_rate(address)
        if quota is None:
            return 0
        rate = self._addresses.of(address, self._now_ms())
        delay_ms = self._delay_ms(rate, quota)
        if delay_ms:
            rate.record(-1, self._now_ms())
        return delay_ms

    def _rate(self, listener: Listener) -> int:
        """Return the rate of one listener that is set for it alone."""
        return self._config.connection_rate(listener)

    def _rate_of_all(self, listener: Listener) -> int:
        config = self._config
        is_of_several = config.in_cluster and len(config.listeners) > 1
        if is_of_several and listener.name == config.inter_broker_listener.name:
            return INT_MAX
        return config.max_connection_creation_rate

    def _delay_ms(self, rate: SampledRate, quota: float) -> int:
        now_ms = self._now_ms()
        rate.record(1, now_ms)
        return min(self._windows.ms, rate.throttle_ms(max(quota, _LEAST_RATE), now_ms))

    def _now_ms(self) -> int:
        return int(self._clock.seconds() * 1000)


class ThrottledConnection(Protocol):
    """Connection of an address beyond its rate: it is closed after a time, and nothing is read."""

    transport: ChunkConnection

    def __init__(self, clock: IReactorTime, ms: int, on_lost: Callable[[ThrottledConnection], object]) -> None:
        self._clock = clock
        self._ms = ms
        self._on_lost = on_lost
        self._end: IDelayedCall | None = None

    def connectionMade(self) -> None:
        self.transport.stopReading()
        self._end = self._clock.callLater(self._ms / 1000, self.transport.abortConnection)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._end is not None and self._end.active():
            self._end.cancel()
        self._on_lost(self)
