"""Log maintenance: each job at its time, on real logs, with a clock that the tests advance."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from pylogbroker.broker.apis import find_coordinator, offset_fetch, produce
from pylogbroker.broker.jobs import log_maintenance
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.errors import ErrorCode, StorageFailure
from pylogbroker.metadata.image import topic_resource
from pylogbroker.records import Codec, Record
from pylogbroker.storage import Log
from pylogbroker.storage.log.retention import expire
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.failing_disks import SYNC_CALL, broken, failing
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import START, NodeTests
from tests.broker.trees import now
from tests.records.reference_codecs import PEERS
from tests.storage.support import batch, records_in

NOW = int(START * 1000)
DAY = 24 * 3600.0


class HousekeepingTests(NodeTests):
    def partition(self, topic: str = "t", index: int = 0) -> Partition:
        return self.node.broker.partitions.find(topic, index)

    def log(self, topic: str = "t", index: int = 0) -> Log:
        return self.partition(topic, index).log

    def files(self, suffix: str, topic: str = "t") -> list[int]:
        """The base offsets of a topic's files of one kind."""
        return sorted(int(path.name[:20]) for path in Path(self.log(topic).path).glob(f"*{suffix}"))

    def record(self, age_ms: int = 0, value: bytes = b"v") -> bytes:
        """A batch of one record whose timestamp is so old."""
        timestamp = self.node.broker.runtime.now_ms() - age_ms
        return PEERS[0].write([Record(0, timestamp, b"key", value)], 2, Codec.NONE)

    def put(self, age_ms: int = 0, topic: str = "t", value: bytes = b"v") -> None:
        """Append such a batch."""
        self.partition(topic).append(self.record(age_ms, value), self.node.broker.runtime.now_ms())

    def put_apart(self, *ages_ms: int, topic: str = "t", value: bytes = b"v") -> None:
        """Fill a log with a segment for each record; the last one is the active segment."""
        for number, age_ms in enumerate(ages_ms):
            if number:
                self.log(topic).roll(self.node.broker.runtime.now_ms())
            self.put(age_ms, topic, value)

    def code(self, records: bytes, topic: str = "t", index: int = 0) -> int:
        """The error code of producing."""
        wanted = [TopicProduceData(topic, [PartitionProduceData(index, records)])]
        [answer] = self.node.ask(produce.handle, ProduceRequest(None, 1, 1000, wanted)).responses
        return int(answer.partition_responses[0].error_code)


