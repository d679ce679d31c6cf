"""Errors of Produce and Fetch name the current leader (KIP-951)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import fetch, produce
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import PartitionState, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.nodes import NODE_ID, PORT
from tests.broker.replicas import OTHER, TOPIC_ID, ReplicaTests, broker
from tests.broker.trees import now
from tests.storage.support import batch

THERE = (OTHER, f"host-{OTHER}", PORT + OTHER, "there")
HERE = (NODE_ID, "here", PORT, None)
NOBODY = (-1, -1)


class CurrentLeaderTests(ReplicaTests):
    def produce(self, version: int = 11) -> Any:
        return self.successResultOf(self.send_records(version))

    def send_records(self, version: int = 11) -> Deferred[Any]:
        data = [PartitionProduceData(0, batch([b"v"]))]
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData("t", data)])
        return self.node.send(produce.handle, request, version)

    def fetch(self, version: int = 17, epoch: int = -1) -> Any:
        wanted = FetchPartition(0, current_leader_epoch=epoch, partition_max_bytes=1000)
        request = FetchRequest(topics=[FetchTopic("t", TOPIC_ID, partitions=[wanted])], max_bytes=1000)
        return self.node.ask(fetch.handle, request, version)

    def assert_named(
        self, answer: Any, code: ErrorCode, leader: tuple[int, int], *addresses: tuple[int, str, int, str | None]
    ) -> None:
        responses = answer.responses[0]
        [partition] = responses.partitions if hasattr(responses, "partitions") else responses.partition_responses
        self.assertEqual(partition.error_code, code)
        self.assertEqual((partition.current_leader.leader_id, partition.current_leader.leader_epoch), leader)
        self.assertEqual([(n.node_id, n.host, n.port, n.rack) for n in answer.node_endpoints], list(addresses))

    def test_another_leader(self) -> None:
        self.order(OTHER, 3)
        for version in (10, 11):
            self.assert_named(self.produce(version), ErrorCode.NOT_LEADER_OR_FOLLOWER, (OTHER, 3), THERE)
        for version in (16, 17):
            self.assert_named(self.fetch(version, 2), ErrorCode.FENCED_LEADER_EPOCH, (OTHER, 3), THERE)
        self.assert_named(self.produce(9), ErrorCode.NOT_LEADER_OR_FOLLOWER, NOBODY)
        self.assert_named(self.fetch(15, 2), ErrorCode.FENCED_LEADER_EPOCH, NOBODY)

    def test_a_later_epoch_of_the_same_leader_is_named(self) -> None:
        self.order(NODE_ID, 4)
        self.assert_named(self.fetch(epoch=3), ErrorCode.FENCED_LEADER_EPOCH, (NODE_ID, 4), HERE)
        self.assert_named(self.fetch(epoch=5), ErrorCode.UNKNOWN_LEADER_EPOCH, NOBODY)

    def test_no_leader(self) -> None:
        self.order(-1, 4)
        self.assert_named(self.produce(), ErrorCode.NOT_LEADER_OR_FOLLOWER, NOBODY)
        self.assert_named(self.fetch(), ErrorCode.NOT_LEADER_OR_FOLLOWER, NOBODY)

    def test_a_leader_that_the_listener_does_not_reach(self) -> None:
        self.order(OTHER, 3)
        self.register(broker(OTHER, None, "INSIDE"))
        self.assert_named(self.produce(), ErrorCode.NOT_LEADER_OR_FOLLOWER, (OTHER, 3))

    def test_the_newer_one_of_the_order_and_the_image(self) -> None:
        self.order(NODE_ID, 3)
        waiting = self.send_records()
        self.assertNoResult(waiting)
        state = PartitionState(OTHER, (NODE_ID, OTHER), (NODE_ID, OTHER), 4, 4)
        now(self.replicas.apply(TopicImage("t", TOPIC_ID, PersistentMap({0: state})), set(), {}))
        self.assert_named(self.successResultOf(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER, (OTHER, 4), THERE)
        self.node.change_partition("t", 0, leader=-1, leader_epoch=5)
        self.assert_named(self.produce(), ErrorCode.NOT_LEADER_OR_FOLLOWER, NOBODY)
