"""This project's consumer shares groups with the console consumer of Kafka 0.8, on a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Producer
from kazoo.exceptions import NoNodeError

from pylogbroker.client.sync import ConsumerConnector
from tests.cluster.cluster import Cluster
from tests.cluster.cluster_reader import ClusterReader
from tests.cluster.members import CALM, own
from tests.peers.old_consumer import OldConsumer
from tests.support.waiting import wait_until

GROUP, TOPIC = "billing", "orders"
PARTITIONS = range(4)
SETTINGS: Mapping[str, Any] = {
    "auto.offset.reset": "earliest",
    "rebalance.backoff.ms": 200,
    "zookeeper.session.timeout.ms": 10_000,
}
IN_TREE = {"offsets.storage": "zookeeper"}
IN_BOTH = {"offsets.storage": "kafka", "dual.commit.enabled": "true"}
IN_BROKERS = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}


@attrs.define
class Group:
    """The topic, the group's nodes in ZooKeeper, and the values that its members have read."""

    cluster: Cluster
    zookeeper: str
    directory: Path
    written: list[str] = attrs.field(factory=list)
    read_by_left: list[str] = attrs.field(factory=list)
    members: list[Callable[[], list[str]]] = attrs.field(factory=list)

    def write(self, each: int) -> None:
        """Write records to each partition; each value is unique and begins with the number of its partition."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "log_level": 0})
        for _ in range(each):
            for partition in PARTITIONS:
                self.written.append(f"{partition}:{len(self.written)}")
                producer.produce(TOPIC, self.written[-1], partition=partition)
        assert producer.flush(120) == 0

    def read(self) -> list[str]:
        """Return the values that all members have read, sorted as they were written."""
        found = [value for member in self.members for value in member()]
        return sorted([*self.read_by_left, *found], key=lambda value: int(value.partition(":")[2]))

    def wait_until_read(self) -> None:
        """Wait until the members have read each record once."""
        wait_until(lambda: len(self.read()) >= len(self.written), what=self.read)
        assert self.read() == self.written

    @contextmanager
    def old(self, settings: Mapping[str, str] = IN_TREE, *, from_beginning: bool = False) -> Iterator[OldConsumer]:
        """Run a consumer of Kafka 0.8, which leaves the group in the end."""
        place = (self.directory, self.zookeeper, GROUP, TOPIC)
        consumer = OldConsumer(*place, settings, from_beginning=from_beginning)
        with consumer, self._member(consumer.values):
            yield consumer
            consumer.stop()

    @contextmanager
    def own(self, settings: Mapping[str, str] = IN_TREE) -> Iterator[list[str]]:
        """Run a consumer of this project, which leaves the group in the end; the values that it has read."""
        given = {**SETTINGS, **settings, "zookeeper.connect": self.zookeeper, "value.deserializer": "utf-8"}
        values: list[str] = []
        with ConsumerConnector(group=GROUP, settings=given) as connector:
            stream = connector.stream(TOPIC)

            def read() -> list[str]:
                values.extend(message.value for message in stream.get_many(timeout=0.01))
                return values

            with self._member(read):
                yield values

    @contextmanager
    def _member(self, values: Callable[[], list[str]]) -> Iterator[None]:
        self.members.append(values)
        yield
        self.members.remove(values)
        self.read_by_left += values()

    # nodes

    def ids(self) -> dict[str, Any]:
        """Return the registrations of the members."""
        return {each: json.loads(data) for each, data in self._nodes("ids").items()}

    def owners(self) -> dict[int, str]:
        """Return the member whose stream 0 owns each partition."""
        found = {int(number): data.decode() for number, data in self._nodes(f"owners/{TOPIC}").items()}
        assert all(owner.endswith("-0") for owner in found.values())
        return {number: owner.removesuffix("-0") for number, owner in sorted(found.items())}

    def offsets(self) -> list[int]:
        """Return the offsets in ZooKeeper, by partition."""
        return [int(data) for _, data in sorted(self._nodes(f"offsets/{TOPIC}").items())]

    def offsets_of_brokers(self) -> list[int]:
        """Return the offsets that the group's coordinator has, by partition."""
        found = ClusterReader(self.cluster).committed(GROUP, [(TOPIC, each) for each in PARTITIONS])
        return [found[TOPIC, each] for each in PARTITIONS]

    def wait_until_divided(self, members: int) -> dict[str, list[int]]:
        """Wait until there are so many members, and each owns its share; the partitions by member.

        The members' ids are sorted as texts, the partitions by number; then each gets the next few.
        """
        share = len(PARTITIONS) // members

        def division() -> dict[int, str]:
            ids = sorted(self.ids())
            return {} if len(ids) != members else {each: ids[each // share] for each in PARTITIONS}

        wait_until(lambda: division() and self.owners() == division(), what=lambda: (self.ids(), self.owners()))
        owners = self.owners()
        return {member: [each for each in PARTITIONS if owners[each] == member] for member in self.ids()}

    def _nodes(self, name: str) -> dict[str, bytes]:
        """Return the data of the nodes below one of the group's."""
        client, path = self.cluster.tree.client, f"/consumers/{GROUP}/{name}"
        try:
            return {each: client.get(f"{path}/{each}")[0] for each in client.get_children(path)}
        except NoNodeError:  # not there yet, or a member has left meanwhile
            return {}


@pytest.fixture
def group(new_cluster_on_zookeeper: Callable[..., Cluster], zookeeper_chroot: str, tmp_path: Path) -> Group:
    cluster = new_cluster_on_zookeeper(own, own, settings=CALM)
    cluster.create(TOPIC, len(PARTITIONS))  # led by the brokers in rotation
    return Group(cluster, zookeeper_chroot, tmp_path)


def partitions_of(values: list[str]) -> list[int]:
    return sorted({int(value.partition(":")[0]) for value in values})


def test_members_share_a_topic_and_take_over_from_each_other(group: Group) -> None:
    group.write(3)
    with group.old(from_beginning=True) as old:
        group.wait_until_read()
        [old_id] = group.wait_until_divided(1)
        with group.own() as ours:
            divided = group.wait_until_divided(2)
            nodes = group.ids()
            old_node, [(own_id, own_node)] = nodes.pop(old_id), nodes.items()
            assert own_node == {**old_node, "pattern": "static", "timestamp": own_node["timestamp"]}
            assert int(own_node["timestamp"]) >= int(old_node["timestamp"])
            before = len(old.values())
            group.write(3)
            group.wait_until_read()
            assert partitions_of(ours) == divided[own_id]
            assert partitions_of(old.values()[before:]) == divided[old_id]
        assert list(group.wait_until_divided(1)) == [old_id]
        group.write(3)
        group.wait_until_read()
    assert (group.ids(), group.owners(), group.offsets()) == ({}, {}, [9, 9, 9, 9])
    with group.own() as ours:
        group.write(3)
        group.wait_until_read()
        with group.old():
            group.wait_until_divided(2)
            group.write(3)
            group.wait_until_read()
        group.wait_until_divided(1)
        group.write(3)
        group.wait_until_read()
    assert (group.ids(), group.owners(), group.offsets()) == ({}, {}, [18, 18, 18, 18])
    assert group.read() == group.written


def test_offsets_move_from_zookeeper_to_the_brokers(group: Group) -> None:
    group.write(3)
    with group.old(from_beginning=True):
        group.wait_until_read()
    assert (group.offsets(), group.offsets_of_brokers()) == ([3, 3, 3, 3], [-1, -1, -1, -1])
    with group.own(IN_BOTH), group.old(IN_BOTH):
        group.wait_until_divided(2)
        group.write(3)
        group.wait_until_read()
    assert (group.offsets(), group.offsets_of_brokers()) == ([6, 6, 6, 6], [6, 6, 6, 6])
    with group.own(IN_BROKERS):
        group.write(3)
        group.wait_until_read()
    assert (group.offsets(), group.offsets_of_brokers()) == ([6, 6, 6, 6], [9, 9, 9, 9])
    with group.old(IN_BROKERS):
        group.wait_until_divided(1)
        group.write(3)
        group.wait_until_read()
    assert (group.offsets(), group.offsets_of_brokers()) == ([6, 6, 6, 6], [12, 12, 12, 12])
    assert group.read() == group.written
