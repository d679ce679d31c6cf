"""CreatePartitions: topics that grow."""

from __future__ import annotations

from typing import Any

from pylogbroker.broker.apis import create_partitions
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.broker.nodes import NODE_ID, NodeTests
from tests.broker.trees import now

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def wanted(name: str, count: int, *replicas: list[int]) -> CreatePartitionsTopic:
    given = [CreatePartitionsAssignment(brokers) for brokers in replicas]
    return CreatePartitionsTopic(name, count, given or None)


class CreatePartitionsTests(NodeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)

    def ask(self, *topics: CreatePartitionsTopic, version: int = 3, validate_only: bool = False) -> list[Any]:
        request = CreatePartitionsRequest(list(topics), validate_only=validate_only)
        return list(self.node.ask(create_partitions.handle, request, version).results)

    def count(self) -> int:
        return len(self.node.broker.metadata.topics["t"].partitions)

    def test_every_version_enlarges(self) -> None:
        for version in range(4):
            [result] = self.ask(wanted("t", 3 + version), version=version)
            self.assertEqual((result.name, result.error_code, result.error_message), ("t", ErrorCode.NONE, None))
            self.assertEqual(self.count(), 3 + version)
            self.node.produce("t", 2 + version, 1)

    def test_assigned_by_hand(self) -> None:
        [result] = self.ask(wanted("t", 4, [NODE_ID], [NODE_ID]))
        self.assertEqual((result.error_code, self.count()), (ErrorCode.NONE, 4))

    def test_validate_only(self) -> None:
        self.assertEqual(self.ask(wanted("t", 3), validate_only=True)[0].error_code, ErrorCode.NONE)
        self.assertEqual(self.ask(wanted("t", 1), validate_only=True)[0].error_code, ErrorCode.INVALID_PARTITIONS)
        self.assertEqual(self.count(), 2)

    def test_errors(self) -> None:
        for topic, code in (
            (wanted("u", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (wanted("t", 2), ErrorCode.INVALID_PARTITIONS),
            (wanted("t", 1), ErrorCode.INVALID_PARTITIONS),
            (wanted("t", -1), ErrorCode.INVALID_PARTITIONS),
            (wanted("t", 4, [NODE_ID]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (wanted("t", 3, [NODE_ID + 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (wanted("t", 3, [NODE_ID, NODE_ID]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ):
            [result] = self.ask(topic)
            self.assertEqual(result.error_code, code, topic)
            self.assertTrue(result.error_message)
        self.assertEqual(self.count(), 2)

    def test_internal_topics_keep_their_partitions(self) -> None:
        """Groups would be looked for in other partitions than their offsets are in, from the next start on."""
        broker = self.node.broker
        for name, service in ((OFFSETS, broker.group_service), (TRANSACTIONS, broker.transaction_service)):
            now(service.ensure_topic())
            for validate_only in (True, False):
                [result] = self.ask(wanted(name, 51), validate_only=validate_only)
                self.assertEqual(result.error_code, ErrorCode.INVALID_PARTITIONS)
                self.assertIn(f"{name!r} keeps its 50 partitions", result.error_message)
            self.assertEqual(len(broker.metadata.topics[name].partitions), 50)

    def test_named_twice(self) -> None:
        self.node.create("u")
        results = self.ask(wanted("t", 3), wanted("u", 2), wanted("t", 4))
        self.assertEqual(
            [(result.name, result.error_code) for result in results],
            [("t", ErrorCode.INVALID_REQUEST), ("u", ErrorCode.NONE)],
        )
        self.assertEqual(self.count(), 2)

    def test_more_partitions_than_one_request_may_create(self) -> None:
        for count, code in ((10_002, ErrorCode.NONE), (10_003, ErrorCode.POLICY_VIOLATION)):
            self.assertEqual(self.ask(wanted("t", count), validate_only=True)[0].error_code, code)
