"""A partition: its high watermark, what waits for its offsets, the line of costly appends, leader epochs."""

from __future__ import annotations

import errno
import os

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.partitions.delayed_write import ACKS_ALL, ACKS_LEADER, DelayedWrite
from pylogbroker.broker.partitions.high_watermark import HIDDEN_APPENDS_MAX
from pylogbroker.broker.partitions.partition import CONVERT_INLINE_BYTES_MAX, Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Record, build
from pylogbroker.storage import Appended
from tests.broker.failing_disks import broken, failing
from tests.broker.nodes import NodeTests
from tests.storage.support import NOW, batch, messages

LARGE = b"x" * (CONVERT_INLINE_BYTES_MAX + 1)


@attrs.define(eq=False)
class Operation:
    """Remembers how much the partition grew, and its error; complete after `rises`."""

    rises: int = 1000
    grown: list[int] = attrs.field(factory=list)
    error: KafkaError | None = None

    def try_complete(self, size: int) -> bool:
        self.grown.append(size)
        return len(self.grown) >= self.rises

    def fail(self, error: KafkaError) -> None:
        self.error = error


@attrs.define(eq=False)
class Condition:
    """Lets the high watermark rise when the test says so."""

    offset: int = 0


class PartitionTests(NodeTests):
    def watched(self, **overrides: str) -> Partition:
        """A partition whose growth is seen by `self.operation`, and whose threads are held."""
        self.node.create("t", **overrides)
        partition = self.node.broker.partitions.find("t", 0)
        self.operation = Operation()
        partition.purgatory.add(self.operation, Mark.HIGH_WATERMARK, 1)
        return partition


class VisibilityTests(PartitionTests):
    def setUp(self) -> None:
        super().setUp()
        self.threads = self.node.threads

    def watched(self, **overrides: str) -> Partition:
        partition = super().watched(**overrides)
        self.threads.holding = True
        return partition

    def sync_quickly(self, partition: Partition) -> None:
        """Let the thread that syncs see the log as it is now, and say so later."""
        partition.log.sync()
        self.threads.held[0] = self.threads.held[0][0], lambda: None

    def test_appended_records_are_visible(self) -> None:
        partition = self.watched()
        records = batch([b"v"] * 3)
        partition.append(records, NOW)
        self.assertEqual((partition.log.high_watermark, self.operation.grown), (3, [len(records)]))

    def test_records_that_must_be_synced_are_visible_after_the_sync(self) -> None:
        partition = self.watched(flush_messages="1")
        records = batch([b"v"] * 3)
        self.assertTrue(partition.append(records, NOW).must_sync)
        self.assertEqual((partition.log.high_watermark, self.operation.grown), (0, []))
        self.threads.run_one()
        self.assertEqual((partition.log.high_watermark, self.operation.grown), (3, [len(records)]))

    def test_records_appended_during_a_sync_stay_hidden_until_the_next(self) -> None:
        partition = self.watched(flush_messages="1")
        first, second, third = (batch([b"v" * n]) for n in (1, 2, 3))
        partition.append(first, NOW)
        partition.append(second, NOW)
        self.sync_quickly(partition)
        partition.append(third, NOW)
        self.threads.run_one()
        self.assertEqual((partition.log.high_watermark, self.operation.grown), (2, [len(first) + len(second)]))
        self.threads.run_one()
        self.assertEqual((partition.log.high_watermark, self.operation.grown[1:]), (3, [len(third)]))

    def test_syncs_that_never_cease_do_not_keep_anybody_waiting(self) -> None:
        partition = self.watched(flush_messages="1")
        partition.append(batch(), NOW)
        for end in range(1, 50):
            self.sync_quickly(partition)
            partition.append(batch(), NOW)
            self.threads.run_one()
            self.assertEqual((partition.log.high_watermark, len(self.operation.grown)), (end, end))

    def test_a_failed_sync_does_not_hide_later_records(self) -> None:
        partition = self.watched(flush_messages="1")
        partition.append(batch(), NOW)
        with broken("fdatasync", partition.log.path, failing(errno.EMFILE)):
            self.threads.run_one()
        self.assertEqual((partition.log.high_watermark, self.operation.grown), (0, []))
        partition.append(batch(), NOW)
        self.threads.run_one()
        self.assertEqual(partition.log.high_watermark, 2)

    def test_records_are_seen_as_soon_as_few_enough_wait_for_the_disk(self) -> None:
        partition = self.watched(flush_messages="2")
        self.assertFalse(partition.append(batch(), NOW).must_sync)
        self.assertTrue(partition.append(batch(), NOW).must_sync)
        self.assertEqual(partition.log.high_watermark, 1)
        self.sync_quickly(partition)
        self.assertFalse(partition.append(batch(), NOW).must_sync)
        self.assertEqual(partition.log.high_watermark, 3)

    def test_few_sizes_are_kept_while_the_high_watermark_stays(self) -> None:
        """Replicas may be away for days, and records with acks=1 go on."""
        partition = self.watched()
        partition.high_watermark.open_at(0, condition := Condition())
        records = batch([b"v"])
        for _ in range(HIDDEN_APPENDS_MAX + 10):
            partition.append(records, NOW)
        condition.offset = partition.log.log_end_offset
        partition.high_watermark.advance()
        self.assertEqual(partition.log.high_watermark, HIDDEN_APPENDS_MAX + 10)
        self.assertEqual(self.operation.grown, [HIDDEN_APPENDS_MAX * len(records)])

    def test_a_batch_that_is_there_already_completes_nothing(self) -> None:
        partition = self.watched()
        records = batch(producer=(5, 0, 0))
        partition.append(records, NOW)
        self.assertTrue(partition.append(records, NOW).duplicate)
        self.assertEqual((partition.log.high_watermark, self.operation.grown), (1, [len(records)]))

    def test_all_conditions_must_hold(self) -> None:
        @attrs.define
        class InSyncReplicas:
            offset: int = 0

        partition = self.watched(flush_messages="1")
        replicas = InSyncReplicas()
        partition.high_watermark.conditions.append(replicas)
        for _ in range(3):
            partition.append(batch(), NOW)
        self.threads.run_one()
        self.assertEqual(partition.log.high_watermark, 0)
        replicas.offset = 2
        partition.high_watermark.advance()
        self.assertEqual((partition.log.high_watermark, len(self.operation.grown)), (2, 1))
        replicas.offset = 1
        partition.high_watermark.advance()
        self.assertEqual(partition.log.high_watermark, 2)