class RetentionTests(HousekeepingTests):
    settings = {"log.retention.check.interval.ms": "10000", "log.segment.delete.delay.ms": "3000"}

    def check(self) -> None:
        self.node.clock.advance(10)

    def test_segments_with_only_old_records_are_deleted(self) -> None:
        self.node.create("t", retention_ms="60000")
        self.put_apart(61_000, 60_001, 45_000, 0)
        self.assertEqual(self.files(".kafka"), [0, 1, 2, 3])
        self.node.clock.advance(9.999)
        self.assertEqual(self.log().log_start_offset, 0)
        self.node.clock.advance(0.001)
        self.assertEqual(self.log().log_start_offset, 2)
        self.assertEqual(self.files(".kafka"), [2, 3])
        self.check()
        self.assertEqual(self.log().log_start_offset, 3)

    def test_files_stay_for_a_while(self) -> None:
        self.node.create("t", retention_ms="60000")
        self.put_apart(70_000, 0)
        region = self.log().read(0, 100, upto=1)
        assert region is not None
        self.check()
        self.assertEqual((self.files(".kafka"), self.files(".kafka.deleted")), ([1], [0]))
        self.node.clock.advance(2.999)
        self.assertEqual(self.files(".kafka.deleted"), [0])
        self.node.clock.advance(0.001)
        self.assertEqual(self.files(".deleted"), [])
        self.assertEqual(records_in(region.read()), [(0, b"v")])  # who was reading reads on

    def test_files_are_unlinked_by_a_thread(self) -> None:
        self.node.create("t", retention_ms="60000")
        self.put_apart(70_000, 0)
        self.check()
        self.node.threads.holding = True
        self.node.clock.advance(3)
        self.assertEqual(self.files(".kafka.deleted"), [0])
        while self.node.threads.held:
            self.node.threads.run_one()
        self.assertEqual(self.files(".deleted"), [])

    def test_deleted_files_left_by_a_stop_are_removed_at_the_next_start(self) -> None:
        self.node.create("t", retention_ms="60000")
        self.put_apart(70_000, 0)
        self.check()
        self.restart()
        self.assertEqual((self.files(".deleted"), self.files(".kafka")), ([], [1]))
        self.assertEqual(self.log().log_start_offset, 1)

    def test_by_size(self) -> None:
        size = len(self.record(value=b"v" * 100))
        self.node.create("t", retention_bytes=str(2 * size))
        self.put_apart(0, 0, 0, 0, value=b"v" * 100)
        self.check()
        self.assertEqual((self.files(".kafka"), self.log().log_start_offset), ([2, 3], 2))

    def test_all_segments_are_deleted(self) -> None:
        self.node.create("t", retention_ms="60000")
        self.put_apart(70_000, 70_000)
        self.check()
        self.assertEqual((self.log().log_start_offset, self.log().log_end_offset), (2, 2))
        self.assertEqual(self.files(".kafka"), [2])
        self.put()
        self.assertEqual(self.log().log_end_offset, 3)

    def test_infinite_retention_and_compact_only_delete_nothing(self) -> None:
        self.node.create("t", retention_ms="-1")
        self.node.create("compact", cleanup_policy="compact", retention_ms="1")
        for topic in ("t", "compact"):
            self.put_apart(70_000, 70_000, topic=topic)
        self.check()
        self.assertEqual([len(self.files(".kafka", topic)) for topic in ("t", "compact")], [2, 2])

    def test_segments_above_the_high_watermark_are_kept(self) -> None:
        self.node.create("t", retention_ms="60000")
        self.put_apart(70_000, 70_000, 0)
        self.log().high_watermark = 1
        self.node.broker.partitions.find("t", 0).high_watermark.conditions.append(SimpleNamespace(offset=1))
        self.check()
        self.assertEqual(self.files(".kafka"), [1, 2])

    def test_records_that_were_deleted_by_request(self) -> None:
        self.node.create("t", retention_ms="-1")
        self.put_apart(0, 0, 0)
        self.log().delete_records_before(2)
        self.assertEqual(self.files(".kafka"), [0, 1, 2])
        self.check()
        self.assertEqual(self.files(".kafka"), [2])

    def test_a_changed_setting_counts_from_the_next_check_on(self) -> None:
        self.node.create("t", retention_ms="-1")
        self.put_apart(70_000, 0)
        self.check()
        self.assertEqual(self.log().log_start_offset, 0)
        change = self.node.broker.controller.alter_config(
            topic_resource("t"), lambda settings: {"retention.ms": "60000"}
        )
        now(change)
        self.check()
        self.assertEqual(self.log().log_start_offset, 1)

    def test_a_topic_that_is_deleted_before_its_files_are(self) -> None:
        self.node.create("t", retention_ms="60000")
        self.put_apart(70_000, 0)
        path = self.log().path
        self.check()
        now(self.node.broker.controller.delete_topic("t"))
        self.node.clock.advance(3)
        self.assertFalse(os.path.exists(path))
        self.assertEqual(self.flushLoggedErrors(), [])


class FailingRetentionTests(HousekeepingTests):
    directory_count = 2
    settings = {"log.retention.check.interval.ms": "10000"}

    def test_a_disk_that_fails_takes_its_partitions_along(self) -> None:
        self.node.create("t", 2, retention_ms="60000")
        self.put_apart(70_000, 0)
        partition = self.partition(index=1)
        partition.append(batch([b"v"], [NOW - 70_000]), NOW)
        inside = self.log().path

        real = os.rename

        def fails(old: str, new: str) -> None:
            if old.startswith(inside):
                raise OSError(errno.EIO, "gone")
            real(old, new)

        with patch.object(os, "rename", fails):
            self.node.clock.advance(10)
        self.assertEqual(self.code(batch()), ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.code(batch(), index=1), 0)
        self.assertEqual(partition.log.log_start_offset, 1)


