"""The tree is read as Kafka writes it, and what is not there yet is no error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.states import NONE, StoredState
from tests.cluster.tree import Tree

STATE = b'{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":7,"isr":[2,1]}'
UNCLEAN = b'{"controller_epoch":4,"leader":1,"version":1,"leader_epoch":8,"isr":[1],"leader_recovery_state":1}'


@pytest.fixture
def tree(tree_chroot: str) -> Iterator[Tree]:
    found = Tree.open(tree_chroot)
    yield found
    found.close()


def test_an_empty_tree(tree: Tree) -> None:
    assert tree.brokers() == {}
    assert tree.topics() == []
    assert tree.controller() == NONE
    assert tree.controller_epoch() == 0
    assert tree.assignment("orders") == {}
    assert tree.state("orders", 0) is None


def test_nodes_of_kafka(tree: Tree) -> None:
    state = "/brokers/topics/orders/partitions/0/state"
    for path, data in {
        "/brokers/ids/11": b'{"version":5}',
        "/brokers/ids/2": b'{"version":5}',
        "/controller": b'{"version":2,"brokerid":2,"timestamp":"1","kraftControllerEpoch":-1}',
        "/controller_epoch": b"4",
        "/brokers/topics/orders": b'{"partitions":{"1":[1,2],"0":[2,1]},"version":3}',
        state: STATE,
    }.items():
        tree.client.create(path, data, makepath=True)
    assert list(tree.brokers()) == [2, 11]
    assert tree.brokers()[2] > tree.brokers()[11]
    assert tree.controller() == 2
    assert tree.controller_epoch() == 4
    assert tree.topics() == ["orders"]
    assert tree.assignment("orders") == {0: (2, 1), 1: (1, 2)}
    assert tree.state("orders", 0) == StoredState(2, 7, (2, 1), 4, version=0)
    tree.client.set(state, UNCLEAN)
    assert tree.state("orders", 0) == StoredState(1, 8, (1,), 4, version=1, leader_recovery_state=1)
