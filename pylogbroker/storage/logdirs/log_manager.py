"""All logs of a broker, in one or several log directories.

A start goes: `identities` (whose data it is), `recognize` (is everything where it was?), `lock` (nothing is touched
before all directories are held), `identify` (they are marked as this broker's), `to_remember`, `load`.  A stop is
`close`.  In between logs are created and deleted, and checkpoints written.

Thread rules: `load`, `checkpoint_...`, `close`, and `remove` of what was deleted block on the disk; `checkpoint_...`
and `remove` may run in workers while the reactor's thread uses the logs.  All else belongs to the reactor's thread.
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
from pylogbroker.storage.files import TRANSIENT_ERRNOS, Pools, sync_file
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
)
from pylogbroker.storage.logdirs.log_directories import LogDirectories, is_fatal, reason_of
from pylogbroker.storage.logdirs.log_directory import LogDirectory, Notice
from pylogbroker.storage.logdirs.ownership import ForeignDirectory, Topics, foreign

_SYNC_THREADS: Final = 16
_CHECKPOINTS: Final = (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_CHECKPOINT)
"""In the order of what a log is told of them, see `Checkpointed`."""
_Outcome = Log | ForeignDirectory | OSError | DamagedFile


def _unheard(finding: object) -> None:
    """Of a log that is being made there is nothing to tell."""


ConfigOf = Callable[[str], LogConfig]


@attrs.frozen
class _Task:
    """A log to be opened."""

    home: LogDirectory
    key: TopicPartition
    path: str
    saved: Checkpointed


class LogManager(LogDirectories):
    """The logs by topic and partition, and the directories they lie in."""

    def __init__(self, directories: Iterable[str], pools: Pools | None = None, recovery_threads: int = 1) -> None:
        super().__init__(directories)
        self.foreign: dict[
            TopicPartition, ForeignDirectory
        ] = {}  # directories that are named like partitions, and left alone
        self._pools = pools or Pools.of()
        self._threads = recovery_threads
        self._saving = threading.Lock()
        self._deletions = 0
        self._listed = 0  # how many of the deletions the last checkpoint knew of

    # Start

    def load(
        self, config_of: ConfigOf, now_ms: int, report: Report, topics: Topics | None = None
    ) -> list[DeletedDirectory]:
        """Open all logs; returns deleted partitions that are still to be removed.

        With `topics`, only logs of these are opened: other directories are left as they are, and listed in `unowned`.
        StartupError, with all left as it was, if a partition lies in two directories; whatever `config_of` raises.
        """
        inventories = self._survey(report)
        check_duplicate_partitions(inventories)
        recoveries = RecoverySummary(report)
        note = recoveries.note
        tasks = [task for found in inventories for task in self._tasks(found, report)]

        def open_one(task: _Task) -> _Outcome:
            topic, partition = task.key
            try:
                found = None if topics is None else foreign(task.path, task.key, topics)
                return found or load_log(
                    topic, partition, task.path, config_of(topic), self._pools, task.saved, now_ms, note
                )
            except (OSError, DamagedFile) as error:
                return error

        with ThreadPoolExecutor(self._threads) as executor:
            run = executor.map if self._threads > 1 else map
            for task, outcome in zip(tasks, run(open_one, tasks), strict=True):
                self._admit(task, outcome, report)
        recoveries.tell()
        return [deleted for found in inventories for deleted in found.deleted]

    def _survey(self, report: Report) -> list[Inventory]:
        inventories = []
        for directory in self.online:
            try:
                inventories.append(take_inventory(directory))
            except OSError as error:
                self._fail(directory, error, report)
        return inventories

    def _tasks(self, found: Inventory, report: Report) -> list[_Task]:
        """The logs in a directory, with what its checkpoints say of them."""
        home = found.home
        self.offline.update({key: f"{path}: not a directory" for key, path in found.misplaced.items()})
        try:
            clean = home.take_clean_marker()
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

    def _admit(self, task: _Task, outcome: _Outcome, report: Report) -> None:
        home, reason = task.home, task.home.failure
        if isinstance(outcome, ForeignDirectory):
            self.foreign[task.key] = outcome
            return
        if isinstance(outcome, DamagedFile):
            reason = reason or outcome.detail
        if isinstance(outcome, OSError) and not reason:
            reason = reason_of(home, outcome)
            if is_fatal(home, outcome):
                self._fail(home, outcome, report)
        if isinstance(outcome, Log) and not reason:
            self.logs[task.key] = outcome
            home.logs += 1
        else:
            self.offline[task.key] = reason

    def _fail(self, directory: LogDirectory, error: OSError, report: Report) -> None:
        reason = reason_of(directory, error)
        self.fail_directory(directory.path, reason)
        report(Notice(directory.path, f"offline, {reason}"))

    # Use

    def get(self, topic: str, partition: int) -> Log | None:
        """A log; None if there is none.  StorageFailure if it or its directory is offline."""
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
        report: Report = _unheard,
    ) -> Log:
        """The log, made if there is none, in the directory with the fewest logs.

        One of another topic of that name, as the directory's `topic_id` tells, is set aside; one whose directory tells
        nothing counts as the topic's unless this `is_new`.  StorageFailure if that fails, or if the log is not `is_new`
        and may lie in a directory that is offline.
        """
        log = self.get(topic, partition)
        if log is not None:
            if _belongs(log, topic_id, is_new):
                return log
            self._set_aside(log, report)
        self._make_way((topic, partition), report)
        if not is_new and len(self.online) < len(self.directories):
            raise StorageFailure(f"partition {partition} of {topic} may lie in a directory that is offline")
        if not self.online:
            raise StorageFailure("all log directories are offline")
        home = min(self.online, key=attrgetter("logs"))
        self._forget_former(home, (topic, partition))
        path = f"{home.path}/{names.partition_directory(topic, partition)}"
        was_there = os.path.lexists(path)
        try:
            os.makedirs(path, exist_ok=True)
            log = load_log(topic, partition, path, config, self._pools, Checkpointed(), now_ms, _unheard)
            if topic_id is not None:
                _mark(log, topic_id)
        except OSError as error:
            if not was_there:  # else another try may find the next directory emptier, and the log would lie in two
                shutil.rmtree(path, ignore_errors=True)
            raise self._failure(home, error) from error
        self.logs[topic, partition] = log
        home.logs += 1
        return log

    def _make_way(self, key: TopicPartition, report: Report) -> None:
        """Rename a directory that has a new log's name; StorageFailure if it is none of the broker's."""
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
        """Whether a checkpoint may speak of former logs of these names: see `drop_stale_checkpoints`."""
        return self._listed != self._deletions or any(home.has_offset_of(key) for home in self.online for key in keys)

    def drop_stale_checkpoints(self, keys: Iterable[TopicPartition]) -> None:
        """Write checkpoints that do not speak of former logs of these names.  Blocks; any thread.

        `create` does so if need be, but blocks.
        """
        with self._saving:  # one that is being written may speak of them
            known = any(home.has_offset_of(key) for home in self.online for key in keys)
        if known:
            self._checkpoint_all()

    def _forget_former(self, home: LogDirectory, key: TopicPartition) -> None:
        """Have no checkpoint speak of an earlier log of that name: after a crash it would be believed of the new one.

        Blocks only where such a log was deleted since the last checkpoint.
        """
        if self._listed == self._deletions and not home.has_offset_of(key):
            return
        with self._saving:  # one that is being written may speak of it
            known = home.has_offset_of(key)
        if not known:
            return
        for notice in self._checkpoint_all():
            if notice.path == home.path:
                raise StorageFailure(str(notice))

    def _failure(self, home: LogDirectory, error: OSError) -> StorageFailure:
        reason = reason_of(home, error)
        if is_fatal(home, error):
            self.fail_directory(home.path, reason)
        return StorageFailure(reason)

    def _set_aside(self, log: Log, report: Report) -> None:
        path = self._take_away(log, names.stray_directory)
        whose = f"another topic of that name, {id_text(log.topic_id)}" if log.topic_id else "an earlier topic"
        report(Notice(log.path, f"the log of {whose}: kept, not served, as {path}"))

    def delete(self, topic: str, partition: int) -> DeletedDirectory | None:
        """Take a log away; a worker has to `remove` what is returned.  None if there is none."""
        log = self.get(topic, partition)
        if log is None:
            return None
        return DeletedDirectory(self._take_away(log, names.deleted_directory))

    def sync_deletions(self, deleted: Iterable[DeletedDirectory]) -> list[Notice]:
        """Force to the disk that logs were deleted, so that none returns after a loss of power; tells what failed.

        Blocks; any thread.
        """
        failed = []
        for home in {os.path.dirname(directory.path) for directory in deleted}:
            try:
                sync_file(home)
            except OSError as error:
                failed.append(Notice(home, error.strerror or str(error)))
        return failed

    def _take_away(self, log: Log, new_name: Callable[[str], str]) -> str:
        """Rename a log's directory and forget the log; says where it is now."""
        home = self._home(log)
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

    # Checkpoints

    def checkpoint_recovery_points(self) -> list[Notice]:
        """Keep up to where logs are safe on the disk.

        This and the others say which directories failed at that: those should be taken offline, unless it passes.
        """
        return self._checkpoint(names.RECOVERY_POINTS, lambda log: log.recovery_point)

    def checkpoint_log_starts(self) -> list[Notice]:
        """Keep where logs begin, if not at their first segment."""
        return self._checkpoint(names.LOG_STARTS, _start_within_segment)

    def checkpoint_high_watermarks(self) -> list[Notice]:
        """Keep up to where logs may be read."""
        return self._checkpoint(names.HIGH_WATERMARKS, lambda log: log.high_watermark)

    def checkpoint_cleaned(self) -> list[Notice]:
        """Keep up to where logs were compacted."""
        return self._checkpoint(names.CLEANER_CHECKPOINT, lambda log: log.cleaner_checkpoint or None)

    def _checkpoint_all(self) -> list[Notice]:
        return [
            *self.checkpoint_recovery_points(),
            *self.checkpoint_log_starts(),
            *self.checkpoint_high_watermarks(),
            *self.checkpoint_cleaned(),
        ]

    def _checkpoint(self, name: str, offset_of: Callable[[Log], int | None]) -> list[Notice]:
        failed = []
        with self._saving:
            self._listed = self._deletions
            logs, others = list(self.logs.items()), list(self.foreign.items())
            for directory in self.online:
                offsets = {
                    key: offset
                    for key, log in logs
                    if os.path.dirname(log.path) == directory.path and (offset := offset_of(log)) is not None
                }
                left_alone = [key for key, other in others if os.path.dirname(other.path) == directory.path]
                offsets |= directory.saved_offsets(name, left_alone)
                try:
                    directory.save_offsets(name, offsets)
                except OSError as error:
                    text = f"{name}: {error.strerror or error}"
                    failed.append(Notice(directory.path, text, error.errno in TRANSIENT_ERRNOS))
        return failed

    # Stop

    def close(self) -> list[Notice]:
        """Bring everything to the disk, mark what is whole as cleanly stopped, and let go; tells what failed."""
        with ThreadPoolExecutor(_SYNC_THREADS) as executor:  # the file system commits them together
            outcomes = list(executor.map(_close, list(self.logs.values())))
        failed = [notice for notice in outcomes if notice is not None]
        failed += self._checkpoint_all()
        unclean = {notice.path for notice in failed}
        for directory in self.online:
            if directory.path not in unclean:
                with self._failing(directory):
                    directory.leave_clean_marker()
        self.unlock()
        return failed


def _belongs(log: Log, topic_id: UUID | None, is_new: bool) -> bool:
    """Whether a log that was found is the topic's; it is marked as such if it was not."""
    if topic_id is None or log.topic_id == topic_id:
        return True
    if is_new or log.topic_id is not None:
        return False
    with suppress(OSError):  # then the next start does it
        _mark(log, topic_id)
    return True


def _mark(log: Log, topic_id: UUID) -> None:
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
