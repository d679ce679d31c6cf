"""The cluster's id and brokers' numbers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from pylogbroker.errors import StartupError
from pylogbroker.interfaces import Create, Delete, Node, SetData
from pylogbroker.metadata import registration, zk_paths, zk_schema
from pylogbroker.metadata.zk_schema import BrokerNode
from pylogbroker.tree.deletion import wait_until_deleted
from pylogbroker.tree.embedded import EmbeddedTree
from tests.tree.conftest import now, result_of

BROKER = BrokerNode(("PLAINTEXT://a:1",), {"PLAINTEXT": "PLAINTEXT"})


@attrs.define(eq=False, slots=False)
class ChangeableTree(EmbeddedTree):
    """A tree whose attributes tests replace."""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[EmbeddedTree]:
    opened = ChangeableTree.open(str(tmp_path))
    yield opened
    now(opened.close())


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


def test_a_broker_is_announced(laid_out: EmbeddedTree) -> None:
    epoch = now(registration.register(laid_out, 5, BROKER, now_ms=1))
    node = now(laid_out.get(zk_paths.broker(5)))
    assert node.stat.owner == laid_out.session_id
    assert node.stat.created == epoch > 0
    assert node.stat.version == 1  # created with null data, as Kafka does
    assert zk_schema.decode_broker(node.data) == BROKER


def test_a_registration_with_unknown_outcome_is_found(laid_out: EmbeddedTree) -> None:
    epochs = [now(registration.register(laid_out, 5, BROKER, now_ms=1)) for _ in range(2)]
    assert epochs[0] == epochs[1]


def test_a_node_of_an_earlier_session_is_replaced(laid_out: EmbeddedTree) -> None:
    before = now(registration.register(laid_out, 5, BROKER, now_ms=1))
    expire(laid_out)
    laid_out.earlier_sessions = (laid_out.session_id - 1,)
    epoch = now(registration.register(laid_out, 5, BROKER, now_ms=1))
    node = now(laid_out.get(zk_paths.broker(5)))
    assert epoch == node.stat.created > before
    assert node.stat.owner == laid_out.session_id


def test_a_registration_with_other_data_gets_a_new_epoch(laid_out: EmbeddedTree) -> None:
    first, second = (now(registration.register(laid_out, 5, BROKER, now_ms=time)) for time in (1, 2))
    assert second > first


def test_brokers_need_a_listener_of_the_same_name(laid_out: EmbeddedTree) -> None:
    now(registration.register(laid_out, 5, BROKER, now_ms=1))
    now(registration.register(laid_out, 7, attrs.evolve(BROKER, endpoints=("IN://b:2", "PLAINTEXT://b:1")), now_ms=1))
    now(laid_out.commit([Create(zk_paths.broker(8), b"?")]))
    now(registration.check_listener(laid_out, 6, "PLAINTEXT"))
    error = "broker 5 has no listener IN, only PLAINTEXT, .* set inter.broker.listener.name"
    with pytest.raises(StartupError, match=error):
        now(registration.check_listener(laid_out, 6, "IN"))
    now(registration.check_listener(laid_out, 5, "IN"))  # the name has changed; its life before is still registered


def test_the_id_of_a_broker_that_lives_is_an_error(laid_out: EmbeddedTree) -> None:
    now(registration.register(laid_out, 5, BROKER, now_ms=1))
    owner = laid_out.session_id
    expire(laid_out)
    error = rf"broker id 5 is registered by another session \({owner:#x}\), .* or set another broker.id"
    with pytest.raises(StartupError, match=error):
        now(registration.register(laid_out, 5, BROKER, now_ms=2))
    clock = Clock()
    wait = partial(wait_until_deleted, laid_out, clock=clock, deadline=10.0)
    waiting = ensureDeferred(registration.register(laid_out, 5, BROKER, 2, wait))
    clock.advance(9.9)
    assert not waiting.called
    clock.advance(0.1)
    with pytest.raises(StartupError, match=error):
        result_of(waiting)
    assert clock.getDelayedCalls() == []


def test_a_broker_waits_until_its_last_session_has_expired(laid_out: EmbeddedTree) -> None:
    before = now(registration.register(laid_out, 5, BROKER, now_ms=1))
    expire(laid_out)
    clock = Clock()
    wait = partial(wait_until_deleted, laid_out, clock=clock, deadline=10.0)
    waiting = ensureDeferred(registration.register(laid_out, 5, BROKER, 2, wait))
    now(laid_out.commit([SetData(zk_paths.broker(5), b"x")]))
    assert not waiting.called
    now(laid_out.commit([Delete(zk_paths.broker(5))]))
    assert result_of(waiting) > before
    assert clock.getDelayedCalls() == []


def test_two_brokers_may_create_the_permanent_nodes_at_the_same_time(tree: EmbeddedTree) -> None:
    get_many = tree.get_many

    async def look_before_the_other(paths: Sequence[str]) -> list[Node | None]:
        found = await get_many(paths)
        tree.get_many = get_many
        await tree.commit([Create(path) for path in zk_paths.PERSISTENT[:4]])
        return found

    tree.get_many = look_before_the_other
    now(registration.create_permanent_nodes(tree))
    assert None not in now(tree.get_many(zk_paths.PERSISTENT))


def expire(tree: EmbeddedTree) -> None:
    """Let the tree have another session; the nodes of the last one stay."""
    tree.session_id += 1


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
