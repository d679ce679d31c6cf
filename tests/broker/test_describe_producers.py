"""DescribeProducers."""

from __future__ import annotations

from typing import Any

from pylogbroker.broker.apis import describe_producers
from pylogbroker.errors import ErrorCode
from pylogbroker.storage import Origin
from pylogbroker.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from tests.broker.nodes import NodeTests
from tests.storage.support import NOW, batch, marker


class DescribeProducersTests(NodeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        partition = self.node.broker.partitions.find("t", 0)
        partition.append(batch([b"v"] * 3, [NOW, NOW + 1, NOW + 2], producer=(5, 2, 7)), NOW)
        partition.append(batch([b"v"] * 2, [NOW + 5] * 2, producer=(6, 0, 0), transactional=True), NOW)
        partition.append(batch([b"v"], producer=(7, 0, 0), transactional=True), NOW)
        partition.append(batch([b"v"], [NOW + 6], producer=(6, 0, 2), transactional=True), NOW)
        partition.append(marker(True, 7, 1, coordinator_epoch=9, timestamp=NOW + 8), NOW, Origin.COORDINATOR)

    def ask(self, *topics: TopicRequest) -> list[Any]:
        """The topics of the answer."""
        topics_of: list[Any] = self.node.ask(describe_producers.handle, DescribeProducersRequest(list(topics))).topics
        return topics_of

    def test_producer_states_are_described(self) -> None:
        [topic] = self.ask(TopicRequest("t", [0]))
        [partition] = topic.partitions
        self.assertEqual((topic.name, partition.partition_index, partition.error_code), ("t", 0, 0))
        self.assertIsNone(partition.error_message)
        self.assertEqual(
            partition.active_producers,
            [
                ProducerState(5, 2, 9, NOW + 2, -1, -1),
                ProducerState(6, 0, 2, NOW + 6, -1, 3),
                ProducerState(7, 1, -1, NOW + 8, 9, -1),
            ],
        )

    def test_partitions_in_the_order_asked(self) -> None:
        first, second = self.ask(TopicRequest("nope", [0]), TopicRequest("t", [1, 2, 0]))
        self.assertEqual((first.name, second.name), ("nope", "t"))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.assertEqual([each.error_code for each in first.partitions], [unknown])
        self.assertEqual(
            [(each.partition_index, each.error_code, len(each.active_producers)) for each in second.partitions],
            [(1, 0, 0), (2, unknown, 0), (0, 0, 3)],
        )
        self.assertTrue(first.partitions[0].error_message)

    def test_a_partition_on_a_failed_disk(self) -> None:
        self.node.broker.partitions.directory_failed(self.directories[0], "it burns")
        [topic] = self.ask(TopicRequest("t", [0]))
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.KAFKA_STORAGE_ERROR)
