"""Checkpoints of offsets: a file in each log directory has an offset of each of its logs.

All methods but `note_deletion` and `may_have` block. Any thread may call those that do, while the reactor's thread uses
the logs. They return directories that failed: take these offline, unless the error is transient.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable

from pylogbroker.errors import StorageFailure
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.files import TRANSIENT_ERRNOS
from pylogbroker.storage.log.log import Log
from pylogbroker.storage.logdirs.log_directories import LogDirectories
from pylogbroker.storage.logdirs.log_directory import LogDirectory, Notice
from pylogbroker.storage.logdirs.ownership import ForeignDirectory


class OffsetCheckpoints:
    def __init__(
        self,
        directories: LogDirectories,
        logs: dict[TopicPartition, Log],
        foreign: dict[TopicPartition, ForeignDirectory],
    ) -> None:
        self._directories = directories
        self._logs = logs
        self._foreign = foreign
        self._saving = threading.Lock()
        self._deletions = 0
        self._saved_deletions = 0  # at the last checkpoint

    def save_recovery_points(self) -> list[Notice]:
        return self._save(names.RECOVERY_POINTS, lambda log: log.recovery_point)

    def save_log_starts(self) -> list[Notice]:
        """Write only log start offsets that do not follow from the names of segments."""
        return self._save(names.LOG_STARTS, _start_to_write, _note_durable_start)

    def save_high_watermarks(self) -> list[Notice]:
        return self._save(names.HIGH_WATERMARKS, lambda log: log.high_watermark)

    def save_cleaned(self) -> list[Notice]:
        return self._save(names.CLEANER_CHECKPOINT, lambda log: log.cleaner_checkpoint or None)

    def save_all(self) -> list[Notice]:
        return [
            *self.save_recovery_points(),
            *self.save_log_starts(),
            *self.save_high_watermarks(),
            *self.save_cleaned(),
        ]

    def _save(
        self,
        name: str,
        offset_of: Callable[[Log], int | None],
        note_saved: Callable[[Log, int], None] = lambda log, offset: None,
    ) -> list[Notice]:
        """Write a checkpoint of each directory, in a worker thread.

        A list of a dict's items allocates tuples, and so may collect garbage, which lets other threads run within it.
        """
        failed = []
        with self._saving:
            self._saved_deletions = self._deletions
            logs, others = self._logs.copy(), self._foreign.copy()  # the reactor thread may change them
            for directory in self._directories.online:
                offsets = {
                    key: offset
                    for key, log in logs.items()
                    if os.path.dirname(log.path) == directory.path and (offset := offset_of(log)) is not None
                }
                kept = [key for key, other in others.items() if os.path.dirname(other.path) == directory.path]
                try:
                    directory.save_offsets(name, offsets | directory.saved_offsets(name, kept))
                except OSError as error:
                    text = f"{name}: {error.strerror or error}"
                    failed.append(Notice(directory.path, text, error.errno in TRANSIENT_ERRNOS))
                else:
                    for key, offset in offsets.items():
                        note_saved(logs[key], offset)
        return failed

    # Offsets of deleted logs: after a crash they would be taken for a new log's

    def note_deletion(self) -> None:
        self._deletions += 1

    def may_have(self, deleted: Iterable[TopicPartition]) -> bool:
        return self._saved_deletions != self._deletions or any(
            home.has_offset_of(key) for home in self._directories.online for key in deleted
        )

    def drop(self, deleted: Iterable[TopicPartition]) -> None:
        """Write checkpoints without these offsets; else `drop_before_creation` does it, on the reactor's thread."""
        with self._saving:  # a checkpoint may be in progress
            has_offset = any(home.has_offset_of(key) for home in self._directories.online for key in deleted)
        if has_offset:
            self.save_all()

    def drop_before_creation(self, home: LogDirectory, key: TopicPartition) -> None:
        """Blocks only if a log was deleted since the last checkpoint; raise StorageFailure."""
        if self._saved_deletions == self._deletions and not home.has_offset_of(key):
            return
        with self._saving:
            has_offset = home.has_offset_of(key)
        if not has_offset:
            return
        for notice in self.save_all():
            if notice.path == home.path:
                raise StorageFailure(str(notice))


def _start_to_write(log: Log) -> int | None:
    return log.log_start_offset if log.is_archived or log.log_start_offset != log.segments[0].base_offset else None


def _note_durable_start(log: Log, offset: int) -> None:
    log.durable_start = min(offset, log.log_start_offset)
