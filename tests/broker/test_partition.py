"""A partition: what consumers may see and when they are told, the line of costly appends, leader epochs."""

from __future__ import annotations

import os

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.partitions.partition import CONVERT_INLINE_BYTES_MAX, Partition
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Record, build
from pylogbroker.storage import Appended
from tests.broker.nodes import NodeTests
from tests.storage.support import NOW, batch, messages

LARGE = b"x" * (CONVERT_INLINE_BYTES_MAX + 1)


@attrs.define(eq=False)
class PartitionWatcher:
    """Remembers what it is told."""

    told: list[int | str] = attrs.field(factory=list)

    def on_growth(self, size: int) -> None:
        self.told.append(size)

    def on_closed(self) -> None:
        self.told.append("gone")


class PartitionTests(NodeTests):
    def watched(self, **overrides: str) -> Partition:
        self.node.create("t", **overrides)
        partition = self.node.broker.partitions.find("t", 0)
        self.watcher = PartitionWatcher()
        partition.watchers.add(self.watcher)
        return partition


class VisibilityTests(PartitionTests):
    def test_what_is_written_is_seen(self) -> None:
        partition = self.watched()
        records = batch([b"v"] * 3)
        partition.append(records, NOW)
        self.assertEqual((partition.log.high_watermark, self.watcher.told), (3, [len(records)]))

    def test_what_is_to_be_synced_is_seen_after_that(self) -> None:
        partition = self.watched(flush_messages="1")
        records = batch([b"v"] * 3)
        self.assertTrue(partition.append(records, NOW).must_sync)
        self.assertEqual((partition.log.high_watermark, self.watcher.told), (0, []))
        partition.log.sync()
        partition.synced()
        self.assertEqual((partition.log.high_watermark, self.watcher.told), (3, [len(records)]))

    def test_what_came_during_a_sync_stays_hidden_until_the_next(self) -> None:
        partition = self.watched(flush_messages="1")
        first, second, third = (batch([b"v" * n]) for n in (1, 2, 3))
        partition.append(first, NOW)
        partition.append(second, NOW)
        partition.log.sync()
        partition.append(third, NOW)
        partition.synced()
        self.assertEqual((partition.log.high_watermark, self.watcher.told), (2, [len(first) + len(second)]))
        partition.synced()
        self.assertEqual(partition.log.high_watermark, 2)
        partition.log.sync()
        partition.synced()
        self.assertEqual(partition.log.high_watermark, 3)
        self.assertEqual(self.watcher.told[1:], [len(third)])

    def test_syncs_that_never_cease_do_not_keep_anybody_waiting(self) -> None:
        partition = self.watched(flush_messages="1")
        partition.append(batch(), NOW)
        for end in range(1, 50):
            partition.log.sync()
            partition.append(batch(), NOW)
            partition.synced()
            self.assertEqual((partition.log.high_watermark, len(self.watcher.told)), (end, end))

    def test_a_sync_that_failed_does_not_hide_what_comes_later(self) -> None:
        partition = self.watched(flush_messages="1")
        partition.append(batch(), NOW)
        partition.sync_failed()
        self.assertEqual((partition.log.high_watermark, self.watcher.told), (0, []))
        partition.append(batch(), NOW)
        partition.log.sync()
        partition.synced()
        self.assertEqual(partition.log.high_watermark, 2)

    def test_an_append_without_a_sync_does_not_show_those_with_one(self) -> None:
        partition = self.watched(flush_messages="2")
        self.assertFalse(partition.append(batch(), NOW).must_sync)
        self.assertTrue(partition.append(batch(), NOW).must_sync)
        partition.log.sync()
        self.assertFalse(partition.append(batch(), NOW).must_sync)
        self.assertEqual(partition.log.high_watermark, 1)
        partition.synced()
        self.assertEqual(partition.log.high_watermark, 3)

    def test_a_batch_that_is_there_already_tells_nobody(self) -> None:
        partition = self.watched()
        records = batch(producer=(5, 0, 0))
        partition.append(records, NOW)
        self.assertTrue(partition.append(records, NOW).duplicate)
        self.assertEqual((partition.log.high_watermark, self.watcher.told), (1, [len(records)]))

    def test_who_is_told_may_leave(self) -> None:
        partition = self.watched()
        others = [PartitionWatcher() for _ in range(3)]
        partition.watchers.update(others)

        class Leaving(PartitionWatcher):
            def on_growth(self, size: int) -> None:
                partition.watchers.clear()

        partition.watchers.add(Leaving())
        partition.append(batch(), NOW)
        self.assertEqual([len(watcher.told) for watcher in (self.watcher, *others)], [1] * 4)
        self.assertEqual(partition.watchers, set())

    def test_who_waits_is_told_of_the_end(self) -> None:
        self.watched().close()
        self.assertEqual(self.watcher.told, ["gone"])


