"""Metadata and DescribeTopicPartitions about partitions of several brokers: leaders, listeners, offline replicas."""

from __future__ import annotations

from typing import Any

from pylogbroker.broker.apis import describe_topic_partitions, metadata
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.delta import BrokerUnregistered, Delta
from pylogbroker.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.nodes import NODE_ID
from tests.broker.replicas import OTHER, ReplicaTests, broker
from tests.broker.trees import now

LAST = 12
BOTH = [NODE_ID, OTHER]


class ReplicaViewTests(ReplicaTests):
    def ask(self, version: int = LAST) -> Any:
        request = MetadataRequest([MetadataRequestTopic(name="t")])
        [partition] = self.node.ask(metadata.handle, request, version).topics[0].partitions
        return partition

    def describe(self) -> Any:
        [topic] = self.node.ask(describe_topic_partitions.handle, DescribeTopicPartitionsRequest()).topics
        [partition] = topic.partitions
        return partition

    def assert_shown(self, leader: int, error: ErrorCode, offline: list[int]) -> None:
        for partition in (self.ask(), self.describe()):
            self.assertEqual((partition.leader_id, partition.error_code), (leader, error))
            self.assertEqual((partition.replica_nodes, partition.isr_nodes), (BOTH, BOTH))
            self.assertEqual((partition.offline_replicas, partition.leader_epoch), (offline, 3))

    def unregister(self, broker_id: int) -> None:
        now(self.metadata.publish(Delta.of(BrokerUnregistered(broker_id))))

    def test_leaders(self) -> None:
        self.order(OTHER, 3)
        self.assert_shown(OTHER, ErrorCode.NONE, [])
        self.order(-1, 4)
        for partition in (self.ask(), self.describe()):
            self.assertEqual((partition.leader_id, partition.error_code), (-1, ErrorCode.LEADER_NOT_AVAILABLE))

    def test_replicas_of_brokers_that_are_not_registered_are_offline(self) -> None:
        self.order(NODE_ID, 3)
        self.unregister(OTHER)
        self.assert_shown(NODE_ID, ErrorCode.NONE, [OTHER])

    def test_a_leader_that_is_not_registered(self) -> None:
        self.order(OTHER, 3)
        self.unregister(OTHER)
        self.assert_shown(-1, ErrorCode.LEADER_NOT_AVAILABLE, [OTHER])

    def test_a_leader_without_the_listener(self) -> None:
        self.order(OTHER, 3)
        self.register(broker(OTHER, None, "INSIDE"))
        self.assert_shown(-1, ErrorCode.LISTENER_NOT_FOUND, [])
        codes = [self.ask(version).error_code for version in range(LAST + 1)]
        old, new = ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND
        self.assertEqual(codes, [old] * 6 + [new] * (LAST - 5))

    def test_version_0_shows_replicas_that_can_be_reached(self) -> None:
        self.order(NODE_ID, 3)
        self.assertEqual(self.ask(0).error_code, ErrorCode.NONE)
        self.unregister(OTHER)
        partition = self.ask(0)
        self.assertEqual((partition.error_code, partition.leader_id), (ErrorCode.REPLICA_NOT_AVAILABLE, NODE_ID))
        self.assertEqual((partition.replica_nodes, partition.isr_nodes), ([NODE_ID], [NODE_ID]))

    def test_a_follower_with_a_failed_log_is_offline(self) -> None:
        self.order(OTHER, 3)
        self.log.record_failure(OSError(5, "the disk is gone"))
        self.partitions.storage_failed(self.log)
        self.assert_shown(OTHER, ErrorCode.NONE, [NODE_ID])
