"""OffsetForLeaderEpoch."""

from __future__ import annotations

from pylogbroker.broker.apis import offset_for_leader_epoch
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.nodes import NodeTests


class OffsetForLeaderEpochTests(NodeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("t")
        self.node.produce("t", 0, 1, 2, 3, epoch=2)
        self.node.produce("t", 0, 4, 5, epoch=5)

    def end(self, epoch: int, current: int = -1, partition: int = 0, version: int = 4) -> tuple[int, int, int]:
        """The error code, the epoch and where it ends."""
        wanted = OffsetForLeaderPartition(partition, current, epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", [wanted])])
        [topic] = self.node.ask(offset_for_leader_epoch.handle, request, version).topics
        [answer] = topic.partitions
        self.assertEqual((topic.topic, answer.partition), ("t", partition))
        return answer.error_code, answer.leader_epoch, answer.end_offset

    def test_every_version(self) -> None:
        for version in range(5):
            self.assertEqual(self.end(2, version=version), (0, -1 if version == 0 else 2, 3))

    def test_epochs_and_their_ends(self) -> None:
        self.assertEqual([self.end(epoch)[1:] for epoch in (2, 3, 4, 5)], [(2, 3), (2, 3), (2, 3), (5, 5)])

    def test_epochs_that_are_unknown(self) -> None:
        self.assertEqual(self.end(6), (ErrorCode.NONE, -1, -1))
        self.assertEqual(self.end(-1), (ErrorCode.NONE, -1, -1))

    def test_fencing(self) -> None:
        self.assertEqual(self.end(2, 5)[0], ErrorCode.NONE)
        self.assertEqual(self.end(2, 4), (ErrorCode.FENCED_LEADER_EPOCH, -1, -1))
        self.assertEqual(self.end(2, 6), (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1))

    def test_an_unknown_partition(self) -> None:
        self.assertEqual(self.end(2, partition=1), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1))
