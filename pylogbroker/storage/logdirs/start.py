"""Opens all logs of a broker, at its start."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import attrs

from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile, TopicPartition
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.loader import Checkpointed, load_log
from pylogbroker.storage.log.log import Log
from pylogbroker.storage.logdirs.inventory import (
    DeletedDirectory,
    Inventory,
    RecoverySummary,
    Report,
    check_duplicate_partitions,
    take_inventory,
    take_moved_logs,
)
from pylogbroker.storage.logdirs.log_directory import LogDirectory, Notice
from pylogbroker.storage.logdirs.log_manager import LogManager
from pylogbroker.storage.logdirs.ownership import ForeignDirectory, TopicIds, examine

_CHECKPOINTS: Final = (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_CHECKPOINT)
"""In the order of the fields of `Checkpointed`."""
_Outcome = Log | ForeignDirectory | OSError | DamagedFile

_ConfigOf = Callable[[str], LogConfig]


@attrs.frozen
class _Task:
    home: LogDirectory
    key: TopicPartition
    path: str
    saved: Checkpointed


def load_logs(
    manager: LogManager, config_of: _ConfigOf, now_ms: int, report: Report, topics: TopicIds | None = None
) -> list[DeletedDirectory]:
    """Open all logs; return deleted partitions that must still be removed. Blocks.

    With `topics`, other directories are left as they are, in `foreign`. Errors of `config_of` propagate. If a
    partition lies in two directories, raise StartupError and change nothing.
    """
    return _Start(manager, report).load(config_of, now_ms, topics)


@attrs.frozen
class _Start:
    _manager: LogManager
    _report: Report

    def load(self, config_of: _ConfigOf, now_ms: int, topics: TopicIds | None) -> list[DeletedDirectory]:
        manager = self._manager
        inventories = self._take_inventories()
        moved = take_moved_logs(inventories)
        check_duplicate_partitions(inventories)
        summary = RecoverySummary(self._report)
        tasks = [task for inventory in inventories for task in self._tasks(inventory)]

        def open_one(task: _Task) -> _Outcome:
            topic, partition = task.key
            try:
                owner = None if topics is None else examine(task.path, task.key, topics)
                if isinstance(owner, ForeignDirectory):
                    return owner
                config, report = config_of(topic), summary.add
                return load_log(
                    topic, partition, task.path, config, manager.pools, task.saved, now_ms, report, topic_id=owner
                )
            except (OSError, DamagedFile) as error:
                return error

        with ThreadPoolExecutor(manager.recovery_threads) as executor:
            run = executor.map if manager.recovery_threads > 1 else map
            for task, outcome in zip(tasks, run(open_one, tasks), strict=True):
                self._register(task, outcome)
        summary.report_totals()
        deleted = [directory for inventory in inventories for directory in inventory.deleted]
        return deleted + self._discard_moves(inventories, moved)

    def _discard_moves(self, inventories: Collection[Inventory], moved: Iterable[str]) -> list[DeletedDirectory]:
        """Rename what moves of logs have left; an interrupted one begins again."""
        left = [*moved, *(path for inventory in inventories for path in inventory.futures)]
        if any(inventory.futures for inventory in inventories):
            keys = {names.future_directory(*key): key for inventory in inventories for key in inventory.logs}
            for home, name in (os.path.split(path) for inventory in inventories for path in inventory.futures):
                if name in keys:  # else the log is gone, or its directory offline
                    self._manager.interrupted_moves[keys[name]] = home
        discarded = []
        for path in left:
            home, name = os.path.split(path)
            with suppress(OSError):  # the next start tries again
                os.rename(path, renamed := f"{home}/{names.deleted_directory(name)}")
                discarded.append(DeletedDirectory(renamed))
        return discarded

    def _take_inventories(self) -> list[Inventory]:
        inventories = []
        for directory in self._manager.directories.online:
            try:
                inventories.append(take_inventory(directory))
            except OSError as error:
                self._fail(directory, error)
        self._manager.stray_directories += (path for inventory in inventories for path in sorted(inventory.stray))
        self._manager.were_closed_cleanly = len(inventories) == len(list(self._manager.directories))
        return inventories

    def _tasks(self, inventory: Inventory) -> list[_Task]:
        home = inventory.home
        self._manager.offline.update({key: f"{path}: not a directory" for key, path in inventory.misplaced.items()})
        try:
            clean = home.take_clean_marker()
            self._manager.were_closed_cleanly &= clean
            checkpoints = [self._offsets(home, name) for name in _CHECKPOINTS]
        except OSError as error:
            self._fail(home, error)
            return []

        def saved(key: TopicPartition) -> Checkpointed:
            return Checkpointed(clean, *(offsets.get(key, 0) for offsets in checkpoints))

        return [_Task(home, key, path, saved(key)) for key, path in inventory.logs.items()]

    def _offsets(self, directory: LogDirectory, name: str) -> dict[TopicPartition, int]:
        offsets, notice = directory.load_offsets(name)
        if notice is not None:
            self._report(notice)
        return offsets

    def _register(self, task: _Task, outcome: _Outcome) -> None:
        home, reason = task.home, task.home.failure
        if isinstance(outcome, ForeignDirectory):
            self._manager.foreign[task.key] = outcome
            return
        if isinstance(outcome, DamagedFile):
            reason = reason or outcome.detail
        if isinstance(outcome, OSError) and not reason:
            reason = home.reason(outcome)
            if home.is_lost_to(outcome):
                self._fail(home, outcome)
        if isinstance(outcome, Log) and not reason:
            self._manager.logs[task.key] = outcome
            home.logs += 1
        else:
            self._manager.offline[task.key] = reason

    def _fail(self, directory: LogDirectory, error: OSError) -> None:
        reason = directory.reason(error)
        self._manager.fail_directory(directory.path, reason)
        self._report(Notice(directory.path, f"offline, {reason}"))
