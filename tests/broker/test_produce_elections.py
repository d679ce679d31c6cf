"""Produce requests with acks=all whose partitions get another leader, or stop, meanwhile."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import produce
from pylogbroker.broker.partitions.partition import CONVERT_INLINE_BYTES_MAX
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.fetch import EpochEndOffset
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.nodes import NODE_ID
from tests.broker.replicas import OTHER, ReplicaTests
from tests.broker.trees import now
from tests.storage.support import batch

COSTLY = batch([b"x" * CONVERT_INLINE_BYTES_MAX] * 20, codec=3)
"""A worker thread decompresses it."""


class ElectionTests(ReplicaTests):
    partition_count = 2

    def setUp(self) -> None:
        super().setUp()
        self.order(NODE_ID)
        self.node.threads.holding = True

    def produce(self, *partitions: int, records: bytes = COSTLY) -> Deferred[Any]:
        data = [PartitionProduceData(index, records) for index in partitions]
        return self.node.send(produce.handle, ProduceRequest(None, -1, 1000, [TopicProduceData("t", data)]), 9)

    def errors(self, produced: Deferred[Any]) -> list[int]:
        [topic] = self.successResultOf(produced).responses
        return [answer.error_code for answer in topic.partition_responses]

    def follow_another_leader(self) -> None:
        """Follow a leader that lacks the records of partition 0, and has others, which are committed."""
        self.order(OTHER, 1)
        self.leader_answers(diverging_epoch=EpochEndOffset(0, 0))
        while self.node.threads.held:
            self.node.threads.run_one()
        self.assertEqual(self.log.log_end_offset, 0)
        self.leader_answers(batch([b"other"] * 20), high_watermark=20)
        self.assertEqual(self.log.high_watermark, 20)

    def test_records_that_an_election_has_cut_off_are_not_acknowledged(self) -> None:
        """Partition 1, which is answered first, waits for a thread while the records of partition 0 come and go."""
        produced = self.produce(1, 0)
        self.node.threads.held.reverse()
        self.node.threads.run_one()
        self.assertEqual(self.log.log_end_offset, 20)
        self.follow_another_leader()
        self.assertEqual(self.errors(produced), [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2)

    def test_a_stopped_replica_takes_no_queued_records(self) -> None:
        """Its leader epoch is still the last one that this broker knows of."""
        produced = self.produce(0)
        now(self.replicas.stop({("t", 0): (0, False)}))
        self.node.threads.run_one()
        self.assertEqual((self.errors(produced), self.log.log_end_offset), ([ErrorCode.NOT_LEADER_OR_FOLLOWER], 0))

    def test_records_that_the_next_leader_epoch_begins_above_are_acknowledged(self) -> None:
        """The controller has taken the replica that they waited for out of the ISR."""
        produced = self.produce(0, records=batch([b"x"]))
        self.assertNoResult(produced)
        self.order(NODE_ID, 1, isr=(NODE_ID,))
        self.assertEqual(self.errors(produced), [ErrorCode.NONE])
