"""Changes that wait for one another: what holds when a request arrives need not hold when its change is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import APIS, create_partitions, create_topics, delete_topics
from pylogbroker.broker.sole.controller import LocalController
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.delta import PlannedTopic
from pylogbroker.wire import Request
from pylogbroker.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.nodes import NodeTests
from tests.net.fakes import FakeFactory, connect, frame

PARTITIONS_MAX = 10_000


def creation(*counts: int) -> CreateTopicsRequest:
    """A request for topics `t0`, `t1`... with so many partitions."""
    return CreateTopicsRequest(topics=[CreatableTopic(f"t{n}", count, 1) for n, count in enumerate(counts)])


def enlargement(*counts: int) -> CreatePartitionsRequest:
    """A request that the topics `t0`, `t1`... have so many partitions in all."""
    return CreatePartitionsRequest([CreatePartitionsTopic(f"t{n}", count, None) for n, count in enumerate(counts)])


class QueuedChangesTests(NodeTests):
    """The tree takes the topic `held_name` only when `proceed` is called; what is sent until then waits behind it."""

    held_name = "t0"

    def setUp(self) -> None:
        super().setUp()
        self.held: Deferred[None] = Deferred()
        create = LocalController._create

        async def held_create(controller: LocalController, planned: PlannedTopic) -> None:
            if planned.topic.name == self.held_name:
                await self.held
            await create(controller, planned)

        self.enterContext(patch.object(LocalController, "_create", held_create))

    def proceed(self) -> None:
        self.held.callback(None)

    def send(self, handle: Callable[..., Any], request: Request) -> Deferred[Any]:
        return self.node.send(handle, request)

    def counts(self) -> dict[str, int]:
        return {name: len(topic.partitions) for name, topic in self.node.broker.metadata.topics.items()}

    def test_a_topic_is_made_and_enlarged_without_bound_in_one_segment(self) -> None:
        protocol, transport = connect(FakeFactory(APIS, services=self.node.broker))
        protocol.dataReceived(frame(creation(1), 7, 1) + frame(enlargement(PARTITIONS_MAX + 2), 3, 2))
        self.assertEqual(transport.sent, [])
        self.proceed()
        self.assertEqual(self.counts(), {"t0": 1})
        answered = b"".join(map(bytes, transport.sent))
        self.assertIn(ErrorCode.POLICY_VIOLATION.to_bytes(2, "big"), answered)
        self.assertIn(b"more than 10000 partitions", answered)

    def test_a_topic_is_enlarged_up_to_the_limit(self) -> None:
        self.send(create_topics.handle, creation(1))
        results: list[Any] = []
        self.send(create_partitions.handle, enlargement(301)).addCallback(results.append)
        self.proceed()
        self.assertEqual(results[0].results[0].error_code, ErrorCode.NONE)
        self.assertEqual(self.counts(), {"t0": 301})

    def test_all_topics_of_a_request_count_together(self) -> None:
        self.node.create("t1")
        self.send(create_topics.handle, creation(1))
        results: list[Any] = []
        self.send(create_partitions.handle, enlargement(102, PARTITIONS_MAX - 99)).addCallback(results.append)
        self.proceed()
        self.assertEqual(
            [result.error_code for result in results[0].results], [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
        )
        self.assertEqual(self.counts(), {"t0": 102, "t1": 1})

    def test_a_deletion_by_id_spares_a_topic_that_has_taken_over_the_name(self) -> None:
        self.held_name = "first"
        self.node.create("t0")
        old = self.node.broker.metadata.topics["t0"].id
        results: list[Any] = []
        self.send(create_topics.handle, CreateTopicsRequest(topics=[CreatableTopic("first", 1, 1)]))
        self.send(delete_topics.handle, DeleteTopicsRequest([DeleteTopicState("t0")]))
        self.send(create_topics.handle, creation(1))
        self.send(delete_topics.handle, DeleteTopicsRequest([DeleteTopicState(None, old)])).addCallback(results.append)
        self.proceed()
        self.assertEqual(results[0].responses[0].error_code, ErrorCode.UNKNOWN_TOPIC_ID)
        self.assertNotEqual(self.node.broker.metadata.topics["t0"].id, old)


class PartitionsInAllTests(NodeTests):
    settings = {"max.partitions": "10"}

    def create(self, *counts: int) -> list[ErrorCode]:
        answer = self.node.ask(create_topics.handle, creation(*counts))
        return [ErrorCode(result.error_code) for result in answer.topics]

    def test_no_request_exceeds_the_brokers_limit(self) -> None:
        self.assertEqual(self.create(6, 5), [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION])
        [result] = self.node.ask(create_partitions.handle, enlargement(11)).results
        self.assertEqual(result.error_code, ErrorCode.POLICY_VIOLATION)
        self.assertIn("max.partitions=10", result.error_message)
        [result] = self.node.ask(create_partitions.handle, enlargement(10)).results
        self.assertEqual(result.error_code, ErrorCode.NONE)

    def test_a_deleted_topic_frees_its_partitions(self) -> None:
        self.assertEqual(self.create(10), [ErrorCode.NONE])
        self.node.ask(delete_topics.handle, DeleteTopicsRequest([DeleteTopicState("t0")]))
        self.assertEqual(self.create(10), [ErrorCode.NONE])

    def test_topics_are_counted_again_after_a_restart(self) -> None:
        self.assertEqual(self.create(7), [ErrorCode.NONE])
        self.restart()
        self.assertEqual(self.create(4), [ErrorCode.TOPIC_ALREADY_EXISTS])
        answer = self.node.ask(create_topics.handle, CreateTopicsRequest(topics=[CreatableTopic("u", 4, 1)]))
        self.assertEqual(answer.topics[0].error_code, ErrorCode.POLICY_VIOLATION)

    def test_the_brokers_own_topics_are_not_rejected(self) -> None:
        self.assertEqual(self.create(10), [ErrorCode.NONE])
        self.node.create("__consumer_offsets", 50)
