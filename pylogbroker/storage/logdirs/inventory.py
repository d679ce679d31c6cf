"""Inventory of partition directories at start, and a summary of recovered logs.

The inventory changes nothing: errors that prevent a start are found before clean-shutdown markers are removed.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable

import attrs

from pylogbroker.errors import StartupError
from pylogbroker.formatting import counted
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.log.loader import Recovered
from pylogbroker.storage.logdirs.log_directory import LogDirectory, Notice

Report = Callable[[Notice | Recovered], None]


@attrs.frozen
class DeletedDirectory:
    """Directory renamed to `-delete`, for a worker to remove."""

    path: str

    def remove(self) -> None:
        """Blocks; any thread."""
        shutil.rmtree(self.path, ignore_errors=True)


@attrs.frozen
class Inventory:
    home: LogDirectory
    logs: dict[TopicPartition, str] = attrs.field(factory=dict)
    misplaced: dict[TopicPartition, str] = attrs.field(factory=dict)  # named like logs, but not directories
    futures: list[str] = attrs.field(factory=list)  # copies of logs that were being moved here
    deleted: list[DeletedDirectory] = attrs.field(factory=list)
    stray: list[str] = attrs.field(factory=list)


def take_inventory(home: LogDirectory) -> Inventory:
    """List a log directory; raise OSError if its disk fails."""
    inventory = Inventory(home)
    with os.scandir(home.path) as listing:
        for entry in listing:
            if names.is_deleted_directory(entry.name):
                inventory.deleted.append(DeletedDirectory(entry.path))
            elif names.is_stray_directory(entry.name):
                inventory.stray.append(entry.path)
            elif names.is_future_directory(entry.name):
                inventory.futures.append(entry.path)
            elif (key := names.parse_partition_directory(entry.name)) is not None:
                (inventory.logs if entry.is_dir() else inventory.misplaced)[key] = entry.path
    return inventory


def take_moved_logs(inventories: Iterable[Inventory]) -> list[str]:
    """Drop logs from the inventories that were moved to another directory; return their paths.

    A stop came between the last two steps of the move.
    """
    paths: dict[TopicPartition, list[tuple[Inventory, str]]] = {}
    for inventory in inventories:
        for key, path in inventory.logs.items():
            paths.setdefault(key, []).append((inventory, path))
    left: list[str] = []
    for key, places in paths.items():
        if len(places) == 1:
            continue
        old = [place for place in places if not os.path.exists(f"{place[1]}/{names.MOVED}")]
        if len(old) == len(places) - 1:
            for inventory, path in old:
                del inventory.logs[key]
                left.append(path)
    return left


def check_duplicate_partitions(inventories: Iterable[Inventory]) -> None:
    """Raise StartupError if a partition is in two directories: only a person can decide."""
    seen: dict[TopicPartition, str] = {}
    for inventory in inventories:
        for key, path in inventory.logs.items():
            other = seen.setdefault(key, path)
            if other != path:
                raise StartupError(
                    f"partition {key[1]} of {key[0]} lies in two log directories, as {other} and as {path}: "
                    "move the one that is not wanted out of its log directory"
                )


class RecoverySummary:
    """Reports one line per directory with recovered logs, and per log with losses. Any thread."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._found: list[Recovered] = []

    def add(self, recovered: Recovered) -> None:
        self._found.append(recovered)
        if recovered.cut is not None:
            self._report(recovered)

    def report_totals(self) -> None:
        cut = Counter(os.path.dirname(recovery.path) for recovery in self._found if recovery.cut is not None)
        for path, count in Counter(os.path.dirname(recovery.path) for recovery in self._found).items():
            self._report(
                Notice(path, f"not stopped cleanly: {counted(count, 'log')} checked, {cut[path] or 'none'} cut")
            )
