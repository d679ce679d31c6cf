"""Sources of brokers: lists, and the coordination tree."""

from __future__ import annotations

import json
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.client.errors import NoBrokers
from pylogbroker.client.sources import StaticBrokers, TreeBrokers
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import Create, Delete, ITree, SessionEvent, SessionState
from pylogbroker.rpc.settings import Address, parse_address
from tests.broker.membership.harness import BreakableTree
from tests.broker.trees import now, opened_tree
from tests.client.cluster_fakes import FakeNetwork


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("one:9093", Address("one", 9093)),
        (" one ", Address("one", 9092)),
        ("10.0.0.1:1", Address("10.0.0.1", 1)),
        ("[::1]:9093", Address("::1", 9093)),
        ("PLAINTEXT://one:9093", Address("one", 9093)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":9092", "one:", "one:two", "::1", "one two:9092"])
def test_invalid_addresses_are_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        parse_address(text)


@pytest.mark.parametrize("port", ["0", "65536", "99999", "9" * 30])
def test_invalid_ports_are_rejected(port: str) -> None:
    with pytest.raises(ConfigError, match=rf"'one:{port}' is not accepted; port {port} is out of range, .* 1 to 65535"):
        parse_address(f"one:{port}")


def test_a_list() -> None:
    assert now(ensureDeferred(StaticBrokers("one:1,two:2,").addresses())) == [Address("one", 1), Address("two", 2)]
    assert now(ensureDeferred(StaticBrokers(["one:1"]).addresses())) == [Address("one", 1)]


def test_an_empty_list() -> None:
    with pytest.raises(ConfigError, match="no brokers are given"):
        StaticBrokers(" , ")


@pytest.mark.parametrize("bootstrap", [9092, [9092], ["one:1", ("two", 2)]])
def test_invalid_bootstrap_lists_are_rejected(bootstrap: Any) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers: .* is not accepted; expected host:port"):
        StaticBrokers(bootstrap)


def broker_node(*endpoints: str, protocols: dict[str, str] | None = None) -> bytes:
    """A broker's node as Kafka writes it."""
    value = {
        "listener_security_protocol_map": protocols or {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": list(endpoints),
        "host": None,
        "port": -1,
        "version": 5,
        "timestamp": "1700000000000",
    }
    return json.dumps(value).encode()


class TestTree(SynchronousTestCase):
    def setUp(self) -> None:
        self.tree = self.enterContext(opened_tree(self.enterContext(TemporaryDirectory())))
        self.source = TreeBrokers(self.tree)

    def commit(self, *operations: Any) -> None:
        now(ensureDeferred(self.tree.commit(operations)))

    def addresses(self) -> list[Address]:
        return list(now(ensureDeferred(self.source.addresses())))

    def test_brokers_that_live(self) -> None:
        self.assertEqual(self.addresses(), [])
        self.commit(
            Create("/brokers/ids/1", broker_node("SSL://one:1", "PLAINTEXT://one:9092")),
            Create("/brokers/ids/2", broker_node("IN://[::1]:9093", protocols={"IN": "PLAINTEXT"})),
        )
        self.assertEqual(self.addresses(), [Address("one", 9092), Address("::1", 9093)])

    def test_brokers_with_the_clients_protocol(self) -> None:
        both = broker_node("SSL://one:1", "PLAINTEXT://one:9092", protocols={"SSL": "SSL", "PLAINTEXT": "PLAINTEXT"})
        self.commit(Create("/brokers/ids/1", both), Create("/brokers/ids/2", broker_node("PLAINTEXT://two:1")))
        self.source = TreeBrokers(self.tree, "SSL")
        self.assertEqual(self.addresses(), [Address("one", 1)])

    def test_a_tree_without_a_cluster(self) -> None:
        self.commit(Delete("/brokers/ids"))
        with self.assertRaisesRegex(NoBrokers, "no node /brokers/ids: check the path in zookeeper.connect"):
            self.addresses()

    def test_a_node_that_nobody_can_read_is_passed_over(self) -> None:
        self.commit(Create("/brokers/ids/1", b"?"), Create("/brokers/ids/2", broker_node("PLAINTEXT://two:2")))
        self.assertEqual(self.addresses(), [Address("two", 2)])

    def test_brokers_and_topics_that_come_and_go_are_reported(self) -> None:
        reported: list[int] = []
        self.source.watch(lambda: reported.append(1))
        for path in ("/brokers/ids/1", "/brokers/topics/t"):
            for _ in range(2):  # again and again, though a watch fires once
                reported.clear()
                self.commit(Create(path))
                self.assertEqual(reported, [1])
                self.commit(Delete(path))
                self.assertEqual(reported, [1, 1])
        self.source.close()
        self.commit(Create("/brokers/ids/2"))
        self.assertEqual(reported, [1, 1])

    def test_a_connection_that_is_lost_before_the_next_watch_is_set(self) -> None:
        breakable = BreakableTree(self.tree)
        source = TreeBrokers(cast(ITree, breakable))
        reported: list[int] = []
        source.watch(lambda: reported.append(1))
        breakable.is_suspended = True
        self.commit(Create("/brokers/ids/1"))  # the watch is called, and no other one can be set
        breakable.is_suspended = False
        for listener in breakable.listeners:
            listener(SessionEvent(SessionState.CONNECTED, breakable.session_id))
        reported.clear()
        self.commit(Create("/brokers/ids/2"))
        self.assertEqual(reported, [1])

    def test_a_client_learns_of_a_broker_that_comes(self) -> None:
        network = FakeNetwork()
        network.broker(1).leads("t", 0)
        self.commit(Create("/brokers/ids/1", broker_node("PLAINTEXT://b1:9092")))
        cluster = network.cluster(self.source)
        finding = ensureDeferred(cluster.find_leader("t", 0))
        network.run()
        self.assertEqual(self.successResultOf(finding), 1)
        network.broker(2).leads("t", 1)
        self.commit(Create("/brokers/ids/2", broker_node("PLAINTEXT://b2:9092")))
        network.run(0.2)
        self.assertEqual((set(cluster.brokers()), cluster.leader_of("t", 1)), ({1, 2}, 2))
        closing = ensureDeferred(cluster.close())
        network.run()
        self.successResultOf(closing)
