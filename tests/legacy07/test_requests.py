"""A broker's handling of 0.7's requests, and the same topics through Kafka's protocol; without sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.apis import (
    create_topics,
    delete_records,
    fetch,
    incremental_alter_configs,
    list_offsets,
    produce,
)
from pylogbroker.broker.requests.context import Caller
from pylogbroker.broker.security.access import Access
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError, ErrorCode, ProtocolViolation
from pylogbroker.legacy07.server import requests
from pylogbroker.legacy07.wire import FetchRange, MultiFetch, MultiProduce, Production, decode_legacy07_request
from pylogbroker.records import Codec, Record, build
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from pylogbroker.security.principals import ANONYMOUS
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pylogbroker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NodeTests
from tests.broker.trees import now
from tests.legacy07 import message_sets
from tests.legacy07.test_records import kafka_reads


class SimpleTests(NodeTests):
    """Requests and answers as bytes."""

    def send(self, request: bytes) -> bytes | None:
        """The answer to a request, None if there is none."""
        answer = requests.handle(self.node.broker, decode_legacy07_request(memoryview(request)[4:]))
        found = now(answer) if isinstance(answer, Awaitable) else answer
        if found is None:
            return None
        return b"".join(
            bytes(each) if isinstance(each, (bytes, bytearray, memoryview)) else each.read() for each in found
        )

    def send_late(self, request: bytes) -> Deferred[Any]:
        """Like `ask`, for a request that has to wait."""
        answer = requests.handle(self.node.broker, decode_legacy07_request(memoryview(request)[4:]))
        assert isinstance(answer, Coroutine)
        return ensureDeferred(answer)

    def fetched(
        self, offset: int = 0, *, wait_ms: int = 0, version: int = 12, max_bytes: int = 1 << 20
    ) -> Deferred[Any]:
        """Return the answer of Kafka's protocol for partition 0 of `t`."""
        wanted = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)])
        request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[wanted])
        return self.node.send(fetch.handle, request, version)

    def records(self, offset: int = 0, **how: int) -> list[tuple[int, bytes]]:
        answer = self.partition_of(self.successResultOf(self.fetched(offset, **how)))
        assert answer.error_code == 0
        return kafka_reads(bytes(answer.records or b""))

    def partition_of(self, answer: Any) -> PartitionData:
        [topic] = answer.responses
        [partition] = topic.partitions
        return partition  # type: ignore[no-any-return]

    def produced(self, records: bytes, version: int = 9) -> tuple[int, int]:
        request = ProduceRequest(acks=1, topic_data=[TopicProduceData("t", [PartitionProduceData(0, records)])])
        [topic] = self.node.ask(produce.handle, request, version).responses
        [answer] = topic.partition_responses
        return answer.error_code, answer.base_offset


