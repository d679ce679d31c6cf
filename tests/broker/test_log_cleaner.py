"""The service that compacts logs: when, which, by how many, and what becomes of it when something comes between."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any
from unittest.mock import patch

import attrs

from pylogbroker.broker.apis import find_coordinator, offset_commit, offset_fetch
from pylogbroker.config import ConfigSource
from pylogbroker.errors import CorruptRecords
from pylogbroker.metadata.image import broker_resource, topic_resource
from pylogbroker.storage import Log
from pylogbroker.storage.compaction.cleaner import clean
from pylogbroker.storage.compaction.jobs import NO_LIMIT, Cleaned, CleanerJob, Failed
from pylogbroker.storage.compaction.process import CleanerDied, CleanerProcess
from pylogbroker.storage.log.retention import expire
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NodeTests
from tests.broker.trees import now
from tests.storage.compaction.support import Found, each_cleaner, keyed, latest, read_from, reads
from tests.storage.support import offset_for_timestamp
from tests.support.waiting import wait_until


@attrs.define(eq=False)
class InProcess:
    """A cleaner without a process; `before` is called with each job, and may raise, or say what became of it."""

    before: Callable[[CleanerJob], Cleaned | Failed | None] = lambda job: None
    jobs: list[CleanerJob] = attrs.field(factory=list)
    aborted: int = 0
    closed: int = 0

    def run(self, job: CleanerJob) -> Cleaned | Failed:
        self.jobs.append(job)
        outcome = self.before(job)
        return clean(job) if outcome is None else outcome

    def abort(self, for_good: bool = False) -> None:
        self.aborted += 1

    def close(self) -> None:
        self.closed += 1


class CleaningTests(NodeTests):
    settings = {"log.cleaner.backoff.ms": "1000", "log.segment.delete.delay.ms": "3000"}

    def setUp(self) -> None:
        super().setUp()
        self.cleaner = InProcess()
        self.node.broker.log_cleaner.new_cleaner = lambda: self.cleaner

    def create(self, topic: str = "t", **settings: str) -> Log:
        self.node.create(topic, **({"cleanup_policy": "compact", "segment_bytes": "400"} | settings))
        return self.log(topic)

    def log(self, topic: str = "t", index: int = 0) -> Log:
        return self.node.broker.partitions.find(topic, index).log

    def put(self, rounds: int = 8, keys: int = 5, topic: str = "t", value: bytes = b"v") -> None:
        """Each key again and again, with other values."""
        partition, now_ms = self.node.broker.partitions.find(topic, 0), self.node.broker.runtime.now_ms()
        for number in range(rounds):
            for key in range(keys):
                partition.append(keyed((b"k%d" % key, b"%s%d" % (value, number)), timestamp=now_ms), now_ms)

    def records(self, topic: str = "t") -> list[Found]:
        log = self.log(topic)
        return read_from(log, log.log_start_offset)

    def keys_of_jobs(self) -> list[str]:
        """Which logs were cleaned, in order."""
        return [os.path.basename(job.directory) for job in self.cleaner.jobs]

    def cleaned_files(self, topic: str = "t") -> list[str]:
        return [name for name in os.listdir(self.log(topic).path) if name.endswith(".cleaned")]

    def compacts(self, topic: str = "t") -> bool:
        """True if the next look finds something to do, and it is done."""
        before = len(self.cleaner.jobs)
        self.node.clock.advance(1)
        return len(self.cleaner.jobs) > before


class RoundTests(CleaningTests):
    def test_a_log_is_compacted_at_its_time(self) -> None:
        log = self.create()
        self.put()
        before = self.records()
        self.node.clock.advance(0.9)
        self.assertEqual(self.cleaner.jobs, [])
        with logged_lines() as lines:
            self.node.clock.advance(0.1)
        after = self.records()
        self.assertEqual(latest(after), latest(before))
        self.assertLess(len(after), len(before) / 2)
        self.assertEqual(log.first_dirty_offset, log.segments[-1].base_offset)
        [line] = [line for line in lines if "is compacted" in line]
        self.assertIn(log.path, line)
        text = Path(self.directories[0], "cleaner-offset-checkpoint").read_text()
        self.assertEqual(text, f"0\n1\nt 0 {log.first_dirty_offset}\n")
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_cleanings_are_counted(self) -> None:
        counts = self.node.broker.log_cleaner.counts
        self.create()
        self.put()
        written = self.log().size
        self.assertEqual((counts.looked_at_ms, counts.cleanings), (None, 0))
        self.node.clock.advance(1)
        self.assertEqual((counts.looked_at_ms, counts.cleanings), (self.node.broker.runtime.now_ms(), 1))
        self.assertEqual(counts.dirty_ratio_max, 0)
        self.assertLess(0, counts.bytes_written)
        self.assertLess(counts.bytes_written, counts.bytes_read)
        self.assertLessEqual(counts.bytes_read, written)
        self.assertLess(0, counts.seconds_max)
        self.assertEqual(counts.seconds_max, counts.seconds)

    def test_a_log_is_compacted_again_only_when_dirty_enough(self) -> None:
        self.create()
        self.put()
        self.assertTrue(self.compacts())
        self.assertFalse(self.compacts())
        self.put(1)
        self.assertFalse(self.compacts())
        self.put(8)
        self.assertTrue(self.compacts())

    def test_the_process_is_let_go_when_nothing_is_due(self) -> None:
        for topic in ("a", "b"):
            self.create(topic)
            self.put(topic=topic)
        self.node.clock.advance(1)
        self.assertEqual(sorted(self.keys_of_jobs()), ["a_0", "b_0"])
        self.assertEqual(self.cleaner.closed, 1)

    def test_old_files_are_unlinked_when_readers_had_their_time(self) -> None:
        log = self.create()
        self.put()
        self.node.clock.advance(1)
        self.assertTrue(list(Path(log.path).glob("*.deleted")))
        self.node.clock.advance(2.9)
        self.assertTrue(list(Path(log.path).glob("*.deleted")))
        self.node.clock.advance(0.1)
        self.assertEqual(list(Path(log.path).glob("*.deleted")), [])

    def test_the_dirtiest_comes_first(self) -> None:
        for topic in ("a", "b", "c"):
            self.create(topic, min_cleanable_dirty_ratio="0.1")
            self.put(topic=topic)
        self.node.clock.advance(1)
        self.cleaner.jobs.clear()
        for topic, rounds in (("a", 4), ("b", 12), ("c", 8)):
            self.put(rounds, topic=topic)
        self.node.clock.advance(1)
        self.assertEqual(self.keys_of_jobs(), ["b_0", "c_0", "a_0"])

    def test_a_topic_that_is_to_be_compacted_only_later(self) -> None:
        self.create(cleanup_policy="delete")
        self.put()
        self.assertFalse(self.compacts())
        self.set_policy("compact")
        self.assertTrue(self.compacts())
        self.set_policy("delete")
        self.put()
        self.assertFalse(self.compacts())

    def set_policy(self, policy: str) -> None:
        change = {"cleanup.policy": policy, "segment.bytes": "400"}
        now(self.node.broker.controller.alter_config(topic_resource("t"), lambda overrides: change))

    def test_retention_goes_on_where_both_are_asked_for(self) -> None:
        log = self.create(cleanup_policy="compact,delete", retention_ms="60000")
        self.put()
        self.node.clock.advance(1)
        self.assertEqual(log.log_start_offset, 0)
        self.node.clock.advance(61)
        self.put(2)
        now(self.node.broker.log_maintenance.expire())
        self.node.clock.advance(0)
        self.assertGreater(log.log_start_offset, 0)
        self.assertLess({value for _, _, value in self.records()}, {b"v0", b"v1", b"v7"})

    def test_only_synced_segments_are_compacted(self) -> None:
        log = self.create()
        self.put()
        end = log.segments[-1].base_offset
        points = []
        self.cleaner.before = lambda job: points.append(log.recovery_point)
        self.node.broker.log_maintenance.stop()
        self.assertEqual(log.recovery_point, 0)
        self.node.clock.advance(1)
        self.assertEqual(points, [end])

    def test_the_cleaner_checkpoint_survives_a_restart(self) -> None:
        self.create()
        self.put()
        self.node.clock.advance(1)
        before, dirty = self.records(), self.log().first_dirty_offset
        self.restart()
        self.assertEqual((self.records(), self.log().first_dirty_offset), (before, dirty))

    def test_a_broker_that_stopped_does_nothing_more(self) -> None:
        self.create()
        self.put()
        self.node.broker.log_cleaner.stop()
        self.assertFalse(self.compacts())

    def test_segments_beyond_the_compaction_lag_are_rolled_and_compacted(self) -> None:
        log = self.create(segment_bytes="100000", max_compaction_lag_ms="60000", min_cleanable_dirty_ratio="1.0")
        self.put()
        self.node.clock.pump([10] * 6)
        self.assertEqual((len(log.segments), self.cleaner.jobs), (1, []))
        self.node.clock.advance(1)
        self.assertEqual((len(log.segments), len(self.cleaner.jobs)), (2, 1))
        self.assertEqual(len(self.records()), 5)

    def test_by_time_the_first_record_that_is_left_is_found(self) -> None:
        log = self.create(min_cleanable_dirty_ratio="0")
        self.put()
        self.node.clock.advance(1)
        found = offset_for_timestamp(log, 0)
        assert found is not None
        self.assertEqual(found.offset, self.records()[0][0])


class OffTests(CleaningTests):
    settings = {"log.cleaner.backoff.ms": "1000", "log.cleaner.enable": "false"}

    def test_disabled_cleaner_compacts_nothing(self) -> None:
        self.create()
        self.put()
        self.assertFalse(self.compacts())


class LimitTests(CleaningTests):
    settings = {
        "log.cleaner.backoff.ms": "1000",
        "log.cleaner.threads": "2",
        "log.cleaner.dedupe.buffer.size": "20000000",
        "log.cleaner.io.buffer.load.factor": "0.5",
        "log.cleaner.io.max.bytes.per.second": "1.0E6",
    }

    def setUp(self) -> None:
        super().setUp()
        for topic in ("a", "b", "c"):
            self.create(topic)
            self.put(topic=topic)

    def test_cleaners_share_the_limits(self) -> None:
        self.node.clock.advance(1)
        self.assertEqual({job.dedupe_bytes for job in self.cleaner.jobs}, {5_000_000})
        self.assertEqual({job.io_bytes_per_second for job in self.cleaner.jobs}, {500_000})

    def test_cleaners_run_in_parallel_on_different_logs(self) -> None:
        cleaners: list[InProcess] = []

        def new_cleaner() -> InProcess:
            cleaners.append(InProcess())
            return cleaners[-1]

        self.node.broker.log_cleaner.new_cleaner = new_cleaner
        self.node.threads.holding = True
        self.node.clock.pump([1] * 3)
        self.node.threads.holding = False
        self.assertEqual(len(cleaners), 2)
        while self.node.threads.held:
            self.node.threads.run_one()
        self.node.clock.advance(1)
        done = [os.path.basename(job.directory) for cleaner in cleaners for job in cleaner.jobs]
        self.assertEqual(sorted(done), ["a_0", "b_0", "c_0"])

    def test_cleaner_limits_change_at_run_time(self) -> None:
        config = self.node.broker.config
        config.set_dynamic(
            ConfigSource.DYNAMIC_BROKER_CONFIG,
            {
                "log.cleaner.threads": "1",
                "log.cleaner.backoff.ms": "5000",
                "log.cleaner.io.max.bytes.per.second": "9E8",
            },
        )
        self.node.clock.advance(4.9)
        self.assertEqual(self.cleaner.jobs, [])
        self.node.clock.advance(0.1)
        self.assertEqual(
            {(job.dedupe_bytes, job.io_bytes_per_second) for job in self.cleaner.jobs}, {(10_000_000, 900_000_000)}
        )


class DefaultLimitTests(CleaningTests):
    def test_default_limits_do_not_throttle(self) -> None:
        self.create()
        self.put()
        self.node.clock.advance(1)
        self.assertEqual(self.cleaner.jobs[0].io_bytes_per_second, NO_LIMIT)
        self.assertEqual(self.cleaner.jobs[0].dedupe_bytes, int(134_217_728 * 0.9))


class MeanwhileTests(CleaningTests):
    """Something happens to a log that is being cleaned."""

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.put()
        self.before = self.records()

    def while_cleaning(self, what: Callable[[], Any]) -> None:
        def before(job: CleanerJob) -> Cleaned | Failed | None:
            outcome = clean(attrs.evolve(job, segment_bytes=1000))  # so that some are merged
            self.cleaner.before = lambda job: None
            what()
            return outcome

        self.cleaner.before = before
        self.node.clock.advance(1)

    def test_records_are_appended(self) -> None:
        self.while_cleaning(lambda: self.put(3, value=b"new"))
        self.assertEqual({value for _, value in latest(self.records()).values()}, {b"new2"})
        self.assertEqual(self.log().log_end_offset, 55)

    def test_log_is_truncated(self) -> None:
        self.while_cleaning(lambda: self.log().truncate_to(17))
        self.assertEqual(latest(self.records()), latest(each for each in self.before if each[0] < 17))
        self.assertEqual((self.log().log_end_offset, self.cleaned_files()), (17, []))
        self.assertLessEqual(self.log().first_dirty_offset, 17)

    def test_log_is_deleted(self) -> None:
        path = self.log().path
        with logged_lines() as lines:
            self.while_cleaning(lambda: now(self.node.broker.controller.delete_topic("t")))
        self.assertEqual(self.cleaner.aborted, 1)
        self.assertFalse(os.path.exists(path))
        self.assertEqual([line for line in lines if "could not" in line or "failed" in line], [])
        self.create()
        self.assertEqual((self.log().first_dirty_offset, self.log().log_end_offset), (0, 0))

    def test_log_is_deleted_and_recreated(self) -> None:
        def renew() -> None:
            now(self.node.broker.controller.delete_topic("t"))
            self.create()
            self.put(2, value=b"other")

        self.while_cleaning(renew)
        self.assertEqual(len(self.records()), 10)
        self.assertEqual({value for _, _, value in self.records()}, {b"other0", b"other1"})

    def test_compaction_is_disabled(self) -> None:
        def change() -> None:
            now(
                self.node.broker.controller.alter_config(
                    topic_resource("t"), lambda overrides: {"cleanup.policy": "delete"}
                )
            )

        with logged_lines() as lines:
            self.while_cleaning(change)
        self.assertEqual((self.records(), self.cleaned_files()), (self.before, []))
        self.assertTrue([line for line in lines if "discarded the compaction" in line])

    def test_log_start_offset_is_raised(self) -> None:
        def delete() -> None:
            self.log().delete_records_before(7)
            now(self.node.broker.log_maintenance.expire())
            self.node.clock.advance(0)
            self.assertEqual(self.log().segments[0].base_offset, 0)  # nothing goes while it is cleaned

        self.while_cleaning(delete)
        self.assertEqual((self.log().log_start_offset, len(self.cleaner.jobs)), (7, 1))
        self.assertEqual(latest(self.records()), latest(each for each in self.before if each[0] >= 7))

    def test_first_segments_are_deleted(self) -> None:
        def delete() -> None:
            self.log().delete_records_before(7)
            list(expire(self.log(), self.node.broker.runtime.now_ms()))

        self.while_cleaning(delete)
        log = self.log()
        self.assertEqual(log.log_start_offset, 7)
        self.assertEqual(latest(self.records()), latest(self.before))
        self.assertEqual(len(self.cleaner.jobs), 2)  # of those segments that were to be merged, some were gone
        self.assertEqual(self.cleaned_files(), [])

    def test_disk_fails(self) -> None:
        def fail() -> None:
            self.node.broker.partitions.directory_failed(self.directories[0], "it burns")

        with logged_lines() as lines:
            self.while_cleaning(fail)
        self.assertEqual([line for line in lines if "compact" in line], [])

    def test_the_broker_stops(self) -> None:
        self.while_cleaning(self.node.broker.log_cleaner.stop)
        self.assertEqual((self.records(), self.cleaned_files()), (self.before, []))
        self.assertEqual(self.cleaner.aborted, 1)


class TroubleTests(CleaningTests):
    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.put()
        self.before = self.records()

    def failing(self, error: Exception | Failed) -> Callable[[CleanerJob], Failed]:
        def before(job: CleanerJob) -> Failed:
            clean(job)  # and so leaves its files
            if isinstance(error, Failed):
                return error
            raise error

        return before

    def assert_unchanged(self) -> None:
        self.assertEqual((self.records(), self.cleaned_files()), (self.before, []))
        self.assertEqual(self.log().first_dirty_offset, 0)

    def test_a_damaged_segment_is_logged_once_and_let_alone(self) -> None:
        self.cleaner.before = self.failing(Failed("a CRC is wrong", f"{self.log().path}/x.kafka", 77))
        with logged_lines() as lines:
            self.node.clock.pump([1] * 5)
        [line] = [line for line in lines if "not compacted" in line]
        self.assertIn(f"{self.log().path}/x.kafka at 77: a CRC is wrong", line)
        self.assertEqual(len(self.cleaner.jobs), 1)
        self.assert_unchanged()
        cleaner = self.node.broker.log_cleaner
        self.assertEqual((cleaner.counts.cleanings, cleaner.counts.failures), (0, 1))
        self.assertEqual((cleaner.uncleanable_in(self.directories[0]), cleaner.uncleanable_in("/other")), (1, 0))

    def test_corruption_found_by_the_cleaner_is_reported(self) -> None:
        path = Path(self.log().segments[2].path)
        data = bytearray(path.read_bytes())
        data[90] ^= 1
        path.write_bytes(data)

        def before(job: CleanerJob) -> Failed:
            try:
                clean(job)
            except CorruptRecords as error:
                return Failed(error.detail, getattr(error, "path", None), getattr(error, "position", None))
            raise AssertionError("it was not found")

        self.cleaner.before = before
        with logged_lines() as lines:
            self.node.clock.pump([1] * 5)
        [line] = [line for line in lines if "not compacted" in line]
        self.assertIn(str(path), line)
        self.assertEqual(self.cleaned_files(), [])

    def test_other_logs_go_on(self) -> None:
        self.create("other")
        self.put(topic="other")
        rejected = self.failing(Failed("a CRC is wrong", "x.kafka", 77))
        self.cleaner.before = lambda job: rejected(job) if job.directory.endswith("/t_0") else None
        self.node.clock.advance(1)
        self.assertEqual(len(self.records("other")) < 40, True)
        self.assert_unchanged()

    def test_a_process_that_dies_is_logged_once_and_the_log_tried_again(self) -> None:
        self.cleaner.before = self.failing(CleanerDied("killed by signal 9"))
        with logged_lines() as lines:
            for seconds, tries in ((1, 1), (1, 2), (1, 2), (1, 3), (3, 3), (1, 4), (7, 4), (1, 5)):
                self.node.clock.pump([1] * seconds)
                self.assertEqual(len(self.cleaner.jobs), tries)
            self.assert_unchanged()
        reported = [line for line in lines if "tried again" in line]
        self.assertEqual(len(reported), 1)
        self.assertIn("killed by signal 9", reported[0])
        self.cleaner.before = lambda job: None
        self.node.clock.pump([1] * 20)
        self.assertLess(len(self.records()), len(self.before))

    def test_a_full_disk_is_logged_once_and_nothing_is_left_on_it(self) -> None:
        self.cleaner.before = self.failing(Failed("OSError: [Errno 28] No space left on device"))
        with logged_lines() as lines:
            for _ in range(10):
                self.node.clock.advance(1)
                self.assert_unchanged()
        self.assertEqual(len([line for line in lines if "No space left" in line]), 1)
        self.cleaner.before = lambda job: None
        self.node.clock.pump([1] * 20)
        self.assertLess(len(self.records()), len(self.before))

    def test_a_full_disk_at_the_commit_record_aborts_the_swap(self) -> None:
        real = os.pwritev

        def full(fd: int, *arguments: Any) -> int:
            if "cleaned-segments" in os.readlink(f"/proc/self/fd/{fd}"):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(fd, *arguments)

        with patch.object(os, "pwritev", full), logged_lines() as lines:
            self.node.clock.advance(1)
            self.assert_unchanged()
        self.assertEqual(len([line for line in lines if "No space left" in line]), 1)
        self.assertFalse(self.log().offline_reason)
        self.node.clock.pump([1] * 2)
        self.assertLess(len(self.records()), len(self.before))

    def test_a_disk_that_fails_in_the_exchange_takes_the_log_offline(self) -> None:
        log, real = self.log(), os.rename

        def fails(old: str, new: str) -> None:
            if old.endswith(".timeindex.cleaned"):
                raise OSError(errno.EIO, "Input/output error")
            real(old, new)

        with patch.object(os, "rename", fails), logged_lines() as lines:
            self.node.clock.advance(1)
        self.assertNotIn(("t", 0), self.node.broker.partitions.led)
        self.assertTrue([line for line in lines if "compacting" in line and log.path in line])
        self.restart()
        self.assertEqual(latest(self.records()), latest(self.before))
        self.assertLess(len(self.records()), len(self.before))

    def test_memory_that_is_too_small_for_any_progress(self) -> None:
        self.cleaner.before = lambda job: Cleaned((), job.first_dirty_offset)
        with logged_lines() as lines:
            self.node.clock.pump([1] * 5)
        self.assertEqual(len([line for line in lines if "log.cleaner.dedupe.buffer.size is too small" in line]), 1)
        self.assertLess(len(self.cleaner.jobs), 5)

    def test_an_unexpected_error_does_not_end_the_cleaner(self) -> None:
        self.cleaner.before = self.failing(ZeroDivisionError())
        self.node.clock.advance(1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.cleaner.before = lambda job: None
        self.node.clock.advance(1)
        self.assertLess(len(self.records()), len(self.before))


class GroupTests(CleaningTests):
    settings = {
        "log.cleaner.backoff.ms": "1000",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": "2000",
    }

    def commit(self, group: str, offset: int) -> None:
        partition = OffsetCommitRequestPartition(0, offset, committed_metadata=f"m{offset}")
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", [partition])])
        answer = self.node.ask(offset_commit.handle, request, version=8)
        self.assertEqual(answer.topics[0].partitions[0].error_code, 0)

    def committed(self, group: str) -> tuple[int, str | None]:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
        [found] = self.node.ask(offset_fetch.handle, request, version=8).groups
        self.assertEqual(found.error_code, 0)
        [partition] = found.topics[0].partitions
        return partition.committed_offset, partition.metadata

    def test_groups_come_back_from_a_compacted_topic(self) -> None:
        self.create()
        self.node.ask(find_coordinator.handle, FindCoordinatorRequest(coordinator_keys=["a"]))
        for offset in range(100):
            self.commit("a", offset)
            if offset % 10 == 0:
                self.commit("b", offset)
        size = self.log("__consumer_offsets").size
        self.node.clock.advance(1)
        self.assertIn("__consumer_offsets_0", self.keys_of_jobs())
        self.assertLess(self.log("__consumer_offsets").size, size / 4)
        self.commit("a", 1000)
        self.restart()
        self.assertEqual([self.committed("a"), self.committed("b")], [(1000, "m1000"), (90, "m90")])


class ProcessTests(CleaningTests):
    """The log cleaner with its real process, and real threads for it."""

    def setUp(self) -> None:
        super().setUp()
        self.processes: list[CleanerProcess] = []
        self.node.broker.log_cleaner.new_cleaner = self.new_process
        self.create()
        self.put()
        self.before = self.records()

    def new_process(self) -> CleanerProcess:
        self.processes.append(CleanerProcess())
        return self.processes[-1]

    def test_process_compacts_like_the_in_process_cleaner(self) -> None:
        for topic in ("u", "w"):
            self.create(topic)
            self.put(topic=topic)
        self.node.clock.advance(1)
        self.assertEqual([len(self.records(topic)) for topic in ("t", "u", "w")], [len(self.records())] * 3)
        self.assertEqual(latest(self.records()), latest(self.before))
        self.assertLess(len(self.records()), len(self.before))
        [process] = self.processes
        self.assertIsNone(process._running)

    def test_process_reports_corruption(self) -> None:
        path = Path(self.log().segments[2].path)
        data = bytearray(path.read_bytes())
        data[90] ^= 1
        path.write_bytes(data)
        with logged_lines() as lines:
            self.node.clock.advance(1)
        [line] = [line for line in lines if "not compacted" in line]
        self.assertIn(f"{path} at ", line)

    def test_killed_process_is_restarted(self) -> None:
        """While it is slow, for it may not read more than a few bytes a second."""
        config = self.node.broker.config
        config.set_dynamic(ConfigSource.DYNAMIC_BROKER_CONFIG, {"log.cleaner.io.max.bytes.per.second": "10"})

        def kill() -> None:
            pid = pids.get(timeout=60)
            wait_until(lambda: reads(pid, Path(self.directories[0])))
            os.kill(pid, signal.SIGKILL)

        pids: Queue[int] = Queue()
        killer = threading.Thread(target=kill)
        killer.start()
        with logged_lines() as lines, each_cleaner(lambda process: pids.put(process.pid)):
            self.node.clock.advance(1)
        killer.join()
        self.assertEqual((self.records(), self.cleaned_files()), (self.before, []))
        [line] = [line for line in lines if "tried again" in line]
        self.assertIn("killed by signal 9", line)
        config.set_dynamic(ConfigSource.DYNAMIC_BROKER_CONFIG, {})
        self.node.clock.pump([1] * 3)
        self.assertLess(len(self.records()), len(self.before))


class SwitchedOffTests(CleaningTests):
    settings = {"log.cleaner.enable": "false"}
    why = "log.cleaner.enable=false"

    def switch_off(self) -> None:
        """The setting holds from the start on."""

    def warnings(self, action: Callable[[], object]) -> list[str]:
        with logged_lines() as lines:
            action()
            self.node.clock.advance(2)
        return [line for line in lines if self.why in line]

    def line(self, topics: str) -> str:
        return f"nothing is compacted because of {self.why}, but these topics have cleanup.policy=compact: {topics}"

    def test_a_topic_that_would_be_compacted_is_logged_once(self) -> None:
        self.switch_off()
        self.assertEqual(self.warnings(lambda: self.node.create("plain")), [])
        self.assertEqual(self.warnings(lambda: self.create("t")), [self.line("t")])
        self.assertEqual(self.warnings(lambda: self.create("u")), [])

    def test_a_policy_change_to_compact_is_warned_about(self) -> None:
        self.switch_off()
        self.node.create("t")
        change = lambda own: {**own, "cleanup.policy": "compact,delete"}  # noqa: E731
        self.assertEqual(
            self.warnings(lambda: now(self.node.broker.controller.alter_config(topic_resource("t"), change))),
            [self.line("t")],
        )

    def test_all_compacted_topics_are_reported_at_start(self) -> None:
        self.switch_off()
        for topic in ("u", "t"):
            self.create(topic)
        self.node.create("plain")
        self.assertEqual(self.warnings(self.restart), [self.line("t, u")])


class SwitchedOffWhileRunningTests(SwitchedOffTests):
    settings = {}
    why = "log.cleaner.threads=0"

    def set_threads(self, number: int) -> None:
        change = lambda own: {**own, "log.cleaner.threads": str(number)}  # noqa: E731
        now(self.node.broker.controller.alter_config(broker_resource(None), change))

    def switch_off(self) -> None:
        self.set_threads(0)

    def test_compacted_topics_are_reported_at_each_switch_off(self) -> None:
        self.create("t")
        for _ in range(2):
            self.assertEqual(self.warnings(lambda: self.set_threads(0)), [self.line("t")])
            self.assertEqual(self.warnings(lambda: self.set_threads(0)), [])
            self.assertEqual(self.warnings(lambda: self.set_threads(1)), [])