class SyncTests(HousekeepingTests):
    directory_count = 2
    settings = {"replica.high.watermark.checkpoint.interval.ms": "3600000"}

    def setUp(self) -> None:
        super().setUp()
        self.synced: list[str] = []
        real = getattr(os, SYNC_CALL)

        def counting(fd: int) -> None:
            name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
            if name.endswith(".kafka"):
                self.synced.append(name)
            real(fd)

        patcher = patch.object(os, SYNC_CALL, counting)
        patcher.start()
        self.addCleanup(patcher.stop)

    def test_a_log_is_synced_when_flush_ms_is_over(self) -> None:
        self.node.create("t", flush_ms="5000")
        self.put()
        self.node.clock.pump([1.0] * 4)
        self.assertEqual((self.synced, self.log().recovery_point), ([], 0))
        self.node.clock.advance(1)
        self.assertEqual((self.synced, self.log().recovery_point), (["00000000000000000000.kafka"], 1))
        self.node.clock.pump([1.0] * 10)
        self.assertEqual(len(self.synced), 1)  # nothing new
        self.put()
        self.node.clock.pump([1.0] * 6)
        self.assertEqual((len(self.synced), self.log().recovery_point), (2, 2))

    def test_records_with_a_failed_sync_are_visible_after_the_next_sync(self) -> None:
        self.node.create("t", flush_ms="5000", flush_messages="1")
        partition = self.node.broker.partitions.find("t", 0)
        with broken("fdatasync", self.log().path, failing(errno.EMFILE)):
            partition.append(batch(), self.node.broker.runtime.now_ms())
        self.assertEqual((self.log().log_end_offset, self.log().high_watermark), (1, 0))
        self.node.clock.pump([1.0] * 6)
        self.assertEqual(self.log().high_watermark, 1)

    def test_without_flush_settings_nothing_is_synced(self) -> None:
        self.node.create("t")
        self.put()
        self.node.clock.pump([1.0] * 100)
        self.assertEqual((self.synced, self.log().recovery_point), ([], 0))

    def test_sealed_segments(self) -> None:
        self.node.create("t")
        self.put_apart(0, 0, 0)
        self.node.clock.advance(1)
        self.assertEqual(sorted(self.synced), ["00000000000000000000.kafka", "00000000000000000001.kafka"])
        self.assertEqual(self.log().recovery_point, 2)

    def test_each_log_has_one_sync_at_a_time(self) -> None:
        self.node.create("t", 2, flush_ms="1000")
        self.node.threads.holding = True
        self.put()
        self.node.clock.pump([1.0] * 5)
        self.assertEqual(len(self.node.threads.held), 1)
        self.partition(index=1).append(batch(), NOW)
        self.node.clock.pump([1.0] * 5)
        self.assertEqual(len(self.node.threads.held), 2)
        self.node.threads.run_one()
        self.node.threads.run_one()
        self.assertEqual([self.log(index=index).recovery_point for index in (0, 1)], [1, 1])
        self.put()
        self.node.clock.pump([1.0] * 5)
        self.assertEqual(len(self.node.threads.held), 1)

    def test_a_disk_that_fails_takes_its_partitions_along(self) -> None:
        self.node.create("t", 2, flush_ms="1000")
        log = self.log()
        self.put()
        self.partition(index=1).append(batch(), NOW)
        with broken("fdatasync", log.path, failing(errno.EIO)):
            self.node.clock.pump([1.0] * 3)
        self.assertNotIn(("t", 0), self.node.broker.partitions.led)
        self.assertEqual(self.code(batch()), ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.code(batch(), index=1), 0)
        self.assertEqual(self.log(index=1).recovery_point, 1)

    def test_a_disk_that_stays_full_is_logged_once_a_minute(self) -> None:
        self.node.create("t", 6, flush_ms="1000")  # three in each directory
        for index in range(6):
            self.partition(index=index).append(batch(), NOW)
        full = patch.object(Log, "sync", side_effect=StorageFailure("No space left on device"))
        with full, logged_lines() as lines:
            self.node.clock.pump([1.0] * 50)
            self.assertEqual(len([line for line in lines if "No space left" in line]), 2, lines)
            self.node.clock.pump([1.0] * 20)
        self.assertEqual(len([line for line in lines if "No space left" in line]), 4, lines)
        self.node.clock.pump([1.0] * 2)
        self.assertEqual([self.log(index=index).recovery_point for index in range(6)], [1] * 6)


