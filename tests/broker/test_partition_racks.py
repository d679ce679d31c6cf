"""Racks of partitions: of the brokers that have their replicas, as long as these are known."""

from __future__ import annotations

from uuid import UUID

import pytest

from pylogbroker.broker.coordinators import partition_racks
from pylogbroker.broker.coordinators.partition_racks import PartitionRacks
from pylogbroker.metadata.delta import BrokerRegistered, Delta
from pylogbroker.metadata.image import BrokerRegistration, PartitionState, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from tests.broker.nodes import NODE_ID, NodeTests
from tests.broker.replicas import broker
from tests.broker.trees import now


def brokers(**racks: str | None) -> PersistentMap[int, BrokerRegistration]:
    """Return brokers, named by `b` and their id."""
    return PersistentMap({int(name[1:]): broker(int(name[1:]), rack) for name, rack in racks.items()})


def topic(*replicas: tuple[int, ...], name: str = "t") -> TopicImage:
    states = {number: PartitionState(some[0], some, some) for number, some in enumerate(replicas)}
    return TopicImage(name, UUID(int=1), PersistentMap(states))


def test_racks_of_replicas() -> None:
    of_topic, _ = PartitionRacks().of(topic((1, 2), (2, 3), (3, 4)), brokers(b1="x", b2="y", b3=None))
    assert of_topic == (frozenset({"x", "y"}), frozenset({"y"}), frozenset())


def test_nothing_without_racks() -> None:
    assert PartitionRacks().of(topic((1, 2)), brokers(b1=None, b2=None)) == ((), b"")


def test_digest_changes_with_the_racks_alone() -> None:
    racks, known = PartitionRacks(), brokers(b1="x", b2="y", b3="y")
    _, before = racks.of(topic((1, 2)), known)
    assert racks.of(topic((1, 3)), known)[1] == racks.of(topic((2, 1)), known)[1] == before
    assert racks.of(topic((2, 3)), known)[1] != before
    assert racks.of(topic((1, 2)), brokers(b1="x", b2="x"))[1] != before
    assert PartitionRacks().of(topic((1, 2)), known)[1] == before


def test_kept_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_racks, "TOPICS_KEPT_MAX", 2)
    racks, known = PartitionRacks(), brokers(b1="x")
    for number in range(5):
        assert racks.of(topic((1,), name=f"t{number}"), known)[0] == (frozenset({"x"}),)
    assert len(racks._kept) <= 2


class BrokerTests(NodeTests):
    def test_groups_see_the_racks_of_topics(self) -> None:
        self.node.create("t")
        now(self.node.broker.metadata.publish(Delta.of(BrokerRegistered(broker(NODE_ID, "upper")))))
        shape = self.node.broker.group_service._port.topic("t")
        assert shape is not None
        self.assertEqual(shape.racks, (frozenset({"upper"}),))
        self.assertTrue(shape.racks_digest)
