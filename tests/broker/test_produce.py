"""Produce: appended records, errors, and what an answer waits for.

Records are made and read by kafka-python.  The error codes are those of Apache Kafka 3.9, asked the same.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from unittest.mock import Mock, patch

from twisted.internet.defer import Deferred, ensureDeferred

from pylogbroker.broker.apis import describe_log_dirs, metadata, produce
from pylogbroker.broker.partitions.partition import CONVERT_INLINE_BYTES_MAX
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode, ProtocolViolation
from pylogbroker.metadata.image import topic_resource
from pylogbroker.records import Codec, Record, TimestampType, entries
from pylogbroker.storage import LogDirectory, names
from pylogbroker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.failing_disks import broken, failing
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import START, NodeTests, opened_node
from tests.broker.trees import now
from tests.records.reference_codecs import PEERS
from tests.storage.support import batch, bytes_on_disk, messages, records_in

KAFKA_PYTHON = PEERS[0]
NOW = int(START * 1000)
LAST = 11
LARGE = b"x" * (CONVERT_INLINE_BYTES_MAX + 1)
SQUEEZABLE = b"v" * 200
CODEC_NAMES = {Codec.GZIP: "gzip", Codec.SNAPPY: "snappy", Codec.LZ4: "lz4", Codec.ZSTD: "zstd"}

Records = bytes | None
Place = tuple[str, int, Records]


def keyed(*keys: bytes | None, timestamp: int = NOW, magic: int = 2) -> bytes:
    records = [Record(n, timestamp, key, b"value") for n, key in enumerate(keys)]
    return KAFKA_PYTHON.write(records, magic, Codec.NONE)


def damaged(records: bytes) -> bytes:
    """Return the batch with another last byte, which the CRC covers."""
    return records[:-1] + bytes([records[-1] ^ 1])


class ProduceTests(NodeTests):
    """A node with a topic `t` of two partitions."""

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)

    def send(self, *places: Place, version: int = LAST, acks: int = 1) -> Deferred[Any]:
        """Ask for records to be appended at topics and partitions."""
        topics = [TopicProduceData(topic, [PartitionProduceData(index, records)]) for topic, index, records in places]
        return self.node.send(produce.handle, ProduceRequest(None, acks, 1000, topics), version)

    def produce(self, records: Records, topic: str = "t", partition: int = 0, **asked: int) -> Any:
        """The answer for one partition."""
        response = self.successResultOf(self.send((topic, partition, records), **asked))
        [answered] = response.responses
        [answer] = answered.partition_responses
        self.assertEqual((answered.name, answer.index), (topic, partition))
        return answer

    def offset(self, records: Records, topic: str = "t", partition: int = 0, **asked: int) -> int:
        """The offset at which records were appended."""
        answer = self.produce(records, topic, partition, **asked)
        self.assertEqual((answer.error_code, answer.error_message), (ErrorCode.NONE, None))
        return int(answer.base_offset)

    def code(self, records: Records, topic: str = "t", partition: int = 0, **asked: int) -> ErrorCode:
        """Return the error code of the records."""
        answer = self.produce(records, topic, partition, **asked)
        self.assertNotEqual(answer.error_code, ErrorCode.NONE)
        self.assertEqual((answer.base_offset, answer.log_append_time_ms, answer.log_start_offset), (-1, -1, -1))
        return ErrorCode(answer.error_code)

    def stored_bytes(self, topic: str = "t", partition: int = 0) -> bytes:
        return bytes_on_disk(self.node.broker.partitions.find(topic, partition).log.path)

    def stored(self, topic: str = "t", partition: int = 0) -> list[tuple[int, bytes]]:
        return records_in(self.stored_bytes(topic, partition))


class LongRequestTests(ProduceTests):
    def pauses(self, *places: Place) -> int:
        """Return how often appends to these places pause."""
        topics = [TopicProduceData(topic, [PartitionProduceData(index, records)]) for topic, index, records in places]
        work = produce.handle(
            self.node.services_of(ProduceRequest), RequestContext(LAST), ProduceRequest(None, 1, 1000, topics)
        )
        assert isinstance(work, Coroutine)
        return len(list(work.__await__()))

    def test_appends_of_many_records_pause_after_each_partition(self) -> None:
        self.assertEqual(self.pauses(*[("t", 0, batch([bytes(64 * 1024)]))] * 20), 20)

    def test_appends_of_few_records_pause_after_some_partitions(self) -> None:
        self.assertEqual(self.pauses(*[("t", 0, batch([b"value"]))] * 80), 5)
        self.assertEqual(self.pauses(*[("t", 1, None)] * 80), 5)


class FormatTests(ProduceTests):
    def test_every_version_takes_the_formats_it_may_send(self) -> None:
        expected = []
        for version in range(LAST + 1):
            for magic in (0, 1, 2) if version < 3 else (2,):
                value = b"%d in %d" % (magic, version)
                records = batch([value]) if magic == 2 else messages([value], magic)
                answer = self.produce(records, version=version)
                self.assertEqual((answer.error_code, answer.base_offset), (0, len(expected)), value)
                self.assertEqual(answer.log_start_offset, 0 if version >= 5 else -1)
                expected.append((len(expected), value))
        self.assertEqual(self.stored(), expected)
        self.assertEqual({entry.magic for entry in entries(self.stored_bytes())}, {2})

    def test_old_formats_are_rejected_once_there_are_batches(self) -> None:
        for version in range(3, LAST + 1):
            for magic in (0, 1):
                self.assertEqual(self.code(messages([b"v"], magic), version=version), ErrorCode.INVALID_RECORD)
        self.assertEqual(self.stored_bytes(), b"")

    def test_every_codec_is_kept(self) -> None:
        for codec in (0, 1, 2, 3, 4):
            self.assertEqual(self.offset(batch([SQUEEZABLE] * 2, codec=codec)), 2 * codec)
        self.assertEqual([entry.codec for entry in entries(self.stored_bytes())], list(Codec))
        self.assertEqual(self.stored(), [(n, SQUEEZABLE) for n in range(10)])

    def test_zstd_begins_with_version_7(self) -> None:
        records = batch([SQUEEZABLE], codec=Codec.ZSTD)
        codes = [self.produce(records, version=version).error_code for version in range(3, LAST + 1)]
        self.assertEqual(codes, [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE] * 4 + [ErrorCode.NONE] * 5)

    def test_several_batches(self) -> None:
        for version in range(3, LAST + 1):
            self.assertEqual(self.code(batch([b"1"]) + batch([b"2"]), version=version), ErrorCode.INVALID_RECORD)
        for version in range(3):
            two = messages([b"1"], 1) + messages([b"2"], 1)
            self.assertEqual(self.offset(two, version=version), 2 * version)
            self.assertEqual(
                self.code(messages([b"1"], 1) + messages([b"2"], 0), version=version), ErrorCode.INVALID_RECORD
            )
        self.assertEqual([value for _, value in self.stored()], [b"1", b"2"] * 3)

    def test_an_entry_that_is_cut_off_at_the_end_is_left_out(self) -> None:
        for version in range(LAST + 1):
            whole, next_one = (messages([b"v"], 1), messages([b"w"], 1)) if version < 3 else (batch(), batch())
            self.assertEqual(self.offset(whole + next_one[:-1], version=version), version)
        self.assertEqual(len(self.stored()), LAST + 1)

    def test_empty_or_incomplete_records_are_not_appended(self) -> None:
        for version in range(LAST + 1):
            self.assertEqual(self.code(None, version=version), ErrorCode.INVALID_RECORD)
            for nothing in (b"", batch()[:10], batch()[:20], batch()[:40], batch()[:-1]):
                if version >= 3:
                    self.assertEqual(self.code(nothing, version=version), ErrorCode.INVALID_RECORD, len(nothing))
                else:
                    self.assertEqual(self.offset(nothing, version=version), -1, len(nothing))
        self.assertEqual(self.stored_bytes(), b"")

    def test_damage(self) -> None:
        for version in range(LAST + 1):
            records = messages([b"v"], 1) if version < 3 else batch([b"v"])
            self.assertEqual(self.code(damaged(records), version=version), ErrorCode.CORRUPT_MESSAGE)
        self.assertEqual(self.stored_bytes(), b"")

    def test_a_transaction_needs_a_transactional_id(self) -> None:
        records = batch(producer=(5, 0, 0), transactional=True)
        for version in range(2, LAST + 1):
            self.assertEqual(
                self.code(records, version=version), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, version
            )
        self.assertEqual(self.stored_bytes(), b"")

    def test_keys_values_and_headers_come_through(self) -> None:
        records = [
            Record(0, NOW, None, None),
            Record(1, NOW + 1, b"", b"", (("h", None), ("h", b""), ("\u00e9", b"x"))),
            Record(2, NOW + 2, b"key", b"value"),
        ]
        self.offset(KAFKA_PYTHON.write(records, 2, Codec.NONE))
        self.assertEqual(KAFKA_PYTHON.read(self.stored_bytes()), records)


class AcksTests(ProduceTests):
    def test_acks_0_1_and_all_are_accepted(self) -> None:
        self.assertEqual([self.offset(batch(), acks=1), self.offset(batch(), acks=-1)], [0, 1])
        self.assertIsNone(self.successResultOf(self.send(("t", 0, batch()), acks=0)))
        self.assertEqual(len(self.stored()), 3)

    def test_other_acks_are_rejected(self) -> None:
        for version in range(LAST + 1):
            for acks in (2, -2, 32767):
                self.assertEqual(self.code(batch(), acks=acks, version=version), ErrorCode.INVALID_REQUIRED_ACKS)
        self.assertEqual(self.stored_bytes(), b"")

    def test_an_error_without_acks_closes_the_connection(self) -> None:
        for place in (("nope", 0, batch()), ("t", 9, batch()), ("t", 0, damaged(batch()))):
            self.failureResultOf(self.send(("t", 1, batch()), place, acks=0), ProtocolViolation)
        self.assertEqual(len(self.stored("t", 1)), 3)

    def test_no_more_replicas_are_asked_for_than_there_are(self) -> None:
        self.node.create("three", min_insync_replicas="3")
        self.assertEqual([self.offset(batch(), "three", acks=acks) for acks in (1, -1)], [0, 1])

    def test_too_few_replicas_in_sync(self) -> None:
        self.node.broker.partitions.find("t", 0).min_insync_replicas = 2
        self.assertEqual(self.code(batch(), acks=-1), ErrorCode.NOT_ENOUGH_REPLICAS)
        self.assertEqual(self.offset(batch(), acks=1), 0)


class PlaceTests(ProduceTests):
    def test_unknown_topics_and_partitions(self) -> None:
        for topic, partition in (("nope", 0), ("t", 2), ("t", -1), ("no/name", 0), ("", 0)):
            self.assertEqual(self.code(batch(), topic, partition), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_each_partition_has_its_own_answer(self) -> None:
        response = self.successResultOf(
            self.send(("t", 1, batch()), ("nope", 0, batch()), ("t", 0, damaged(batch())), ("t", 1, batch()))
        )
        answers = [
            (topic.name, answer.index, answer.error_code, answer.base_offset)
            for topic in response.responses
            for answer in topic.partition_responses
        ]
        self.assertEqual(
            answers,
            [
                ("t", 1, ErrorCode.NONE, 0),
                ("nope", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
                ("t", 0, ErrorCode.CORRUPT_MESSAGE, -1),
                ("t", 1, ErrorCode.NONE, 1),
            ],
        )

    def test_internal_topics_are_the_brokers_own(self) -> None:
        for name in ("__consumer_offsets", "__transaction_state"):
            self.node.create(name)
            self.assertEqual(self.code(keyed(b"key"), name), ErrorCode.INVALID_TOPIC_EXCEPTION)

    def test_the_log_start_is_answered(self) -> None:
        self.offset(batch([b"v"] * 5))
        self.node.broker.partitions.find("t", 0).log.delete_records_before(3)
        self.assertEqual(self.produce(batch()).log_start_offset, 3)

    def test_acknowledged_records_are_readable(self) -> None:
        self.offset(batch([b"v"] * 5))
        self.assertEqual(self.node.broker.partitions.find("t", 0).log.high_watermark, 5)


class TopicSettingTests(ProduceTests):
    def test_the_topics_codec(self) -> None:
        for codec, name in CODEC_NAMES.items():
            self.node.create(name, compression_type=name)
            for n, sent in enumerate(Codec):
                self.assertEqual(self.offset(batch([SQUEEZABLE, b"b"], codec=sent), name), 2 * n)
            self.assertEqual({entry.codec for entry in entries(self.stored_bytes(name))}, {codec})
            self.assertEqual([value for _, value in self.stored(name)], [SQUEEZABLE, b"b"] * 5)

    def test_a_topic_without_compression_decompresses(self) -> None:
        self.node.create("plain", compression_type="uncompressed")
        self.offset(batch([SQUEEZABLE, b"b"], codec=Codec.LZ4), "plain")
        self.assertEqual([entry.codec for entry in entries(self.stored_bytes("plain"))], [Codec.NONE])

    def test_log_append_time(self) -> None:
        self.node.create("stamped", message_timestamp_type="LogAppendTime")
        for version in range(2, LAST + 1):
            self.node.clock.advance(1)
            records = messages([b"v"], 1, timestamp=5) if version < 3 else batch([b"v"], [5])
            time = NOW + 1000 * (version - 1)
            self.assertEqual(self.produce(records, "stamped", version=version).log_append_time_ms, time)
        found = KAFKA_PYTHON.read(self.stored_bytes("stamped"))
        self.assertEqual([record.timestamp for record in found], [NOW + 1000 * n for n in range(1, LAST)])
        self.assertEqual({record.timestamp_type for record in found}, {TimestampType.LOG_APPEND_TIME})

    def test_the_producers_time_is_not_answered(self) -> None:
        self.assertEqual(self.produce(batch()).log_append_time_ms, -1)

    def test_bounds_of_timestamps(self) -> None:
        self.node.create("bound", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="500")
        for timestamp in (NOW - 1000, NOW, NOW + 500, -1):
            self.offset(batch([b"v"], [timestamp]), "bound")
        for timestamp in (NOW - 1001, NOW + 501, 0):
            answer = self.produce(batch([b"v"] * 3, [NOW, timestamp, timestamp]), "bound")
            self.assertEqual(answer.error_code, ErrorCode.INVALID_TIMESTAMP)
            self.assertEqual([error.batch_index for error in answer.record_errors], [1, 2])
            self.assertIn(str(timestamp), answer.record_errors[0].batch_index_error_message)
        self.assertEqual(len(self.stored("bound")), 4)

    def test_bounds_do_not_matter_to_log_append_time(self) -> None:
        self.node.create(
            "both", message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="1", compression_type="gzip"
        )
        self.offset(batch([b"v"], [5]), "both")
        self.offset(batch([LARGE], [5]), "both")

    def test_compacted_topics_need_keys(self) -> None:
        for policy in ("compact", "compact,delete"):
            topic = policy.replace(",", "-")
            self.node.create(topic, cleanup_policy=policy)
            self.offset(keyed(b"a", b""), topic)
            answer = self.produce(keyed(None, b"a", None), topic)
            self.assertEqual(answer.error_code, ErrorCode.INVALID_RECORD)
            self.assertEqual([error.batch_index for error in answer.record_errors], [0, 2])
            self.assertEqual(len(self.stored(topic)), 2)

    def test_a_rejected_record_without_a_key_is_logged_once_a_minute(self) -> None:
        self.node.create("compact", cleanup_policy="compact")
        line = "rejected records for compact-0: a record of a compacted topic needs a key"
        with logged_lines() as lines:
            for _ in range(3):
                self.produce(keyed(None), "compact")
            self.assertEqual(lines, [line])
            self.node.clock.advance(60)
            self.produce(keyed(None), "compact")
        self.assertEqual([each for each in lines if each.startswith("rejected")], [line, line])

    def test_the_records_at_fault_of_one_request_are_named_up_to_a_number(self) -> None:
        self.node.create("compact", 3, cleanup_policy="compact")
        data = [PartitionProduceData(index, keyed(*[None] * 600)) for index in range(3)]
        request = ProduceRequest(acks=1, topic_data=[TopicProduceData("compact", data)])
        [topic] = self.node.ask(produce.handle, request).responses
        self.assertEqual([answer.error_code for answer in topic.partition_responses], [ErrorCode.INVALID_RECORD] * 3)
        self.assertEqual([len(answer.record_errors) for answer in topic.partition_responses], [600, 400, 0])

    def test_records_at_fault_are_named_from_version_8_on(self) -> None:
        self.node.create("compact", cleanup_policy="compact")
        for version in range(LAST + 1):
            records = keyed(b"a", None, magic=1 if version < 3 else 2)
            answer = self.produce(records, "compact", version=version)
            self.assertEqual(answer.error_code, ErrorCode.INVALID_RECORD)
            self.assertEqual([error.batch_index for error in answer.record_errors], [1] if version >= 8 else [])
            self.assertEqual(answer.error_message is not None, version >= 8)

    def test_the_size_of_a_batch(self) -> None:
        records = batch([b"x" * 100])
        self.node.create("exact", max_message_bytes=str(len(records)))
        self.node.create("small", max_message_bytes=str(len(records) - 1))
        self.assertEqual(self.offset(records, "exact"), 0)
        self.assertEqual(self.code(records, "small"), ErrorCode.MESSAGE_TOO_LARGE)
        self.assertEqual(self.stored_bytes("small"), b"")

    def test_the_size_of_a_segment(self) -> None:
        self.node.create("short", segment_bytes="1000", max_message_bytes="5000")
        self.assertEqual(self.code(batch([b"x" * 2000]), "short"), ErrorCode.RECORD_LIST_TOO_LARGE)

    def test_a_changed_setting_counts_from_the_next_append_on(self) -> None:
        self.offset(batch([b"v"]))
        now(
            self.node.broker.controller.alter_config(
                topic_resource("t"), lambda settings: {**settings, "compression.type": "gzip"}
            )
        )
        self.offset(batch([b"v"]))
        self.assertEqual([entry.codec for entry in entries(self.stored_bytes())], [Codec.NONE, Codec.GZIP])


class ConversionTests(ProduceTests):
    """Costly conversions, held in their threads."""

    def setUp(self) -> None:
        super().setUp()
        self.node.create("gz", 2, compression_type="gzip")
        self.node.threads.holding = True

    def codecs(self) -> list[Codec]:
        return [entry.codec for entry in entries(self.stored_bytes("gz"))]

    def offset_of(self, answer: Deferred[Any]) -> int:
        [topic] = self.successResultOf(answer).responses
        [found] = topic.partition_responses
        self.assertEqual(found.error_code, 0)
        return int(found.base_offset)

    def test_small_batches_are_converted_without_a_thread(self) -> None:
        self.assertEqual(self.offset(batch([b"v"]), "gz"), 0)
        self.assertEqual(self.node.threads.held, [])

    def test_records_in_the_topics_codec_are_validated_and_kept_as_sent(self) -> None:
        records = batch([os.urandom(CONVERT_INLINE_BYTES_MAX).hex().encode()], codec=Codec.GZIP)
        self.assertGreater(len(records), CONVERT_INLINE_BYTES_MAX)
        answer = self.send(("gz", 0, records))
        self.node.threads.run_one()
        self.assertEqual(self.offset_of(answer), 0)
        self.assertEqual(self.stored_bytes("gz")[16:], records[16:])

    def test_appends_to_a_partition_stay_in_order(self) -> None:
        first = self.send(("gz", 0, batch([LARGE, b"1"])))
        second = self.send(("gz", 0, batch([b"2"])))
        third = self.send(("gz", 0, batch([LARGE, b"3"])))
        for waiting in (first, second, third):
            self.assertNoResult(waiting)
        self.assertEqual(len(self.node.threads.held), 1)
        self.assertEqual(self.offset(batch([b"other"]), "gz", 1), 0)
        self.assertEqual(self.offset(batch([b"other"]), "t"), 0)
        self.node.threads.run_one()
        self.assertEqual(self.offset_of(first), 0)
        self.assertNoResult(second)
        self.node.threads.run_one()
        self.assertEqual(self.offset_of(second), 2)
        self.assertNoResult(third)
        self.node.threads.run_one()
        self.assertEqual(self.offset_of(third), 3)
        self.assertEqual(self.offset(batch([b"4"]), "gz"), 5)
        self.assertEqual([value[:1] for _, value in self.stored("gz")], [b"x", b"1", b"2", b"x", b"3", b"4"])
        self.assertEqual(self.codecs(), [Codec.GZIP] * 4)

    def test_an_answer_waits_for_all_of_its_partitions(self) -> None:
        answer = self.send(("t", 0, batch([b"v"])), ("gz", 0, batch([LARGE])), ("gz", 1, batch([LARGE])))
        self.assertEqual(self.node.broker.partitions.find("t", 0).log.high_watermark, 1)
        self.node.threads.run_one()
        self.assertNoResult(answer)
        self.node.threads.run_one()
        topics = self.successResultOf(answer).responses
        self.assertEqual([topic.partition_responses[0].error_code for topic in topics], [0] * 3)

    def test_a_rejected_append_lets_the_next_one_proceed(self) -> None:
        first = self.send(("gz", 0, damaged(batch([LARGE]))))
        second = self.send(("gz", 0, batch([b"2"])))
        self.node.threads.run_one()
        [topic] = self.successResultOf(first).responses
        self.assertEqual(topic.partition_responses[0].error_code, ErrorCode.CORRUPT_MESSAGE)
        self.node.threads.run_one()
        self.assertEqual(self.offset_of(second), 0)

    def test_without_acks(self) -> None:
        sent = self.send(("gz", 0, batch([LARGE])), acks=0)
        self.assertNoResult(sent)
        self.assertEqual(self.codecs(), [])
        self.node.threads.run_one()
        self.assertIsNone(self.successResultOf(sent))
        self.assertEqual(self.codecs(), [Codec.GZIP])

    def test_an_error_without_acks_closes_the_connection(self) -> None:
        sent = self.send(("gz", 0, damaged(batch([LARGE]))), acks=0)
        self.node.threads.run_one()
        self.failureResultOf(sent, ProtocolViolation)

    def test_old_formats(self) -> None:
        answer = self.send(("t", 0, messages([LARGE, b"old"], 1)), version=2)
        self.assertNoResult(answer)
        self.node.threads.run_one()
        self.assertEqual(self.offset_of(answer), 0)
        self.assertEqual([value for _, value in self.stored()], [LARGE, b"old"])

    def test_invalid_records_found_in_a_thread_are_reported(self) -> None:
        self.node.create("compact", cleanup_policy="compact")
        answer = self.send(("compact", 0, batch([b"no key", LARGE])))
        self.node.threads.run_one()
        [topic] = self.successResultOf(answer).responses
        [rejected] = topic.partition_responses
        self.assertEqual(rejected.error_code, ErrorCode.INVALID_RECORD)
        self.assertEqual([error.batch_index for error in rejected.record_errors], [0, 1])

    def test_the_topics_time_is_that_of_the_request(self) -> None:
        self.node.create("stamped", message_timestamp_type="LogAppendTime", compression_type="gzip")
        answer = self.send(("stamped", 0, batch([LARGE], [5])))
        self.node.clock.advance(3)
        self.node.threads.run_one()
        [topic] = self.successResultOf(answer).responses
        self.assertEqual(topic.partition_responses[0].log_append_time_ms, NOW)
        [found] = KAFKA_PYTHON.read(self.stored_bytes("stamped"))
        self.assertEqual((found.timestamp, found.timestamp_type), (NOW, TimestampType.LOG_APPEND_TIME))

    def test_a_duplicate_is_known_after_conversion_too(self) -> None:
        records = batch([LARGE], producer=(9, 0, 0))
        answers = [self.send(("gz", 0, records)) for _ in range(2)]
        self.node.threads.run_one()
        self.node.threads.run_one()
        self.assertEqual([self.offset_of(answer) for answer in answers], [0, 0])
        self.assertEqual(len(self.stored("gz")), 1)

    def test_a_topic_that_is_deleted_meanwhile(self) -> None:
        answer = self.send(("gz", 0, batch([LARGE])))
        ensureDeferred(self.node.broker.controller.delete_topic("gz"))
        self.node.threads.run_one()
        [topic] = self.successResultOf(answer).responses
        self.assertEqual(topic.partition_responses[0].error_code, ErrorCode.KAFKA_STORAGE_ERROR)


class IdempotenceTests(ProduceTests):
    def numbered(self, sequence: int, count: int = 1, epoch: int = 0, producer: int = 77) -> bytes:
        return batch([b"v"] * count, producer=(producer, epoch, sequence))

    def test_a_repeated_batch_is_answered_with_the_offset_of_then(self) -> None:
        self.assertEqual([self.offset(self.numbered(0, 3)), self.offset(self.numbered(3, 2))], [0, 3])
        self.assertEqual([self.offset(self.numbered(0, 3)), self.offset(self.numbered(3, 2))], [0, 3])
        self.restart()
        self.assertEqual(self.offset(self.numbered(3, 2)), 3)
        self.assertEqual(len(self.stored()), 5)

    def test_a_gap_and_a_step_back(self) -> None:
        self.offset(self.numbered(0, 3))
        for restarted in (False, True):
            for sequence in (1, 2, 4, 2**31 - 1):
                self.assertEqual(self.code(self.numbered(sequence)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            if not restarted:
                self.restart()
        self.assertEqual(self.offset(self.numbered(3)), 3)

    def test_five_batches_are_remembered(self) -> None:
        for sequence in range(6):
            self.offset(self.numbered(sequence))
        self.assertEqual([self.offset(self.numbered(n)) for n in (5, 4, 3, 2, 1)], [5, 4, 3, 2, 1])
        self.assertEqual(self.code(self.numbered(0)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.assertEqual(len(self.stored()), 6)

    def test_epochs(self) -> None:
        self.offset(self.numbered(0, epoch=1))
        self.assertEqual(self.code(self.numbered(1, epoch=0)), ErrorCode.INVALID_PRODUCER_EPOCH)
        self.assertEqual(self.code(self.numbered(1, epoch=2)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.assertEqual(self.offset(self.numbered(0, epoch=2)), 1)
        self.restart()
        self.assertEqual(self.code(self.numbered(1, epoch=1)), ErrorCode.INVALID_PRODUCER_EPOCH)
        self.assertEqual(self.offset(self.numbered(1, epoch=2)), 2)

    def test_a_producer_that_is_not_known_begins_anywhere(self) -> None:
        self.assertEqual(self.offset(self.numbered(9)), 0)
        self.assertEqual(self.offset(self.numbered(10)), 1)

    def test_a_producer_id_needs_a_sequence(self) -> None:
        self.assertEqual(self.code(self.numbered(-1)), ErrorCode.INVALID_RECORD)

    def test_partitions_and_producers_are_counted_apart(self) -> None:
        self.offset(self.numbered(0))
        self.assertEqual(self.offset(self.numbered(0), partition=1), 0)
        self.assertEqual(self.offset(self.numbered(0, producer=78)), 1)

    def test_after_an_unclean_stop(self) -> None:
        self.offset(self.numbered(0, 3))
        self.offset(self.numbered(3, 3))
        path = self.node.broker.partitions.find("t", 0).log.path
        self._stack.close()
        for lost in (f"{self.directories[0]}/{names.CLEAN_SHUTDOWN}", names.file_of(path, 6, names.SNAPSHOT)):
            os.remove(lost)
        self.node = self._stack.enter_context(opened_node(self.directories, self.settings))
        self.assertEqual(self.offset(self.numbered(3, 3)), 3)
        self.assertEqual(self.offset(self.numbered(6)), 6)


class FlushTests(ProduceTests):
    """flush.messages=1: nothing is acknowledged, or seen by consumers, before it is on the disk."""

    def setUp(self) -> None:
        super().setUp()
        self.node.create("safe", 2, flush_messages="1")
        self.log = self.node.broker.partitions.find("safe", 0).log
        self.threads = self.node.threads
        self.threads.holding = True

    def test_answer_and_high_watermark_wait(self) -> None:
        answer = self.send(("safe", 0, batch([b"v"] * 3)))
        self.assertNoResult(answer)
        self.assertEqual((self.log.log_end_offset, self.log.high_watermark), (3, 0))
        self.threads.run_one()
        self.successResultOf(answer)
        self.assertEqual((self.log.recovery_point, self.log.high_watermark), (3, 3))

    def test_the_file_is_synced_and_in_a_thread_only(self) -> None:
        synced: list[str] = []
        self.offset(batch(), "t")

        def count(real: Callable[..., Any], fd: int) -> None:
            name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
            if name.endswith(".kafka"):
                synced.append(name)
            real(fd)

        with broken("fdatasync", self.log.path, count):
            self.send(("safe", 0, batch()))
            self.assertEqual(synced, [])
            self.threads.run_one()
        self.assertEqual(synced, ["00000000000000000000.kafka"])

    def test_one_sync_for_all_that_came_meanwhile(self) -> None:
        answers = [self.send(("safe", 0, batch([b"%d" % n]))) for n in range(50)]
        self.assertEqual(len(self.threads.held), 1)
        self.log.sync(1)  # the thread was quick: it saw the first append only
        self.threads.held[0] = self.threads.held[0][0], lambda: None
        self.threads.run_one()
        self.successResultOf(answers[0])
        self.assertEqual(self.log.high_watermark, 1)
        for answer in answers[1:]:
            self.assertNoResult(answer)
        self.assertEqual(len(self.threads.held), 1)
        self.threads.run_one()
        for answer in answers[1:]:
            self.successResultOf(answer)
        self.assertEqual((self.log.high_watermark, self.threads.held), (50, []))

    def test_logs_do_not_wait_for_each_other(self) -> None:
        answers = [self.send(("safe", partition, batch())) for partition in (0, 1)]
        self.assertEqual(len(self.threads.held), 2)
        self.threads.run_one()
        self.successResultOf(answers[0])
        self.assertNoResult(answers[1])
        self.assertEqual(self.offset(batch(), "t"), 0)

    def test_without_acks_consumers_wait_all_the_same(self) -> None:
        self.assertIsNone(self.successResultOf(self.send(("safe", 0, batch()), acks=0)))
        self.assertEqual(self.log.high_watermark, 0)
        self.threads.run_one()
        self.assertEqual(self.log.high_watermark, 1)

    def test_a_duplicate_is_not_acknowledged_before_the_first(self) -> None:
        first, again = (self.send(("safe", 0, batch(producer=(5, 0, 0)))) for _ in range(2))
        self.assertNoResult(again)
        self.threads.run_one()
        self.successResultOf(first)
        self.threads.run_one()
        self.assertEqual(self.successResultOf(again).responses[0].partition_responses[0].base_offset, 0)

    def test_every_third_message(self) -> None:
        self.node.create("third", flush_messages="3")
        self.assertEqual([self.offset(batch(), "third") for _ in range(2)], [0, 1])
        answer = self.send(("third", 0, batch()))
        self.assertNoResult(answer)
        self.threads.run_one()
        self.successResultOf(answer)
        self.assertEqual(self.offset(batch(), "third"), 3)

    def test_a_conversion_and_a_sync(self) -> None:
        self.node.create("both", flush_messages="1", compression_type="gzip")
        log = self.node.broker.partitions.find("both", 0).log
        answer = self.send(("both", 0, batch([LARGE])))
        self.threads.run_one()
        self.assertEqual((log.log_end_offset, log.high_watermark), (1, 0))
        self.assertNoResult(answer)
        self.threads.run_one()
        self.assertEqual((self.successResultOf(answer).responses[0].partition_responses[0].error_code), 0)
        self.assertEqual(log.high_watermark, 1)

    def test_a_sync_that_fails(self) -> None:
        answer = self.send(("safe", 0, batch()), ("t", 0, batch()))
        with broken("fdatasync", self.log.path, failing(errno.EIO)):
            self.threads.run_one()
        answers = [topic.partition_responses[0] for topic in self.successResultOf(answer).responses]
        self.assertEqual([answer.error_code for answer in answers], [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE])
        self.assertEqual((answers[0].base_offset, self.log.high_watermark), (-1, 0))
        self.assertEqual(self.code(batch(), "safe"), ErrorCode.KAFKA_STORAGE_ERROR)


class FailingDiskTests(ProduceTests):
    """Two log directories; the partitions of `t` lie in one each."""

    directory_count = 2

    def setUp(self) -> None:
        super().setUp()
        self.node.create("more", 2)
        self.bad, self.good = (os.path.dirname(self.node.broker.partitions.find("t", n).log.path) for n in (0, 1))
        self.assertNotEqual(self.bad, self.good)
        self.assertEqual(self.offset(batch([b"before"])), 0)

    def test_a_full_disk_recovers(self) -> None:
        with broken("pwritev", self.bad, failing(errno.ENOSPC)):
            for _ in range(2):
                self.assertEqual(self.code(batch([b"lost"])), ErrorCode.KAFKA_STORAGE_ERROR)
            self.assertEqual(self.offset(batch([b"other"]), partition=1), 0)
        self.assertEqual(self.offset(batch([b"after"])), 1)
        self.restart()
        self.assertEqual(self.stored(), [(0, b"before"), (1, b"after")])

    def test_a_full_disk_is_reported_now_and_then(self) -> None:
        with logged_lines() as lines, broken("pwritev", self.bad, failing(errno.ENOSPC)):
            for _ in range(3):
                self.code(batch())
            self.assertEqual(len(lines), 1)
            self.assertIn(self.bad, lines[0])
            self.assertIn("No space left on device", lines[0])
            with broken("pwritev", self.good, failing(errno.ENOSPC)):
                self.code(batch(), partition=1)
            self.assertEqual(len(lines), 2)
            self.assertIn(self.good, lines[1])
            self.node.clock.advance(3600)
            self.code(batch())
        self.assertEqual(len([line for line in lines if f"requests to {self.bad} fail" in line]), 2)

    def test_a_full_disk_is_known_until_a_probe_succeeds(self) -> None:
        full = self.node.broker.partitions.full_directories
        with broken("pwritev", self.bad, failing(errno.ENOSPC)):
            self.code(batch())
        self.assertEqual(list(full.reasons), [self.bad])
        self.assertIn(f"{self.bad}/t_0: No space left on device", full.reasons[self.bad])
        described = self.node.ask(describe_log_dirs.handle, DescribeLogDirsRequest(None), 4).results
        usable = {result.log_dir: result.usable_bytes for result in described}
        self.assertEqual([usable[self.bad], usable[self.good] > 0], [0, True])
        with patch.object(LogDirectory, "probe", Mock(side_effect=OSError(errno.EDQUOT, "quota"))):
            for _ in range(3):
                self.node.clock.advance(1)
            self.assertEqual(list(full.reasons), [self.bad])
        self.node.clock.advance(1)
        self.assertEqual(full.reasons, {})
        self.assertEqual(os.listdir(self.bad), [name for name in os.listdir(self.bad) if "tmp" not in name])

    def test_other_errors_are_not_taken_for_a_full_disk(self) -> None:
        with broken("pwritev", self.bad, failing(errno.EMFILE)):
            self.code(batch())
        self.assertEqual(self.node.broker.partitions.full_directories.reasons, {})

    def test_a_disk_that_takes_half_of_a_write(self) -> None:
        def half(real: Callable[..., int], fd: int, chunks: Sequence[bytes], position: int) -> int:
            data = b"".join(chunks)
            if position == len(self.before):
                return real(fd, [data[: len(data) // 2]], position)
            raise OSError(errno.ENOSPC, "full")

        self.before = self.stored_bytes()
        with broken("pwritev", self.bad, half):
            self.assertEqual(self.code(batch([b"lost" * 50])), ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.node.broker.partitions.find("t", 0).log.log_end_offset, 1)
        self.assertEqual(self.offset(batch([b"after"])), 1)
        self.restart()
        self.assertEqual(self.stored(), [(0, b"before"), (1, b"after")])

    def test_a_numbered_batch_that_failed_may_be_sent_again(self) -> None:
        records = batch(producer=(5, 0, 0))
        with broken("pwritev", self.bad, failing(errno.ENOSPC)):
            self.code(records)
        self.assertEqual(self.offset(records), 1)

    def test_a_disk_that_fails_takes_its_partitions_along(self) -> None:
        more = next(
            n for n in (0, 1) if os.path.dirname(self.node.broker.partitions.find("more", n).log.path) == self.bad
        )
        with broken("pwritev", self.bad, failing(errno.EIO)):
            self.assertEqual(self.code(batch()), ErrorCode.KAFKA_STORAGE_ERROR)
        for version in range(3, LAST + 1):
            self.assertEqual(self.code(batch(), version=version), ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.code(batch(), "more", more), ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.offset(batch(), partition=1), 0)
        self.assertEqual(self.offset(batch(), "more", 1 - more), 0)

    def test_clients_are_notified_that_there_is_no_leader(self) -> None:
        with broken("pwritev", self.bad, failing(errno.EIO)):
            self.code(batch())
        request = MetadataRequest([MetadataRequestTopic(name="t")])
        [topic] = self.node.ask(metadata.handle, request).topics
        self.assertEqual(
            [(found.error_code, found.leader_id) for found in topic.partitions],
            [(ErrorCode.LEADER_NOT_AVAILABLE, -1), (ErrorCode.NONE, self.node.broker.node.id)],
        )
