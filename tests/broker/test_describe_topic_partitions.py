"""DescribeTopicPartitions: pages."""

from __future__ import annotations

from typing import Any

from pylogbroker.broker.apis import describe_topic_partitions
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.broker.nodes import NODE_ID, NodeTests

ALL_TOPIC_OPERATIONS = 0b1101_1111_1000  # READ 3 to DESCRIBE 8, DESCRIBE_CONFIGS 10 and ALTER_CONFIGS 11


class DescribeTopicPartitionsTests(NodeTests):
    settings = {"max.request.partition.size.limit": "5"}

    def setUp(self) -> None:
        super().setUp()
        for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
            self.node.create(name, partitions)

    def ask(self, *names: str, limit: int = 2000, cursor: Cursor | None = None) -> Any:
        topics = [TopicRequest(name) for name in names]
        request = DescribeTopicPartitionsRequest(topics, limit, cursor)
        return self.node.ask(describe_topic_partitions.handle, request)

    def pages(self, limit: int, *names: str) -> list[list[tuple[str, list[int]]]]:
        """All pages, by following the cursors."""
        pages, cursor = [], None
        while not pages or cursor is not None:
            answer = self.ask(*names, limit=limit, cursor=cursor)
            cursor = answer.next_cursor
            pages.append([(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics])
        return pages

    def test_one_topic(self) -> None:
        answer = self.ask("c")
        [topic], known = answer.topics, self.node.broker.metadata.topics["c"]
        [partition] = topic.partitions
        self.assertEqual((topic.topic_id, topic.is_internal, topic.error_code), (known.id, False, 0))
        self.assertEqual(topic.topic_authorized_operations, ALL_TOPIC_OPERATIONS)
        self.assertEqual((partition.leader_id, partition.leader_epoch, partition.error_code), (NODE_ID, 0, 0))
        self.assertEqual((partition.replica_nodes, partition.isr_nodes), ([NODE_ID], [NODE_ID]))
        self.assertEqual((partition.eligible_leader_replicas, partition.last_known_elr), ([], []))
        self.assertEqual(partition.offline_replicas, [])
        self.assertIsNone(answer.next_cursor)

    def test_pages(self) -> None:
        self.assertEqual(self.pages(5), [[("a", [0, 1]), ("b", [0, 1, 2])], [("c", [0])]])
        self.assertEqual(self.pages(3), [[("a", [0, 1]), ("b", [0])], [("b", [1, 2]), ("c", [0])]])
        self.assertEqual(self.pages(2, "c", "b"), [[("b", [0, 1])], [("b", [2]), ("c", [0])]])
        self.assertEqual([len(page) for page in self.pages(1)], [1] * 6)

    def test_the_brokers_limit_counts_too_and_a_page_is_never_empty(self) -> None:
        self.assertEqual(self.pages(2000), self.pages(5))
        self.assertEqual(self.pages(0), self.pages(1))

    def test_a_cursor_at_a_topic_that_is_gone(self) -> None:
        answer = self.ask(cursor=Cursor("aa", 1))
        self.assertEqual([(t.name, len(t.partitions)) for t in answer.topics], [("b", 3), ("c", 1)])

    def test_unknown_and_illegal_topics(self) -> None:
        answer = self.ask("nope", "not legal", "a")
        self.assertEqual(
            [(topic.name, topic.error_code) for topic in answer.topics],
            [
                ("a", ErrorCode.NONE),
                ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                ("not legal", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ],
        )

    def test_a_bad_cursor(self) -> None:
        answer = self.ask("a", "nope", cursor=Cursor("a", -1))
        self.assertEqual(
            [(topic.name, topic.error_code, topic.partitions) for topic in answer.topics],
            [("a", ErrorCode.INVALID_REQUEST, []), ("nope", ErrorCode.INVALID_REQUEST, [])],
        )
        self.assertEqual(self.ask(cursor=Cursor("a", -1)).topics, [])

    def test_a_partition_with_a_failed_log(self) -> None:
        del self.node.broker.partitions.led["a", 1]
        [topic] = self.ask("a").topics
        well, ill = topic.partitions
        self.assertEqual((well.error_code, well.leader_id, well.offline_replicas), (0, NODE_ID, []))
        self.assertEqual(ill.error_code, ErrorCode.LEADER_NOT_AVAILABLE)
        self.assertEqual((ill.leader_id, ill.offline_replicas), (-1, [NODE_ID]))
