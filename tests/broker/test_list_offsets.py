"""ListOffsets: first, last and time-stamped offsets, old and new ways."""

from __future__ import annotations

import errno
import os
import shutil
from typing import Any

from twisted.internet.defer import CancelledError, ensureDeferred

from pylogbroker.broker.apis import list_offsets
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record, build
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.failing_disks import PageCache, broken, failing
from tests.broker.nodes import START, NodeTests

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
CONSUMER, DEBUGGER = -1, -2
NOTHING = (-1, -1, -1)


class ListOffsetsTests(NodeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        self.log = self.node.broker.partitions.find("t", 0).log

    def ask(
        self, *wanted: ListOffsetsPartition, version: int = 9, replica: int = CONSUMER, committed: bool = False
    ) -> Any:
        request = ListOffsetsRequest(replica, int(committed), [ListOffsetsTopic("t", list(wanted))])
        [topic] = self.node.ask(list_offsets.handle, request, version).topics
        self.assertEqual(topic.name, "t")
        return topic.partitions

    def found(self, timestamp: int, version: int = 9, **asked: Any) -> tuple[int, int, int]:
        """Offset, timestamp and leader epoch."""
        [answer] = self.ask(ListOffsetsPartition(0, -1, timestamp), version=version, **asked)
        self.assertEqual(answer.error_code, ErrorCode.NONE)
        return answer.offset, answer.timestamp, answer.leader_epoch

    def code(self, timestamp: int, version: int = 9, partition: int = 0, epoch: int = -1) -> ErrorCode:
        [answer] = self.ask(ListOffsetsPartition(partition, epoch, timestamp), version=version)
        self.assertEqual((answer.offset, answer.timestamp), (-1, -1))
        return ErrorCode(answer.error_code)


class NewTests(ListOffsetsTests):
    def test_ends_in_every_version(self) -> None:
        self.node.produce("t", 0, 10, 20, 30)
        self.log.delete_records_before(1)
        for version in range(1, 10):
            epoch = 0 if version >= 4 else -1
            self.assertEqual(self.found(EARLIEST, version), (1, -1, epoch))
            self.assertEqual(self.found(LATEST, version), (3, -1, epoch))

    def test_by_time(self) -> None:
        self.node.produce("t", 0, 10, 20, 30, epoch=2)
        self.node.produce("t", 0, 25, 40, epoch=3)
        for timestamp, offset, found, epoch in (
            (0, 0, 10, 2),
            (10, 0, 10, 2),
            (11, 1, 20, 2),
            (21, 2, 30, 2),
            (31, 4, 40, 3),
        ):
            self.assertEqual(self.found(timestamp), (offset, found, epoch), timestamp)
        self.assertEqual(self.found(41), NOTHING)

    def test_deleted_records_are_not_found_by_time(self) -> None:
        self.node.produce("t", 0, 10, 20, 30)
        self.log.delete_records_before(2)
        self.assertEqual(self.found(10)[:2], (2, 30))

    def test_largest_timestamp(self) -> None:
        self.node.produce("t", 0, 10, 90, 90)
        self.node.produce("t", 0, 50)
        self.assertEqual(self.found(MAX_TIMESTAMP), (1, 90, 0))

    def test_the_newest_of_the_records_that_are_left(self) -> None:
        for batches in ([(100,), (50,), (60,)], [(100, 50, 60)], [(100, 50), (60,)]):
            with self.subTest(batches=batches):
                self.node.create("left")
                log = self.node.broker.partitions.find("left", 0).log
                for times in batches:
                    self.node.produce("left", 0, *times)
                wanted = ListOffsetsTopic("left", [ListOffsetsPartition(0, -1, MAX_TIMESTAMP)])
                newest = []
                for start in range(4):
                    log.delete_records_before(start)
                    answer = self.node.ask(list_offsets.handle, ListOffsetsRequest(CONSUMER, 0, [wanted]), 9)
                    newest.append((answer.topics[0].partitions[0].offset, answer.topics[0].partitions[0].timestamp))
                self.assertEqual(newest, [(0, 100), (2, 60), (2, 60), (-1, -1)])
                self.successResultOf(ensureDeferred(self.node.broker.controller.delete_topic("left")))

    def test_the_newest_committed_record(self) -> None:
        """An open transaction hides the newest record from readers of committed ones."""
        self.node.produce("t", 0, 10, 70, 20)
        opened = build(
            [Record(0, 90, b"k", b"v")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
        )
        self.log.append(opened, START)
        self.log.high_watermark = 4
        self.assertEqual(self.found(MAX_TIMESTAMP), (3, 90, 0))
        self.assertEqual(self.found(MAX_TIMESTAMP, committed=True), (1, 70, 0))

    def test_an_empty_log_has_no_records_by_time(self) -> None:
        self.assertEqual(self.found(LATEST)[:2], (0, -1))
        self.assertEqual(self.found(EARLIEST)[:2], (0, -1))
        self.assertEqual(self.found(0), NOTHING)
        self.assertEqual(self.found(MAX_TIMESTAMP), NOTHING)

    def test_local_and_tiered(self) -> None:
        self.node.produce("t", 0, 10, 20)
        self.log.delete_records_before(1)
        self.assertEqual(self.found(EARLIEST_LOCAL), (1, -1, 0))
        self.assertEqual(self.found(LATEST_TIERED), NOTHING)
        self.assertEqual(self.found(EARLIEST_PENDING_UPLOAD, version=11), NOTHING)
        self.assertEqual(self.code(EARLIEST_PENDING_UPLOAD, version=10), ErrorCode.UNSUPPORTED_VERSION)

    def test_only_replicas_see_beyond_the_high_watermark(self) -> None:
        self.node.produce("t", 0, 10, 20)
        self.node.produce("t", 0, 30)
        self.log.high_watermark = 2
        self.assertEqual((self.found(LATEST)[0], self.found(LATEST, replica=DEBUGGER)[0]), (2, 3))
        self.assertEqual((self.found(25), self.found(25, replica=DEBUGGER)), (NOTHING, (2, 30, 0)))
        self.assertEqual(self.found(MAX_TIMESTAMP), (1, 20, 0))
        self.assertEqual(self.found(MAX_TIMESTAMP, replica=DEBUGGER), (2, 30, 0))

    def test_committed_records_end_at_the_last_stable_offset(self) -> None:
        self.node.produce("t", 0, 10, 20)
        self.assertEqual(self.found(LATEST, committed=True)[0], self.log.last_stable_offset)

    def test_meaningless_timestamps(self) -> None:
        for timestamp, first in (
            (LATEST, 0),
            (EARLIEST, 0),
            (MAX_TIMESTAMP, 7),
            (EARLIEST_LOCAL, 8),
            (LATEST_TIERED, 9),
        ):
            for version in range(10):
                [answer] = self.ask(ListOffsetsPartition(0, -1, timestamp), version=version)
                expected = ErrorCode.NONE if version >= first else ErrorCode.UNSUPPORTED_VERSION
                self.assertEqual(answer.error_code, expected, (timestamp, version))
        self.assertEqual(self.code(-6), ErrorCode.UNSUPPORTED_VERSION)

    def test_errors(self) -> None:
        self.node.broker.partitions.find("t", 0).leader_epoch = 5
        self.assertEqual(self.code(LATEST, partition=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(self.code(LATEST, epoch=4), ErrorCode.FENCED_LEADER_EPOCH)
        self.assertEqual(self.code(LATEST, epoch=6), ErrorCode.UNKNOWN_LEADER_EPOCH)
        [answer] = self.ask(ListOffsetsPartition(0, 5, LATEST))
        self.assertEqual(answer.error_code, ErrorCode.NONE)

    def test_named_twice(self) -> None:
        one, other = ListOffsetsPartition(0, -1, LATEST), ListOffsetsPartition(1, -1, LATEST)
        codes = [answer.error_code for answer in self.ask(one, other, one)]
        self.assertEqual(codes, [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST])


class WorkerTests(ListOffsetsTests):
    """Batches are decoded in worker threads, which the test lets run."""

    def setUp(self) -> None:
        super().setUp()
        self.node.produce("t", 0, 10, 90, 20)
        self.node.produce("t", 0, 80)
        self.node.threads.holding = True

    def begin(self, timestamp: int) -> Any:
        """Return the future answer: error code, offset and timestamp."""
        wanted = ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])
        answer = self.node.send(list_offsets.handle, ListOffsetsRequest(CONSUMER, 0, [wanted]))

        def outcome(response: Any) -> tuple[int, int, int]:
            [found] = response.topics[0].partitions
            return found.error_code, found.offset, found.timestamp

        return answer.addCallback(outcome)

    def test_times_wait_for_a_worker(self) -> None:
        for timestamp in (50, MAX_TIMESTAMP):
            answer = self.begin(timestamp)
            self.assertNoResult(answer)
            self.node.threads.run_one()
            self.assertEqual(self.successResultOf(answer), (0, 1, 90))

    def begin_in_many(self, partitions: int) -> Any:
        """The answer to a question for a time in several partitions of another topic, with a record each."""
        self.node.create("many", partitions)
        for index in range(partitions):
            self.node.produce("many", index, 100 + index)
        wanted = ListOffsetsTopic("many", [ListOffsetsPartition(index, -1, 7) for index in range(partitions)])
        return self.node.send(list_offsets.handle, ListOffsetsRequest(CONSUMER, 0, [wanted]))

    def test_many_partitions_share_a_hop_to_a_worker(self) -> None:
        answer = self.begin_in_many(150)
        hops = 0
        while self.node.threads.held:
            self.node.threads.run_one()
            hops += 1
        self.assertEqual(hops, 2)
        [topic] = self.successResultOf(answer).topics
        found = [(partition.offset, partition.timestamp) for partition in topic.partitions]
        self.assertEqual(found, [(0, 100 + index) for index in range(150)])

    def test_a_search_ends_with_its_connection(self) -> None:
        answer = self.begin_in_many(150)
        answer.cancel()
        self.node.threads.run_one()
        self.assertEqual(self.node.threads.held, [])
        self.failureResultOf(answer, CancelledError)

    def test_a_search_stops_in_the_worker_with_its_connection(self) -> None:
        wanted = ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, 50)])
        context = RequestContext(9)
        services = self.node.services_of(ListOffsetsRequest)
        answer = ensureDeferred(list_offsets.handle(services, context, ListOffsetsRequest(CONSUMER, 0, [wanted])))
        context.caller.leave()
        answer.cancel()
        [(_, call)] = self.node.threads.held
        self.assertEqual(call(), [])
        self.failureResultOf(answer, CancelledError)

    def test_log_ends_and_late_times_need_no_worker(self) -> None:
        self.assertEqual(self.successResultOf(self.begin(LATEST)), (0, 4, -1))
        self.assertEqual(self.successResultOf(self.begin(EARLIEST)), (0, 0, -1))
        self.assertEqual(self.successResultOf(self.begin(91)), (0, -1, -1))

    def test_a_batch_with_deleted_late_records_is_skipped(self) -> None:
        self.log.delete_records_before(2)
        answer = self.begin(50)
        self.node.threads.run_one()
        self.assertNoResult(answer)
        self.node.threads.run_one()
        self.assertEqual(self.successResultOf(answer), (0, 3, 80))

    def test_batches_beyond_the_readable_range_are_not_decoded(self) -> None:
        self.log.delete_records_before(2)
        self.log.high_watermark = 3
        answer = self.begin(50)
        self.node.threads.run_one()
        self.assertEqual(self.successResultOf(answer), (0, -1, -1))
        self.assertEqual(self.node.threads.held, [])

    def test_a_topic_that_is_deleted_meanwhile(self) -> None:
        found, passed = self.begin(50), self.begin(85)
        self.log.delete_records_before(2)
        passed = self.begin(50)
        ensureDeferred(self.node.broker.controller.delete_topic("t"))
        while self.node.threads.held:
            self.node.threads.run_one()
        self.assertEqual(self.successResultOf(found), (0, 1, 90))
        self.assertEqual(self.successResultOf(passed), (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1))

    def test_a_disk_that_fails(self) -> None:
        answer = self.begin(50)
        with broken("pread", self.directories[0], failing(errno.EIO)):
            self.node.threads.run_one()
        self.assertEqual(self.successResultOf(answer), (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1))
        self.assertEqual(self.node.broker.partitions.led, {})


