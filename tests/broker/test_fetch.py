"""Fetch: what is returned, how much of it, when, and in which form; and errors.

Records are made and read by kafka-python.  The error codes are those of Apache Kafka 3.9, asked the same.
"""

from __future__ import annotations

import errno
import os
import struct
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch
from uuid import UUID

import attrs
import crcmod.predefined
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.apis import fetch
from pylogbroker.broker.fetch import conversion
from pylogbroker.broker.fetch.conversion_cache import ConversionCache, ConvertedPiece
from pylogbroker.broker.fetch.readahead import READ_INLINE_BYTES_MAX
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Codec, Record, build, entries
from pylogbroker.storage import FileRegion, Log, Origin
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tests.broker import followers
from tests.broker.failing_disks import PageCache, broken, failing
from tests.broker.nodes import NODE_ID, NodeTests
from tests.broker.trees import now
from tests.records.reference_codecs import PEERS
from tests.storage.support import NOW, batch, marker, records_in

KAFKA_PYTHON = PEERS[0]
checksum = crcmod.predefined.mkCrcFun("crc-32c")
LAST = 17
FIRST_WITH_IDS = 13
UNKNOWN_ID = UUID(int=12345)
NOBODY = (-1, -1, -1)  # high watermark, last stable offset, log start of an answer that says nothing

Asked = tuple[str, FetchPartition]


def at(offset: int, partition: int = 0, topic: str = "t", most: int = 1 << 20, **fields: Any) -> Asked:
    return topic, FetchPartition(partition, fetch_offset=offset, partition_max_bytes=most, **fields)


def values_in(data: bytes) -> list[bytes]:
    return [value for _, value in records_in(data)]


def emptied(offset: int) -> bytes:
    """A v2 batch of one offset that has no record any more, byte by byte as Kafka's documentation has it."""
    checked = struct.pack(">hiqqqhii", 0, 0, -1, NOW, -1, -1, -1, 0)
    return struct.pack(">qiibI", offset, 9 + len(checked), 0, 2, checksum(checked)) + checked


class FetchTests(NodeTests):
    """A node with a topic `t` of two partitions."""

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)

    def log(self, topic: str = "t", partition: int = 0) -> Log:
        return self.node.broker.partitions.find(topic, partition).log

    def put(self, *values: bytes, topic: str = "t", partition: int = 0, **made: Any) -> int:
        """Append one batch; its size."""
        records = batch(list(values), **made)
        self.node.broker.partitions.find(topic, partition).append(records, NOW)
        return len(records)

    def request(self, *asked: Asked, version: int = LAST, **fields: Any) -> FetchRequest:
        topics: list[FetchTopic] = []
        for name, partition in asked:
            if not topics or topics[-1].topic != name:
                known = self.node.broker.metadata.topics.get(name)
                topics.append(FetchTopic(name, known.id if known is not None else UNKNOWN_ID, []))
            topics[-1].partitions.append(partition)
        return FetchRequest(topics=topics, **fields)

    def send(self, *asked: Asked, version: int = LAST, **fields: Any) -> Deferred[Any]:
        return self.node.send(fetch.handle, self.request(*asked, version=version, **fields), version)

    def answers(self, answer: Deferred[Any]) -> list[Any]:
        """The partitions of an answer that has come."""
        response = self.successResultOf(answer)
        self.assertEqual(response.error_code, 0)
        return [partition for topic in response.responses for partition in topic.partitions]

    def fetch(self, *asked: Asked, version: int = LAST, **fields: Any) -> list[Any]:
        return self.answers(self.send(*asked, version=version, **fields))

    def cold(self, asked: Asked, **fields: Any) -> Any:
        """Return the answer while nothing of the log is in the page cache; only the held threads may wait for it."""
        with PageCache(self.log().path) as cache:
            waiting = self.send(asked, **fields)
            while self.node.threads.held:
                self.assertNoResult(waiting)
                held, call = self.node.threads.held[0]
                self.node.threads.held[0] = held, partial(cache.in_worker, call)
                self.node.threads.run_one()
            self.assertGreater(cache.waits, 0)
            [answer] = self.answers(waiting)
        return answer

    def values(self, *asked: Asked, version: int = LAST, **fields: Any) -> list[list[bytes]]:
        """The records' values, for each partition asked for."""
        answers = self.fetch(*asked, version=version, **fields)
        self.assertEqual([answer.error_code for answer in answers], [0] * len(asked))
        return [values_in(answer.records) for answer in answers]

    def code(self, *asked: Asked, version: int = LAST, **fields: Any) -> ErrorCode:
        """Return the error code of one partition."""
        [answer] = self.fetch(*asked, version=version, **fields)
        self.assertNotEqual(answer.error_code, 0)
        self.assertEqual((answer.high_watermark, answer.last_stable_offset, answer.log_start_offset), NOBODY)
        self.assertEqual(answer.records, b"")
        return ErrorCode(answer.error_code)


class VersionTests(FetchTests):
    def test_every_version_gives_the_records(self) -> None:
        records = [Record(n, NOW + n, b"key", b"%d" % n) for n in range(4)]
        for first in (0, 2):
            part = [attrs.evolve(each, offset=each.offset - first) for each in records[first : first + 2]]
            sent = KAFKA_PYTHON.write(part, 2, Codec.NONE)
            self.node.broker.partitions.find("t", 0).append(sent, NOW)
        self.log().delete_records_before(1)
        for version in range(LAST + 1):
            [answer] = self.fetch(at(2), version=version)
            magic = 0 if version < 2 else 1 if version < 4 else 2
            self.assertEqual({entry.magic for entry in entries(answer.records)}, {magic}, version)
            expected = records[2:] if magic else [attrs.evolve(each, timestamp=-1) for each in records[2:]]
            self.assertEqual(KAFKA_PYTHON.read(bytes(answer.records)), expected, version)
            self.assertEqual(
                (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset),
                (4, 4 if version >= 4 else -1, 1 if version >= 5 else -1),
                version,
            )
            self.assertEqual(answer.preferred_read_replica, -1)
            self.assertEqual(answer.diverging_epoch, EpochEndOffset())

    def test_topics_are_named_or_have_ids(self) -> None:
        for version in range(LAST + 1):
            [topic] = self.successResultOf(self.send(at(0), version=version)).responses
            named = ("t", NO_ID) if version < FIRST_WITH_IDS else ("", self.node.broker.metadata.topics["t"].id)
            self.assertEqual((topic.topic, topic.topic_id), named)

    def test_unknown_topics_and_partitions(self) -> None:
        for version in range(LAST + 1):
            missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= FIRST_WITH_IDS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.assertEqual(self.code(at(0, topic="nope"), version=version), missing)
            self.assertEqual(self.code(at(0, partition=2), version=version), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_an_id_of_zeros_is_unknown(self) -> None:
        request = FetchRequest(topics=[FetchTopic(topic_id=NO_ID, partitions=[FetchPartition(0)])])
        [topic] = self.node.ask(fetch.handle, request).responses
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.UNKNOWN_TOPIC_ID)

    def test_an_error_of_one_partition_is_its_own(self) -> None:
        self.put(b"v")
        answers = self.fetch(at(0, topic="nope"), at(0), at(9, partition=1))
        self.assertEqual([answer.error_code for answer in answers], [100, 0, 1])
        self.assertEqual(values_in(answers[1].records), [b"v"])

    def test_an_empty_request_has_an_empty_answer(self) -> None:
        self.assertEqual(self.fetch(max_wait_ms=1000, min_bytes=1), [])


