"""All logs of a broker, in one or several log directories.

A directory whose disk fails goes offline with its logs. If only one log's files fail, only that log goes offline.

Thread rules: `load`, `checkpoint_...`, `close`, `drop_stale_checkpoints`, `sync_deletions`, and `remove` of deleted
directories block. `checkpoint_...` and `remove` may run in workers while the reactor's thread uses logs.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from operator import attrgetter
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.errors import StorageFailure
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile, TopicPartition
from pylogbroker.storage.files import TRANSIENT_ERRNOS, Pools, opened, remove, sync_file
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.loader import Checkpointed, load_log
from pylogbroker.storage.log.log import Log
from pylogbroker.storage.log.partition_metadata import id_text, write_topic_id
from pylogbroker.storage.logdirs.inventory import (
    DeletedDirectory,
    Inventory,
    RecoverySummary,
    Report,
    check_duplicate_partitions,
    take_inventory,
    take_moved_logs,
)
from pylogbroker.storage.logdirs.log_directories import LogDirectories
from pylogbroker.storage.logdirs.log_directory import LogDirectory, Notice
from pylogbroker.storage.logdirs.ownership import ForeignDirectory, TopicIds, find_foreign

_SYNC_THREADS: Final = 16
_CHECKPOINTS: Final = (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_CHECKPOINT)
"""In the order of the fields of `Checkpointed`."""
_Outcome = Log | ForeignDirectory | OSError | DamagedFile


def _ignore(finding: object) -> None:
    """Discard a notice."""


ConfigOf = Callable[[str], LogConfig]


@attrs.frozen
class _Task:
    home: LogDirectory
    key: TopicPartition
    path: str
    saved: Checkpointed


class LogManager:
    def __init__(self, paths: Iterable[str], pools: Pools | None = None, recovery_threads: int = 1) -> None:
        self.directories = LogDirectories(paths)
        self.logs: dict[TopicPartition, Log] = {}
        self.offline: dict[TopicPartition, str] = {}  # reasons
        self.foreign: dict[TopicPartition, ForeignDirectory] = {}  # not opened
        self.preferred: dict[TopicPartition, str] = {}  # directories for logs that are not there yet
        self.interrupted_moves: dict[TopicPartition, str] = {}  # to directories, by the last stop
        self.were_closed_cleanly = True  # by the last stop, in all directories
        self._pools = pools or Pools.of()
        self._threads = recovery_threads
        self._saving = threading.Lock()
        self._deletions = 0
        self._checkpointed_deletions = 0  # at the last checkpoint

    # Start

    def load(
        self, config_of: ConfigOf, now_ms: int, report: Report, topics: TopicIds | None = None
    ) -> list[DeletedDirectory]:
        """Open all logs; return deleted partitions that must still be removed.

        With `topics`, other directories are left as they are, in `foreign`. Errors of `config_of` propagate. If a
        partition lies in two directories, raise StartupError and change nothing.
        """
        inventories = self._take_inventories(report)
        moved = take_moved_logs(inventories)
        check_duplicate_partitions(inventories)
        summary = RecoverySummary(report)
        tasks = [task for found in inventories for task in self._tasks(found, report)]

        def open_one(task: _Task) -> _Outcome:
            topic, partition = task.key
            try:
                found = None if topics is None else find_foreign(task.path, task.key, topics)
                return found or load_log(
                    topic, partition, task.path, config_of(topic), self._pools, task.saved, now_ms, summary.add
                )
            except (OSError, DamagedFile) as error:
                return error

        with ThreadPoolExecutor(self._threads) as executor:
            run = executor.map if self._threads > 1 else map
            for task, outcome in zip(tasks, run(open_one, tasks), strict=True):
                self._register(task, outcome, report)
        summary.report_totals()
        deleted = [directory for found in inventories for directory in found.deleted]
        return deleted + self._discard_moves(inventories, moved)

    def _discard_moves(self, inventories: Iterable[Inventory], moved: Iterable[str]) -> list[DeletedDirectory]:
        """Rename what moves of logs have left; an interrupted one begins again."""
        left = list(moved)
        for found in inventories:
            for key, path in found.futures.items():
                self.interrupted_moves[key] = found.home.path
                left.append(path)
        discarded = []
        for path in left:
            home, name = os.path.split(path)
            with suppress(OSError):  # the next start tries again
                os.rename(path, renamed := f"{home}/{names.deleted_directory(name)}")
                discarded.append(DeletedDirectory(renamed))
        return discarded

    def _take_inventories(self, report: Report) -> list[Inventory]:
        inventories = []
        for directory in self.directories.online:
            try:
                inventories.append(take_inventory(directory))
            except OSError as error:
                self._fail(directory, error, report)
        self.were_closed_cleanly = len(inventories) == len(list(self.directories))
        return inventories

    def _tasks(self, found: Inventory, report: Report) -> list[_Task]:
        home = found.home
        self.offline.update({key: f"{path}: not a directory" for key, path in found.misplaced.items()})
        try:
            clean = home.take_clean_marker()
            self.were_closed_cleanly &= clean
            checkpoints = [self._offsets(home, name, report) for name in _CHECKPOINTS]
        except OSError as error:
            self._fail(home, error, report)
            return []

        def saved(key: TopicPartition) -> Checkpointed:
            return Checkpointed(clean, *(offsets.get(key, 0) for offsets in checkpoints))

        return [_Task(home, key, path, saved(key)) for key, path in found.logs.items()]

    def _offsets(self, directory: LogDirectory, name: str, report: Report) -> dict[TopicPartition, int]:
        offsets, notice = directory.load_offsets(name)
        if notice is not None:
            report(notice)
        return offsets

    def _register(self, task: _Task, outcome: _Outcome, report: Report) -> None:
        home, reason = task.home, task.home.failure
        if isinstance(outcome, ForeignDirectory):
            self.foreign[task.key] = outcome
            return
        if isinstance(outcome, DamagedFile):
            reason = reason or outcome.detail
        if isinstance(outcome, OSError) and not reason:
            reason = home.reason(outcome)
            if home.is_lost_to(outcome):
                self._fail(home, outcome, report)
        if isinstance(outcome, Log) and not reason:
            self.logs[task.key] = outcome
            home.logs += 1
        else:
            self.offline[task.key] = reason

    def _fail(self, directory: LogDirectory, error: OSError, report: Report) -> None:
        reason = directory.reason(error)
        self.fail_directory(directory.path, reason)
        report(Notice(directory.path, f"offline, {reason}"))

    # Use

    def get(self, topic: str, partition: int) -> Log | None:
        """Raise StorageFailure if the log is offline."""
        log = self.logs.get((topic, partition))
        if log is None and (topic, partition) in self.offline:
            raise StorageFailure(self.offline[topic, partition])
        return log

    def create(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        now_ms: int,
        *,
        topic_id: UUID | None = None,
        is_new: bool = True,
        report: Report = _ignore,
    ) -> Log:
        """Return the log; create a missing one in the directory with the fewest logs.

        Another topic's log is renamed to `-stray`. A log without topic id is the topic's, unless that `is_new`.

        Raise StorageFailure if the disk fails, or if a log that is not new may be in an offline directory.
        """
        log = self.get(topic, partition)
        if log is not None:
            if _belongs(log, topic_id, is_new):
                return log
            self._make_stray(log, report)
        self._rename_foreign((topic, partition), report)
        if not is_new and any(directory.failure for directory in self.directories):
            raise StorageFailure(f"partition {partition} of {topic} may be in a directory that is offline")
        if not self.directories.online:
            raise StorageFailure("all log directories are offline")
        home = self._home_of_new((topic, partition))
        self._drop_stale_checkpoints(home, (topic, partition))
        path = f"{home.path}/{names.partition_directory(topic, partition)}"
        was_there = os.path.lexists(path)
        try:
            os.makedirs(path, exist_ok=True)
            log = load_log(topic, partition, path, config, self._pools, Checkpointed(), now_ms, _ignore)
            if topic_id is not None:
                _set_topic_id(log, topic_id)
        except OSError as error:
            if not was_there:  # else a retry elsewhere would put the log into two directories
                shutil.rmtree(path, ignore_errors=True)
            raise self._failure(home, error) from error
        self.logs[topic, partition] = log
        home.logs += 1
        return log

    def _home_of_new(self, key: TopicPartition) -> LogDirectory:
        preferred = self.preferred.pop(key, None)
        wanted = [directory for directory in self.directories.online if directory.path == preferred]
        return min(wanted or self.directories.online, key=attrgetter("logs"))

    def _rename_foreign(self, key: TopicPartition, report: Report) -> None:
        """Rename the directory; raise StorageFailure if the broker did not write it."""
        found = self.foreign.get(key)
        if found is None:
            return
        if found.topic_id is None and os.path.lexists(found.path):
            self.offline[key] = f"{found.path} {found.reason}, then start the broker again"
            raise StorageFailure(self.offline[key])
        if os.path.lexists(found.path):
            home, name = os.path.split(found.path)
            path = f"{home}/{names.stray_directory(name)}"
            try:
                os.rename(found.path, path)
            except OSError as error:
                raise StorageFailure(f"{found.path}: {error.strerror}") from error
            report(Notice(found.path, f"{found.reason}: kept, not served, as {path}"))
        del self.foreign[key]

    def has_stale_checkpoints(self, keys: Iterable[TopicPartition]) -> bool:
        """Return whether checkpoints may have offsets of deleted logs `keys`."""
        return self._checkpointed_deletions != self._deletions or any(
            home.has_offset_of(key) for home in self.directories.online for key in keys
        )

    def drop_stale_checkpoints(self, keys: Iterable[TopicPartition]) -> None:
        """Write checkpoints without offsets of deleted logs `keys`. Blocks; any thread.

        Otherwise `create` does it, on the reactor's thread.
        """
        with self._saving:  # a checkpoint may be in progress
            known = any(home.has_offset_of(key) for home in self.directories.online for key in keys)
        if known:
            self._checkpoint_all()

    def _drop_stale_checkpoints(self, home: LogDirectory, key: TopicPartition) -> None:
        """Remove a deleted log's offsets: after a crash they would be taken for the new log's.

        Blocks only if a log was deleted since the last checkpoint.
        """
        if self._checkpointed_deletions == self._deletions and not home.has_offset_of(key):
            return
        with self._saving:
            known = home.has_offset_of(key)
        if not known:
            return
        for notice in self._checkpoint_all():
            if notice.path == home.path:
                raise StorageFailure(str(notice))

    def _failure(self, home: LogDirectory, error: OSError) -> StorageFailure:
        reason = home.reason(error)
        if home.is_lost_to(error):
            self.fail_directory(home.path, reason)
        return StorageFailure(reason)

    def _make_stray(self, log: Log, report: Report) -> None:
        path = self._rename(log, names.stray_directory)
        owner = f"another topic of that name, {id_text(log.topic_id)}" if log.topic_id else "an earlier topic"
        report(Notice(log.path, f"the log of {owner}: kept, not served, as {path}"))

    def delete(self, topic: str, partition: int) -> DeletedDirectory | None:
        """Delete a log, if it exists; a worker must `remove` the result."""
        log = self.get(topic, partition)
        if log is None:
            return None
        return DeletedDirectory(self._rename(log, names.deleted_directory))

    def sync_deletions(self, deleted: Iterable[DeletedDirectory]) -> list[Notice]:
        """Sync, so that no log comes back after a loss of power; return failures."""
        failed = []
        for home in {os.path.dirname(directory.path) for directory in deleted}:
            try:
                sync_file(home)
            except OSError as error:
                failed.append(Notice(home, error.strerror or str(error)))
        return failed

    def _rename(self, log: Log, new_name: Callable[[str], str]) -> str:
        home = self.home(log)
        path = f"{home.path}/{new_name(os.path.basename(log.path))}"
        try:
            os.rename(log.path, path)
        except OSError as error:
            raise self._failure(home, error) from error
        log.take_offline("deleted")
        del self.logs[log.topic, log.partition]
        self._deletions += 1
        home.logs -= 1
        return path

    # Moves between directories: see `pylogbroker.broker.partitions.log_moves`

    def begin_copy(self, log: Log, home: LogDirectory, now_ms: int) -> Log:
        """Return an empty copy of a log in another directory. Blocks; any thread. Raises OSError."""
        path = f"{home.path}/{names.future_directory(log.topic, log.partition)}"
        shutil.rmtree(path, ignore_errors=True)
        remove(f"{log.path}/{names.MOVED}")
        try:
            os.makedirs(path)
            with opened(f"{path}/{names.MOVED}", os.O_WRONLY | os.O_CREAT):
                pass
            saved = Checkpointed(log_start_offset=log.log_start_offset)
            copy = load_log(log.topic, log.partition, path, log.config, self._pools, saved, now_ms, _ignore)
            if log.topic_id is not None:
                _set_topic_id(copy, log.topic_id)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        copy.cleaner_checkpoint = log.cleaner_checkpoint
        return copy

    def discard_copy(self, copy: Log) -> None:
        """Remove a copy. Blocks; any thread."""
        copy.take_offline("discarded")
        shutil.rmtree(copy.path, ignore_errors=True)

    def adopt_copy(self, log: Log, copy: Log) -> str:
        """Let a copy with all records take the log's place; return the old directory. Syncs of the log are held."""
        old, home = self.home(log), self.home(copy)
        path, former = f"{home.path}/{names.partition_directory(log.topic, log.partition)}", log.path
        try:
            os.rename(copy.path, path)
        except OSError as error:
            raise self._failure(home, error) from error
        log.adopt(copy, path)
        self._deletions += 1
        old.logs -= 1
        home.logs += 1
        return former

    def finish_move(self, log: Log, former: str) -> None:
        """Sync the move, let the log's syncs go on, and remove the former directory. Blocks; any thread.

        The former directory goes after the new one is on the disk: a start has one of them at least. Raise
        StorageFailure if the log is offline now, OSError if the former directory is left, for the next start.
        """
        try:
            sync_file(os.path.dirname(log.path))
        except OSError as error:
            raise log.record_failure(error, frozenset()) from error
        finally:
            log.release_syncs()
        home, name = os.path.split(former)
        renamed = f"{home}/{names.deleted_directory(name)}"
        os.rename(former, renamed)
        sync_file(home)
        remove(f"{log.path}/{names.MOVED}")
        self._checkpoint_all()
        shutil.rmtree(renamed, ignore_errors=True)

    # Failures

    def isolate(self, log: Log) -> list[TopicPartition]:
        """Take the log or its directory offline, unless its error was transient; return the logs that went offline."""
        key = log.topic, log.partition
        if not log.offline_reason or self.logs.get(key) is not log:
            return []
        home = self.home(log)
        if home.is_lost_to_errno(log.failure_errno):
            return self.fail_directory(home.path, log.offline_reason)
        self.logs.pop(key).take_offline(log.offline_reason)
        self.offline[key] = log.offline_reason
        home.logs -= 1
        return [key]

    def fail_directory(self, path: str, reason: str) -> list[TopicPartition]:
        self.directories.fail(path, reason)
        failed = [key for key, log in self.logs.items() if os.path.dirname(log.path) == path]
        for key in failed:
            self.logs.pop(key).take_offline(reason)
            self.offline[key] = reason
        return failed

    def home(self, log: Log) -> LogDirectory:
        return self.directories.at(os.path.dirname(log.path))

    # Checkpoints

    def checkpoint_recovery_points(self) -> list[Notice]:
        """Write recovery points. Checkpoint methods return directories that failed.

        Take these offline, unless the error is transient.
        """
        return self._checkpoint(names.RECOVERY_POINTS, lambda log: log.recovery_point)

    def checkpoint_log_starts(self) -> list[Notice]:
        """Write only log start offsets within a segment."""
        return self._checkpoint(names.LOG_STARTS, _start_within_segment)

    def checkpoint_high_watermarks(self) -> list[Notice]:
        return self._checkpoint(names.HIGH_WATERMARKS, lambda log: log.high_watermark)

    def checkpoint_cleaned(self) -> list[Notice]:
        return self._checkpoint(names.CLEANER_CHECKPOINT, lambda log: log.cleaner_checkpoint or None)

    def _checkpoint_all(self) -> list[Notice]:
        return [
            *self.checkpoint_recovery_points(),
            *self.checkpoint_log_starts(),
            *self.checkpoint_high_watermarks(),
            *self.checkpoint_cleaned(),
        ]

    def _checkpoint(self, name: str, offset_of: Callable[[Log], int | None]) -> list[Notice]:
        """Write a checkpoint of each directory, in a worker thread.

        A list of a dict's items allocates tuples, and so may collect garbage, which lets other threads run within it.
        """
        failed = []
        with self._saving:
            self._checkpointed_deletions = self._deletions
            logs, others = self.logs.copy(), self.foreign.copy()  # the reactor thread may change them
            for directory in self.directories.online:
                offsets = {
                    key: offset
                    for key, log in logs.items()
                    if os.path.dirname(log.path) == directory.path and (offset := offset_of(log)) is not None
                }
                kept = [key for key, other in others.items() if os.path.dirname(other.path) == directory.path]
                offsets |= directory.saved_offsets(name, kept)
                try:
                    directory.save_offsets(name, offsets)
                except OSError as error:
                    text = f"{name}: {error.strerror or error}"
                    failed.append(Notice(directory.path, text, error.errno in TRANSIENT_ERRNOS))
        return failed

    # Stop

    def close(self) -> list[Notice]:
        """Sync, close and unlock all; mark sound directories as clean; return failures."""
        with ThreadPoolExecutor(_SYNC_THREADS) as executor:  # the file system commits many syncs at once
            outcomes = list(executor.map(_close, list(self.logs.values())))
        failed = [notice for notice in outcomes if notice is not None]
        failed += self._checkpoint_all()
        unclean = {notice.path for notice in failed}
        for directory in self.directories.online:
            if directory.path not in unclean:
                with self.directories.failing(directory):
                    directory.leave_clean_marker()
        self.directories.unlock()
        return failed


def _belongs(log: Log, topic_id: UUID | None, is_new: bool) -> bool:
    if topic_id is None or log.topic_id == topic_id:
        return True
    if is_new or log.topic_id is not None:
        return False
    with suppress(OSError):  # the next start writes it
        _set_topic_id(log, topic_id)
    return True


def _set_topic_id(log: Log, topic_id: UUID) -> None:
    write_topic_id(log.path, topic_id)
    log.topic_id = topic_id


def _close(log: Log) -> Notice | None:
    try:
        log.close()
    except StorageFailure as failure:
        return Notice(os.path.dirname(log.path), failure.detail)
    return None


def _start_within_segment(log: Log) -> int | None:
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None