class RequestTests(SimpleTests):
    settings = {"num.partitions": "2", "message.max.bytes": "1000"}

    def test_the_recorded_exchanges(self) -> None:
        self.assertIsNone(self.send(message_sets.PRODUCE_ONE))
        self.assertIsNone(self.send(message_sets.MULTIPRODUCE_TWO))
        self.assertEqual(self.send(message_sets.FETCH), message_sets.FETCHED)
        self.assertEqual(self.send(message_sets.LATEST), message_sets.LATEST_ANSWER)
        self.assertEqual(self.send(message_sets.EARLIEST), message_sets.EARLIEST_ANSWER)

    def test_requests_of_several_parts_give_way_after_each(self) -> None:
        self.send(message_sets.PRODUCE_ONE)
        ranges, parts = [FetchRange("t", 0, 0, 10)] * 5, [Production("t", 0, message_sets.ONE)] * 5
        for request in (MultiFetch(ranges), MultiProduce(parts)):
            work = requests.handle(self.node.broker, request)
            assert isinstance(work, Coroutine)
            self.assertGreaterEqual(len(list(work.__await__())), 5)

    def test_a_topic_is_made_by_a_produce_alone(self) -> None:
        self.assertEqual(self.send(message_sets.FETCH), message_sets.answer(0))
        self.assertEqual(self.send(message_sets.fetch(b"t", 2, 0)), message_sets.answer(3))
        self.assertEqual(self.send(message_sets.LATEST), message_sets.offsets_answer(0, 0))
        self.assertEqual(self.send(message_sets.offsets(b"t", 0, 1000, 9)), message_sets.offsets_answer(0))
        self.assertEqual(self.node.broker.metadata.topics, {})
        self.send(message_sets.PRODUCE_ONE)
        self.assertEqual(self.node.broker.metadata.topic_settings("t"), {"message.format.version": "0.7"})

    def test_errors(self) -> None:
        self.send(message_sets.PRODUCE_ONE)
        self.assertEqual(self.send(message_sets.fetch(b"t", 0, 13)), message_sets.answer(0))
        self.assertEqual(self.send(message_sets.fetch(b"t", 0, 14)), message_sets.answer(1))
        self.assertEqual(self.send(message_sets.fetch(b"t", 0, -1)), message_sets.answer(1))
        for partition in (2, 7, -1):
            self.assertEqual(self.send(message_sets.fetch(b"t", partition, 0)), message_sets.answer(3))
            self.assertEqual(self.send(message_sets.offsets(b"t", partition, -1, 1)), message_sets.offsets_answer(3))
        for size in (0, -1):
            self.assertEqual(self.send(message_sets.fetch(b"t", 0, 0, size)), message_sets.answer(4))
        for size in range(1, 13):
            self.assertEqual(
                self.send(message_sets.fetch(b"t", 0, 0, size)), message_sets.answer(0, message_sets.ONE[:size])
            )

    def test_multifetch(self) -> None:
        self.send(message_sets.PRODUCE_ONE)
        self.send(message_sets.produce(b"u", 1, message_sets.TWO + message_sets.THREE))
        request = message_sets.multifetch(
            (b"t", 0, 0, 99), (b"u", 1, 13, 5), (b"u", 5, 0, 9), (b"u", 0, 1, 9), (b"v", 0, 0, 9)
        )
        parts = (0, message_sets.ONE), (0, message_sets.THREE[:5]), (3, b""), (1, b""), (0, b"")
        self.assertEqual(
            self.send(request), message_sets.answer(0, b"".join(message_sets.answer(*part) for part in parts))
        )
        self.assertEqual(self.send(message_sets.multifetch()), message_sets.answer(0))

    def test_partition_minus_one_spreads_messages(self) -> None:
        for _ in range(50):
            self.send(message_sets.produce(b"t", -1, message_sets.ONE))
        sizes = [len(self.send(message_sets.fetch(b"t", partition, 0)) or b"") - 6 for partition in (0, 1)]
        self.assertEqual(sum(sizes), 50 * 13)
        self.assertTrue(all(sizes))

    def test_invalid_produce_requests_append_nothing(self) -> None:
        self.node.create("numbered")
        damaged = message_sets.ONE[:-1] + b"f"
        for topic, partition, data in (
            (b"t", 0, damaged),
            (b"t", 0, message_sets.ONE + message_sets.TWO[:-1]),
            (b"t", 2, message_sets.ONE),
            (b"t", -2, message_sets.ONE),
            (b"t", 0, message_sets.message(bytes(1000))),
            (b"numbered", 0, message_sets.ONE),
            (b"not a name", 0, message_sets.ONE),
            (b"__consumer_offsets", 0, message_sets.ONE),
        ):
            with self.assertRaises(ProtocolViolation):
                self.send(message_sets.produce(topic, partition, data))
        self.assertEqual(self.send(message_sets.LATEST), message_sets.offsets_answer(0, 0))

    def test_no_topic_is_made_for_a_partition_that_it_would_not_have(self) -> None:
        for partition in (2, -2, 0x7FFFFFFF, -0x80000000):
            with self.assertRaises(ProtocolViolation) as caught:
                self.send(message_sets.produce(b"t", partition, message_sets.ONE))
            self.assertIn(f"there is no partition t-{partition}", str(caught.exception))
        self.assertEqual(self.node.broker.metadata.topics, {})

    def test_a_multiproduce_appends_the_parts_before_the_fault(self) -> None:
        parts = [
            (b"t", 0, message_sets.ONE),
            (b"t", 1, message_sets.TWO),
            (b"t", 0, message_sets.ONE[:-1]),
            (b"t", 1, message_sets.ONE),
        ]
        body = b"".join(message_sets.produce(*part)[6:] for part in parts)
        with self.assertRaises(ProtocolViolation):
            self.send(message_sets.request(3, len(parts).to_bytes(2, "big") + body))
        self.assertEqual(self.send(message_sets.FETCH), message_sets.answer(0, message_sets.ONE))
        self.assertEqual(self.send(message_sets.fetch(b"t", 1, 0)), message_sets.answer(0, message_sets.TWO))

    def test_a_multiproduce_makes_topics_as_it_comes_to_them(self) -> None:
        parts = [
            (b"t", 0, message_sets.ONE),
            (b"u", 1, message_sets.TWO),
            (b"t", 0, message_sets.THREE),
            (b"v", -1, message_sets.ONE),
            (b"u", 1, message_sets.HELLO),
        ]
        body = b"".join(message_sets.produce(*part)[6:] for part in parts)
        self.assertIsNone(self.send(message_sets.request(3, len(parts).to_bytes(2, "big") + body)))
        self.assertEqual(self.send(message_sets.FETCH), message_sets.answer(0, message_sets.ONE + message_sets.THREE))
        self.assertEqual(
            self.send(message_sets.fetch(b"u", 1, 0)), message_sets.answer(0, message_sets.TWO + message_sets.HELLO)
        )
        found = message_sets.multifetch((b"v", 0, 0, 99), (b"v", 1, 0, 99))
        self.assertEqual(len(self.send(found) or b""), 6 + 2 * 6 + 13)

    def test_a_set_of_nothing(self) -> None:
        self.assertIsNone(self.send(message_sets.produce(b"t", 0, b"")))
        self.assertEqual(self.node.broker.metadata.topics, {})
        self.send(message_sets.PRODUCE_ONE)
        self.assertIsNone(self.send(message_sets.produce(b"t", 0, b"")))
        self.assertEqual(self.send(message_sets.FETCH), message_sets.answer(0, message_sets.ONE))

    def test_a_topic_of_another_format_is_not_served(self) -> None:
        self.node.create("t")
        with logged_lines() as lines:
            self.assertEqual(self.send(message_sets.FETCH), message_sets.answer(-1))
            self.assertEqual(self.send(message_sets.LATEST), message_sets.offsets_answer(-1))
        self.assertIn("it is not of format 0.7", "\n".join(lines))

    def test_large_compressed_sets_go_through_a_worker_in_line(self) -> None:
        self.send(message_sets.PRODUCE_ONE)
        self.node.create("u", message_format_version="0.7", max_message_bytes="100000")
        large = b"".join(message_sets.wrapped([(b"%d" % n) * 999]) for n in range(900))
        assert len(large) > 16 * 1024
        self.node.threads.holding = True
        first = self.send_late(message_sets.produce(b"u", 0, large))
        second = self.send_late(message_sets.produce(b"u", 0, message_sets.ONE))
        self.assertNoResult(first)
        self.assertNoResult(second)
        self.node.threads.holding = False
        self.node.threads.run_one()
        self.successResultOf(first)
        self.successResultOf(second)
        self.assertEqual(self.send(message_sets.fetch(b"u", 0, 0)), message_sets.answer(0, large + message_sets.ONE))

    def test_after_a_restart(self) -> None:
        self.send(message_sets.PRODUCE_ONE)
        self.restart()
        self.send(message_sets.MULTIPRODUCE_TWO)
        self.assertEqual(self.send(message_sets.FETCH), message_sets.FETCHED)


