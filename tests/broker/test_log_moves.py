"""Moves of logs between the directories of a broker: records, readers, syncs, failures, and stops at every step."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

from pylogbroker.broker.apis import alter_replica_log_dirs, delete_topics, describe_log_dirs
from pylogbroker.broker.partitions import log_moves
from pylogbroker.config import ConfigSource
from pylogbroker.errors import ErrorCode
from pylogbroker.storage import Log, names
from pylogbroker.storage.logdirs.log_copies import LogCopies
from pylogbroker.storage.logdirs.offset_checkpoints import OffsetCheckpoints
from pylogbroker.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pylogbroker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.broker.failing_disks import broken, failing
from tests.broker.nodes import NodeTests
from tests.storage.support import records_in

Call = Callable[..., Any]


def values(log: Log) -> list[tuple[int, int]]:
    """Return offsets and the numbers of records of the batches."""
    found, offset = [], log.log_start_offset
    while (region := log.read(offset, 1 << 20, upto=log.log_end_offset)) is not None:
        found.append((offset, len(records_in(region.read()))))
        offset = region.next_offset
    return found


class LogMoveTests(NodeTests):
    directory_count = 2

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t")
        for number in range(5):
            self.node.produce("t", 0, number, number)
        self.old = Path(self.log.path).parent
        [self.new] = [Path(each) for each in self.directories if each != str(self.old)]

    @property
    def log(self) -> Log:
        return self.node.broker.partitions.hosted["t", 0].log

    def move(self, to: Path | None = None, topic: str = "t", partition: int = 0, finish: bool = True) -> ErrorCode:
        wanted = AlterReplicaLogDir(str(to or self.new), [AlterReplicaLogDirTopic(topic, [partition])])
        [result] = self.node.ask(alter_replica_log_dirs.handle, AlterReplicaLogDirsRequest([wanted])).results
        if finish:
            self.pass_time()
        return ErrorCode(result.partitions[0].error_code)

    def pass_time(self, seconds: float = 1) -> None:
        for _ in range(round(seconds / 0.1)):
            self.node.clock.advance(0.1)

    def places(self) -> list[str]:
        """Return the directories with a log or a copy, in both log directories."""
        return sorted(
            f"{'old' if home == self.old else 'new'}/{path.name}"
            for home in (self.old, self.new)
            for path in home.glob("t_0*")
        )

    def described(self) -> list[tuple[str, bool, int]]:
        """Return where the log and its copy are: directory, whether it is the copy, lag."""
        answer = self.node.ask(describe_log_dirs.handle, DescribeLogDirsRequest(None))
        return sorted(
            ("old" if home.log_dir == str(self.old) else "new", each.is_future_key, each.offset_lag)
            for home in answer.results
            for topic in home.topics
            if topic.name == "t"
            for each in topic.partitions
        )


class MovingTests(LogMoveTests):
    def test_the_log_goes_on_in_the_other_directory(self) -> None:
        before = values(self.log)
        self.assertEqual(self.move(), ErrorCode.NONE)
        self.assertEqual(self.places(), ["new/t_0"])
        self.assertEqual((self.log.path, values(self.log)), (f"{self.new}/t_0", before))
        self.assertFalse((self.new / "t_0" / "moved").exists())
        self.node.produce("t", 0, 7)
        self.restart()
        self.assertEqual((self.log.path, self.log.log_end_offset), (f"{self.new}/t_0", 11))

    def test_a_log_can_be_moved_back(self) -> None:
        self.move()
        self.node.produce("t", 0, 7)
        self.move(self.old)
        self.assertEqual((self.places(), self.log.log_end_offset), (["old/t_0"], 11))
        self.restart()
        self.assertEqual(self.log.log_end_offset, 11)

    def test_logs_of_topics_with_the_longest_names_are_moved(self) -> None:
        for length in (246, 247, 248, 249):
            with self.subTest(length=length):
                topic = "t" * length
                self.node.create(topic)
                self.node.produce(topic, 0, length)
                old = self.node.broker.partitions.hosted[topic, 0].log.path
                [new] = [each for each in self.directories if each != os.path.dirname(old)]
                self.assertEqual(self.move(Path(new), topic), ErrorCode.NONE)
                self.assertEqual(self.node.broker.partitions.hosted[topic, 0].log.path, f"{new}/{topic}_0")

    def test_interrupted_moves_of_topics_with_the_longest_names_begin_again(self) -> None:
        topic = "t" * 249
        self.node.create(topic)
        self.node.produce(topic, 0, 7)
        old = self.node.broker.partitions.hosted[topic, 0].log.path
        [new] = [each for each in self.directories if each != os.path.dirname(old)]
        copy = Path(new, names.future_directory(topic, 0))
        copy.mkdir()
        (copy / names.MOVED).touch()
        self.restart()
        self.pass_time()
        self.assertEqual(self.node.broker.partitions.hosted[topic, 0].log.path, f"{new}/{topic}_0")
        self.assertEqual(list(Path(new).glob("t*-future")), [])

    def test_a_read_in_progress_keeps_its_files(self) -> None:
        region = self.log.read(0, 1 << 20, upto=10)
        assert region is not None
        self.move()
        self.assertEqual(len(records_in(region.read())), 10)

    def test_epochs_and_the_log_start_are_kept(self) -> None:
        self.log.assign_epoch(3)
        self.log.delete_records_before(4)
        self.move()
        self.assertEqual((self.log.latest_epoch, self.log.log_start_offset), (3, 4))
        self.restart()
        self.assertEqual((self.log.log_start_offset, self.log.log_end_offset), (4, 10))

    def test_appends_while_records_are_copied(self) -> None:
        threads = self.node.threads
        threads.holding = True
        self.move(finish=False)
        for number in range(100):
            self.node.produce("t", 0, number)
            self.pass_time(0.1)
            if threads.held:
                threads.run_one()
        threads.holding = False
        self.assertEqual((self.places(), self.log.log_end_offset), (["new/t_0"], 110))
        self.assertEqual(sum(count for _, count in values(self.log)), 110)

    def test_a_cut_begins_the_copy_again(self) -> None:
        threads = self.node.threads
        threads.holding = True
        self.move(finish=False)
        self.pass_time(0.1)
        threads.run_one()  # the copy is there
        self.pass_time(0.1)
        self.log.truncate_to(4)
        self.node.produce("t", 0, 7)
        while threads.held:
            threads.run_one()
            self.pass_time(0.2)
        self.assertEqual((self.places(), values(self.log)), (["new/t_0"], [(0, 5)]))

    def test_the_copy_is_described(self) -> None:
        self.node.threads.holding = True
        self.move(finish=False)
        self.pass_time(0.1)
        self.node.threads.run_one()
        self.node.threads.holding = False
        self.assertEqual(self.described(), [("new", True, 10), ("old", False, 0)])
        while self.node.threads.held:
            self.node.threads.run_one()
        self.pass_time()
        self.assertEqual(self.described(), [("new", False, 0)])

    def test_a_deleted_topic_takes_its_copy_along(self) -> None:
        threads = self.node.threads
        threads.holding = True
        self.move(finish=False)
        self.pass_time(0.1)
        self.node.send(delete_topics.handle, DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000))
        while threads.held:
            threads.run_one()
            self.pass_time(0.2)
        self.assertEqual(self.places(), [])

    def test_a_topic_of_the_same_name_stays_where_it_is(self) -> None:
        self.node.threads.holding = True
        self.move(finish=False)
        self.node.send(delete_topics.handle, DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000))
        self.node.threads.holding = False
        while self.node.threads.held:
            self.node.threads.run_one()
        self.pass_time()
        self.node.create("t")
        self.pass_time()
        self.assertEqual((self.places(), self.log.path), (["old/t_0"], f"{self.old}/t_0"))

    def test_the_rate(self) -> None:
        broker = self.node.broker
        rate = {"replica.alter.log.dirs.io.max.bytes.per.second": str(self.log.size // 10)}
        broker.config.set_dynamic(ConfigSource.DYNAMIC_BROKER_CONFIG, rate)
        with patch.multiple(log_moves, _CHUNK_BYTES=1, _REST_BYTES_MAX=1):
            self.move(finish=False)
            self.pass_time(6)
            [copy] = [each for each in self.described() if each[1]]
            self.assertIn(copy[2], (4, 2))  # of 10 records
            self.pass_time(6)
        self.assertEqual(self.places(), ["new/t_0"])


class RejectedTests(LogMoveTests):
    def test_errors(self) -> None:
        self.assertEqual(self.move(Path("/nowhere")), ErrorCode.LOG_DIR_NOT_FOUND)
        self.assertEqual(self.move(partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(self.move(topic="u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(self.move(self.old), ErrorCode.NONE)
        self.node.broker.partitions.directory_failed(str(self.new), "it burned")
        self.assertEqual(self.move(), ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.places(), ["old/t_0"])

    def test_a_replica_that_comes_later_is_made_there(self) -> None:
        self.node.change_partition("t", 0)
        moves = self.node.broker.log_moves
        with self.assertRaises(Exception) as caught:
            moves.move(("u", 0), str(self.old))
        self.assertEqual(caught.exception.code, ErrorCode.REPLICA_NOT_AVAILABLE)  # type: ignore[attr-defined]
        self.node.create("u")
        self.assertEqual(self.node.broker.partitions.hosted["u", 0].log.path, f"{self.old}/u_0")

    def test_a_full_disk_ends_the_move(self) -> None:
        with broken("pwritev", str(self.new), failing(errno.ENOSPC)):
            self.move()
        self.assertEqual((self.places(), self.log.log_end_offset), (["old/t_0"], 10))
        self.assertEqual(self.log.offline_reason, "")

    def test_a_failed_disk_goes_offline_alone(self) -> None:
        with broken("pwritev", str(self.new), failing(errno.EIO)):
            self.move()
        online = [each.path for each in self.node.broker.logs.directories.online]
        self.assertEqual((online, self.log.offline_reason), ([str(self.old)], ""))

    def test_an_old_directory_that_cannot_be_renamed_is_left(self) -> None:
        real = os.rename

        def rename(path: str, to: str) -> None:
            if path == f"{self.old}/t_0":
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            real(path, to)

        with patch.object(os, "rename", rename):
            self.move()
        self.assertEqual(self.places(), ["new/t_0", "old/t_0"])
        self.assertEqual((self.log.path, self.log.offline_reason), (f"{self.new}/t_0", ""))
        self.node.produce("t", 0, 7)
        self.restart()
        self.assertEqual((self.log.path, self.log.log_end_offset), (f"{self.new}/t_0", 11))

    def test_a_new_directory_that_cannot_be_synced_takes_its_log_offline(self) -> None:
        """Otherwise records could be acknowledged that a loss of power takes."""
        real = os.fsync

        def fsync(fd: int) -> None:
            if os.readlink(f"/proc/self/fd/{fd}") == str(self.new) and os.path.exists(f"{self.new}/t_0"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real(fd)

        with patch.object(os, "fsync", fsync):
            self.move()
        self.assertEqual(self.places(), ["new/t_0", "old/t_0"])
        self.assertNotIn(("t", 0), self.node.broker.partitions.hosted)


class KillTests(LogMoveTests):
    """The files of a moment, as a kill leaves them, are started from."""

    def kill_before(self, owner: Any, name: str, count: int = 1) -> None:
        """Move the log; go on with the files as they were at a call."""
        real, calls, copies = getattr(owner, name), [0], list[str]()

        def call(*arguments: Any, **named: Any) -> Any:
            calls[0] += 1
            if calls[0] == count:
                copies.extend(_copied(path) for path in self.directories)
            return real(*arguments, **named)

        with patch.object(owner, name, call):
            self.move()
        self.assertEqual(len(copies), 2)
        self._stack.close()
        for path, copy in zip(self.directories, copies, strict=True):
            shutil.rmtree(path)
            shutil.move(copy, path)
        (Path(self.directories[0]) / ".kafka_cleanshutdown").unlink(missing_ok=True)
        self.restart()
        self.node.broker.runtime.clock.advance(0)  # type: ignore[attr-defined]
        self.pass_time()

    def check(self) -> None:
        self.assertEqual((self.log.path, self.log.log_end_offset), (f"{self.new}/t_0", 10))
        self.assertEqual(sum(count for _, count in values(self.log)), 10)
        self.node.produce("t", 0, 7)
        self.restart()
        self.assertEqual((self.log.path, self.log.log_end_offset), (f"{self.new}/t_0", 11))
        self.assertEqual([each for each in self.places() if not each.endswith("-delete")], ["new/t_0"])

    def test_killed_while_records_are_copied(self) -> None:
        self.kill_before(Log, "append")
        self.check()

    def test_before_the_copy_takes_the_place(self) -> None:
        self.kill_before(LogCopies, "adopt")
        self.check()

    def test_before_the_new_directory_is_synced(self) -> None:
        self.kill_before(LogCopies, "finish")
        self.check()

    def test_before_the_old_log_is_renamed(self) -> None:
        self.kill_before(os, "rename", count=2)
        self.check()

    def test_before_the_old_log_is_removed(self) -> None:
        self.kill_before(OffsetCheckpoints, "save_all")
        self.check()


def _copied(path: str) -> str:
    to = mkdtemp()
    shutil.copytree(path, to, dirs_exist_ok=True)
    return to