class SizeLimitOfOldClientsTests(FetchTests):
    """Records take more space in the formats of old clients than in the log."""

    def setUp(self) -> None:
        super().setUp()
        self.all = [b"%d" % number for number in range(1000)]
        for partition in (0, 1):
            self.put(*self.all, partition=partition, codec=Codec.GZIP)

    def test_a_partition_has_the_bytes_that_the_client_asks_for(self) -> None:
        for version in range(4):
            found: list[bytes] = []
            while len(found) < 1000:
                [answer] = self.fetch(at(len(found), most=5000), version=version)
                part = KAFKA_PYTHON.read(bytes(answer.records))
                self.assertEqual(part[0].offset, len(found))
                self.assertLess(len(part), 200)
                found += [record.value or b"" for record in part]
            self.assertEqual(found, self.all)

    def test_the_whole_answer_is_limited_too(self) -> None:
        asked = at(0), at(0, partition=1)
        for most, counts in ((1, [1, 0]), (37 * 10, [10, 0]), (1 << 20, [1000, 1000])):
            answers = self.fetch(*asked, version=3, max_bytes=most)
            self.assertEqual([answer.error_code for answer in answers], [0, 0])
            self.assertEqual([len(KAFKA_PYTHON.read(bytes(answer.records))) for answer in answers], counts)

    def test_converted_records_take_space_of_later_partitions(self) -> None:
        self.node.create("plain", 3)
        size = sum(self.put(*self.all, topic="plain", partition=partition) for partition in range(3))
        asked = [at(0, partition, "plain") for partition in range(3)]
        first, second, third = self.fetch(*asked, version=3, max_bytes=size)
        sizes = [len(answer.records) for answer in (first, second, third)]
        self.assertLess(size, 34 * 1000)  # what one of them takes in the old format
        self.assertLessEqual(sizes[0], size)
        self.assertGreater(sizes[0], size - 40)
        self.assertLess(sizes[1], 40)
        self.assertEqual((sizes[2], third.error_code), (0, 0))

    def test_a_client_without_space_gets_one_record_nevertheless(self) -> None:
        [answer] = self.fetch(at(7, most=0), version=3, max_bytes=0)
        self.assertEqual([each.value for each in KAFKA_PYTHON.read(bytes(answer.records))], [b"7"])

    def test_before_version_3_the_first_message_is_cut_to_the_limit(self) -> None:
        """Such a client learns that it must ask for more, for each of its partitions."""
        value = b"x" * 500
        for partition in (0, 1):
            self.put(value, partition=partition)
        for version in range(3):
            whole = bytes(self.fetch(at(1000), version=version)[0].records)
            self.assertGreater(len(whole), 500)
            for most in (0, 1, 12, 100, len(whole) - 1):
                first, second = self.fetch(at(1000, most=most), at(1000, 1, most=most), version=version)
                self.assertEqual(bytes(first.records), whole[:most])
                self.assertEqual(len(second.records), most)
            [answer] = self.fetch(at(1000, most=len(whole)), version=version)
            self.assertEqual([each.value for each in KAFKA_PYTHON.read(bytes(answer.records))], [value])


class OffsetTests(FetchTests):
    def test_from_the_batch_that_holds_the_offset_on(self) -> None:
        self.put(b"0", b"1", b"2")
        self.put(b"3")
        self.assertEqual(self.values(at(2)), [[b"0", b"1", b"2", b"3"]])
        self.assertEqual(self.values(at(3)), [[b"3"]])
        self.assertEqual(self.values(at(4)), [[]])

    def test_out_of_range(self) -> None:
        self.put(b"0", b"1", b"2")
        self.log().delete_records_before(2)
        for version in range(LAST + 1):
            for offset in (-1, 0, 1, 4):
                self.assertEqual(self.code(at(offset), version=version), ErrorCode.OFFSET_OUT_OF_RANGE, offset)

    def test_consumers_read_up_to_the_high_watermark(self) -> None:
        self.put(b"0")
        self.put(b"1")
        self.log().high_watermark = 1
        self.assertEqual(self.values(at(0)), [[b"0"]])
        self.assertEqual(self.values(at(1)), [[]])
        self.assertEqual(self.values(at(2)), [[]])

    def test_followers_read_to_the_end(self) -> None:
        self.put(b"0")
        self.put(b"1")
        self.log().high_watermark = 1
        followers.lead(self.node, "t", 8)
        self.assertEqual(self.values(at(0), version=12, replica_id=8), [[b"0", b"1"]])
        self.assertEqual(self.values(at(0), version=15, replica_state=ReplicaState(8)), [[b"0", b"1"]])

    def test_fetches_of_brokers_that_are_not_replicas_are_rejected(self) -> None:
        for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH):
            for replica in (3, NODE_ID):
                self.assertEqual(self.code(at(0), version=12, replica_id=replica), code)
                self.assertEqual(self.code(at(0), replica_state=ReplicaState(replica)), code)
            followers.lead(self.node, "t", 8)

    def test_a_consumer_for_debugging_is_a_consumer(self) -> None:
        self.put(b"0")
        self.log().high_watermark = 0
        self.assertEqual(self.values(at(0), version=12, replica_id=-2), [[]])


class EpochTests(FetchTests):
    def test_another_leader_epoch_is_rejected(self) -> None:
        self.node.broker.partitions.find("t", 0).leader_epoch = 5
        for version in range(LAST + 1):
            for epoch, code in ((4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)):
                if version >= 9:
                    self.assertEqual(self.code(at(0, current_leader_epoch=epoch), version=version), code)
                else:
                    self.fetch(at(0, current_leader_epoch=epoch), version=version)
        for epoch in (5, -1):
            self.assertEqual(self.values(at(0, current_leader_epoch=epoch)), [[]])

    def test_logs_that_part(self) -> None:
        partition = self.node.broker.partitions.find("t", 0)
        for epoch, values in ((0, [b"0", b"1"]), (2, [b"2"]), (5, [b"3"])):
            partition.leader_epoch = epoch
            self.put(*values)
        for fetched, offset, parted in (
            (0, 3, EpochEndOffset(0, 2)),
            (1, 2, EpochEndOffset(0, 2)),
            (2, 4, EpochEndOffset(2, 3)),
            (5, 5, EpochEndOffset(5, 4)),
        ):
            for version in range(12, LAST + 1):
                waiting = self.send(
                    at(offset, last_fetched_epoch=fetched), version=version, max_wait_ms=1000, min_bytes=1
                )
                [answer] = self.answers(waiting)
                self.assertEqual((answer.error_code, answer.diverging_epoch, answer.records), (0, parted, b""))
                self.assertEqual(answer.high_watermark, 4)

    def test_logs_that_agree(self) -> None:
        self.put(b"0", b"1")
        self.node.broker.partitions.find("t", 0).leader_epoch = 3
        self.put(b"2")
        for offset, epoch, values in ((1, 0, [b"0", b"1", b"2"]), (2, 0, [b"2"]), (3, 3, [])):
            [answer] = self.fetch(at(offset, last_fetched_epoch=epoch))
            self.assertEqual((answer.diverging_epoch, values_in(answer.records)), (EpochEndOffset(), values))

    def test_an_epoch_that_was_never_heard_of(self) -> None:
        self.put(b"0")
        self.assertEqual(self.code(at(0, last_fetched_epoch=3)), ErrorCode.OFFSET_OUT_OF_RANGE)


class IsolationTests(FetchTests):
    def setUp(self) -> None:
        super().setUp()
        self.put(b"before")
        self.put(b"undecided", producer=(5, 0, 0), transactional=True)
        self.put(b"after")

    def test_committed_reads_end_where_something_is_undecided(self) -> None:
        for version in range(4, LAST + 1):
            [answer] = self.fetch(at(0), version=version, isolation_level=1)
            self.assertEqual(values_in(answer.records), [b"before"])
            self.assertEqual((answer.high_watermark, answer.last_stable_offset), (3, 1))
            self.assertEqual(answer.aborted_transactions, [])
            self.assertEqual(self.values(at(1), version=version, isolation_level=1), [[]])

    def test_read_uncommitted_returns_undecided_records(self) -> None:
        for version in range(LAST + 1):
            [answer] = self.fetch(at(0), version=version)
            self.assertEqual(values_in(answer.records), [b"before", b"undecided", b"after"])
            self.assertEqual(answer.last_stable_offset, 1 if version >= 4 else -1)
            self.assertEqual(answer.aborted_transactions, None if version >= 4 else [])

    def test_read_committed_returns_records_once_decided(self) -> None:
        marker = [Record(0, NOW, b"\0\0\0\1", b"\0\0\0\0\0\0")]
        commit = build(marker, control=True, transactional=True, producer_id=5, producer_epoch=0)
        self.node.broker.partitions.find("t", 0).append(commit, NOW, Origin.COORDINATOR)
        [answer] = self.fetch(at(0), isolation_level=1)
        self.assertEqual(answer.last_stable_offset, 4)
        self.assertEqual(len(list(entries(answer.records))), 4)


