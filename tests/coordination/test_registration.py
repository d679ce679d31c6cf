"""The cluster's id and brokers' numbers."""

from __future__ import annotations

import uuid

import pytest

from pylogbroker.coordination.embedded import EmbeddedTree
from pylogbroker.interfaces import Create, NodeExists
from pylogbroker.metadata import registration, zk_paths, zk_schema
from pylogbroker.metadata.zk_schema import BrokerNode
from tests.coordination.conftest import now

BROKER = BrokerNode(("PLAINTEXT://a:1",), {"PLAINTEXT": "PLAINTEXT"})


@pytest.fixture
def laid_out(tree: EmbeddedTree) -> EmbeddedTree:
    now(registration.create_permanent_nodes(tree))
    return tree


def test_laying_out_twice_changes_nothing(laid_out: EmbeddedTree) -> None:
    before = now(laid_out.get_many(zk_paths.PERSISTENT))
    now(registration.create_permanent_nodes(laid_out))
    assert now(laid_out.get_many(zk_paths.PERSISTENT)) == before
    assert None not in before


def test_a_cluster_keeps_its_id(laid_out: EmbeddedTree) -> None:
    made = now(registration.cluster_id(laid_out))
    assert zk_schema.id_text(zk_schema.parse_id(made)) == made
    assert now(registration.cluster_id(laid_out)) == made
    assert now(registration.cluster_id(laid_out, "another")) == made


def test_a_new_cluster_takes_the_id_that_its_logs_remember(laid_out: EmbeddedTree) -> None:
    assert now(registration.cluster_id(laid_out, "remembered")) == "remembered"


def test_broker_numbers_lie_above_the_reserved_and_never_come_again(laid_out: EmbeddedTree) -> None:
    assert [now(registration.new_broker_id(laid_out, 1000)) for _ in range(3)] == [1001, 1002, 1003]


def test_a_broker_is_announced_once(laid_out: EmbeddedTree) -> None:
    epoch = now(registration.register(laid_out, 5, BROKER, now_ms=1))
    node = now(laid_out.get(zk_paths.broker(5)))
    assert node.stat.ephemeral
    assert node.stat.created == epoch > 0
    assert zk_schema.decode_broker(node.data) == BROKER
    with pytest.raises(NodeExists):
        now(registration.register(laid_out, 5, BROKER, now_ms=2))


def test_log_directories_are_remembered_for_each_broker(laid_out: EmbeddedTree) -> None:
    assert now(registration.directories(laid_out, 5)) == {}
    for used in ({"/a": "x", "/b": "y"}, {"/b": "x"}):
        now(registration.remember_directories(laid_out, 5, used))
        before = now(laid_out.get(zk_paths.broker_directories(5)))
        now(registration.remember_directories(laid_out, 5, used))
        assert now(laid_out.get(zk_paths.broker_directories(5))) == before  # nothing is written that is known
        assert now(registration.directories(laid_out, 5)) == used
    assert now(registration.directories(laid_out, 6)) == {}


def test_the_brokers_that_partitions_were_placed_on(laid_out: EmbeddedTree) -> None:
    assert now(registration.replica_brokers(laid_out)) == set()
    for name, replicas in (("a", {0: (3,), 1: (5, 3)}), ("b", {0: (7,)})):
        node = zk_schema.TopicNode(uuid.uuid4(), replicas)
        now(laid_out.commit([Create(zk_paths.topic(name), zk_schema.encode_topic(node))]))
    assert now(registration.replica_brokers(laid_out)) == {3, 5, 7}
