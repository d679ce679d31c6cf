"""Logs of replicas that were moved to other brokers while this one could not hear of it."""

from __future__ import annotations

import os
from unittest.mock import patch
from uuid import UUID

import attrs
from twisted.internet.defer import fail

from pylogbroker.interfaces import Create, SessionExpired, SetData
from pylogbroker.long_loops import at_once
from pylogbroker.metadata import zk_paths
from pylogbroker.metadata.image import NO_TOPIC_ID, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.zk_image import encode_topic_image, new_partitions
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.replicas import collect_replicas
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import Node
from tests.broker.replication.cluster import KEY, TOPIC, TOPIC_ID, ClusterTests
from tests.broker.trees import now

ORDERS_SECONDS = 10


class StrayTests(ClusterTests):
    """Broker 1 has led the partition, and registers again."""

    brokers = (1, 2)

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.cluster.elect(1)
        self.cluster.append(1, b"a")
        self.is_stored = False

    @property
    def node(self) -> Node:
        return self.cluster.nodes[1]

    def store(self, *replicas: int, topic_id: UUID = TOPIC_ID, index: int = 0) -> None:
        """Write the topic's node."""
        topic = TopicImage(TOPIC, topic_id, PersistentMap(new_partitions({index: replicas})))
        self.store_data(encode_topic_image(topic))

    def store_data(self, data: bytes) -> None:
        path = zk_paths.topic(TOPIC)
        now(self.node.tree.commit([SetData(path, data) if self.is_stored else Create(path, data)]))
        self.is_stored = True

    def move(self) -> None:
        """Let the controller give the replica to broker 2; the order to delete it does not come."""
        before = self.cluster.state
        self.cluster.state = attrs.evolve(
            before, leader=2, replicas=(2,), isr=(2,), leader_epoch=before.leader_epoch + 1
        )

    def register(self, seconds: float = ORDERS_SECONDS + 0.2) -> list[str]:
        """Register again, get the metadata, and let time pass; return what is logged."""
        with logged_lines() as lines:
            self.node.broker.membership.set_broker_epoch(10)  # type: ignore[attr-defined]
            self.cluster.announce(1, 2)
            self.cluster.settle(seconds)
        return lines

    def directories(self) -> list[str]:
        """Return the partition's directories on broker 1's disk."""
        return [name for name in os.listdir(self._directories[1]) if name.startswith(f"{TOPIC}_")]

    def stray_logs(self) -> str:
        out = Exposition()
        at_once(collect_replicas(out, self.node.broker, has_partitions=False))  # type: ignore[arg-type]
        return out.lines(families.STRAY_LOGS)[-1].strip()

    def assert_kept(self) -> None:
        self.assertEqual(self.directories(), ["t_0"])
        self.assertIn(KEY, self.node.broker.logs.logs)

    def assert_quarantined(self, lines: list[str]) -> None:
        [name] = self.directories()
        self.assertRegex(name, r"t_0\.[0-9a-f]+-stray")
        self.assertEqual(len([line for line in lines if name in line]), 1, lines)
        broker = self.node.broker
        self.assertEqual((dict(broker.logs.logs), broker.partitions.hosted), ({}, {}))
        self.assertEqual(len(broker.logs.stray_directories), 1)

    def test_a_replica_that_was_moved_away(self) -> None:
        self.store(2)
        self.move()
        self.register(ORDERS_SECONDS - 1)
        self.assert_kept()
        self.assert_quarantined(self.register())
        [name] = self.directories()
        with logged_lines() as lines:
            self.restart(1)
        self.assertEqual(len([line for line in lines if name in line]), 1)
        self.assertEqual(len(self.node.broker.logs.stray_directories), 1)

    def test_a_log_that_had_no_role_since_the_start(self) -> None:
        self.store(2)
        self.move()
        self.restart(1)
        self.assertEqual(dict(self.node.broker.partitions.hosted), {})
        self.assert_quarantined(self.register())

    def test_a_replica_of_an_earlier_topic(self) -> None:
        self.store(1, topic_id=UUID(int=8))
        self.node.broker.partitions.resign(KEY)
        self.move()
        self.cluster.topic_id = UUID(int=8)
        self.assert_quarantined(self.register())

    def test_a_topic_made_again_with_fewer_partitions(self) -> None:
        """Before protocol version 2.8 topics have no id."""
        self.store(1, topic_id=NO_TOPIC_ID, index=1)
        self.move()
        self.assert_quarantined(self.register())

    def test_a_replica_that_is_assigned_waits_for_its_order(self) -> None:
        self.store(2, 1)
        self.cluster.stop(1, self.cluster.state.leader_epoch)
        self.register()
        self.assert_kept()

    def test_a_replica_with_a_role_is_in_use(self) -> None:
        """The node may have been read before it changed."""
        self.store(2)
        self.register()
        self.assert_kept()
        self.assertEqual(list(self.node.broker.partitions.led), [KEY])

    def test_a_topic_that_is_not_in_the_tree(self) -> None:
        """A tree without topics may be a mistake."""
        lines = self.register()
        self.assert_kept()
        self.assertEqual(len([line for line in lines if "t-0 kept, not served" in line]), 1)
        self.assertEqual(self.stray_logs(), "pylogbroker_stray_logs 1")

    def test_a_topic_whose_node_is_damaged(self) -> None:
        self.store(2)
        self.store_data(b"{")
        self.move()
        self.register()
        self.assert_kept()
        self.assertEqual(self.stray_logs(), "pylogbroker_stray_logs 0")

    def test_a_tree_that_is_not_reached(self) -> None:
        self.store(2)
        self.move()
        with patch.object(type(self.node.tree), "get_many", lambda *_: fail(SessionExpired("it is over"))):
            self.register()
        self.assert_kept()
        self.assert_quarantined(self.register())

    def test_a_disk_that_does_not_rename(self) -> None:
        self.store(2)
        self.move()
        with patch("os.rename", side_effect=PermissionError(13, "not allowed")):
            lines = self.register()
        self.assertEqual(self.directories(), ["t_0"])
        self.assertEqual(len([line for line in lines if "t-0 is left on the disk" in line]), 1)
