"""Archived topics without their store, with lost local data, and with records that were deleted."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import fetch
from pylogbroker.broker.archive.partition import ArchivedPartition
from pylogbroker.broker.archive.service import ArchiveService
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.delta import Delta
from pylogbroker.plugins.remote_storages import DirectoryStorage
from pylogbroker.storage import Origin
from pylogbroker.storage.logdirs.log_directory import Notice
from pylogbroker.storage.logdirs.offset_checkpoints import OffsetCheckpoints
from pylogbroker.storage.remote.checked_store import StoreFailure
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.archives import EARLIEST, NOW_MS, ArchiveTests, values_of
from tests.broker.log_lines import logged_lines
from tests.broker.trees import now
from tests.storage.support import batch, marker

VALUES = [b"%020d" % number for number in range(9)]
ALL = list(enumerate(VALUES))
DAY_MS = 86_400_000


class StoreAwayTests(ArchiveTests):
    def setUp(self) -> None:
        super().setUp()
        self.away = self.store + "-away"

    def unmount(self) -> None:
        os.rename(self.store, self.away)

    def mount(self) -> None:
        os.rename(self.away, self.store)

    def test_old_records_fail_with_a_code_and_new_ones_do_not(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        local = log.local_start_offset
        self.unmount()
        self.assertEqual(self.fetched(0).error_code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(values_of(self.fetched(local).records), ALL[local:])
        self.mount()
        self.assertEqual(self.read_all(), ALL)

    def test_nothing_local_is_deleted_and_copying_goes_on_afterwards(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        self.unmount()
        self.archive_all()
        self.assertEqual(log.local_start_offset, 0)
        self.assertEqual(self.read_all(), ALL)
        self.mount()
        self.node.clock.advance(60)
        self.archive_all()
        self.assertGreater(log.local_start_offset, 0)
        self.assertEqual(self.read_all(), ALL)

    def test_an_outage_is_one_line_and_its_end_another(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.unmount()
        with logged_lines() as lines:
            for _ in range(20):
                self.copy()
                self.fetched(0)
                self.node.clock.advance(30)
            self.mount()
            self.node.clock.advance(60)
        about = [line for line in lines if "the remote storage" in line]
        self.assertEqual(len(about), 2, about)
        self.assertIn("the remote storage fails: ", about[0])
        self.assertIn("works again", about[1])

    def test_a_topic_that_was_deleted_meanwhile_is_deleted_also_after_a_restart(self) -> None:
        self.create()
        self.create("other")
        for topic in ("t", "other"):
            self.append(topic, *VALUES)
        self.archive_all()
        self.unmount()
        now(self.node.broker.controller.delete_topic("t"))
        pending = Path(self.directories[0]) / "archive-deletions"
        self.assertEqual(pending.read_text().count("\n"), 1)
        self.restart()
        self.mount()
        self.node.clock.advance(60)
        self.do_round()
        other_id = self.partition("other").log.topic_id
        self.assertEqual(sorted(os.listdir(self.store)), sorted(["clusters", str(other_id)]))
        self.assertFalse(pending.exists())
        self.assertEqual(self.read_all("other"), ALL)

    def test_a_missing_object_is_no_outage(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        [directory] = [path for path, _, files in os.walk(self.store) if len(files) > 1]
        first = min(name for name in os.listdir(directory) if name.endswith(".log"))
        os.unlink(f"{directory}/{first}")
        with logged_lines() as lines:
            self.assertEqual(self.fetched(0).error_code, ErrorCode.KAFKA_STORAGE_ERROR)
            self.assertEqual(values_of(self.fetched(4).records)[0], ALL[4])
        self.assertFalse(any("the remote storage fails" in line for line in lines), lines)
        self.assertTrue(any("an archived segment does not count" in line for line in lines), lines)
        self.append("t", *VALUES)
        self.archive_all()
        self.assertEqual((log.log_start_offset, self.fetched(0).error_code), (0, ErrorCode.KAFKA_STORAGE_ERROR))

    def test_pauses_between_tries_grow(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.partition().log.sync()
        self.unmount()
        tries: list[float] = []
        read = DirectoryStorage.read

        def counted(store: DirectoryStorage, *arguments: Any) -> Any:
            if self.node.clock.seconds() not in tries:
                tries.append(self.node.clock.seconds())
            return read(store, *arguments)

        with patch.object(DirectoryStorage, "read", counted):
            for _ in range(120):
                self.node.clock.advance(0.5)
        pauses = [later - earlier for earlier, later in pairwise(tries)]
        self.assertEqual(pauses[:5], sorted(pauses[:5]))
        self.assertGreaterEqual(pauses[4], 8)
        self.assertLess(len(tries), 12)


class MountPointTests(ArchiveTests):
    """The store's directory is there, and empty: its file system is not mounted, or the setting names another place."""

    def setUp(self) -> None:
        super().setUp()
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        self.local_start, self.stored = log.local_start_offset, self.objects()
        self.assertGreater(self.local_start, 0)

    def unmount(self) -> None:
        os.rename(self.store, self.store + "-away")
        os.mkdir(self.store)

    def mount(self) -> None:
        self.assertEqual(os.listdir(self.store), [])
        os.rmdir(self.store)
        os.rename(self.store + "-away", self.store)

    def work(self) -> None:
        """Let rounds and retention do what they would, for hours."""
        for _ in range(3):
            self.append("t", *VALUES)
            self.archive_all()
            self.node.clock.advance(3601)

    def test_nothing_is_lost_by_a_start_without_the_file_system(self) -> None:
        self.unmount()
        with logged_lines() as lines:
            self.restart()
            self.work()
        log = self.partition().log
        self.assertEqual((log.log_start_offset, log.local_start_offset), (0, self.local_start))
        [line] = [line for line in lines if "the remote storage fails: " in line]
        self.assertIn("it lacks the object clusters/cluster-of-one-node-xx, which this cluster keeps there", line)
        self.assertEqual(self.fetched(0).error_code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.mount()
        self.work()
        self.assertEqual(self.objects()[: len(self.stored)], self.stored)
        self.assertEqual(self.read_all(), list(enumerate(VALUES * 7)))

    def test_nothing_is_lost_if_the_file_system_goes_while_the_broker_runs(self) -> None:
        self.unmount()
        self.work()
        self.partition().leader_epoch += 1  # the contents are listed again
        self.work()
        self.assertEqual(self.partition().log.log_start_offset, 0)
        self.mount()
        self.work()
        self.assertEqual(self.read_all(), list(enumerate(VALUES * 10)))

    def test_a_lost_log_waits_for_the_file_system(self) -> None:
        path = self.partition().log.path
        self.stop()
        shutil.rmtree(path)
        self.unmount()
        self.restart()
        self.assertEqual(self.fetched(0).error_code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.mount()
        for _ in range(3):
            self.node.clock.advance(10)
        self.assertEqual(self.read_all(), ALL[: self.local_start])

    def test_a_copy_to_the_wrong_place_does_not_count(self) -> None:
        """The file system goes within a copy."""
        put = DirectoryStorage.put

        def interrupted(store: DirectoryStorage, name: str, parts: Any) -> None:
            if name.endswith(".manifest"):
                self.unmount()
            put(store, name, parts)

        self.append("t", *VALUES)
        with patch.object(DirectoryStorage, "put", interrupted):
            self.copy()
        shutil.rmtree(self.store)
        os.rename(self.store + "-away", self.store)
        self.expire()
        self.assertEqual(self.partition().log.local_start_offset, self.local_start)
        self.node.clock.advance(3601)
        self.archive_all()
        self.assertEqual(self.read_all(), list(enumerate(VALUES * 2)))

    def test_an_empty_store_is_used_from_now_on_if_it_has_the_mark(self) -> None:
        self.unmount()
        os.mkdir(f"{self.store}/clusters")
        with open(f"{self.store}/clusters/cluster-of-one-node-xx", "w"):
            pass
        self.restart()
        with logged_lines() as lines:
            self.work()
        self.assertTrue(any("records may be lost: the archive of t-0 has none from offset 0" in line for line in lines))
        self.assertEqual(self.offset(EARLIEST), self.local_start)
        self.assertEqual(self.read_all(), list(enumerate(VALUES * 4))[self.local_start :])


class LostLocalRecordsTests(ArchiveTests):
    def lose_local_records(self) -> None:
        """Stop, remove the partition's directory, start."""
        path = self.partition().log.path
        self._stack.close()
        shutil.rmtree(path)

    def test_a_lost_log_begins_where_its_archive_ends(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        local = self.partition().log.local_start_offset
        self.lose_local_records()
        self.restart()
        log = self.partition().log
        self.assertEqual((log.log_start_offset, log.local_start_offset, log.log_end_offset), (0, local, local))
        self.append("t", b"new")
        self.assertEqual(self.read_all(), [*ALL[:local], (local, b"new")])

    def test_without_the_store_a_lost_log_stays_closed_until_it_is_back(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        local = self.partition().log.local_start_offset
        self.lose_local_records()
        os.rename(self.store, self.store + "-away")
        self.restart()
        self.assertEqual(self.fetched(0).error_code, ErrorCode.KAFKA_STORAGE_ERROR)
        os.rename(self.store + "-away", self.store)
        for _ in range(3):
            self.node.clock.advance(10)
        self.assertEqual(self.partition().log.log_start_offset, 0)
        self.assertEqual(self.read_all(), ALL[:local])

    def test_a_store_that_is_not_the_leaders_is_named(self) -> None:
        archive = self.create().archive
        assert archive is not None
        failed = self.failureResultOf(Deferred.fromCoroutine(archive.state_at(500)), StoreFailure)  # type: ignore[arg-type]
        self.assertEqual(
            failed.value.detail,
            "the remote storage has no segment of t-0 with the record before offset 500. All brokers with replicas of "
            "the topic need the same remote.log.storage",
        )

    def test_an_archive_beyond_the_logs_end_is_left_alone(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        objects = self.objects()
        log = self.partition().log
        log.restart_at(0, NOW_MS)
        log.assign_epoch(0)
        self.restart()
        self.append("t", *[value + b"other" for value in VALUES])
        with logged_lines() as lines:
            self.archive_all()
        self.assertTrue(any("records may be lost" in line for line in lines), lines)
        self.assertEqual(self.objects(), objects)
        self.assertEqual(self.read_all(), [(offset, value + b"other") for offset, value in ALL])

    def test_a_lost_epoch_checkpoint_comes_from_the_archive(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        path = self.partition().log.path
        self._stack.close()
        os.unlink(f"{path}/leader-epoch-checkpoint")
        for directory in self.directories:
            os.unlink(f"{directory}/log-start-offset-checkpoint")
        self.restart()
        self.assertEqual(self.read_all(), ALL)
        self.do_round()
        self.assertEqual(self.partition().log.epochs.entries, ((0, 0),))
        self.assertEqual(self.read_all(), ALL)


class RetentionTests(ArchiveTests):
    def test_retention_deletes_in_the_store(self) -> None:
        log = self.create(retention_ms="1000000").log
        self.append("t", *VALUES)
        self.archive_all()
        self.assertNotEqual(self.objects(), [])
        self.node.clock.advance(1001)
        for _ in range(2):  # the active segment is sealed, copied and deleted
            self.expire()
            self.copy()
        self.expire()
        self.do_round()
        self.assertEqual((log.log_start_offset, log.local_start_offset), (len(VALUES), len(VALUES)))
        self.assertEqual({name.rpartition(".")[2] for name in self.objects()}, {"deleted"})
        self.assertEqual(self.read_all(), ALL[log.log_start_offset :])
        self.node.clock.advance(DAY_MS / 1000 + 3600)
        self.do_round()
        self.assertEqual(self.objects(), [])

    def test_retention_by_size_counts_both_parts(self) -> None:
        log = self.create(retention_bytes="500", local_retention_bytes="1", retention_ms="-1").log
        self.append("t", *VALUES)
        self.archive_all()
        self.do_round()
        archive = self.partition().archive
        assert archive is not None
        self.assertLessEqual(archive.size + log.size, 500 + 200)
        self.assertGreater(archive.size, 0)
        self.assertGreater(log.log_start_offset, 0)
        self.assertEqual(self.read_all(), ALL[log.log_start_offset :])

    def test_deleted_records_are_deleted_in_the_store(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        segments = len([name for name in self.objects() if name.endswith("manifest")])
        self.assertGreater(segments, 2)
        log.delete_records_before(5)
        self.do_round()
        left = [name for name in self.objects() if name.endswith("manifest")]
        self.assertLess(len(left), segments)
        self.assertEqual(self.read_all(), ALL[5:])
        self.restart()
        self.assertEqual(self.read_all(), ALL[5:])

    def test_a_log_start_is_stored_before_records_are_deleted_that_the_archive_has_not(self) -> None:
        """Otherwise a crash would bring back the former log start, and the archive would have a gap."""
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        self.append("t", *VALUES)
        segments = len(log.segments)
        log.delete_records_before(2 * len(VALUES) - 1)
        with patch.object(OffsetCheckpoints, "save_log_starts", lambda checkpoints: []):
            self.expire()
        self.assertEqual(len(log.segments), segments)
        self.expire()
        self.assertEqual(len(log.segments), 1)
        checkpoint = Path(self.directories[0]) / "log-start-offset-checkpoint"
        self.assertIn(f"t 0 {2 * len(VALUES) - 1}\n", checkpoint.read_text())

    def test_a_full_disk_keeps_no_records_below_the_log_start(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        log.delete_records_before(len(VALUES) - 1)
        notice = Notice(self.directories[0], "No space left on device", True)
        with patch.object(OffsetCheckpoints, "save_log_starts", lambda checkpoints: [notice]):
            self.expire()
        self.assertEqual(len(log.segments), 1)

    def test_records_that_are_deleted_while_they_are_read_are_out_of_range(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        threads = self.node.threads
        threads.holding = True
        answer = self.fetching(0)
        log.delete_records_before(5)
        self.node.clock.advance(0.1)
        read = threads.held.pop(0)
        threads.holding = False
        self.do_round()
        threads.held.insert(0, read)
        while threads.held:
            threads.run_one()
        [topic] = self.successResultOf(answer).responses
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.OFFSET_OUT_OF_RANGE)

    def test_a_deleted_topic_leaves_nothing_in_the_store(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        self.delete_topic()
        self.assertEqual(self.objects(), [])

    def delete_topic(self) -> None:
        now(self.node.broker.controller.delete_topic("t"))
        self.node.clock.advance(0)
        self.do_round()

    def test_a_long_deletion_keeps_no_other_topic_from_being_archived(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        deleting: Deferred[None] = Deferred()
        with patch.object(ArchiveService, "_delete_objects", lambda service, *key: deleting):
            self.delete_topic()
            self.create("u")
            self.append("u", *VALUES)
            self.archive_all("u")
            self.assertGreater(self.partition("u").log.local_start_offset, 0)
        deleting.callback(None)

    def test_a_topic_is_deleted_when_no_worker_writes_its_objects_any_more(self) -> None:
        archived = self.create().archive
        self.append("t", *VALUES)
        self.archive_all()
        service = self.node.broker.archive
        assert service is not None
        assert archived is not None
        service._busy.add((archived.topic_id, 0))
        self.delete_topic()
        self.assertGreater(len(self.objects()), 0)
        service._busy.clear()
        self.do_round()
        self.assertEqual(self.objects(), [])

    def test_a_topic_with_many_objects_is_deleted_by_several_threads(self) -> None:
        self.create()
        for _ in range(10):
            self.append("t", *VALUES)
        self.archive_all()
        self.assertGreater(len(self.objects()), 100)
        self.delete_topic()
        self.assertEqual(self.objects(), [])

    def test_a_topic_of_the_same_name_has_an_archive_of_its_own(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        self.delete_topic()
        self.create()
        self.append("t", b"new" * 10)
        self.archive_all()
        self.assertEqual(self.read_all(), [(0, b"new" * 10)])

    def test_an_archive_that_ends_is_deleted_and_the_log_starts_locally(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        local = log.local_start_offset
        self.alter("t", {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})
        self.do_round()
        self.assertEqual(self.objects(), [])
        self.assertEqual(self.offset(EARLIEST), local)
        self.assertEqual(self.read_all(), ALL[local:])

    def alter(self, name: str, settings: dict[str, str]) -> None:
        from pylogbroker.metadata.delta import ConfigChanged
        from pylogbroker.metadata.image import topic_resource

        metadata = self.node.broker.metadata
        current = dict(metadata.topic_settings(name)) | settings
        now(metadata.publish(Delta.of(ConfigChanged(topic_resource(name), current))))

    def test_a_stopped_copy_keeps_the_archive_and_the_rest_stays_local(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        self.archive_all()
        local = log.local_start_offset
        self.alter("t", {"remote.log.copy.disable": "true", "local.retention.bytes": "-2"})
        self.append("t", *VALUES)
        objects = self.objects()
        self.archive_all()
        self.assertEqual(self.objects(), objects)
        self.assertEqual(log.local_start_offset, local)
        self.assertEqual(self.read_all(), list(enumerate([*VALUES, *VALUES])))


class TransactionTests(ArchiveTests):
    def test_readers_of_committed_records_get_the_aborted_ones_named(self) -> None:
        log = self.create().log
        for producer, committed in enumerate((True, False, True, False, False)):
            for sequence in range(3):
                value = b"%d" % producer + b"-" * 30
                data = batch([value], [NOW_MS], (producer, 0, sequence), transactional=True)
                self.partition().append(data, NOW_MS, Origin.CLIENT)
            self.partition().append(marker(committed, producer, timestamp=NOW_MS), NOW_MS, Origin.COORDINATOR)
        before = [self.fetched(offset, committed=True) for offset in range(log.log_end_offset)]
        self.archive_all()
        local = log.local_start_offset
        self.assertGreater(local, 10)
        for offset, expected in enumerate(before[:local]):
            answer = self.fetched(offset, committed=True)
            covered = {record[0] for record in values_of(answer.records)}
            aborted = {(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()}
            known = {(one.producer_id, one.first_offset) for one in expected.aborted_transactions or ()}
            self.assertTrue(aborted <= known)
            self.assertTrue({one for one in known if one[1] in covered} <= aborted)

    def test_an_open_transaction_keeps_its_segments_local(self) -> None:
        log = self.create().log
        self.partition().append(batch([b"x" * 50], [NOW_MS], (1, 0, 0), transactional=True), NOW_MS, Origin.CLIENT)
        self.append("t", *VALUES)
        self.archive_all()
        self.assertEqual((log.local_start_offset, self.objects()), (0, []))
        self.partition().append(marker(True, 1, timestamp=NOW_MS), NOW_MS, Origin.COORDINATOR)
        self.archive_all()
        self.assertGreater(log.local_start_offset, 0)


class SlowStoreTests(ArchiveTests):
    more_settings = {"remote.fetch.max.wait.ms": "300"}

    def test_a_fetch_waits_for_a_limited_time_and_the_next_one_for_the_same_read(self) -> None:
        self.create()
        self.append("t", *VALUES)
        self.archive_all()
        reads: list[str] = []
        original = DirectoryStorage.read

        def counted(store: DirectoryStorage, name: str, start: int, length: int) -> bytes:
            reads.append(name)
            return original(store, name, start, length)

        with patch.object(DirectoryStorage, "read", counted):
            self.node.threads.holding = True
            first = self.fetching(0)
            self.node.clock.advance(0.2)
            self.assertNoResult(first)
            self.node.clock.advance(0.1)
            self.assertEqual(self.values(first), [])
            second = self.fetching(0)
            self.assertEqual(len(self.node.threads.held), 1)
            while self.node.threads.held:
                self.node.threads.run_one()
            self.node.threads.holding = False
            self.assertEqual(self.values(second)[0], ALL[0])
            self.assertEqual(len(reads), 2)  # the indexes and one piece of the records
            self.assertEqual(values_of(self.fetched(0).records)[0], ALL[0])
            self.assertEqual(len(reads), 2)

    def values(self, answered: Any) -> list[tuple[int, bytes]]:
        [topic] = self.successResultOf(answered).responses
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.NONE)
        return values_of(topic.partitions[0].records)

    def test_one_partition_of_a_request_is_read_from_the_store_the_others_later(self) -> None:
        for name in ("t", "u"):
            self.create(name)
            self.append(name, *VALUES)
        for name in ("t", "u"):
            self.archive_all(name)
        topics = [FetchTopic(name, partitions=[FetchPartition(0, partition_max_bytes=1 << 20)]) for name in ("t", "u")]
        request = FetchRequest(max_wait_ms=0, max_bytes=4 << 20, topics=topics)
        answer = self.node.ask(fetch.handle, request, 11)
        read = [values_of(topic.partitions[0].records) for topic in answer.responses]
        self.assertEqual([bool(values) for values in read], [True, False])
        self.assertEqual([topic.partitions[0].error_code for topic in answer.responses], [0, 0])

    def test_a_limit_of_bytes_holds_but_for_a_first_batch(self) -> None:
        self.create(segment_bytes="2000")
        for _ in range(4):
            self.append("t", *VALUES)
        self.archive_all()
        for max_bytes in (1, 100, 300, 1000):
            answer = self.fetched(0, max_bytes=max_bytes)
            size = len(answer.records or b"")
            self.assertTrue(0 < size <= max(max_bytes, 100), (max_bytes, size))


class LeaderChangeTests(ArchiveTests):
    """The leader epoch changes at each step of a copy: before or after each call of the store."""

    def test_a_change_of_the_leader_at_each_step_of_a_copy_loses_and_repeats_nothing(self) -> None:
        steps = 0
        for number in range(12):
            name = f"t{number}"
            self.create(name)
            self.append(name, *VALUES)
            steps += self.change_leader_at(name, number)
            self.node.clock.advance(3601)  # the next sweep
            self.do_round()
            self.do_round()
            self.archive_all(name)
            self.assertEqual(self.read_all(name), ALL)
            self.check_objects(name)
        self.assertGreater(steps, 8)

    def change_leader_at(self, name: str, number: int) -> bool:
        """Copy, and begin another leader epoch within a call of the store; return whether there was such a call."""
        calls: list[str] = []
        partition = self.partition(name)

        def changing(method: str) -> Any:
            original = getattr(DirectoryStorage, method)

            def call(store: DirectoryStorage, *arguments: Any) -> Any:
                if calls.append(method) or (len(calls) - 1 == number // 2 and not number % 2):
                    partition.leader_epoch += 1
                outcome = original(store, *arguments)
                if len(calls) - 1 == number // 2 and number % 2:
                    partition.leader_epoch += 1
                return outcome

            return patch.object(DirectoryStorage, method, call)

        partition.log.sync()
        with changing("put"), changing("read"), changing("list"):
            self.do_round()
        return partition.leader_epoch > 0

    def check_objects(self, name: str) -> None:
        """Each object is one of a segment that counts, or the tombstone of another one."""
        archive = self.partition(name).archive
        assert isinstance(archive, ArchivedPartition)
        self.now_listed(archive)
        held = archive._catalog.listing.contents
        self.assertEqual((held.undeleted, held.unfinished, held.damaged), (frozenset(), frozenset(), ()))
        ends = [(segment.base_offset, segment.end_offset) for segment in held.segments]
        self.assertEqual(sorted(set(ends)), ends)

    def now_listed(self, archive: ArchivedPartition) -> None:
        self.node.clock.advance(3601)
        self.do_round()
        now(archive._catalog.listed(again=True))
