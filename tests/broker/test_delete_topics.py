"""DeleteTopics, by name and by id."""

from __future__ import annotations

import uuid
from typing import Any

from pylogbroker.broker.apis import delete_topics
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.nodes import NodeTests


class DeleteTopicsTests(NodeTests):
    def ask(self, *wanted: str | uuid.UUID | tuple[str | None, uuid.UUID]) -> list[Any]:
        """Ask in the newest version, by names, ids or both."""
        states = []
        for topic in wanted:
            name, topic_id = topic if isinstance(topic, tuple) else (topic, NO_ID)
            states.append(
                DeleteTopicState(None, name) if isinstance(name, uuid.UUID) else DeleteTopicState(name, topic_id)
            )
        return list(self.node.ask(delete_topics.handle, DeleteTopicsRequest(states)).responses)

    def test_every_version_deletes_by_name(self) -> None:
        for version in range(6):
            self.node.create("t", 2)
            request = DeleteTopicsRequest(topic_names=["t", "u"])
            deleted, unknown = self.node.ask(delete_topics.handle, request, version).responses
            self.assertEqual((deleted.name, deleted.error_code), ("t", ErrorCode.NONE))
            self.assertEqual((unknown.name, unknown.error_code), ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            self.assertEqual(self.node.broker.metadata.topics, {})
            self.assertRaises(KafkaError, self.node.broker.partitions.find, "t", 0)

    def test_by_name_and_by_id(self) -> None:
        self.node.create("a")
        self.node.create("b")
        ids = {name: topic.id for name, topic in self.node.broker.metadata.topics.items()}
        results = self.ask("a", ids["b"])
        self.assertEqual(
            [(r.name, r.topic_id, r.error_code) for r in results], [("a", ids["a"], 0), ("b", ids["b"], 0)]
        )
        self.assertEqual(self.node.broker.metadata.topics, {})

    def test_errors(self) -> None:
        self.node.create("t")
        foreign, known = uuid.uuid4(), self.node.broker.metadata.topics["t"].id
        for wanted, code in (
            ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (foreign, ErrorCode.UNKNOWN_TOPIC_ID),
            ((None, NO_ID), ErrorCode.INVALID_REQUEST),
            (("t", known), ErrorCode.INVALID_REQUEST),
        ):
            [result] = self.ask(wanted)
            self.assertEqual(result.error_code, code)
            self.assertTrue(result.error_message)
        self.assertIn("t", self.node.broker.metadata.topics)

    def test_named_twice(self) -> None:
        self.node.create("t")
        known = self.node.broker.metadata.topics["t"].id
        for wanted in (("t", "t"), (known, known), ("t", known)):
            self.assertEqual([r.error_code for r in self.ask(*wanted)], [ErrorCode.INVALID_REQUEST])
        self.assertIn("t", self.node.broker.metadata.topics)


class DisabledTests(NodeTests):
    settings = {"delete.topic.enable": "false"}

    def test_disabled(self) -> None:
        self.node.create("t")
        request = DeleteTopicsRequest(topic_names=["t"])
        for version, code in ((2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)):
            [result] = self.node.ask(delete_topics.handle, request, version).responses
            self.assertEqual(result.error_code, code)
        self.assertIn("t", self.node.broker.metadata.topics)
