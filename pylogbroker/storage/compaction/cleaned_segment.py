"""Files of a cleaned segment, named `.cleaned`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from pylogbroker.records.log_entry import parse
from pylogbroker.storage import names
from pylogbroker.storage.compaction.blocks import Block
from pylogbroker.storage.compaction.jobs import CleanerJob
from pylogbroker.storage.compaction.retention import Changes
from pylogbroker.storage.files import Buffer, FileHandle, Pools, remove, sync_file
from pylogbroker.storage.log.offset_index import OffsetIndex
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.log.segment_file import SegmentFile
from pylogbroker.storage.log.time_index import TimeIndex
from pylogbroker.storage.log.transaction_index import AbortedTxn, TransactionIndex

_SUFFIXES: Final = (names.RECORDS, names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX)


class _Written(NamedTuple):
    last_offset: int
    max_timestamp: int
    size: int


class CleanedSegment:
    def __init__(self, job: CleanerJob, base_offset: int, spent: Callable[[int], None]) -> None:
        self._spent = spent
        self._paths = [names.file_of(job.directory, base_offset, suffix) + names.CLEANED for suffix in _SUFFIXES]
        self.discard()
        entries, offsets, times, aborted = self._paths
        pools = Pools.of(16)
        file = SegmentFile(job.directory, base_offset, pools)
        file.keep_open(FileHandle.open(entries, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        self._segment = Segment(
            base_offset,
            0,
            file,
            OffsetIndex(offsets, base_offset, 0, pools.indexes),
            TimeIndex(times, base_offset, 0),
            TransactionIndex(aborted, 0),
            index_interval=job.index_interval_bytes,
            largest=(-1, base_offset),
        )

    @property
    def size(self) -> int:
        return self._segment.size

    def write(self, block: Block, changes: Changes) -> None:
        chunks: list[Buffer] = []
        written: list[_Written] = []
        begin = 0
        for index, new in [*sorted(changes.items()), (len(block), None)]:
            if begin < index:
                chunks.append(block.raw(begin, index))
                written += _unchanged(block, begin, index)
            if new is not None:
                chunks.append(new)
                entry = parse(memoryview(new))
                written.append(_Written(entry.last_offset, entry.max_timestamp, entry.size))
            begin = index + 1
        if size := sum(map(len, chunks)):
            self._segment.append(chunks, size, written)
            self._spent(size)

    def add_aborted(self, transaction: AbortedTxn) -> None:
        self._segment.transaction_index.append(transaction)

    def finish(self, modified_ms: int) -> None:
        """Sync the files; set the modification time of the youngest source."""
        self._segment.seal()
        self._segment.close()
        for path in self._paths[1:3]:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        os.utime(self._paths[0], ns=(modified_ms * 1_000_000,) * 2)
        for path in self._paths:
            sync_file(path)

    def discard(self) -> None:
        for path in self._paths:
            remove(path)


def _unchanged(block: Block, first: int, behind: int) -> map[_Written]:
    some = slice(first, behind)
    columns = block.last_offsets[some], block.timestamps[some], block.sizes[some]
    return map(_Written, *(column.tolist() for column in columns))