class SyncIntervalTests(HousekeepingTests):
    settings = {"log.flush.scheduler.interval.ms": "100"}

    def test_the_brokers_interval_is_that_of_topics_too(self) -> None:
        self.node.create("t")
        self.node.create("slow", flush_ms="1000")
        self.put()
        self.put(topic="slow")
        self.node.clock.advance(0.1)
        self.assertEqual([self.log(topic).recovery_point for topic in ("t", "slow")], [1, 0])


class CheckpointTests(HousekeepingTests):
    settings = {
        "log.flush.offset.checkpoint.interval.ms": "20000",
        "replica.high.watermark.checkpoint.interval.ms": "7000",
        "log.retention.check.interval.ms": "3600000",
    }

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        for _ in range(3):
            self.put()
        self.log().delete_records_before(2)
        self.log().sync()

    def kept(self, name: str) -> dict[str, int] | None:
        """Return the content of a checkpoint file in Kafka's layout."""
        try:
            text = Path(self.directories[0], name).read_text()
        except FileNotFoundError:
            return None
        version, count, *lines = text.splitlines()
        self.assertEqual((version, int(count)), ("0", len(lines)))
        fields = [line.rsplit(" ", 1) for line in lines]
        return {partition: int(offset) for partition, offset in fields}

    def test_recovery_points_and_log_starts(self) -> None:
        self.node.clock.advance(19.999)
        self.assertIsNone(self.kept("recovery-point-offset-checkpoint"))
        self.assertIsNone(self.kept("log-start-offset-checkpoint"))
        self.node.clock.advance(0.001)
        self.assertEqual(self.kept("recovery-point-offset-checkpoint"), {"t 0": 3, "t 1": 0})
        self.assertEqual(self.kept("log-start-offset-checkpoint"), {"t 0": 2})

    def test_high_watermarks(self) -> None:
        self.node.clock.advance(6.999)
        self.assertIsNone(self.kept("replication-offset-checkpoint"))
        self.node.clock.advance(0.001)
        self.assertEqual(self.kept("replication-offset-checkpoint"), {"t 0": 3, "t 1": 0})
        self.put()
        self.node.clock.advance(7)
        self.assertEqual(self.kept("replication-offset-checkpoint"), {"t 0": 4, "t 1": 0})

    def test_checkpoints_are_written_by_a_thread(self) -> None:
        self.node.threads.holding = True
        self.node.clock.advance(7)
        self.assertIsNone(self.kept("replication-offset-checkpoint"))
        self.node.threads.run_one()
        self.assertEqual(self.kept("replication-offset-checkpoint"), {"t 0": 3, "t 1": 0})

    def test_a_disk_that_fails_takes_its_partitions_along(self) -> None:
        with broken("pwritev", self.directories[0], failing(errno.EIO)):
            self.node.clock.advance(7)
        self.assertEqual(self.code(batch()), ErrorCode.KAFKA_STORAGE_ERROR)

    def test_checkpoints_are_retried_on_a_full_disk(self) -> None:
        with broken("pwritev", self.directories[0], failing(errno.ENOSPC)):
            self.node.clock.advance(7)
        self.assertIsNone(self.kept("replication-offset-checkpoint"))
        self.assertEqual(self.code(batch()), 0)
        self.node.clock.advance(7)
        self.assertEqual(self.kept("replication-offset-checkpoint"), {"t 0": 4, "t 1": 0})

    def test_a_disk_that_stays_full_is_logged_once_a_minute(self) -> None:
        with broken("pwritev", self.directories[0], failing(errno.ENOSPC)), logged_lines() as lines:
            self.node.clock.pump([7.0] * 8)
            self.assertEqual(len([line for line in lines if "replication-offset-checkpoint" in line]), 1)
            self.node.clock.pump([7.0] * 2)
        self.assertEqual(len([line for line in lines if "replication-offset-checkpoint" in line]), 2)


class DirectoryTests(HousekeepingTests):
    directory_count = 2

    def place(self, index: int) -> str:
        """The log directory of a partition, whose files are open."""
        self.assertEqual(self.code(batch(), index=index), 0)
        return os.path.dirname(self.log(index=index).path)

    def check(self, index: int) -> None:
        """The partition is gone within a second, and the other one goes on."""
        self.assertEqual(self.code(batch(), index=index), 0)
        with logged_lines() as lines:
            self.node.clock.advance(1)
        self.assertEqual(self.code(batch(), index=index), ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.code(batch(), index=1 - index), 0)
        self.assertEqual([line.partition(" is offline: ")[0] for line in lines], [f"t-{index}"])

    def test_a_moved_directory_fails(self) -> None:
        self.node.create("t", 2)
        place = self.place(0)
        os.rename(place, f"{place}.moved")
        self.addCleanup(os.rename, f"{place}.moved", place)
        self.check(0)

    def test_a_replaced_directory_fails(self) -> None:
        self.node.create("t", 2)
        place = self.place(1)
        os.rename(place, f"{place}.moved")
        self.addCleanup(shutil.rmtree, f"{place}.moved")
        os.makedirs(f"{place}/t_1")
        self.check(1)