class PurgatoryTests(PartitionTests):
    def test_each_waits_for_its_own_offset(self) -> None:
        partition = self.watched()
        early, late = Operation(rises=1), Operation(rises=1)
        partition.purgatory.add(early, Mark.LOG_END, 2)
        partition.purgatory.add(late, Mark.HIGH_WATERMARK, 3)
        for complete in ((0, 0), (1, 0), (1, 1), (1, 1)):
            partition.append(batch(), NOW)
            self.assertEqual((len(early.grown), len(late.grown)), complete)
        self.assertEqual(len(partition.purgatory), 1)

    def test_the_log_end_is_reached_before_a_sync(self) -> None:
        self.node.threads.holding = True
        partition = self.watched(flush_messages="1")
        follower = Operation()
        partition.purgatory.add(follower, Mark.LOG_END, 1)
        partition.append(batch(), NOW)
        self.assertEqual((len(follower.grown), len(self.operation.grown)), (1, 0))

    def test_an_operation_may_remove_others(self) -> None:
        partition = self.watched()
        others = [Operation() for _ in range(3)]

        class Removing(Operation):
            def try_complete(self, size: int) -> bool:
                for other in others:
                    partition.purgatory.remove(other, Mark.HIGH_WATERMARK)
                return True

        for operation in (others[0], Removing(), *others[1:]):
            partition.purgatory.add(operation, Mark.HIGH_WATERMARK, 1)
        for _ in range(2):
            partition.append(batch(), NOW)
        self.assertEqual([len(operation.grown) for operation in (self.operation, *others)], [2, 1, 1, 1])

    def test_all_fail_when_the_partition_is_closed(self) -> None:
        partition = self.watched()
        partition.close()
        late = Operation()
        partition.purgatory.add(late, Mark.LOG_END, 1)
        for operation in (self.operation, late):
            self.assertEqual(operation.error and operation.error.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_a_failed_sync_fails_present_and_later_waiters(self) -> None:
        self.node.threads.holding = True
        partition = self.watched(flush_messages="1")
        partition.append(batch(), NOW)
        now, later, behind = Operation(), Operation(), Operation()
        partition.purgatory.add(now, Mark.SYNCED, 1)
        with broken("fdatasync", partition.log.path, failing(errno.EMFILE)):
            self.node.threads.run_one()
        partition.purgatory.add(later, Mark.SYNCED, 1)
        partition.purgatory.add(behind, Mark.SYNCED, 2)
        errors = [operation.error and operation.error.code for operation in (now, later, behind, self.operation)]
        self.assertEqual(errors, [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR, None, None])
        partition.append(batch(), NOW)
        self.node.threads.run_one()
        self.assertEqual((len(behind.grown), partition.log.high_watermark), (1, 2))


class DelayedWriteTests(PartitionTests):
    """Replicas that follow are a condition of the high watermark; no sync is asked for."""

    def setUp(self) -> None:
        super().setUp()
        self.partition = self.watched()
        self.followed = 0
        self.partition.high_watermark.open_at(0, self)
        self.partition.append(batch(), NOW)
        self.errors: list[ErrorCode] = []
        self.write = DelayedWrite(self.node.clock)
        self.calls = self.node.clock.getDelayedCalls()

    @property
    def offset(self) -> int:
        return self.followed

    def follow(self) -> None:
        self.followed = self.partition.log.log_end_offset
        self.partition.high_watermark.advance()

    def wait(self, marks: tuple[Mark, ...]) -> Deferred[None]:
        self.write.add(self.partition, 1, marks, lambda error: self.errors.append(error.code))
        return self.write.wait(timeout_ms=500)

    def test_without_acks_all_the_replicas_are_not_awaited(self) -> None:
        self.successResultOf(self.wait(ACKS_LEADER))

    def test_with_acks_all_the_replicas_are_awaited(self) -> None:
        done = self.wait(ACKS_ALL)
        self.assertNoResult(done)
        self.follow()
        self.successResultOf(done)
        self.assertEqual((self.errors, self.node.clock.getDelayedCalls()), ([], self.calls))

    def test_a_delayed_write_can_time_out(self) -> None:
        done = self.wait(ACKS_ALL)
        self.node.clock.advance(0.5)
        self.successResultOf(done)
        self.assertEqual(self.errors, [ErrorCode.REQUEST_TIMED_OUT])
        self.follow()
        self.assertEqual(len(self.errors), 1)

    def test_a_closed_partition_fails_the_write(self) -> None:
        done = self.wait(ACKS_ALL)
        self.partition.close()
        self.successResultOf(done)
        self.assertEqual(self.errors, [ErrorCode.NOT_LEADER_OR_FOLLOWER])

    def test_a_sync_is_awaited_however_long_it_takes(self) -> None:
        self.node.threads.holding = True
        self.partition.log.config = attrs.evolve(self.partition.log.config, flush_messages=1)
        self.partition.append(batch(), NOW)
        done = self.wait(ACKS_ALL)
        self.node.clock.advance(1)
        self.assertNoResult(done)
        self.node.threads.run_one()
        self.successResultOf(done)
        self.assertEqual(self.errors, [ErrorCode.REQUEST_TIMED_OUT])


class LineTests(PartitionTests):
    def append(self, partition: Partition, records: bytes) -> Deferred[Appended]:
        return Deferred.fromCoroutine(partition.append_queued(records, NOW, self.node.threads))

    def test_costly_appends_are_queued(self) -> None:
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

    def test_large_appends_without_conversion_are_not_queued(self) -> None:
        partition = self.watched()
        self.assertIsNotNone(partition.append_now(batch([LARGE] * 20), NOW))

    def test_batches_of_many_small_records_are_queued(self) -> None:
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

    def test_appends_behind_a_queued_append_are_queued(self) -> None:
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

    def test_a_failed_append_leaves_the_queue(self) -> None:
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