class AbortedTests(FetchTests):
    """Producer 5 aborts, 6 commits and 7 is undecided, in that order; 8 writes outside of transactions."""

    def setUp(self) -> None:
        super().setUp()
        for producer_id in (5, 6, 8, 7):
            self.put(b"%d" % producer_id, producer=(producer_id, 0, 0), transactional=producer_id != 8)
        self.mark(False, 5)
        self.mark(True, 6)

    def mark(self, committed: bool, producer_id: int) -> None:
        self.node.broker.partitions.find("t", 0).append(marker(committed, producer_id), NOW, Origin.COORDINATOR)

    def reported(self, offset: int, **fields: Any) -> list[tuple[int, int]]:
        [answer] = self.fetch(at(offset), isolation_level=1, **fields)
        return [(each.producer_id, each.first_offset) for each in answer.aborted_transactions]

    def test_aborted_transactions_are_listed_with_the_records(self) -> None:
        for version in range(4, LAST + 1):
            self.assertEqual(self.reported(0, version=version), [(5, 0)])
            self.assertEqual(self.reported(1, version=version), [(5, 0)])
            self.assertEqual(self.reported(3, version=version), [])
        self.mark(False, 7)
        self.assertEqual(self.reported(0), [(5, 0), (7, 3)])
        self.assertEqual(self.reported(5), [(7, 3)])
        self.assertEqual(self.reported(7), [])

    def test_aborted_transactions_are_limited_to_the_returned_range(self) -> None:
        self.mark(False, 7)
        [answer] = self.fetch(at(1, most=1), isolation_level=1)
        self.assertEqual(len(list(entries(answer.records))), 1)
        self.assertEqual([each.producer_id for each in answer.aborted_transactions], [5])

    def test_read_uncommitted_gets_no_aborted_transactions(self) -> None:
        [answer] = self.fetch(at(0))
        self.assertIsNone(answer.aborted_transactions)

    def test_a_follower_gets_everything(self) -> None:
        follower = ReplicaState(NODE_ID + 1, 1)
        followers.lead(self.node, "t", NODE_ID + 1)
        [answer] = self.fetch(at(0), isolation_level=1, replica_state=follower)
        self.assertEqual(len(list(entries(answer.records))), 6)
        self.assertIsNone(answer.aborted_transactions)

    def test_an_index_on_the_disk_is_read_by_a_thread(self) -> None:
        self.restart()
        self.node.threads.holding = True
        answer = self.cold(at(0), isolation_level=1)
        self.assertEqual([each.producer_id for each in answer.aborted_transactions], [5])

    def test_a_lost_transaction_index_takes_the_log_offline(self) -> None:
        self.restart()
        [name] = [name for name in os.listdir(self.log().path) if name.endswith(".txnindex")]
        os.unlink(os.path.join(self.log().path, name))
        self.assertEqual(self.code(at(0), isolation_level=1), ErrorCode.KAFKA_STORAGE_ERROR)


class EmptiedTests(FetchTests):
    def test_segments_of_emptied_batches_are_passed_over(self) -> None:
        """librdkafka takes ten answers without a record, one after the other, for a record that is too large."""
        log = self.log()
        for offset in range(20):
            log.append(emptied(offset), NOW, origin=Origin.REPLICATION)
            log.roll(int(NOW))
        self.put(b"v")
        for offset in (0, 7, 20):
            self.assertEqual(self.values(at(offset)), [[b"v"]])

    def test_an_emptied_batch_at_the_end_reports_the_next_offset(self) -> None:
        log = self.log()
        log.append(emptied(0), NOW, origin=Origin.REPLICATION)
        log.high_watermark = 1
        [answer] = self.fetch(at(0))
        self.assertEqual([entry.next_offset for entry in entries(answer.records)], [1])

    def test_a_tiny_limit_skips_a_bounded_number_of_emptied_batches(self) -> None:
        log = self.log()
        for offset in range(1000):
            log.append(emptied(offset), NOW, origin=Origin.REPLICATION)
        self.put(b"v")
        offsets = [0]
        while offsets[-1] <= 1000:
            [answer] = self.fetch(at(offsets[-1], most=1))
            [entry] = entries(answer.records)
            offsets.append(entry.next_offset)
        steps = [after - before for before, after in pairwise(offsets)]
        self.assertTrue(all(0 < step <= 201 for step in steps), offsets)
        self.assertEqual(len(steps), 5)