class ProducerTests(HousekeepingTests):
    settings = {"producer.id.expiration.ms": "60000", "producer.id.expiration.check.interval.ms": "10000"}

    def numbered(self, sequence: int) -> bytes:
        return batch([b"v"], [self.node.broker.runtime.now_ms()], producer=(5, 0, sequence))

    def test_an_idle_producer_is_forgotten(self) -> None:
        self.node.create("t")
        self.assertEqual(self.code(self.numbered(0)), 0)
        self.assertEqual(self.code(self.numbered(9)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.node.clock.pump([10.0] * 5)
        self.assertEqual(self.code(self.numbered(9)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.node.clock.advance(10)
        self.assertEqual(self.code(self.numbered(9)), 0)

    def test_an_active_producer_is_remembered(self) -> None:
        self.node.create("t")
        for sequence in range(20):
            self.assertEqual(self.code(self.numbered(sequence)), 0)
            self.node.clock.advance(10)
        self.assertEqual(self.code(self.numbered(99)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


class MissingLogTests(HousekeepingTests):
    """Logs that could not be made at once."""

    settings = {"offsets.topic.num.partitions": "1"}

    def full(self) -> Any:
        return patch.object(os, "makedirs", side_effect=OSError(errno.ENOSPC, "No space left on device"))

    def test_missing_logs_are_created_when_there_is_space_again(self) -> None:
        with self.full(), logged_lines() as lines:
            self.node.create("t", 3)
            self.assertTrue(any("t-0" in line and "No space left on device" in line for line in lines), lines)
            self.assertEqual(self.code(self.record()), ErrorCode.KAFKA_STORAGE_ERROR)
            self.node.clock.advance(10)
        with logged_lines() as lines:
            self.node.clock.advance(10)
        self.assertEqual(lines, [f"t-{index} is online now" for index in (1, 2, 0)])
        self.assertEqual([self.code(self.record(), index=index) for index in range(3)], [0, 0, 0])
        self.restart()
        self.assertEqual([self.log("t", index).log_end_offset for index in range(3)], [1, 1, 1])

    def test_a_log_that_keeps_failing_blocks_no_others(self) -> None:
        with self.full():
            for topic in ("a", "b", "c"):
                self.node.create(topic)
        real = os.makedirs

        def perhaps(path: str, **options: Any) -> None:
            if os.path.basename(path).startswith("a_"):
                raise OSError(errno.ENOSPC, "No space left on device")
            real(path, **options)

        with patch.object(os, "makedirs", perhaps), logged_lines() as lines:
            for _ in range(3):
                self.node.clock.advance(10)
        self.assertEqual(set(self.node.broker.partitions.led), {("b", 0), ("c", 0)})
        self.assertEqual(len([line for line in lines if "a-0" in line]), 3)

    def test_groups_of_a_missing_log_are_served_once_it_is_created(self) -> None:
        with self.full():
            self.node.ask(find_coordinator.handle, FindCoordinatorRequest(coordinator_keys=["g"]))
        self.assertEqual(self.group_error(), ErrorCode.NOT_COORDINATOR)
        self.node.clock.advance(10)
        self.assertEqual(self.group_error(), ErrorCode.NONE)

    def group_error(self) -> ErrorCode:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
        return ErrorCode(self.node.ask(offset_fetch.handle, request).groups[0].error_code)


class MissingDirectoryTests(HousekeepingTests):
    directory_count = 2

    def test_logs_of_a_failed_directory_are_not_recreated(self) -> None:
        self.node.create("t", 2)
        bad, kept = (os.path.dirname(self.log("t", index).path) for index in (0, 1))
        self.node.broker.partitions.directory_failed(bad, "it burns")
        with logged_lines() as lines:
            self.node.clock.advance(30)
        self.assertEqual(set(self.node.broker.partitions.led), {("t", 1)})
        self.assertEqual(lines, [])
        self.assertEqual(os.path.exists(os.path.join(kept, "t_0")), False)

    def test_logs_of_a_directory_missing_at_the_start_are_not_recreated(self) -> None:
        self.node.create("t", 2)
        away = self.directories[1]
        [index] = [n for n in (0, 1) if os.path.dirname(self.log("t", n).path) == away]
        real = os.scandir

        def scandir(path: Any) -> Any:
            if path == away:
                raise OSError(errno.EIO, "Input/output error", path)
            return real(path)

        with patch.object(os, "scandir", scandir):
            self.restart()
        with logged_lines() as lines:
            self.node.clock.advance(30)
        self.assertEqual(set(self.node.broker.partitions.led), {("t", 1 - index)})
        self.assertEqual(lines, [])


class RunningTests(HousekeepingTests):
    settings = {"log.retention.check.interval.ms": "10000"}

    def test_a_job_that_breaks_is_run_again(self) -> None:
        self.node.create("t", retention_ms="60000")
        self.put_apart(70_000, 0)

        def breaks(*arguments: Any) -> None:
            raise RuntimeError("a defect")

        with patch.object(log_maintenance, "expire", breaks):
            self.node.clock.advance(10)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.node.clock.advance(10)
        self.assertEqual(self.log().log_start_offset, 1)

    def test_a_log_that_breaks_does_not_stop_others(self) -> None:
        self.node.create("broken")
        self.node.create("t", retention_ms="60000")
        self.put_apart(70_000, 0)
        broken_log = self.log("broken")

        def breaks(log: Log, now_ms: int, policies: Any) -> Any:
            if log is broken_log:
                raise RuntimeError("a defect")
            return expire(log, now_ms, policies)

        with patch.object(log_maintenance, "expire", breaks):
            self.node.clock.advance(10)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual(self.log().log_start_offset, 1)

    def test_a_round_gives_way_and_the_next_one_waits_for_it(self) -> None:
        self.node.create("t", retention_ms="60000")
        self.put_apart(*range(70_000, 64_000, -1000), 0)
        self.node.broker.runtime.slices.seconds = 0
        began: list[Log] = []

        def counted(log: Log, now_ms: int, policies: Any) -> Any:
            began.append(log)
            return expire(log, now_ms, policies)

        retention = self.node.broker.log_maintenance._loops[0]
        with patch.object(log_maintenance, "expire", counted):
            retention.f(*retention.a)
            retention.f(*retention.a)
            self.assertEqual((len(began), self.log().log_start_offset), (1, 0))
            self.node.clock.advance(0)
            self.assertEqual((len(began), self.log().log_start_offset), (1, 6))
            retention.f(*retention.a)
            self.assertEqual(len(began), 2)

    def test_a_topic_may_be_deleted_in_the_middle_of_a_round(self) -> None:
        for topic in ("t", "u"):
            self.node.create(topic, retention_ms="60000")
            self.put_apart(70_000, 0, topic=topic)
        names = ["t", "u"]

        def deleting(log: Log, now_ms: int, policies: Any) -> Any:
            names.remove(log.topic)
            now(self.node.broker.controller.delete_topic(names[0]))
            return expire(log, now_ms, policies)

        with patch.object(log_maintenance, "expire", deleting):
            self.node.clock.advance(10)
        self.assertEqual(len(names), 1)
        self.assertEqual(self.flushLoggedErrors(), [])
        [kept] = {"t", "u"} - set(names)
        self.assertEqual(self.log(kept).log_start_offset, 1)

    def test_a_broker_that_stopped_does_nothing_more(self) -> None:
        self.node.create("t", retention_ms="60000")
        self.put_apart(70_000, 0)
        self.node.broker.log_maintenance.stop()
        self.node.clock.advance(3 * DAY)
        self.assertEqual(self.log().log_start_offset, 0)

    def test_a_clock_that_jumps_runs_each_job_once(self) -> None:
        with patch.object(type(self.node.broker.log_maintenance), "expire") as expire:
            self.node.broker.log_maintenance.stop()
            self.node.broker.log_maintenance.start()
            self.node.clock.advance(DAY)
            self.assertEqual(expire.call_count, 1)
