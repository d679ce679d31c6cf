"""Bounds on connections, together and per address."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from pylogbroker.config import ConfigSource
from pylogbroker.net.limits import ConnectionLimit, MemoryLimit, SetupLimit
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.net.service import KafkaFactory, SharedLimits
from pylogbroker.peer_log_limit import PeerLogLimit
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NodeTests
from tests.net.fakes import FakeTransport


class Connection:
    def __init__(self, bound: MemoryLimit) -> None:
        self.bound = bound
        self.closed: list[str] = []

    def close_because(self, reason: str) -> None:
        self.closed.append(reason)


def test_the_stalest_holders_go_until_the_rest_fits() -> None:
    bound = MemoryLimit(100)
    first, second, third = (Connection(bound) for _ in range(3))
    bound.holds(first, 60)
    bound.holds(second, 30)
    bound.holds(first, 65)  # progress: now the second is the stalest
    bound.holds(third, 90)
    assert second.closed
    assert first.closed
    assert not third.closed
    assert bound.total == 90
    assert "queued.max.request.bytes=100" in second.closed[0]


def test_a_connection_above_the_whole_limit_is_closed_itself() -> None:
    bound = MemoryLimit(100)
    only = Connection(bound)
    bound.holds(only, 101)
    assert only.closed
    assert bound.total == 0


def test_released_memory_can_be_used_again() -> None:
    bound = MemoryLimit(100)
    first, second = Connection(bound), Connection(bound)
    bound.holds(first, 90)
    bound.holds(first, 0)
    bound.holds(second, 90)
    assert not first.closed
    assert not second.closed


def test_connections_are_counted_per_host_and_in_all() -> None:
    bound = ConnectionLimit(most=4, most_per_host=2, overrides={"10.0.0.9": 1})
    assert bound.admit("10.0.0.1") is None
    assert bound.admit("10.0.0.1") is None
    assert "max.connections.per.ip" in (bound.admit("10.0.0.1") or "")
    assert bound.admit("10.0.0.9") is None
    assert "max.connections.per.ip" in (bound.admit("10.0.0.9") or "")
    assert bound.admit("10.0.0.2") is None
    assert "max.connections=4" in (bound.admit("10.0.0.3") or "")
    bound.leave("10.0.0.1")
    assert bound.admit("10.0.0.3") is None


def test_connections_are_counted_per_listener_but_for_all_of_brokers() -> None:
    bound = ConnectionLimit(2, 10, most_of={"OPEN": 1, "INSIDE": 3}, protected="INSIDE")
    assert bound.admit("a", "OPEN") is None
    assert "OPEN has its 1 connections" in (bound.admit("a", "OPEN") or "")
    assert bound.admit("a", "OTHER") is None
    assert bound.admit("a", "OTHER") == "max.connections=2 is reached"
    assert not bound.is_exceeded
    assert [bound.admit("a", "INSIDE") for _ in range(3)] == [None] * 3
    assert bound.is_exceeded
    assert "INSIDE has its 3 connections" in (bound.admit("a", "INSIDE") or "")
    bound.leave("a", "OPEN")
    bound.leave("a", "INSIDE")
    assert bound.admit("a", "INSIDE") is None


def test_connections_that_time_out_are_closed_in_slices_by_one_timer() -> None:
    clock, ended = Clock(), list[int]()
    limit = SetupLimit(clock, ms=1000, most_per_host=50)
    for number in range(50):
        assert limit.reject("10.0.0.1") is None
        limit.start(number, "10.0.0.1", ended.append)
    assert limit.reject("10.0.0.1") is not None
    clock.advance(0.5)
    limit.start(50, "10.0.0.2", ended.append)
    limit.stop(7)
    counts = []
    while len(clock.calls) == 1 and clock.calls[0].getTime() <= 1.0:
        [timer], clock.calls, clock.rightNow = clock.calls, [], 1.0
        timer.func()
        counts.append(len(ended))
    assert counts[-1] == 49
    assert max(after - before for before, after in pairwise([0, *counts])) < 10
    assert ended == [number for number in range(50) if number != 7]
    clock.advance(0.6)
    assert ended[-1] == 50
    assert clock.getDelayedCalls() == []
    assert limit.reject("10.0.0.1") is None


def test_lines_per_address_are_limited_and_the_rest_counted() -> None:
    clock = Clock()
    lines = PeerLogLimit(clock, "more from {host}: {count}")
    with logged_lines() as reported:
        reported_at_once = [lines.is_due("10.0.0.1") for _ in range(73)]
        assert [lines.is_due("10.0.0.2") for _ in range(2)] == [True, True]
        few = sum(reported_at_once)
        assert reported_at_once == [True] * few + [False] * (73 - few)
        assert 1 <= few <= 10
        clock.advance(59)
        assert reported == []
        clock.advance(1)
    assert reported == [f"more from 10.0.0.1: {73 - few}"]
    assert lines.is_due("10.0.0.1")
    with logged_lines() as reported:
        clock.advance(60)
    assert reported == []
    assert clock.getDelayedCalls() == []


def test_suppressed_lines_are_counted_at_the_end() -> None:
    clock = Clock()
    lines = PeerLogLimit(clock, "more from {host}: {count}")
    left = [lines.is_due("10.0.0.1") for _ in range(30)].count(False)
    with logged_lines() as reported:
        lines.log_suppressed()
        lines.log_suppressed()
    assert reported == [f"more from 10.0.0.1: {left}"]
    assert clock.getDelayedCalls() == []


def test_suppressed_lines_of_many_addresses_share_one_line() -> None:
    clock = Clock()
    lines = PeerLogLimit(clock, "more from {host}: {count}")
    due = sum(lines.is_due(f"10.0.{number // 250}.{number % 250}") for number in range(5000))
    assert due < 300
    with logged_lines() as reported:
        lines.log_suppressed()
    assert reported == [f"more from other addresses: {5000 - due}"]


class ErrorTests(NodeTests):
    settings = {"max.connections.per.ip": "1"}

    def test_rejected_connections_are_logged_at_a_limited_rate(self) -> None:
        bounds = SharedLimits.of(self.node.broker)
        factory = KafkaFactory(self.node.clock, self.node.broker, self.node.broker.config.listeners[0], bounds)
        address = IPv4Address("TCP", "10.0.0.1", 5)
        with logged_lines() as lines:
            found = [factory.buildProtocol(address) is None for _ in range(101)]
            reported = len(lines)
            bounds.log_suppressed()
        self.assertEqual(found, [False] + [True] * 100)
        self.assertTrue(1 <= reported <= 10, reported)
        self.assertEqual(
            lines[reported:], [f"rejected {100 - reported} more connections from 10.0.0.1 within a minute"]
        )


class FullBrokerTests(NodeTests):
    settings = {
        "listeners": "OPEN://localhost:1,INSIDE://localhost:2",
        "listener.security.protocol.map": "OPEN:PLAINTEXT,INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "max.connections": "2",
        "listener.name.inside.max.connections": "3",
    }

    def test_another_broker_takes_the_place_of_the_longest_idle_client(self) -> None:
        broker = self.node.broker
        bounds = SharedLimits.of(broker)
        opened, inside = (KafkaFactory(self.node.clock, broker, each, bounds) for each in broker.config.listeners)
        first, second = self.connect(opened), self.connect(opened)
        self.assertIsNone(self.connect(opened))
        opened.close_idle()
        assert first is not None
        assert second is not None
        first.dataReceived(b"\0")  # progress
        with logged_lines() as lines:
            brokers = [self.connect(inside), self.connect(inside), self.connect(inside)]
        self.assertNotIn(None, brokers)
        self.assertIsNone(self.connect(inside))
        cause = "max.connections=2 is reached, and another broker connects"
        self.assertEqual([line.partition(": ")[2] for line in lines[:2]], [cause] * 2)
        self.assertEqual([first.is_closing, second.is_closing], [True, True])

    def test_the_longest_idle_client_is_first(self) -> None:
        broker = self.node.broker
        bounds = SharedLimits.of(broker)
        opened, inside = (KafkaFactory(self.node.clock, broker, each, bounds) for each in broker.config.listeners)
        first, second = self.connect(opened), self.connect(opened)
        assert first is not None
        assert second is not None
        opened.close_idle()
        first.dataReceived(b"\0")  # progress
        self.connect(inside)
        self.assertEqual([first.is_closing, second.is_closing], [False, True])

    def test_the_limit_of_a_listener_changes_at_run_time(self) -> None:
        broker = self.node.broker
        _, inside = (
            KafkaFactory(self.node.clock, broker, each, SharedLimits.of(broker)) for each in broker.config.listeners
        )
        texts = {"listener.name.inside.max.connections": "1"}
        broker.config.set_dynamic(ConfigSource.DYNAMIC_BROKER_CONFIG, texts)
        self.assertIsNotNone(self.connect(inside))
        self.assertIsNone(self.connect(inside))
        broker.config.set_dynamic(ConfigSource.DYNAMIC_BROKER_CONFIG, {})
        self.assertIsNotNone(self.connect(inside))

    def connect(self, factory: KafkaFactory) -> KafkaProtocol | None:
        protocol = cast(KafkaProtocol | None, factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 5)))
        if protocol is not None:
            protocol.makeConnection(cast(Any, FakeTransport()))
        return protocol