class ColdTests(ListOffsetsTests):
    """Three segments with indexes, of which nothing is in the page cache; only threads may wait for the disk."""

    def setUp(self) -> None:
        super().setUp()
        self.node.create("cold", segment_bytes="6000", index_interval_bytes="100")
        for number in range(150):
            self.node.produce("cold", 0, number + 1000, number + 1000)
        self.assertEqual(len(self.node.broker.partitions.find("cold", 0).log.segments), 3)

    def cold(self, timestamp: int) -> tuple[int, int]:
        self.restart()
        self.node.threads.holding = True
        with PageCache(self.node.broker.partitions.find("cold", 0).log.path) as cache:
            wanted = ListOffsetsTopic("cold", [ListOffsetsPartition(0, -1, timestamp)])
            answer = self.node.send(list_offsets.handle, ListOffsetsRequest(CONSUMER, 0, [wanted]))
            while self.node.threads.held:
                self.assertNoResult(answer)
                cache.in_worker(self.node.threads.run_one)
            self.assertGreater(cache.waits, 2)
            [found] = self.successResultOf(answer).topics[0].partitions
        return found.offset, found.timestamp

    def test_by_time(self) -> None:
        for timestamp in (1000, 1149, 1077, 1100):
            self.assertEqual(self.cold(timestamp), (2 * (timestamp - 1000), timestamp))

    def test_the_largest(self) -> None:
        self.assertEqual(self.cold(MAX_TIMESTAMP), (298, 1149))

    def test_a_file_that_ends_too_early(self) -> None:
        """No endless wait for bytes that no thread can read: the next segment has something younger."""
        self.restart()
        os.truncate(self.node.broker.partitions.find("cold", 0).log.segments[0].path, 3000)
        wanted = ListOffsetsTopic("cold", [ListOffsetsPartition(0, -1, 1060)])
        [topic] = self.node.ask(list_offsets.handle, ListOffsetsRequest(CONSUMER, 0, [wanted])).topics
        [found] = topic.partitions
        self.assertEqual(found.offset, self.node.broker.partitions.find("cold", 0).log.segments[1].base_offset)


