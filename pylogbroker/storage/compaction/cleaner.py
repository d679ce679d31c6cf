"""One cleaning of one log: collect the last offset of each key, then copy what stays.

The first pass reads the dirty part, as far as its keys fit into memory. The second pass reads all sources up to there;
each group becomes one segment. Batches keep their offsets. A file's last batch stays, if need be empty, so that the
next segment begins at its end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

from pylogbroker.storage import names
from pylogbroker.storage.compaction.blocks import DamagedEntry, block_size, read_blocks
from pylogbroker.storage.compaction.cleaned_segment import CleanedSegment
from pylogbroker.storage.compaction.jobs import Cleaned, CleanerJob, SourceSegment, Statistics
from pylogbroker.storage.compaction.latest_records import LatestRecords
from pylogbroker.storage.compaction.offset_map_builder import OffsetMapBuilder
from pylogbroker.storage.compaction.retention import Retention
from pylogbroker.storage.compaction.transactions import CleanedTransactions
from pylogbroker.storage.files import sync_file
from pylogbroker.storage.log.segment import RELATIVE_OFFSET_MAX
from pylogbroker.storage.log.segment_swap import Replacement
from pylogbroker.storage.log.transaction_index import AbortedTxn, TransactionIndex

_Spent = Callable[[int], None]
_INDEXES: Final = (names.OFFSET_INDEX, names.TIME_INDEX)


@attrs.define
class Throttle:
    """Delays the caller to keep the rate; unused time is not saved up."""

    bytes_per_second: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _free_at: float = 0.0

    def spent(self, size: int) -> None:
        now = self.clock()
        self._free_at = max(self._free_at, now) + size / self.bytes_per_second
        if self._free_at > now:
            self.sleep(self._free_at - now)


def clean(job: CleanerJob) -> Cleaned:
    """Do a job. Blocks; the new files are on the disk when it returns.

    Raise DamagedSegment for a damaged source, or StorageFailure, CorruptRecords, OSError. `.cleaned` files may remain
    then.
    """
    began = time.monotonic()
    spent = Throttle(job.io_bytes_per_second).spent
    aborted = _aborted_transactions(job)
    builder = OffsetMapBuilder.of(job, aborted)
    builder.build(job, spent)
    map_seconds = time.monotonic() - began
    statistics = Statistics(keys=builder.map.used, without_key=builder.without_key, map_seconds=map_seconds)
    cleaner = _Cleaner(job, builder, aborted, spent)
    replacements = cleaner.replace_all()
    sync_file(job.directory)
    return Cleaned(replacements, builder.end, cleaner.complete(statistics, time.monotonic() - began))


def _aborted_transactions(job: CleanerJob) -> list[AbortedTxn]:
    aborted = list(job.aborted)
    for source, end in job.bounded:
        path = names.file_of(job.directory, source.base_offset, names.TRANSACTION_INDEX)
        index = TransactionIndex(path, 0)
        index.check(source.base_offset, end)
        aborted += index.overlapping(source.base_offset, end)[0]
    return aborted


@attrs.define(eq=False, repr=False)
class _Cleaner:
    job: CleanerJob
    builder: OffsetMapBuilder
    aborted: Sequence[AbortedTxn]
    spent: _Spent
    bytes_read: int = 0
    bytes_written: int = 0
    _latest: LatestRecords = attrs.field(init=False)
    _retention: Retention = attrs.field(init=False)
    _output: CleanedSegment = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        job, builder = self.job, self.builder
        clean = [source for source in job.sources if source.base_offset < job.first_dirty_offset]
        old_before = clean[-1].modified_ms - job.delete_retention_ms if clean else 0
        transactions = CleanedTransactions.of(self.aborted)
        self._latest = LatestRecords(builder.map, builder.hash, job.first_dirty_offset)
        self._retention = Retention(job, self._latest, builder.end, transactions, self._add_aborted, old_before)

    def replace_all(self) -> tuple[Replacement, ...]:
        sources = tuple(source for source in self.job.sources if source.base_offset < self.builder.end)
        job = attrs.evolve(self.job, sources=sources)
        return tuple(replacement for group in groups(job) if (replacement := self._replace(group)) is not None)

    def _replace(self, group: tuple[SourceSegment, ...]) -> Replacement | None:
        """Return None if a single source does not change."""
        self._output = CleanedSegment(self.job, group[0].base_offset, self.spent)
        changed = [self._copy(source, ends_file=source is group[-1]) for source in group]
        self.bytes_written += self._output.size
        if len(group) == 1 and not any(changed):
            self._output.discard()
            return None
        self._output.finish(group[-1].modified_ms)
        return Replacement(tuple(source.base_offset for source in group), group[0].base_offset, self._output.size)

    def _copy(self, source: SourceSegment, ends_file: bool) -> bool:
        changed = False
        for block in read_blocks(source, self.spent, block_size(self.job.io_bytes_per_second)):
            try:
                changes = self._retention.changes(block, ends_file and block.end == source.size)
            except DamagedEntry as error:
                raise block.damaged(error.index, error.detail) from error
            self._output.write(block, changes)
            self.bytes_read += int(block.sizes.sum())
            changed |= bool(changes)
        return changed

    def _add_aborted(self, transaction: AbortedTxn) -> None:
        self._output.add_aborted(transaction)

    def complete(self, statistics: Statistics, seconds: float) -> Statistics:
        read = self._retention.records_read
        return attrs.evolve(
            statistics,
            records_read=read,
            records_kept=read - self._retention.records_dropped,
            bytes_read=self.bytes_read,
            bytes_written=self.bytes_written,
            without_key=statistics.without_key + self._latest.without_key,
            seconds=seconds,
        )


def groups(job: CleanerJob) -> Iterator[tuple[SourceSegment, ...]]:
    group: list[SourceSegment] = []
    held = [0, 0, 0]
    limits = job.segment_bytes, job.segment_index_bytes, job.segment_index_bytes
    for source, end in job.bounded:
        more = [before + size for before, size in zip(held, _sizes(job, source), strict=True)]
        fits = all(size <= limit for size, limit in zip(more, limits, strict=True))
        if group and not (fits and end - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX):
            yield tuple(group)
            group, more = [], _sizes(job, source)
        group.append(source)
        held = more
    if group:
        yield tuple(group)


def _sizes(job: CleanerJob, source: SourceSegment) -> list[int]:
    return [source.size, *(_size(names.file_of(job.directory, source.base_offset, suffix)) for suffix in _INDEXES)]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