class LimitTests(FetchTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("u")
        for value in (b"0", b"1", b"2"):
            self.size = self.put(value)
            self.put(value, partition=1)
            self.put(value, topic="u")

    def test_a_partitions_limit_ends_at_a_batch(self) -> None:
        for most, expected in ((1, 1), (self.size, 1), (2 * self.size - 1, 1), (2 * self.size, 2), (9999, 3)):
            for version in range(3, LAST + 1):
                [values] = self.values(at(0, most=most), version=version)
                self.assertEqual(values, [b"0", b"1", b"2"][:expected], most)

    def test_the_first_batch_is_returned_however_large(self) -> None:
        for version in range(3, LAST + 1):
            for most, limit in ((0, 9999), (1, 9999), (9999, 0), (9999, 1)):
                self.assertEqual(self.values(at(1, most=most), version=version, max_bytes=limit), [[b"1"]])

    def test_later_partitions_respect_their_limit(self) -> None:
        asked = at(0, most=1), at(0, 1, most=1), at(0, topic="u")
        self.assertEqual(self.values(*asked), [[b"0"], [], [b"0", b"1", b"2"]])
        self.assertEqual(self.values(*asked, max_bytes=1), [[b"0"], [], []])

    def test_the_first_nonempty_partition_exceeds_the_limit(self) -> None:
        self.assertEqual(self.values(at(3), at(2, 1), at(0, topic="u"), max_bytes=1), [[], [b"2"], []])

    def test_the_requests_limit_in_the_order_asked(self) -> None:
        one, other, last = at(0), at(0, 1), at(0, topic="u")
        for version in range(3, LAST + 1):
            for asked in ((one, other, last), (last, other, one)):
                self.assertEqual(
                    self.values(*asked, version=version, max_bytes=4 * self.size),
                    [[b"0", b"1", b"2"], [b"0"], []],
                )

    def test_before_version_3_the_request_has_no_limit(self) -> None:
        for version in range(3):
            found = self.values(at(0), at(0, 1), version=version)
            self.assertEqual(found, [[b"0", b"1", b"2"]] * 2)


class BrokerLimitTests(FetchTests):
    settings = {"fetch.max.bytes": "1024"}

    def test_the_brokers_own_limit(self) -> None:
        for _ in range(3):
            self.put(b"x" * 400)
            self.put(b"x" * 400, partition=1)
        for version in (0, 3, 4, LAST):
            lengths = [len(values) for values in self.values(at(0), at(0, 1), version=version)]
            self.assertEqual(lengths, [2, 0])


class LongPollTests(FetchTests):
    def setUp(self) -> None:
        super().setUp()
        self.size = len(batch([b"v"]))

    def wait(self, *asked: Asked, min_bytes: int = 1, max_wait_ms: int = 500, **fields: Any) -> Deferred[Any]:
        return self.send(*asked, min_bytes=min_bytes, max_wait_ms=max_wait_ms, **fields)

    def assert_nobody_waits(self) -> None:
        self.assertEqual(self.node.broker.fetches.delayed, {})
        for partition in self.node.broker.partitions.led.values():
            self.assertEqual(len(partition.purgatory), 0)

    def test_enough_bytes_are_answered_at_once(self) -> None:
        self.put(b"v")
        calls = len(self.node.clock.getDelayedCalls())
        for least in (0, 1, self.size):
            [answer] = self.answers(self.wait(at(0), min_bytes=least))
            self.assertEqual(values_in(answer.records), [b"v"])
        self.answers(self.wait(at(1), min_bytes=0))
        self.answers(self.wait(at(1), max_wait_ms=0))
        self.assertEqual(len(self.node.clock.getDelayedCalls()), calls)
        self.assert_nobody_waits()

    def test_a_fetch_without_records_ends_after_max_wait(self) -> None:
        for version in range(LAST + 1):
            waiting = self.wait(at(0), at(0, 1), version=version)
            self.node.clock.advance(0.499)
            self.assertNoResult(waiting)
            self.node.clock.advance(0.001)
            self.assertEqual([answer.records for answer in self.answers(waiting)], [b"", b""])
            self.assert_nobody_waits()

    def test_a_stop_answers_in_the_order_of_the_requests(self) -> None:
        answered: list[int] = []
        for number in range(20):
            self.wait(at(0)).addCallback(lambda _, number=number: answered.append(number))
        self.node.broker.fetches.expire_all()
        self.assertEqual(answered, list(range(20)))
        self.assert_nobody_waits()

    def test_too_little_is_answered_when_the_time_is_over(self) -> None:
        self.put(b"v")
        waiting = self.wait(at(0), min_bytes=self.size + 1)
        self.assertNoResult(waiting)
        self.node.clock.advance(0.5)
        self.assertEqual(values_in(self.answers(waiting)[0].records), [b"v"])

    def test_appends_wake_a_waiting_fetch(self) -> None:
        for version in range(LAST + 1):
            waiting = self.wait(at(version), at(0, 1), version=version)
            self.put(b"v")
            self.node.clock.advance(0)
            self.assertEqual(values_in(self.answers(waiting)[0].records), [b"v"])
            self.assert_nobody_waits()

    def test_a_cancelled_fetch_is_removed_from_the_purgatory(self) -> None:
        calls = self.node.clock.getDelayedCalls()
        waiting = self.wait(at(0), at(0, 1))
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.assertEqual(self.node.clock.getDelayedCalls(), calls)
        self.assert_nobody_waits()

    def test_a_fetch_cancelled_after_an_append_is_removed(self) -> None:
        waiting = self.wait(at(0))
        self.put(b"v")
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.node.clock.advance(0)
        self.assert_nobody_waits()

    def test_appends_of_one_read_are_answered_together(self) -> None:
        waiting = self.wait(at(0))
        self.put(b"1")
        self.put(b"2")
        self.assertNoResult(waiting)
        self.node.clock.advance(0)
        self.assertEqual(values_in(self.answers(waiting)[0].records), [b"1", b"2"])

    def test_partitions_count_together(self) -> None:
        self.put(b"v")
        waiting = self.wait(at(0), at(0, 1), min_bytes=3 * self.size)
        self.put(b"v", partition=1)
        self.node.clock.advance(0.1)
        self.assertNoResult(waiting)
        self.put(b"v")
        self.node.clock.advance(0)
        self.assertEqual([len(values_in(answer.records)) for answer in self.answers(waiting)], [2, 1])

    def test_other_partitions_do_not_wake(self) -> None:
        waiting = self.wait(at(0))
        self.put(b"v", partition=1)
        self.node.clock.advance(0.1)
        self.assertNoResult(waiting)

    def test_a_batch_that_is_sent_again_does_not_wake(self) -> None:
        self.put(b"v", producer=(5, 0, 0))
        waiting = self.wait(at(1))
        self.put(b"v", producer=(5, 0, 0))
        self.node.clock.advance(0.1)
        self.assertNoResult(waiting)

    def test_records_above_the_high_watermark_wake_no_consumer(self) -> None:
        self.node.create("safe", flush_messages="1")
        waiting = self.wait(at(0, topic="safe"))
        self.node.threads.holding = True
        self.put(b"v", topic="safe")
        self.node.clock.advance(0.1)
        self.assertNoResult(waiting)
        self.node.threads.run_one()
        self.node.threads.holding = False
        self.node.clock.advance(0)
        self.assertEqual(values_in(self.answers(waiting)[0].records), [b"v"])

    def test_an_ended_fetch_ignores_later_events(self) -> None:
        for end in (Deferred.cancel, lambda waiting: self.node.clock.advance(0.5)):
            waiting = self.wait(at(0))
            [fetch] = self.node.broker.fetches.delayed
            end(waiting)
            waiting.addErrback(lambda failure: failure.trap(CancelledError))
            self.successResultOf(waiting)
            for happen in (fetch.expire, partial(fetch.try_complete, 10), partial(fetch.fail, KafkaError("closed"))):
                happen()
                self.node.clock.advance(1)
                self.assert_nobody_waits()

    def test_the_deletion_of_a_topic_wakes(self) -> None:
        for version, code in ((12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (LAST, ErrorCode.UNKNOWN_TOPIC_ID)):
            self.node.create("doomed")
            waiting = self.wait(at(0), at(0, topic="doomed"), version=version)
            now(self.node.broker.controller.delete_topic("doomed"))
            self.node.clock.advance(0)
            self.assertEqual([answer.error_code for answer in self.answers(waiting)], [0, code])
            self.assert_nobody_waits()

    def test_errors_do_not_wait(self) -> None:
        self.node.create("calm")
        for wrong in (at(5), at(0, topic="nope"), at(0, current_leader_epoch=3)):
            answers = self.answers(self.wait(at(0, topic="calm"), wrong))
            self.assertNotEqual(answers[1].error_code, 0)
        self.assert_nobody_waits()

    def test_a_broker_that_stops_answers(self) -> None:
        waiting = self.wait(at(0))
        self.restart()
        self.assertEqual([answer.error_code for answer in self.answers(waiting)], [0])

    def test_read_committed_waits_for_decided_records(self) -> None:
        partition = self.node.broker.partitions.find("t", 0)
        waiting = self.wait(at(0), at(0, 1), isolation_level=1, min_bytes=2 * self.size)
        for number in range(3):
            self.put(b"v", producer=(5, 0, number), transactional=True)
            self.node.clock.advance(0)
            self.assertNoResult(waiting)
        partition.append(marker(True, 5), NOW, Origin.COORDINATOR)
        self.node.clock.advance(0)
        self.assertEqual(values_in(self.answers(waiting)[0].records)[:3], [b"v"] * 3)
        self.assert_nobody_waits()

    def test_a_small_marker_may_decide_much(self) -> None:
        for number in range(3):
            self.put(b"v" * 100, producer=(5, 0, number), transactional=True)
        waiting = self.wait(at(0), isolation_level=1, min_bytes=400)
        self.node.broker.partitions.find("t", 0).append(marker(True, 5), NOW, Origin.COORDINATOR)
        self.node.clock.advance(0)
        self.assertEqual(values_in(self.answers(waiting)[0].records)[:3], [b"v" * 100] * 3)

    def test_read_committed_counts_only_decided_bytes(self) -> None:
        waiting = self.wait(at(0), at(0, 1), isolation_level=1, min_bytes=2 * self.size)
        self.put(b"1")
        self.node.clock.advance(0)
        self.assertNoResult(waiting)
        self.put(b"hidden", producer=(5, 0, 0), transactional=True)
        self.node.clock.advance(0)
        self.assertNoResult(waiting)
        self.put(b"2", partition=1)
        self.node.clock.advance(0)
        self.assertEqual([values_in(answer.records) for answer in self.answers(waiting)], [[b"1"], [b"2"]])

    def test_a_reader_of_committed_records_waits_no_longer_than_it_said(self) -> None:
        waiting = self.wait(at(0), isolation_level=1, max_wait_ms=500)
        self.put(b"hidden", producer=(5, 0, 0), transactional=True)
        self.node.clock.advance(0.499)
        self.assertNoResult(waiting)
        self.node.clock.advance(0.001)
        [answer] = self.answers(waiting)
        self.assertEqual((answer.records, answer.last_stable_offset, answer.high_watermark), (b"", 0, 1))

    def test_a_read_committed_wait_reports_a_deleted_topic(self) -> None:
        self.node.create("doomed")
        waiting = self.wait(at(0), at(0, topic="doomed"), isolation_level=1)
        self.put(b"hidden", producer=(5, 0, 0), transactional=True)
        now(self.node.broker.controller.delete_topic("doomed"))
        self.node.clock.advance(0)
        self.assertEqual([answer.error_code for answer in self.answers(waiting)], [0, ErrorCode.UNKNOWN_TOPIC_ID])

    def test_many_wait_for_one_partition(self) -> None:
        waiting = [self.wait(at(0)) for _ in range(100)]
        self.put(b"v")
        self.node.clock.advance(0)
        for each in waiting:
            self.assertEqual(values_in(self.answers(each)[0].records), [b"v"])


class ManyPartitionsTests(FetchTests):
    """Requests for so many partitions that the reactor must be given back; here after each hundred of them."""

    count = 350

    def setUp(self) -> None:
        super().setUp()
        self.node.create("many", self.count)
        self.all = [at(0, partition, "many") for partition in range(self.count)]
        self.node.broker.runtime.slices.seconds = 0

    def iterate(self) -> None:
        """Run one iteration of the reactor."""
        calls, self.node.clock.calls = self.node.clock.calls, []
        now_s = self.node.clock.seconds()
        self.node.clock.calls = [call for call in calls if call.getTime() > now_s]
        for call in calls:
            if call.getTime() <= now_s:
                call.func(*call.args)

    def iterations(self, waiting: Deferred[Any]) -> int:
        """The iterations until the answer is there."""
        for number in range(100):
            if waiting.called:
                return number
            self.iterate()
        self.fail("there is no answer")

    def assert_nobody_waits(self) -> None:
        self.assertEqual(self.node.broker.fetches.delayed, {})
        self.assertFalse(any(len(partition.purgatory) for partition in self.node.broker.partitions.led.values()))

    def test_the_reactor_is_given_back_and_nothing_is_missing(self) -> None:
        for partition in range(0, self.count, 7):
            self.put(b"%d" % partition, topic="many", partition=partition)
        waiting = self.send(*self.all, version=12)
        self.assertGreaterEqual(self.iterations(waiting), 3 * 3)
        [topic] = self.successResultOf(waiting).responses
        found = {answer.partition_index: values_in(answer.records) for answer in topic.partitions}
        self.assertEqual(found, {n: [] if n % 7 else [b"%d" % n] for n in range(self.count)})

    def test_limits_hold_over_all_partitions(self) -> None:
        sizes = [self.put(b"v", topic="many", partition=partition) for partition in (5, 205, 305)]
        waiting = self.send(*self.all, version=12, max_bytes=sum(sizes) - 1)
        self.iterations(waiting)
        self.assertEqual([answer.partition_index for answer in self.answers(waiting) if answer.records], [5, 205])

    def test_records_that_come_behind_the_read_are_not_waited_for(self) -> None:
        for isolation in (0, 1):
            waiting = self.send(*self.all, version=12, min_bytes=1, max_wait_ms=500, isolation_level=isolation)
            self.iterate()
            self.put(b"v", topic="many", partition=3 + isolation)
            self.iterations(waiting)
            self.assertEqual(values_in(self.answers(waiting)[3 + isolation].records), [b"v"])
            self.assert_nobody_waits()
            self.all[3 + isolation] = at(1, 3 + isolation, "many")

    def test_a_fetch_that_expires_during_its_read_reads_each_partition_once(self) -> None:
        waiting = self.send(*self.all, version=12, min_bytes=1, max_wait_ms=60_000)
        while not (delayed := list(self.node.broker.fetches.delayed)):
            self.iterate()
        delayed[0].expire()
        self.iterations(waiting)
        self.assertEqual(len(self.answers(waiting)), self.count)
        self.assertEqual(self.node.broker.partitions.led["many", 0].traffic.fetches, self.count)
        self.assert_nobody_waits()

    def test_fetches_of_many_partitions_wait_and_wake(self) -> None:
        for isolation in (0, 1):
            partition = self.count - 1 - isolation
            waiting = self.send(*self.all, version=12, min_bytes=1, max_wait_ms=500, isolation_level=isolation)
            for _ in range(10):
                self.iterate()
            self.assertNoResult(waiting)
            self.put(b"v", topic="many", partition=partition)
            self.iterations(waiting)
            self.assertEqual(values_in(self.answers(waiting)[partition].records), [b"v"])
            self.assert_nobody_waits()
            self.all[partition] = at(1, partition, "many")

    def test_max_wait_ends_while_partitions_are_read(self) -> None:
        waiting = self.send(*self.all, version=12, min_bytes=1, max_wait_ms=1)
        self.node.clock.rightNow += 0.01
        self.iterations(waiting)
        self.assertEqual(len(self.answers(waiting)), self.count)
        self.assert_nobody_waits()

    def test_a_topic_is_deleted_while_partitions_are_read(self) -> None:
        waiting = self.send(at(0, topic="t"), *self.all, version=12, min_bytes=1, max_wait_ms=500)
        self.iterate()
        deleted = ensureDeferred(self.node.broker.controller.delete_topic("t"))
        self.iterations(waiting)
        self.iterations(deleted)
        self.assert_nobody_waits()

    def test_the_caller_goes_at_any_moment(self) -> None:
        for moment in range(12):
            waiting = self.send(*self.all, version=12, min_bytes=moment % 2, max_wait_ms=500)
            for _ in range(moment):
                self.iterate()
            waiting.cancel()
            for _ in range(12):
                self.iterate()
            self.assert_nobody_waits()
            waiting.addErrback(lambda failure: failure.trap(CancelledError))

    def test_old_clients_and_sessions(self) -> None:
        self.put(b"v", topic="many", partition=300)
        waiting = self.send(*self.all, version=2)
        self.iterations(waiting)
        self.assertEqual([len(answer.records) > 0 for answer in self.answers(waiting)].index(True), 300)
        begun = self.send(*self.all, version=12, session_epoch=0)
        self.iterations(begun)
        session_id = self.successResultOf(begun).session_id
        self.put(b"w", topic="many", partition=100)
        next_one = self.send(at(1, 300, "many"), version=12, session_id=session_id, session_epoch=1)
        self.iterations(next_one)
        self.assertEqual([answer.partition_index for answer in self.answers(next_one)], [100])


class OldClientTests(FetchTests):
    """Versions 0 to 3, which read message formats 0 and 1."""

    def add(self, records: list[Record], codec: Codec = Codec.NONE) -> None:
        self.node.broker.partitions.find("t", 0).append(KAFKA_PYTHON.write(records, 2, codec), NOW)

    def read(self, offset: int, version: int) -> list[Record]:
        [answer] = self.fetch(at(offset), version=version)
        self.assertEqual(answer.error_code, 0)
        return KAFKA_PYTHON.read(bytes(answer.records))

    def test_keys_values_and_timestamps_but_no_headers(self) -> None:
        fields = [(b"k", b"v"), (None, b"v"), (b"k", None), (b"", b"")]
        self.add([Record(n, NOW + n, *each, (("h", b"x"),)) for n, each in enumerate(fields)])
        for version in range(4):
            expected = [Record(n, NOW + n if version >= 2 else -1, *each) for n, each in enumerate(fields)]
            self.assertEqual(self.read(0, version), expected)

    def test_compressed_sets(self) -> None:
        records = [Record(n, NOW + n, b"k", b"v" * 200) for n in range(3)]
        for n, codec in enumerate((Codec.GZIP, Codec.SNAPPY, Codec.LZ4)):
            self.add(records, codec)
            for version in range(4):
                if version < 2 and codec is Codec.LZ4:
                    continue  # kafka-python reads it with a package of its own only
                [answer] = self.fetch(at(3 * n), version=version)
                self.assertEqual([entry.codec for entry in entries(answer.records)], [codec])
                found = KAFKA_PYTHON.read(bytes(answer.records))
                expected = [(3 * n + m, NOW + m if version >= 2 else -1, b"v" * 200) for m in range(3)]
                self.assertEqual([(each.offset, each.timestamp, each.value) for each in found], expected)

    def test_records_before_the_fetch_offset_are_not_returned(self) -> None:
        self.add([Record(n, NOW, b"k", b"%d" % n) for n in range(5)])
        for version in range(4):
            self.assertEqual([each.offset for each in self.read(3, version)], [3, 4])

    def test_control_records_are_left_out(self) -> None:
        marker = [Record(0, NOW, b"\0\0\0\1", b"\0\0\0\0\0\0")]
        self.put(b"1", producer=(5, 0, 0), transactional=True)
        commit = build(marker, control=True, transactional=True, producer_id=5, producer_epoch=0)
        self.node.broker.partitions.find("t", 0).append(commit, NOW, Origin.COORDINATOR)
        self.put(b"2")
        for version in range(4):
            self.assertEqual([(each.offset, each.value) for each in self.read(0, version)], [(0, b"1"), (2, b"2")])

    def test_batches_emptied_by_compaction_are_skipped(self) -> None:
        """Old clients go on behind the last record that they get; a region never reaches into the next segment."""
        log, peer = self.log(), KAFKA_PYTHON.write([Record(0, NOW, b"k", b"v")], 2, Codec.NONE)
        for offset in range(3):
            log.append(emptied(offset), NOW, origin=Origin.REPLICATION)
            log.roll(int(NOW))
        self.node.broker.partitions.find("t", 0).append(peer, NOW)
        for version in range(4):
            for offset in range(4):
                self.assertEqual([(each.offset, each.value) for each in self.read(offset, version)], [(3, b"v")])
        log.append(emptied(4), NOW, origin=Origin.REPLICATION)
        log.high_watermark = 5
        for version in range(4):
            self.assertEqual(self.read(4, version), [])

    def test_emptied_batches_are_skipped_within_small_limits(self) -> None:
        log = self.log()
        for offset in range(50):
            log.append(emptied(offset), NOW, origin=Origin.REPLICATION)
        self.put(b"v")
        for version in range(4):
            [answer] = self.fetch(at(0, most=100), version=version)
            self.assertEqual([each.offset for each in KAFKA_PYTHON.read(bytes(answer.records))], [50])

    def test_a_tiny_limit_passes_over_many_emptied_batches_in_each_round(self) -> None:
        for offset in range(500):
            self.log().append(emptied(offset), NOW, origin=Origin.REPLICATION)
        self.put(b"v")
        with patch.object(conversion, "down_convert", side_effect=conversion.down_convert) as converting:
            [answer] = self.fetch(at(0, most=1), version=3)
        self.assertEqual([each.offset for each in KAFKA_PYTHON.read(bytes(answer.records))], [500])
        self.assertEqual(converting.call_count, 2)

    def test_a_topic_that_is_deleted_while_it_is_passed_over(self) -> None:
        for offset in range(2):
            self.log().append(emptied(offset), NOW, origin=Origin.REPLICATION)
        self.put(b"v")
        self.node.threads.holding = True
        waiting = self.send(at(0, most=130), version=3)
        ensureDeferred(self.node.broker.controller.delete_topic("t"))
        while self.node.threads.held:
            self.node.threads.run_one()
        [answer] = self.answers(waiting)
        self.assertEqual(answer.records, b"")

    def test_old_clients_cannot_read_zstd(self) -> None:
        self.add([Record(0, NOW, b"k", b"v" * 200)], Codec.ZSTD)
        for version in range(LAST + 1):
            if version < 4:
                self.assertEqual(self.code(at(0), version=version), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            else:
                self.assertEqual(self.values(at(0), version=version), [[b"v" * 200]])

    def test_topics_of_zstd_begin_with_version_10(self) -> None:
        self.node.create("zstd", compression_type="zstd")
        for version in range(LAST + 1):
            if version < 10:
                code = self.code(at(0, topic="zstd"), version=version)
                self.assertEqual(code, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            else:
                self.assertEqual(self.values(at(0, topic="zstd"), version=version), [[]])

    def test_conversion_may_be_off(self) -> None:
        self.node.create("new", message_downconversion_enable="false")
        for version in range(LAST + 1):
            if version < 4:
                self.assertEqual(self.code(at(0, topic="new"), version=version), ErrorCode.UNSUPPORTED_VERSION)
            else:
                self.assertEqual(self.values(at(0, topic="new"), version=version), [[]])

    def test_conversion_is_work_for_a_thread(self) -> None:
        self.put(b"v")
        self.node.threads.holding = True
        waiting = self.send(at(0), version=3)
        for _ in ("brought in", "converted"):
            self.assertNoResult(waiting)
            self.node.threads.run_one()
        self.assertEqual(values_in(self.answers(waiting)[0].records), [b"v"])
        self.assertEqual(self.values(at(1), version=3), [[]])


class OldFormatTests(FetchTests):
    """Logs of formats v0 and v1, read by clients of all versions."""

    def setUp(self) -> None:
        super().setUp()
        self.node.create("old", message_format_version="0.10.0")

    def add(self, records: list[Record], magic: int = 1, codec: Codec = Codec.NONE, topic: str = "old") -> None:
        """Have them in the log as they are: as if they had been written long ago."""
        log, written = self.log(topic), build(records, magic=magic, codec=codec, base_offset=None)
        log.append(written, NOW, origin=Origin.REPLICATION)
        log.high_watermark = log.log_end_offset

    def magics(self, version: int, topic: str = "old") -> set[int]:
        [answer] = self.fetch(at(0, topic=topic), version=version)
        return {entry.magic for entry in entries(answer.records)}

    def test_from_version_12_on_old_formats_are_converted_to_v2(self) -> None:
        """librdkafka 2.5 to 2.15 reads nothing of older formats there, and says nothing."""
        self.add([Record(n, NOW + n, b"k", b"%d" % n) for n in range(3)])
        for version in range(LAST + 1):
            self.assertEqual(self.magics(version), {0 if version < 2 else 1 if version < 12 else 2}, version)

    def test_all_records_of_old_formats_are_returned(self) -> None:
        fields = [(b"k", b"v"), (None, b"v" * 300), (b"k", None), (b"", b"")]
        for magic in (0, 1):
            for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
                first = self.log("old").log_end_offset
                written = [
                    Record(first + 2 * n, NOW + n if magic else -1, *each) for n, each in enumerate(fields)
                ]  # with gaps, as after a compaction
                self.add(written, magic, codec)
                [answer] = self.fetch(at(first, topic="old"))
                self.assertEqual({entry.codec for entry in entries(answer.records)}, {codec})
                self.assertEqual(KAFKA_PYTHON.read(bytes(answer.records)), written)

    def test_all_sizes_lead_to_the_end(self) -> None:
        records = [Record(n, NOW, None, b"%d" % n * (1 + n % 700)) for n in range(1200)]
        for first in range(0, 1200, 100):
            codec = Codec.GZIP if first % 200 else Codec.NONE
            self.add(records[first : first + 100], codec=codec)
        for most in (1, 5000, 70_000, 1 << 20):
            found: list[Record] = []
            while len(found) < 1200:
                [answer] = self.fetch(at(len(found), topic="old", most=most))
                self.assertEqual(answer.error_code, 0)
                part = [each for each in KAFKA_PYTHON.read(bytes(answer.records)) if each.offset >= len(found)]
                self.assertTrue(part)
                found += part
            self.assertEqual(found, records)

    def test_a_log_upgraded_to_a_newer_format(self) -> None:
        self.add([Record(0, NOW, None, b"old")])
        self.node.broker.partitions.find("old", 0).append(batch([b"new"]), NOW)
        self.assertEqual(self.magics(LAST), {2})
        self.assertEqual(self.values(at(0, topic="old")), [[b"old", b"new"]])

    def test_a_log_downgraded_to_an_older_format(self) -> None:
        log = self.log("t")
        self.put(b"new")
        log.config = attrs.evolve(log.config, magic=1)
        self.put(b"old")
        self.put(b"older")
        log.config = attrs.evolve(log.config, magic=2)
        self.put(b"newest")
        found: list[bytes] = []
        while len(found) < 4:
            [answer] = self.fetch(at(len(found)))
            self.assertEqual({entry.magic for entry in entries(answer.records)}, {2})
            found += values_in(answer.records)
        self.assertEqual(found, [b"new", b"old", b"older", b"newest"])

    def test_conversion_is_work_for_a_thread_and_is_kept(self) -> None:
        self.add([Record(n, NOW, None, b"v" * 1000) for n in range(200)])
        pieces = self.node.broker.fetches.conversion_cache
        self.node.threads.holding = True
        answers = []
        for _ in range(2):
            waiting = self.send(at(0, topic="old"))
            for _ in ("brought in", "converted"):
                self.assertNoResult(waiting)
                self.node.threads.run_one()
            answers.append(bytes(self.answers(waiting)[0].records))
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(pieces.size, len(answers[0]))

    def test_converted_pieces_are_reused_by_later_fetches(self) -> None:
        self.add([Record(n, NOW, None, b"v" * 1000) for n in range(400)])
        with patch.object(conversion, "up_convert", wraps=conversion.up_convert) as converting:
            for most in (300_000, 200_000, 100_000, 300_000):
                self.fetch(at(0, topic="old", most=most))
        self.assertEqual(converting.call_count, 5 + 1 + 1)  # each shorter region ends within a piece

    def test_a_log_that_was_cut_is_converted_again(self) -> None:
        self.add([Record(0, NOW, None, b"one")])
        self.assertEqual(self.values(at(0, topic="old")), [[b"one"]])
        self.log("old").truncate_to(0)
        self.add([Record(0, NOW, None, b"two")])
        self.assertEqual(self.values(at(0, topic="old")), [[b"two"]])

    def test_damaged_messages_are_not_converted(self) -> None:
        self.add([Record(0, NOW, None, b"sound")])
        self.add([Record(1, NOW, None, b"damaged")])
        [segment] = self.log("old").segments
        with open(segment.path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"x")
        self.assertEqual(self.values(at(0, topic="old")), [[b"sound"]])
        self.assertEqual(self.code(at(1, topic="old")), ErrorCode.CORRUPT_MESSAGE)

    def test_followers_get_the_log_as_it_is(self) -> None:
        self.add([Record(0, NOW, None, b"v")])
        followers.lead(self.node, "old", NODE_ID + 1)
        [answer] = self.fetch(at(0, topic="old"), replica_state=ReplicaState(NODE_ID + 1, 1))
        self.assertEqual({entry.magic for entry in entries(answer.records)}, {1})


class PieceTests(SynchronousTestCase):
    def test_the_least_recently_used_pieces_are_dropped_first(self) -> None:
        pieces = ConversionCache(limit=10)
        for place in range(3):
            pieces.keep((0, place), ConvertedPiece(b"abc", 5))
        self.assertIsNotNone(pieces.find((0, 0), 5))
        pieces.keep((0, 3), ConvertedPiece(b"defg", 5))
        self.assertEqual([pieces.find((0, place), 5) is not None for place in range(4)], [True, False, True, True])
        self.assertEqual(pieces.size, 10)

    def test_the_longest_piece_of_a_position_is_kept(self) -> None:
        pieces = ConversionCache(limit=10)
        for length in (5, 7, 6):
            pieces.keep((0, 0), ConvertedPiece(b"%d" % length, length))
        self.assertIsNone(pieces.find((0, 0), 6))
        self.assertEqual(pieces.find((0, 0), 7), ConvertedPiece(b"7", 7))
        pieces.keep((0, 1), ConvertedPiece(b"x" * 11, 1))
        self.assertIsNone(pieces.find((0, 1), 1))
        self.assertEqual(pieces.size, 1)


class SessionTests(FetchTests):
    """Fetch sessions, from the request to the answer."""

    def ask(self, *asked: Asked, version: int = LAST, **fields: Any) -> Any:
        return self.successResultOf(self.send(*asked, version=version, **fields))

    def begin(self, *asked: Asked, version: int = LAST) -> int:
        response = self.ask(*asked, version=version, session_epoch=0)
        self.assertEqual(response.error_code, 0)
        self.assertGreater(response.session_id, 0)
        self.session = int(response.session_id)
        return self.session

    def go_on(self, epoch: int, *asked: Asked, version: int = LAST, **fields: Any) -> list[tuple[int, list[bytes]]]:
        """The partitions mentioned, with what was read."""
        response = self.ask(*asked, version=version, session_id=self.session, session_epoch=epoch, **fields)
        self.assertEqual((response.error_code, response.session_id), (0, self.session))
        partitions = [partition for topic in response.responses for partition in topic.partitions]
        return [(partition.partition_index, values_in(partition.records)) for partition in partitions]

    def kafka_error(self, epoch: int, *asked: Asked, version: int = LAST, session: int | None = None) -> ErrorCode:
        session = self.session if session is None else session
        response = self.ask(*asked, version=version, session_id=session, session_epoch=epoch)
        self.assertEqual((response.session_id, response.responses), (0, []))
        return ErrorCode(response.error_code)

    def test_incremental_answers_list_only_changed_partitions(self) -> None:
        for version in range(7, LAST + 1):
            end = self.log().log_end_offset
            self.begin(at(end), at(0, 1), version=version)
            self.assertEqual(self.go_on(1, version=version), [])
            self.put(b"v")
            self.assertEqual(self.go_on(2, version=version), [(0, [b"v"])])
            self.assertEqual(self.go_on(3, at(end + 1), version=version), [])
            self.log().delete_records_before(end + 1)
            self.assertEqual(self.go_on(4, version=version), [(0, [])])
            self.assertEqual(self.go_on(5, version=version), [])

    def test_partitions_join_and_leave(self) -> None:
        self.put(b"0")
        self.put(b"1", partition=1)
        self.begin(at(0))
        self.assertEqual(sorted(self.go_on(1, at(0, 1))), [(0, [b"0"]), (1, [b"1"])])
        topic = self.node.broker.metadata.topics["t"]
        gone = [ForgottenTopic("t", topic.id, [0])]
        self.assertEqual(self.go_on(2, forgotten_topics_data=gone), [(1, [b"1"])])

    def test_a_waiting_incremental_fetch_returns_new_records(self) -> None:
        self.begin(at(0), at(0, 1))
        waiting = self.send(session_id=self.session, session_epoch=1, max_wait_ms=500, min_bytes=1)
        self.put(b"v", partition=1)
        self.node.clock.advance(0)
        [answer] = self.answers(waiting)
        self.assertEqual((answer.partition_index, values_in(answer.records)), (1, [b"v"]))

    def test_each_partition_is_served(self) -> None:
        for _ in range(3):
            size = self.put(b"0")
            self.put(b"1", partition=1)
        self.begin(at(0), at(0, 1))
        first = self.go_on(1, max_bytes=size)
        second = self.go_on(2, max_bytes=size)
        self.assertEqual(sorted(first + second), [(0, [b"0"]), (1, [b"1"])])

    def test_errors_are_repeated_until_they_are_gone(self) -> None:
        self.begin(at(5), at(0, 1))
        for epoch in (1, 2):
            [answer] = self.answers(self.send(session_id=self.session, session_epoch=epoch))
            self.assertEqual((answer.partition_index, answer.error_code), (0, ErrorCode.OFFSET_OUT_OF_RANGE))
        self.assertEqual(self.go_on(3, at(0)), [(0, [])])
        self.assertEqual(self.go_on(4), [])

    def test_errors(self) -> None:
        self.begin(at(0))
        self.assertEqual(self.kafka_error(2), ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self.assertEqual(self.kafka_error(1, session=self.session ^ 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self.assertEqual(self.kafka_error(-2, session=0), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self.assertEqual(self.go_on(1), [])

    def test_names_and_ids_are_not_mixed(self) -> None:
        self.begin(at(0), version=12)
        for asked in ((), (at(0),)):
            self.assertEqual(self.kafka_error(1, *asked, version=13), ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self.begin(at(0), version=13)
        self.assertEqual(self.kafka_error(1, version=12), ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)

    def test_a_final_request_ends_the_session(self) -> None:
        self.put(b"v")
        self.begin(at(0))
        response = self.ask(at(0), session_id=self.session, session_epoch=-1)
        self.assertEqual((response.session_id, len(response.responses)), (0, 1))
        self.assertEqual(self.kafka_error(1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def test_a_new_session_replaces_the_old_one(self) -> None:
        first = self.begin(at(0))
        response = self.ask(at(0, 1), session_id=first, session_epoch=0)
        self.assertNotIn(response.session_id, (0, first))
        self.assertEqual(self.kafka_error(1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def test_no_session_begins_without_a_request(self) -> None:
        for version in range(LAST + 1):
            self.assertEqual(self.ask(at(0), version=version).session_id, 0)
        self.assertEqual(len(self.node.broker.fetches.sessions), 0)


class FullSessionTests(FetchTests):
    settings = {"max.incremental.fetch.session.cache.slots": "1"}

    def test_a_fetch_without_a_session_slot_is_answered_in_full(self) -> None:
        ids = [self.successResultOf(self.send(at(0), session_epoch=0)).session_id for _ in range(2)]
        self.assertGreater(ids[0], 0)
        self.assertEqual(ids[1], 0)


class DiskTests(FetchTests):
    """Sources of the bytes: memory at once, the disk by a thread."""

    small, large = b"s" * 100, b"l" * (3 * READ_INLINE_BYTES_MAX)

    def raw(self, offset: int) -> Any:
        """The answer as the network gets it."""
        request = self.request(at(offset, most=3 * READ_INLINE_BYTES_MAX))
        response = fetch.handle(self.node.services_of(request), RequestContext(LAST), request)
        return response.responses[0].partitions[0].records

    def test_small_batches_are_read_and_large_ones_sent_from_the_file(self) -> None:
        self.put(self.small)
        self.put(self.large)
        found = self.raw(1)
        self.assertIsInstance(found, FileRegion)
        self.assertEqual(values_in(found.read()), [self.large])
        self.assertNotIsInstance(self.raw(0), FileRegion)
        self.assertEqual(values_in(self.raw(0)), [self.small])

    def test_cold_records_are_read_by_a_thread(self) -> None:
        self.put(self.small)
        self.put(self.large)
        self.node.threads.holding = True
        for offset, value in ((0, self.small), (1, self.large)):
            self.assertEqual(values_in(self.cold(at(offset, most=3 * READ_INLINE_BYTES_MAX)).records), [value])

    def test_the_cold_end_of_a_region_counts(self) -> None:
        self.put(self.large)
        self.node.threads.holding = True
        end = self.log().size

        def cold_end(real: Any, fd: int, buffers: list[bytearray], position: int, flags: int) -> int:
            if position + sum(map(len, buffers)) == end:
                raise BlockingIOError(errno.EAGAIN, "")
            return int(real(fd, buffers, position, flags & ~os.RWF_NOWAIT))  # of files in memory it is not supported

        with broken("preadv", self.log().path, cold_end):
            self.assertNoResult(self.send(at(0)))

    def test_cold_logs_are_read_only_in_threads(self) -> None:
        for number in range(40):
            self.put(b"%d" % number * 2 * READ_INLINE_BYTES_MAX)
        self.restart()
        self.node.threads.holding = True
        for offset, most in (
            (25, READ_INLINE_BYTES_MAX),
            (3, 5 * READ_INLINE_BYTES_MAX),
            (39, READ_INLINE_BYTES_MAX),
            (30, 1 << 20),
        ):
            values = values_in(self.cold(at(offset, most=most)).records)
            self.assertEqual(values[0], b"%d" % offset * 2 * READ_INLINE_BYTES_MAX)

    def test_other_fetches_are_answered_while_a_thread_reads(self) -> None:
        self.put(self.large)
        self.put(b"other", partition=1)
        self.node.threads.holding = True
        with broken("preadv", self.log().path, failing(errno.EAGAIN)):
            self.assertNoResult(self.send(at(0)))
            self.assertEqual(self.values(at(0, 1)), [[b"other"]])

    def test_a_file_system_that_cannot_say_is_taken_to_be_fast(self) -> None:
        self.put(self.small)
        self.put(self.large)
        self.node.threads.holding = True
        with broken("preadv", self.log().path, failing(errno.EOPNOTSUPP)):
            self.assertEqual(values_in(self.raw(0)), [self.small])
            self.assertIsInstance(self.raw(1), FileRegion)

    def test_a_region_outlives_its_topic(self) -> None:
        self.put(self.large)
        found = self.raw(0)
        now(self.node.broker.controller.delete_topic("t"))
        self.assertEqual(values_in(found.read()), [self.large])


class FailingDiskTests(FetchTests):
    """Two log directories; the partitions of `t` lie in one each."""

    directory_count = 2

    def fails(self, value: bytes, version: int) -> ErrorCode:
        self.put(value)
        self.put(b"fine", partition=1)
        bad = os.path.dirname(self.log().path)
        error = failing(errno.EIO)
        with broken("preadv", bad, error), broken("pread", bad, error):
            answers = self.fetch(at(0), at(0, 1), version=version)
        self.assertEqual((answers[0].high_watermark, answers[0].records), (-1, b""))
        self.assertEqual(values_in(answers[1].records), [b"fine"])
        again = self.code(at(0), version=version)
        self.assertEqual(again, answers[0].error_code)
        return again

    def test_a_small_batch_on_a_failed_disk(self) -> None:
        self.assertEqual(self.fails(b"v", LAST), ErrorCode.KAFKA_STORAGE_ERROR)

    def test_a_large_batch_on_a_failed_disk(self) -> None:
        self.assertEqual(self.fails(b"v" * 3 * READ_INLINE_BYTES_MAX, LAST), ErrorCode.KAFKA_STORAGE_ERROR)

    def test_a_failed_disk_before_topic_ids(self) -> None:
        self.assertEqual(self.fails(b"v", 6), ErrorCode.KAFKA_STORAGE_ERROR)

    def test_before_version_6_a_failed_disk_is_not_leader_or_follower(self) -> None:
        self.assertEqual(self.fails(b"v", 5), ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_disk_fails_while_converting(self) -> None:
        self.assertEqual(self.fails(b"v", 1), ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_a_failed_disk_wakes_a_waiting_fetch(self) -> None:
        waiting = self.send(at(0), at(0, 1), max_wait_ms=500, min_bytes=1)
        with broken("pwritev", os.path.dirname(self.log().path), failing(errno.EIO)):
            try:
                self.put(b"v")
            except Exception:
                self.node.broker.partitions.storage_failed(self.log())
        self.node.clock.advance(0)
        codes = [answer.error_code for answer in self.answers(waiting)]
        self.assertEqual(codes, [ErrorCode.KAFKA_STORAGE_ERROR, 0])
