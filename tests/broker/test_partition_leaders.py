"""Partitions obey the leaders of the metadata."""

from __future__ import annotations

import uuid

from pylogbroker.broker.apis import fetch, metadata
from pylogbroker.broker.runtime.slices import SLICE_SECONDS
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.delta import BrokerRegistered, Delta, TopicCreated
from pylogbroker.metadata.image import BrokerListener, BrokerRegistration, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.zk_image import new_partition
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.nodes import NODE_ID, NodeTests
from tests.broker.trees import now

OTHER = NODE_ID + 1


class LeaderTests(NodeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        self.node.produce("t", 0, 1, 2)

    def lead_elsewhere(self) -> None:
        self.node.change_partition("t", 0, leader=OTHER, replicas=(OTHER, NODE_ID), leader_epoch=1, partition_epoch=1)

    def test_a_partition_that_another_broker_leads(self) -> None:
        listeners = {"PLAINTEXT": BrokerListener("there", 9, "PLAINTEXT")}
        now(self.node.broker.metadata.publish(Delta.of(BrokerRegistered(BrokerRegistration(OTHER, 1, listeners)))))
        self.lead_elsewhere()
        with self.assertRaises(KafkaError) as caught:
            self.node.broker.partitions.find("t", 0)
        self.assertIs(caught.exception.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.assertEqual(self.node.broker.partitions.find("t", 1).index, 1)
        answer = self.node.ask(metadata.handle, MetadataRequest([MetadataRequestTopic(name="t")]), 12)
        [first, second] = answer.topics[0].partitions
        self.assertEqual((first.error_code, first.leader_id, first.leader_epoch), (ErrorCode.NONE, OTHER, 1))
        self.assertEqual((second.error_code, second.leader_id), (ErrorCode.NONE, NODE_ID))

    def test_a_partition_led_elsewhere_is_not_reopened(self) -> None:
        self.lead_elsewhere()
        now(self.node.broker.role.reopen_offline_partitions())
        self.assertNotIn(("t", 0), self.node.broker.partitions.led)

    def test_a_waiting_fetch_is_answered(self) -> None:
        topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=2, partition_max_bytes=1000)])
        request = FetchRequest(topics=[topic], max_wait_ms=60_000, min_bytes=1, max_bytes=1000)
        waiting = self.node.send(fetch.handle, request, 12)
        self.assertNoResult(waiting)
        self.lead_elsewhere()
        self.node.clock.advance(SLICE_SECONDS)
        [partition] = self.successResultOf(waiting).responses[0].partitions
        self.assertEqual(partition.error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_a_broker_that_leads_again_has_its_records_and_the_new_epoch(self) -> None:
        self.lead_elsewhere()
        self.node.change_partition("t", 0, leader=NODE_ID, leader_epoch=2, partition_epoch=2)
        partition = self.node.broker.partitions.find("t", 0)
        self.assertEqual((partition.leader_epoch, partition.log.log_end_offset), (2, 2))
        self.assertEqual(partition.log.latest_epoch, 2)

    def test_an_election_of_the_same_leader_raises_its_epoch(self) -> None:
        before = self.node.broker.partitions.find("t", 0)
        self.node.change_partition("t", 0, leader_epoch=5, partition_epoch=1)
        self.assertIs(self.node.broker.partitions.find("t", 0), before)
        self.assertEqual((before.leader_epoch, before.log.latest_epoch), (5, 5))

    def test_partitions_of_others_have_no_log_here(self) -> None:
        states = PersistentMap({0: new_partition([OTHER]), 1: new_partition([NODE_ID])})
        created = TopicCreated(TopicImage("u", uuid.UUID(int=1), states))
        now(self.node.broker.metadata.publish(Delta.of(created)))
        self.assertEqual([key for key in self.node.broker.logs.logs if key[0] == "u"], [("u", 1)])
        self.assertEqual([key for key in self.node.broker.partitions.led if key[0] == "u"], [("u", 1)])