class LineTests(PartitionTests):
    def append(self, partition: Partition, records: bytes) -> Deferred[Appended]:
        return Deferred.fromCoroutine(partition.append_queued(records, NOW, self.node.threads))

    def test_what_lines_up(self) -> None:
        self.node.threads.holding = True
        partition = self.watched(compression_type="lz4")
        for records, lines_up in (
            (batch([b"small"]), False),
            (batch([LARGE]), True),
            (batch([LARGE[:-1000]]), False),
            (messages([LARGE], 1), True),
            (batch([LARGE] * 10, codec=3), False),
            (batch([LARGE] * 20, codec=3), True),
            (batch([os.urandom(len(LARGE))], codec=3), True),
        ):
            end = partition.log.log_end_offset
            self.assertEqual(partition.append_now(records, NOW) is None, lines_up, len(records))
            self.assertEqual(partition.log.log_end_offset > end, not lines_up)

    def test_what_nothing_is_to_be_done_with_need_not_line_up(self) -> None:
        partition = self.watched()
        self.assertIsNotNone(partition.append_now(batch([LARGE] * 20), NOW))

    def test_many_small_records_do(self) -> None:
        partition = self.watched()
        records = batch([b""] * 30_000)
        self.assertIsNone(partition.append_now(records, NOW))
        self.assertEqual(self.successResultOf(self.append(partition, records)).count, 30_000)

    def test_compressed_records_are_appended_as_they_came(self) -> None:
        partition = self.watched()
        records = batch([LARGE] * 20, codec=4)
        self.assertIsNone(partition.append_now(records, NOW))
        self.successResultOf(self.append(partition, records))
        with open(partition.log.segments[0].path, "rb") as segment:
            stored = segment.read()
        self.assertEqual(stored[16:], records[16:])

    def test_while_somebody_stands_in_line_all_do(self) -> None:
        self.node.threads.holding = True
        partition = self.watched(compression_type="lz4")
        first = self.append(partition, batch([LARGE]))
        self.assertIsNone(partition.append_now(batch([b"small"]), NOW))
        second = self.append(partition, batch([b"small"]))
        self.node.threads.run_one()
        self.assertEqual(self.successResultOf(first).base_offset, 0)
        self.assertIsNone(partition.append_now(batch([b"small"]), NOW))
        self.node.threads.run_one()
        self.assertEqual(self.successResultOf(second).base_offset, 1)
        self.assertIsNotNone(partition.append_now(batch([b"small"]), NOW))

    def test_what_fails_in_the_thread_leaves_the_line(self) -> None:
        partition = self.watched(cleanup_policy="compact")
        self.failureResultOf(self.append(partition, batch([LARGE])), KafkaError)
        self.assertEqual(partition.log.log_end_offset, 0)
        keyed = build([Record(0, NOW, b"key", b"small")])
        self.assertIsNotNone(partition.append_now(keyed, NOW))


class EpochTests(PartitionTests):
    def test_epochs(self) -> None:
        partition = self.watched()
        partition.leader_epoch = 3
        for epoch in (3, -1):
            partition.check_epoch(epoch)
        for epoch, code in (
            (0, ErrorCode.FENCED_LEADER_EPOCH),
            (2, ErrorCode.FENCED_LEADER_EPOCH),
            (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            with self.assertRaises(KafkaError) as caught:
                partition.check_epoch(epoch)
            self.assertIs(caught.exception.code, code)

    def test_batches_carry_the_leaders_epoch(self) -> None:
        partition = self.watched()
        for epoch in (0, 4):
            partition.leader_epoch = epoch
            partition.append(batch(), NOW)
        self.assertEqual(partition.log.end_offset_for_epoch(0), (0, 1))
        self.assertEqual(partition.log.end_offset_for_epoch(4), (4, 2))
