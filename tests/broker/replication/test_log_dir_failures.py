"""Failed log directories: their replicas are offline, and the controller hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from unittest.mock import patch

from twisted.internet.defer import fail
from twisted.internet.task import Clock

from pylogbroker.broker.apis import metadata
from pylogbroker.broker.replication.log_dir_failures import LogDirFailures
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import ITree, Operation, OperationResult, Unavailable
from pylogbroker.metadata import zk_paths
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.nodes import Threads
from tests.broker.replication.cluster import TOPIC, TOPIC_ID, ClusterTests
from tests.broker.trees import now


class UnreachableTree:
    async def commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        raise Unavailable("/")


def test_a_broker_that_stops_tries_no_more() -> None:
    clock, threads, tree = Clock(), Threads(), UnreachableTree()
    failures = LogDirFailures(1, cast(ITree, tree), Runtime.on(clock, threads, threads))
    failures.on_partition_offline("t", 0)
    clock.advance(0)
    assert len(clock.getDelayedCalls()) == 1
    failures.stop()
    assert clock.getDelayedCalls() == []


class LogDirFailureTests(ClusterTests):
    brokers = (1, 2)

    def fail_directory(self, broker: int) -> None:
        self.cluster.nodes[broker].broker.partitions.directory_failed(self._directories[broker], "the disk burned")
        self.cluster.settle()

    def events(self, broker: int) -> list[bytes]:
        nodes = now(self.cluster.nodes[broker].tree.children_with_data(zk_paths.LOG_DIR_EVENTS))
        return [node.data for node in nodes.values()]

    def offline(self, broker: int) -> list[int]:
        """Return the offline replicas, by a broker's Metadata."""
        request = MetadataRequest([MetadataRequestTopic(TOPIC_ID, TOPIC)])
        [topic] = self.cluster.nodes[broker].ask(metadata.handle, request).topics
        return list(topic.partitions[0].offline_replicas)

    def test_the_controller_is_notified_of_a_failed_directory(self) -> None:
        self.create()
        self.assertEqual(self.cluster.order(2), {2: ErrorCode.NONE})
        self.fail_directory(2)
        self.assertEqual(self.events(2), [b'{"version":1,"broker":2,"event":1}'])
        self.assertEqual(self.cluster.order(2), {2: ErrorCode.KAFKA_STORAGE_ERROR})
        self.assertEqual(self.cluster.stop(2, -2, delete=True), ErrorCode.KAFKA_STORAGE_ERROR)

    def test_the_controller_is_notified_once_the_tree_is_reachable_again(self) -> None:
        self.create()
        tree = self.cluster.nodes[2].tree
        with patch.object(type(tree), "commit", lambda self, operations: fail(Unavailable("/"))):
            self.fail_directory(2)
        self.assertEqual(self.events(2), [])
        self.cluster.settle(1.1)
        self.assertEqual(len(self.events(2)), 1)

    def test_a_failed_follower_stops_fetching_until_it_restarts(self) -> None:
        self.create()
        self.fail_directory(2)
        self.cluster.append(1, b"a")
        self.cluster.requests.clear()
        self.cluster.settle(2)
        self.assertEqual(self.cluster.requests, [])
        self.restart(2)
        self.cluster.announce(1, 2)
        self.cluster.elect(1)
        self.cluster.settle(1.1)
        self.assertEqual(self.cluster.values(2), [b"a"])

    def test_a_failed_leader_leads_no_more(self) -> None:
        self.create()
        produced = self.cluster.produce(1, b"a")
        self.fail_directory(1)
        self.assertEqual(self.successResultOf(produced), ErrorCode.KAFKA_STORAGE_ERROR)
        self.cluster.elect(2, to=(2,))
        self.cluster.append(2, b"b")
        self.assertEqual(list(self.cluster.nodes[1].broker.partitions.led), [])
        self.assertEqual(self.cluster.values(2)[-1:], [b"b"])

    def test_offline_replicas_are_in_the_metadata(self) -> None:
        self.create()
        self.assertEqual([self.offline(broker) for broker in (1, 2)], [[], []])
        self.fail_directory(2)
        self.assertEqual([self.offline(broker) for broker in (1, 2)], [[], [2]])
        self.cluster.announce(1, 2, offline=(2,))
        self.assertEqual([self.offline(broker) for broker in (1, 2)], [[2], [2]])