class OldTests(ListOffsetsTests):
    """Version 0, over a log of three segments that were written last at the times 100, 200 and 300."""

    def setUp(self) -> None:
        super().setUp()
        for number, timestamps in enumerate(((1, 2), (3,), (4, 5))):
            if number:
                self.log.roll(self.node.broker.runtime.now_ms())
            self.node.produce("t", 0, *timestamps)
        for segment, written in zip(self.log.segments, (100, 200, 300), strict=True):
            os.utime(segment.path, (written, written))

    def offsets(self, timestamp: int, limit: int = 9, **asked: Any) -> list[int]:
        wanted = ListOffsetsPartition(0, timestamp=timestamp, max_num_offsets=limit)
        [answer] = self.ask(wanted, version=0, **asked)
        self.assertEqual(answer.error_code, ErrorCode.NONE)
        return list(answer.old_style_offsets)

    def test_ends(self) -> None:
        self.assertEqual(self.offsets(LATEST), [5, 3, 2, 0])
        self.assertEqual(self.offsets(EARLIEST), [0])

    def test_limits(self) -> None:
        self.assertEqual([self.offsets(LATEST, limit) for limit in (1, 2, 0, -1)], [[5], [5, 3], [], []])

    def test_before_a_time(self) -> None:
        for timestamp, expected in (
            (99_999, []),
            (100_000, [0]),
            (299_000, [2, 0]),
            (300_000, [3, 2, 0]),
            (int(START * 1000), [5, 3, 2, 0]),
        ):
            self.assertEqual(self.offsets(timestamp), expected, timestamp)

    def test_deleted_records(self) -> None:
        self.log.delete_records_before(1)
        self.assertEqual(self.offsets(EARLIEST), [1])

    def test_the_high_watermark_caps_old_style_offsets(self) -> None:
        self.log.high_watermark = 2
        self.assertEqual(self.offsets(LATEST), [2, 2, 0])
        self.assertEqual(self.offsets(LATEST, replica=DEBUGGER), [5, 3, 2, 0])

    def test_an_empty_active_segment(self) -> None:
        self.log.roll(self.node.broker.runtime.now_ms())
        self.assertEqual(self.offsets(LATEST), [5, 3, 2, 0])

    def test_a_directory_that_is_gone(self) -> None:
        self.node.produce("t", 1, 6)
        shutil.rmtree(self.log.path)
        wanted = [ListOffsetsPartition(number, timestamp=LATEST, max_num_offsets=9) for number in (0, 1)]
        answers = self.ask(*wanted, version=0)
        self.assertEqual(
            [(each.error_code, each.old_style_offsets) for each in answers],
            [(ErrorCode.KAFKA_STORAGE_ERROR, []), (ErrorCode.NONE, [1, 0])],
        )
        self.assertEqual(list(self.node.broker.partitions.led), [("t", 1)])

    def test_unknown_partition(self) -> None:
        [answer] = self.ask(ListOffsetsPartition(9, timestamp=LATEST), version=0)
        self.assertEqual((answer.error_code, answer.old_style_offsets), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []))