class NoTopicTests(SimpleTests):
    settings = {"auto.create.topics.enable": "false"}

    def test_no_topic_is_made_where_none_is_to_be(self) -> None:
        with self.assertRaises(ProtocolViolation) as caught:
            self.send(message_sets.PRODUCE_ONE)
        self.assertIn("there is no topic 't'", str(caught.exception))
        self.assertEqual(self.send(message_sets.FETCH), message_sets.answer(0))


class FlushTests(SimpleTests):
    settings = {"log.flush.interval.messages": "1"}

    def test_consumers_see_only_synced_messages(self) -> None:
        self.send(message_sets.PRODUCE_ONE)
        self.node.threads.holding = True
        self.send(message_sets.MULTIPRODUCE_TWO)
        self.assertEqual(self.send(message_sets.FETCH), message_sets.answer(0, message_sets.ONE))
        self.assertEqual(self.send(message_sets.LATEST), message_sets.offsets_answer(0, 13, 0))
        self.node.threads.holding = False
        self.node.threads.run_one()
        self.assertEqual(self.send(message_sets.FETCH), message_sets.FETCHED)


class KafkaViewTests(SimpleTests):
    def test_positions_are_offsets_in_every_version(self) -> None:
        self.send(message_sets.produce(b"t", 0, message_sets.ONE + message_sets.ZIPPED + message_sets.TWO))
        expected = [(0, b"one"), (13, b"g1"), (14, b"g2"), (64, b"two")]
        for version in range(13):
            for first in (0, 1, 12, 13, 14, 15, 63, 64):
                found = self.records(first, version=version)
                self.assertEqual(found, [each for each in expected if each[0] >= first], (version, first))

    def test_a_fetch_behind_the_last_message_waits(self) -> None:
        """The offset behind a record lies within its message: what is there has been read."""
        self.send(message_sets.PRODUCE_ONE)
        for version in (0, 3, 12):
            self.assertEqual(self.records(1, version=version), [])
            waiting = self.fetched(1, wait_ms=500, version=version)
            self.assertNoResult(waiting)
            self.node.clock.advance(0.6)
            self.successResultOf(waiting)
        waiting = self.fetched(1, wait_ms=500)
        self.send(message_sets.MULTIPRODUCE_TWO)
        self.node.clock.advance(0)
        answer = self.partition_of(self.successResultOf(waiting))
        self.assertEqual(kafka_reads(bytes(answer.records or b"")), [(13, b"two")])

    def test_an_old_client_gets_a_truncated_message_within_its_limit(self) -> None:
        self.send(message_sets.PRODUCE_ONE)
        for version in range(3):
            [whole, cut] = (
                self.partition_of(self.successResultOf(self.fetched(version=version, max_bytes=most))).records
                for most in (99, 20)
            )
            self.assertEqual(kafka_reads(bytes(whole)), [(0, b"one")])
            self.assertEqual(bytes(cut), bytes(whole)[:20])

    def test_a_message_as_long_as_an_empty_batch(self) -> None:
        long = message_sets.message(bytes(51))
        self.send(message_sets.produce(b"t", 0, long))
        self.send(message_sets.produce(b"t", 0, message_sets.ONE))
        self.assertEqual(len(long), 61)
        self.assertEqual(self.records(0, max_bytes=61), [(0, bytes(51))])

    def test_offsets_of_times(self) -> None:
        self.send(message_sets.produce(b"t", 0, message_sets.ONE + message_sets.ZIPPED))
        for timestamp, offset in ((-1, 64), (-2, 0), (-3, -1), (1, -1)):
            request = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])])
            [topic] = self.node.ask(list_offsets.handle, request, 7).topics
            [found] = topic.partitions
            self.assertEqual((found.error_code, found.offset, found.timestamp), (0, offset, -1))

    def test_messages_written_by_kafka_clients(self) -> None:
        self.node.create("t", message_format_version="0.7")
        self.assertEqual(self.produced(build([Record(0, 5, None, b"one"), Record(1, 5, None, b"two")])), (0, 0))
        self.assertEqual(self.produced(build([Record(0, 5, None, b"three")], magic=1), version=2), (0, 26))
        self.assertEqual(
            self.send(message_sets.FETCH),
            message_sets.answer(0, message_sets.ONE + message_sets.TWO + message_sets.THREE),
        )
        many = [Record(0, 5, None, b"%d" % number * 9) for number in range(5000)]
        code, base = self.produced(build(many, codec=Codec.ZSTD))
        self.assertEqual((code, base), (0, 41))
        self.assertEqual([value for _, value in self.records(41)], [record.value for record in many])

    def test_records_that_0_7_cannot_express_are_rejected(self) -> None:
        self.node.create("t", message_format_version="0.7")
        rejected = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, -1)
        self.assertEqual(self.produced(build([Record(0, 5, b"key", b"one")])), rejected)
        self.assertEqual(
            self.produced(build([Record(0, 5, None, b"x")], producer_id=1, producer_epoch=0, base_sequence=0)), rejected
        )
        self.assertEqual(self.send(message_sets.LATEST), message_sets.offsets_answer(0, 0))

    def test_settings_that_contradict_the_format(self) -> None:
        for name, text in (
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"),
            ("compression.type", "zstd"),
        ):
            settings = [CreatableTopicConfig("message.format.version", "0.7"), CreatableTopicConfig(name, text)]
            request = CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1, configs=settings)])
            [result] = self.node.ask(create_topics.handle, request).topics
            self.assertEqual(result.error_code, ErrorCode.INVALID_CONFIG)

    def test_the_format_is_for_life(self) -> None:
        self.node.create("t", message_format_version="0.7")
        self.node.create("numbered")
        for topic, name, text in (
            ("t", "message.format.version", "3.0"),
            ("numbered", "message.format.version", "0.7.2"),
            ("t", "cleanup.policy", "compact"),
        ):
            change = AlterConfigsResource(2, topic, [AlterableConfig(name, 0, text)])
            request = IncrementalAlterConfigsRequest(resources=[change])
            [result] = self.node.ask(incremental_alter_configs.handle, request).responses
            self.assertEqual(result.error_code, ErrorCode.INVALID_CONFIG, (topic, name))
        change = AlterConfigsResource(2, "t", [AlterableConfig("retention.ms", 0, "5")])
        [result] = self.node.ask(incremental_alter_configs.handle, IncrementalAlterConfigsRequest([change])).responses
        self.assertEqual(result.error_code, 0)

    def test_a_message_that_is_damaged_on_the_disk(self) -> None:
        self.send(message_sets.produce(b"t", 0, message_sets.ONE + message_sets.TWO + message_sets.THREE))
        [segment] = self.node.broker.partitions.find("t", 0).log.segments
        with open(segment.path, "r+b") as file:
            file.seek(13 + 12)
            file.write(b"p")
        for version in (0, 3, 12):
            self.assertEqual(self.records(0, version=version), [(0, b"one")])
            answer = self.partition_of(self.successResultOf(self.fetched(13, version=version)))
            self.assertEqual((answer.error_code, answer.records), (ErrorCode.CORRUPT_MESSAGE, b""))
            self.assertEqual(self.records(26, version=version), [(26, b"three")])
        self.assertEqual(
            self.send(message_sets.FETCH),
            message_sets.answer(0, message_sets.ONE + message_sets.TWO[:-1] + b"p" + message_sets.THREE),
        )

    def test_deleted_records(self) -> None:
        self.send(message_sets.produce(b"t", 0, message_sets.ONE + message_sets.TWO + message_sets.THREE))
        wanted = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 14)])
        [topic] = self.node.ask(delete_records.handle, DeleteRecordsRequest(topics=[wanted])).topics
        self.assertEqual(topic.partitions[0].low_watermark, 13)
        self.assertEqual(self.send(message_sets.EARLIEST), message_sets.offsets_answer(0, 13))
        self.assertEqual(self.send(message_sets.fetch(b"t", 0, 12)), message_sets.answer(1))
        self.assertEqual(self.records(13), [(13, b"two"), (26, b"three")])


