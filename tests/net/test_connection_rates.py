"""Rates of new connections: listeners that accept later, and addresses whose connections are closed later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from twisted.internet.address import IPv4Address, IPv6Address

from pylogbroker.broker.security.client_quotas import BrokerQuotas
from pylogbroker.config import Listener
from pylogbroker.net import service
from pylogbroker.net.connection_rates import ConnectionRates, ThrottledConnection
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.net.service import KafkaFactory, SharedLimits
from pylogbroker.peer_log_limit import LINES_PER_MINUTE_MAX
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity
from pylogbroker.security.quotas.keys import QuotaKey
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import Node, opened_node
from tests.broker.trees import now
from tests.net.fakes import FakeTransport

LISTENER = Listener("PLAINTEXT", "", 9092, "PLAINTEXT", "", 9092)
OTHER = Listener("OTHER", "", 9093, "PLAINTEXT", "", 9093)


@contextmanager
def rates(directory: Path, **settings: str) -> Iterator[tuple[Node, ConnectionRates]]:
    named = {name.replace("_", "."): text for name, text in settings.items()}
    listeners = {
        "listeners": "PLAINTEXT://:0,OTHER://:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
    }
    with opened_node((str(directory),), {**listeners, **named}) as node:
        broker = node.broker
        yield node, ConnectionRates(broker.config, broker.quotas.store, node.clock)


def set_rate(quotas: BrokerQuotas, ip: str, rate: float) -> None:
    key = QuotaKey.CONNECTION_CREATION_RATE
    now(quotas.store.alter(QuotaEntity(ip=ip), lambda before: {key: rate}))


def test_listeners_accept_ten_seconds_worth_at_once(tmp_path: Path) -> None:
    with rates(tmp_path, max_connection_creation_rate="2") as (node, limits):
        assert limits.is_limited(LISTENER)
        assert [limits.accept_delay_ms(LISTENER) for _ in range(20)] == [0] * 20
        assert limits.accept_delay_ms(OTHER) == 500  # 21 connections at 2 a second: half a second too early
        node.clock.advance(0.5)
        assert limits.accept_delay_ms(LISTENER) == 1000 - 250 - 250 == 500
        assert [limits.accept_delay_ms(LISTENER) for _ in range(9)][-1] == 1000  # one window at most


def test_rate_of_one_listener(tmp_path: Path) -> None:
    with rates(tmp_path, listener_name_other_max_connection_creation_rate="1") as (_, limits):
        assert not limits.is_limited(LISTENER)
        assert {limits.accept_delay_ms(LISTENER) for _ in range(1000)} == {0}
        assert limits.is_limited(OTHER)
        assert [limits.accept_delay_ms(OTHER) for _ in range(11)] == [0] * 10 + [1000]


def test_addresses(tmp_path: Path) -> None:
    with rates(tmp_path) as (node, limits):
        assert {limits.address_delay_ms("10.0.0.1") for _ in range(1000)} == {0}
        set_rate(node.broker.quotas, DEFAULT, 1.0)
        set_rate(node.broker.quotas, "10.0.0.2", 5.0)
        assert [limits.address_delay_ms("10.0.0.1") for _ in range(12)] == [0] * 10 + [1000] * 2
        assert limits.address_delay_ms("::ffff:10.0.0.1") == 1000
        assert [limits.address_delay_ms("10.0.0.2") for _ in range(51)] == [0] * 50 + [200]
        node.clock.advance(11.0)
        assert [limits.address_delay_ms("10.0.0.1") for _ in range(11)] == [0] * 10 + [1000]


def test_throttled_connections_are_closed_later(tmp_path: Path) -> None:
    with rates(tmp_path) as (node, _):
        set_rate(node.broker.quotas, "::1", 0.1)
        factory = KafkaFactory(node.clock, node.broker, LISTENER, SharedLimits.of(node.broker))
        assert isinstance(factory.buildProtocol(IPv6Address("TCP", "::1", 5000)), KafkaProtocol)
        throttled = factory.buildProtocol(IPv6Address("TCP", "::1", 5001))
        assert isinstance(throttled, ThrottledConnection)
        assert isinstance(factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 5000)), KafkaProtocol)
        transport = FakeTransport()
        throttled.makeConnection(transport)  # type: ignore[arg-type]
        assert not transport.reading
        node.clock.advance(0.999)
        assert not transport.closed
        node.clock.advance(0.001)
        assert transport.closed == "at once"
        throttled.connectionLost()


def test_few_throttled_connections_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "THROTTLED_MAX", 3)
    with rates(tmp_path) as (node, _), logged_lines() as lines:
        set_rate(node.broker.quotas, DEFAULT, 0.1)
        factory = KafkaFactory(node.clock, node.broker, LISTENER, SharedLimits.of(node.broker))

        def throttled(host: str) -> ThrottledConnection | None:
            assert isinstance(factory.buildProtocol(IPv4Address("TCP", host, 1)), KafkaProtocol)
            connection = factory.buildProtocol(IPv4Address("TCP", host, 2))
            assert connection is None or isinstance(connection, ThrottledConnection)
            return connection

        first, *_, fourth = [throttled(f"10.0.0.{number}") for number in range(4)]
        assert first is not None
        assert fourth is None
        for _ in range(1000):
            assert factory.buildProtocol(IPv4Address("TCP", "10.0.0.3", 3)) is None
        first.connectionLost()
        assert throttled("10.0.0.4") is not None
        assert throttled("10.0.0.5") is None
    full = [line for line in lines if line.endswith("closed at once, as 3 others wait for that")]
    assert len(full) == LINES_PER_MINUTE_MAX + 1


def test_a_listener_waits(tmp_path: Path) -> None:
    with rates(tmp_path, max_connection_creation_rate="1") as (node, _):
        factory = KafkaFactory(node.clock, node.broker, LISTENER, SharedLimits.of(node.broker))
        pauses: list[int] = []
        factory.pause_accepting = pauses.append
        for port in range(12):
            assert isinstance(factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", port)), KafkaProtocol)
        assert pauses == [1000, 1000]
        assert factory.is_rate_limited
