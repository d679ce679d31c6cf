"""All logs of a broker, in one or several log directories.

A directory whose disk fails goes offline with its logs. If only one log's files fail, only that log goes offline.

Thread rules: `close`, `sync_deletions`, and `remove` of deleted directories block. `remove` may run in workers while
the reactor's thread uses logs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from operator import attrgetter
from typing import Final
from uuid import UUID

from pylogbroker.errors import StorageFailure
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.files import Pools, sync_file
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.loader import Checkpointed, ignore, load_log
from pylogbroker.storage.log.log import Log
from pylogbroker.storage.log.partition_metadata import id_text, write_topic_id
from pylogbroker.storage.logdirs.inventory import DeletedDirectory, Report
from pylogbroker.storage.logdirs.log_directories import LogDirectories
from pylogbroker.storage.logdirs.log_directory import NO_BROKER_EPOCH, LogDirectory, Notice
from pylogbroker.storage.logdirs.offset_checkpoints import OffsetCheckpoints
from pylogbroker.storage.logdirs.ownership import ForeignDirectory

_SYNC_THREADS: Final = 16


class LogManager:
    def __init__(self, paths: Iterable[str], pools: Pools | None = None, recovery_threads: int = 1) -> None:
        self.directories = LogDirectories(paths)
        self.logs: dict[TopicPartition, Log] = {}
        self.offline: dict[TopicPartition, str] = {}  # reasons
        self.foreign: dict[TopicPartition, ForeignDirectory] = {}  # not opened
        self.stray_directories: list[str] = []  # directories that were renamed to `-stray`
        self.preferred: dict[TopicPartition, str] = {}  # directories for logs that are not there yet
        self.interrupted_moves: dict[TopicPartition, str] = {}  # to directories, by the last stop
        self.were_closed_cleanly = True  # by the last stop, in all directories
        self.broker_epoch = NO_BROKER_EPOCH  # of a member of a cluster of KRaft controllers, kept by a clean stop
        self.pools = pools or Pools.of()
        self.recovery_threads = recovery_threads
        self.checkpoints = OffsetCheckpoints(self.directories, self.logs, self.foreign)

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
        report: Report = ignore,
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
        self._settle_foreign((topic, partition), topic_id, is_new, report)
        if not is_new and any(directory.failure for directory in self.directories):
            raise StorageFailure(f"partition {partition} of {topic} may be in a directory that is offline")
        if not self.directories.online:
            raise StorageFailure("all log directories are offline")
        home = self._home_of_new((topic, partition))
        self.checkpoints.drop_before_creation(home, (topic, partition))
        path = f"{home.path}/{names.partition_directory(topic, partition)}"
        was_there = os.path.lexists(path)
        try:
            os.makedirs(path, exist_ok=True)
            log = load_log(topic, partition, path, config, self.pools, Checkpointed(), now_ms)
            if topic_id is not None:
                set_topic_id(log, topic_id)
        except OSError as error:
            if not was_there:  # else a retry elsewhere would put the log into two directories
                shutil.rmtree(path, ignore_errors=True)
            raise self.failure(home, error) from error
        self.logs[topic, partition] = log
        home.logs += 1
        return log

    def _home_of_new(self, key: TopicPartition) -> LogDirectory:
        preferred = self.preferred.pop(key, None)
        homes = [directory for directory in self.directories.online if directory.path == preferred]
        return min(homes or self.directories.online, key=attrgetter("logs"))

    def _settle_foreign(self, key: TopicPartition, topic_id: UUID | None, is_new: bool, report: Report) -> None:
        """Rename the directory; raise StorageFailure if the broker did not write it.

        A directory of the same topic is kept: the metadata at the start were older than those of the last life.
        """
        foreign = self.foreign.get(key)
        if foreign is None:
            return
        if foreign.is_of(topic_id, is_new):
            self.preferred[key] = os.path.dirname(foreign.path)
            del self.foreign[key]
            return
        if not foreign.is_own and os.path.lexists(foreign.path):
            self.offline[key] = f"{foreign.path} {foreign.reason}, then start the broker again"
            raise StorageFailure(self.offline[key])
        if os.path.lexists(foreign.path):
            home, name = os.path.split(foreign.path)
            path = f"{home}/{names.stray_directory(name)}"
            try:
                os.rename(foreign.path, path)
            except OSError as error:
                raise StorageFailure(f"{foreign.path}: {error.strerror}") from error
            self.stray_directories.append(path)
            report(Notice(foreign.path, f"{foreign.reason}: kept, not served, as {path}"))
        del self.foreign[key]

    def failure(self, home: LogDirectory, error: OSError) -> StorageFailure:
        """Return the error to raise; take the directory offline if it is lost."""
        reason = home.reason(error)
        if home.is_lost_to(error):
            self.fail_directory(home.path, reason)
        return StorageFailure(reason)

    def quarantine(self, topic: str, partition: int) -> str:
        """Rename a log to `-stray`; return its path. Raise StorageFailure if the disk fails."""
        path = self._rename(self.logs[topic, partition], names.stray_directory)
        self.stray_directories.append(path)
        return path

    def _make_stray(self, log: Log, report: Report) -> None:
        path = self.quarantine(log.topic, log.partition)
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
            raise self.failure(home, error) from error
        log.take_offline("deleted")
        del self.logs[log.topic, log.partition]
        self.checkpoints.note_deletion()
        home.logs -= 1
        return path

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

    # Stop

    def close(self) -> list[Notice]:
        """Sync, close and unlock all; mark sound directories as clean; return failures."""
        with ThreadPoolExecutor(_SYNC_THREADS) as executor:  # the file system commits many syncs at once
            outcomes = list(executor.map(_close, list(self.logs.values())))
        failed = [notice for notice in outcomes if notice is not None]
        failed += self.checkpoints.save_all()
        unclean = {notice.path for notice in failed}
        for directory in self.directories.online:
            if directory.path not in unclean:
                with self.directories.failing(directory):
                    directory.leave_clean_marker(self.broker_epoch)
        self.directories.unlock()
        return failed


def _belongs(log: Log, topic_id: UUID | None, is_new: bool) -> bool:
    if topic_id is None or log.topic_id == topic_id:
        return True
    if is_new or log.topic_id is not None:
        return False
    with suppress(OSError):  # the next start writes it
        set_topic_id(log, topic_id)
    return True


def set_topic_id(log: Log, topic_id: UUID) -> None:
    write_topic_id(log.path, topic_id)
    log.topic_id = topic_id


def _close(log: Log) -> Notice | None:
    try:
        log.close()
    except StorageFailure as failure:
        return Notice(os.path.dirname(log.path), failure.detail)
    return None
