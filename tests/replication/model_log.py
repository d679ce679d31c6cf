"""Log as a list: the offset is the index."""

from __future__ import annotations

from collections.abc import Sequence

from pylogbroker.storage.log.leader_epochs import LeaderEpochs

Record = tuple[int, int]
"""Leader epoch and value."""


class ModelLog:
    """Keeps deleted records, for comparison; those that it never had are (-1, -1)."""

    def __init__(self, flushes: bool = False) -> None:
        self.records: list[Record] = []
        self.log_start_offset = 0
        self.epochs = LeaderEpochs("", [])
        self.flushes = flushes
        self.on_disk = 0
        self.is_archived = False
        self.last_epoch_forgotten = False  # for a mutant

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def synced_offset(self) -> int:
        return self.on_disk if self.flushes else len(self.records)

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    @property
    def has_only_archive(self) -> bool:
        return self.is_archived and self.log_start_offset == len(self.records)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, len(self.records))

    def append(self, records: Sequence[Record]) -> None:
        for epoch, value in records:
            self.epochs.assign(epoch, len(self.records))
            self.records.append((epoch, value))

    def assign_epoch(self, epoch: int) -> None:
        self.epochs.assign(epoch, len(self.records))

    def start_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_start(offset)

    def truncate_to(self, offset: int) -> None:
        del self.records[offset:]
        self.log_start_offset = min(self.log_start_offset, offset)
        self.on_disk = min(self.on_disk, offset)
        self.epochs.truncate_end(offset)

    def restart_at(self, offset: int) -> None:
        self.truncate_to(0)
        self.records = [(-1, -1)] * offset
        self.log_start_offset = self.on_disk = offset

    def sync(self) -> None:
        self.on_disk = len(self.records)

    def restart(self, end: int) -> None:
        """Lose the records from `end` on, and the epochs that have no record."""
        del self.records[end:]
        self.on_disk = min(self.on_disk, end)
        self.epochs = LeaderEpochs("", [])
        for offset in range(self.log_start_offset, end):
            self.epochs.assign(self.records[offset][0], offset)
        self.last_epoch_forgotten = False
