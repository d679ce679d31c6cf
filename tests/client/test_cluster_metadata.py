"""Metadata answers, merged into what is known."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.client.metadata import MetadataCache
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.settings import Address
from pylogbroker.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ONE, OTHER = UUID(int=1), UUID(int=2)


def reported(name: str, *leaders: int, epoch: int = 0, topic_id: UUID = ONE, error: int = 0) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(partition_index=number, leader_id=leader, leader_epoch=epoch)
        for number, leader in enumerate(leaders)
    ]
    return MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions, error_code=error)


class TestMetadata(SynchronousTestCase):
    def setUp(self) -> None:
        self.metadata = MetadataCache()

    def learn(self, *topics: MetadataResponseTopic, asked: list[str] | None = None) -> None:
        brokers = [MetadataResponseBroker(1, "one", 9092, None), MetadataResponseBroker(2, "two", 9092, "rack")]
        names = [str(topic.name) for topic in topics] if asked is None else asked
        self.metadata.learn(MetadataResponse(brokers=brokers, topics=list(topics)), names)

    def leaders(self, topic: str) -> list[int | None]:
        return [self.metadata.leaders.get((topic, number)) for number in range(3)]

    def rejected(self, topic: str) -> ErrorCode:
        with self.assertRaises(KafkaError) as caught:
            self.metadata.topic(topic)
        return caught.exception.code

    def test_brokers(self) -> None:
        self.learn()
        self.assertEqual(self.metadata.brokers, {1: Address("one", 9092), 2: Address("two", 9092)})
        self.assertEqual(self.metadata.racks, {1: None, 2: "rack"})

    def test_an_answer_without_brokers_is_not_the_end_of_all(self) -> None:
        self.learn()
        self.metadata.learn(MetadataResponse(), [])
        self.assertEqual(set(self.metadata.brokers), {1, 2})

    def test_topics_that_were_not_asked_for_stay(self) -> None:
        self.learn(reported("a", 1))
        self.learn(reported("b", 2))
        self.assertEqual((self.leaders("a"), self.leaders("b")), ([1, None, None], [2, None, None]))

    def test_topics_that_are_missing_from_the_answer_are_gone(self) -> None:
        self.learn(reported("a", 1), reported("b", 2))
        self.learn(reported("a", 1), asked=["a", "b"])
        self.assertEqual(self.rejected("b"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(self.leaders("b"), [None, None, None])

    def test_topics_missing_from_a_full_answer_are_removed(self) -> None:
        self.learn(reported("a", 1), reported("b", 2))
        self.metadata.learn(MetadataResponse(topics=[reported("b", 2)]), None)
        self.assertEqual(set(self.metadata.topics), {"b"})

    def test_a_partition_without_leader(self) -> None:
        self.learn(reported("a", 1, -1))
        self.assertEqual(self.leaders("a"), [1, None, None])
        with self.assertRaises(KafkaError) as caught:
            self.metadata.leader("a", 1)
        self.assertEqual(caught.exception.code, ErrorCode.LEADER_NOT_AVAILABLE)

    def test_a_partition_that_there_is_not(self) -> None:
        self.learn(reported("a", 1))
        with self.assertRaises(KafkaError) as caught:
            self.metadata.leader("a", 1)
        self.assertEqual(caught.exception.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_a_partition_that_the_answer_leaves_out(self) -> None:
        topic = reported("a", 1, 1)
        del topic.partitions[0]
        self.learn(topic)
        self.assertEqual(self.leaders("a"), [None, 1, None])

    def test_a_broker_that_has_not_heard_of_the_newest_leader_yet(self) -> None:
        self.learn(reported("a", 1, epoch=5))
        self.learn(reported("a", 2, epoch=4))
        self.assertEqual(self.leaders("a"), [1, None, None])
        self.learn(reported("a", 2, epoch=6))
        self.assertEqual(self.leaders("a"), [2, None, None])

    def test_brokers_that_do_not_report_epochs_are_believed(self) -> None:
        self.learn(reported("a", 1, epoch=5))
        self.learn(reported("a", 2, epoch=-1))
        self.assertEqual(self.leaders("a"), [2, None, None])

    def test_a_topic_that_was_recreated_restarts(self) -> None:
        self.learn(reported("a", 1, 1, epoch=5))
        self.learn(reported("a", 2, epoch=0, topic_id=OTHER))
        self.assertEqual(self.leaders("a"), [2, None, None])

    def test_errors_of_a_moment_change_nothing(self) -> None:
        self.learn(reported("a", 1))
        self.learn(reported("a", error=ErrorCode.LEADER_NOT_AVAILABLE))
        self.assertEqual(self.leaders("a"), [1, None, None])

    def test_other_errors_are_kept_until_they_are_over(self) -> None:
        self.learn(reported("a", 1))
        self.learn(reported("a", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        self.assertEqual(self.rejected("a"), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.assertEqual(self.leaders("a"), [None, None, None])
        self.learn(reported("a", 1))
        self.assertEqual(len(self.metadata.topic("a").partitions), 1)
