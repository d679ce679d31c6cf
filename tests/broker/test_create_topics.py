"""CreateTopics: what becomes of each topic asked for, in every version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from pylogbroker.broker.apis import create_topics
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import TopicImage
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.broker.nodes import NODE_ID, NodeTests


def wanted(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreatableTopic(name, partitions, factor, configs=settings)


def assigned(*replicas: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(number, brokers) for number, brokers in replicas]
    return CreatableTopic("t", partitions, factor, assignments)


class CreateTopicsTests(NodeTests):
    def ask(self, *topics: CreatableTopic, version: int = 7, validate_only: bool = False) -> list[Any]:
        request = CreateTopicsRequest(list(topics), validate_only=validate_only)
        results: list[Any] = self.node.ask(create_topics.handle, request, version).topics
        return results

    def code(self, topic: CreatableTopic, version: int = 7) -> ErrorCode:
        """Return the error code of a topic, which must come with a reason."""
        [result] = self.ask(topic, version=version)
        self.assertTrue(result.error_message)
        self.assertNotIn(topic.name or "-", {name for name in self.topics if name not in self.before})
        return ErrorCode(result.error_code)

    def setUp(self) -> None:
        super().setUp()
        self.before = set(self.topics)

    @property
    def topics(self) -> Mapping[str, TopicImage]:
        return self.node.broker.metadata.topics

    def test_every_version_creates(self) -> None:
        for version in range(8):
            [result] = self.ask(wanted(f"t{version}", 2), version=version)
            self.assertEqual((result.name, result.error_code), (f"t{version}", ErrorCode.NONE))
            self.assertEqual(len(self.topics[f"t{version}"].partitions), 2)
            self.assertIsNotNone(self.node.broker.partitions.find(f"t{version}", 1))

    def test_the_answer_describes_the_topic(self) -> None:
        [result] = self.ask(wanted("t", -1, -1, retention_ms="77"))
        self.assertEqual((result.num_partitions, result.replication_factor), (1, 1))
        self.assertEqual(result.topic_id, self.topics["t"].id)
        self.assertIsNone(result.error_message)
        configs = {config.name: config for config in result.configs}
        own, other = configs["retention.ms"], configs["segment.bytes"]
        self.assertEqual((own.value, own.config_source, own.read_only, own.is_sensitive), ("77", 1, False, False))
        self.assertEqual((other.value, other.config_source), ("1073741824", 5))

    def test_settings_that_topics_have_in_common_are_described_once(self) -> None:
        with patch.object(create_topics, "describe_topic", wraps=create_topics.describe_topic) as described:
            topics = self.ask(wanted("a"), wanted("b"), wanted("c", retention_ms="5"), wanted("d", retention_ms="5"))
        self.assertEqual(described.call_count, 2)
        retention = [next(each.value for each in topic.configs if each.name == "retention.ms") for topic in topics]
        self.assertEqual(retention, ["604800000", "604800000", "5", "5"])

    def test_validate_only(self) -> None:
        [result] = self.ask(wanted("t", 3, retention_ms="5"), validate_only=True)
        self.assertEqual((result.error_code, result.num_partitions), (ErrorCode.NONE, 3))
        self.assertEqual((self.topics, result.topic_id), ({}, NO_ID))
        [result] = self.ask(wanted("t", 0), validate_only=True)
        self.assertEqual(result.error_code, ErrorCode.INVALID_PARTITIONS)

    def test_errors(self) -> None:
        self.node.create("there")
        self.node.create("a.b")
        self.before = set(self.topics)
        for topic, code in (
            (wanted("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
            (wanted("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (wanted(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (wanted("t", 0), ErrorCode.INVALID_PARTITIONS),
            (wanted("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
            (wanted("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
            (wanted("t", no_such="1"), ErrorCode.INVALID_CONFIG),
            (wanted("t", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
            (wanted("t", retention_ms=None), ErrorCode.INVALID_CONFIG),
            (assigned((0, [NODE_ID]), partitions=1), ErrorCode.INVALID_REQUEST),
            (assigned((0, [NODE_ID]), factor=1), ErrorCode.INVALID_REQUEST),
            (assigned((0, [NODE_ID + 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (assigned((1, [NODE_ID])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (assigned((0, [NODE_ID]), (0, [NODE_ID])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ):
            self.assertIs(self.code(topic), code, topic)

    def test_an_error_reports_the_brokers_there_are(self) -> None:
        [result] = self.ask(wanted("t", 1, 3), version=1)
        self.assertIn("3", result.error_message)
        self.assertIn("1 broker", result.error_message)

    def test_the_last_value_of_a_repeated_setting_counts(self) -> None:
        configs = [CreatableTopicConfig("retention.ms", "1"), CreatableTopicConfig("retention.ms", "2")]
        self.ask(CreatableTopic("t", 1, 1, configs=configs))
        self.assertEqual(self.node.broker.metadata.topic_settings("t"), {"retention.ms": "2"})

    def test_assigned_by_hand(self) -> None:
        [result] = self.ask(assigned((1, [NODE_ID]), (0, [NODE_ID])))
        self.assertEqual((result.error_code, result.num_partitions), (ErrorCode.NONE, 2))

    def test_each_on_its_own_and_names_given_twice_rejected_once(self) -> None:
        results = self.ask(wanted("a"), wanted("b"), wanted("c", 0), wanted("b", 3))
        self.assertEqual(
            [(result.name, result.error_code) for result in results],
            [("a", ErrorCode.NONE), ("b", ErrorCode.INVALID_REQUEST), ("c", ErrorCode.INVALID_PARTITIONS)],
        )
        self.assertEqual(set(self.topics), {"a"})

    def test_more_partitions_than_one_request_may_create(self) -> None:
        for topics in (
            (wanted("a", 10_001),),
            (wanted("a", 9_999), wanted("b", -1), wanted("c")),
            (wanted("a", 10_001), wanted("b", -9)),
        ):
            results = self.ask(*topics, validate_only=True)
            self.assertEqual({result.error_code for result in results}, {ErrorCode.POLICY_VIOLATION})
        results = self.ask(wanted("a", 9_999), wanted("b", -1), validate_only=True)
        self.assertEqual([result.error_code for result in results], [ErrorCode.NONE] * 2)