class BrokerWideTests(SynchronousTestCase):
    def test_the_format_is_not_for_all_topics(self) -> None:
        with self.assertRaises(ConfigError):
            BrokerConfig({"log.message.format.version": "0.7"})


class AccessTests(NodeTests):
    """Clients of 0.7 have no identity: they are User:ANONYMOUS."""

    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "listeners": "PLAINTEXT://:9092,SIMPLE://:9093",
    }

    def setUp(self) -> None:
        super().setUp()
        assert self.node.broker.authorizer is not None
        self.acls = self.node.broker.authorizer.acls
        self.access = self.node.broker.authorizer.access(ANONYMOUS, "10.0.0.1")

    def allow(self, operation: AclOperation, kind: AclResourceType = AclResourceType.TOPIC, name: str = "t") -> None:
        entry = AccessControlEntry(ANONYMOUS, "*", operation, AclPermission.ALLOW)
        now(self.acls.add(ResourcePattern(kind, name), frozenset({entry}), "User:admin"))

    def send_as(self, access: Access, request: bytes) -> Any:
        return requests.handle(self.node.broker, decode_legacy07_request(memoryview(request)[4:]), Caller(), access)

    def test_requests_without_access_are_denied(self) -> None:
        self.node.create("t", message_format_version="0.7")
        with self.assertRaisesRegex(ProtocolViolation, "not authorized"):
            self.send_as(self.access, message_sets.PRODUCE_ONE)
        unknown = (-1).to_bytes(2, "big", signed=True)
        for request in (message_sets.FETCH, message_sets.LATEST):
            answer = b"".join(map(bytes, self.send_as(self.access, request)))
            self.assertEqual(answer[4:6], unknown)
        self.allow(AclOperation.WRITE)
        self.send_as(self.access, message_sets.PRODUCE_ONE)
        self.assertGreater(self.node.broker.partitions.find("t", 0).log.log_end_offset, 0)
        self.allow(AclOperation.READ)
        for request in (message_sets.FETCH, message_sets.LATEST):
            answer = b"".join(map(bytes, self.send_as(self.access, request)))
            self.assertEqual(answer[4:6], bytes(2))

    def test_creating_a_topic_needs_create(self) -> None:
        self.allow(AclOperation.WRITE)
        with self.assertRaisesRegex(ProtocolViolation, "not authorized"):
            self.send_as(self.access, message_sets.PRODUCE_ONE)
        self.allow(AclOperation.CREATE, AclResourceType.CLUSTER, "kafka-cluster")
        now(self.send_as(self.access, message_sets.PRODUCE_ONE))
        self.assertIn("t", self.node.broker.metadata.topics)
