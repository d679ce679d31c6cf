"""First pass: collects the last offsets of dirty keys, as far as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import numpy as np

from pylogbroker.errors import StorageFailure
from pylogbroker.records.batch import CONTROL, TRANSACTIONAL
from pylogbroker.records.columnar.varints import Flags
from pylogbroker.storage.compaction.blocks import Block, DamagedEntry, block_size, read_blocks
from pylogbroker.storage.compaction.jobs import CleanerJob, SourceSegment
from pylogbroker.storage.compaction.key_hash import KeyHash
from pylogbroker.storage.compaction.offset_map import OffsetMap
from pylogbroker.storage.compaction.record_chunks import RecordChunk, record_chunks
from pylogbroker.storage.compaction.transactions import CleanedTransactions
from pylogbroker.storage.log.transaction_index import AbortedTxn


@attrs.define(eq=False, repr=False)
class OffsetMapBuilder:
    """`end` is the offset after the last batch in the map."""

    map: OffsetMap
    hash: KeyHash
    start: int
    end: int
    transactions: CleanedTransactions
    is_full: bool = False
    bytes_read: int = 0
    without_key: int = 0  # of the dirty part

    @classmethod
    def of(cls, job: CleanerJob, aborted: Sequence[AbortedTxn]) -> OffsetMapBuilder:
        start = job.first_dirty_offset
        key_map = OffsetMap.of(job.dedupe_bytes, max(job.end_offset - start, 0))
        return cls(key_map, KeyHash.random(), start, start, CleanedTransactions.of(aborted))

    def build(self, job: CleanerJob, spent: Callable[[int], None]) -> None:
        for source in _dirty(job):
            for block in read_blocks(source, spent, block_size(job.io_bytes_per_second)):
                self.bytes_read += int(block.sizes.sum())
                try:
                    self._add_block(block)
                except DamagedEntry as error:
                    raise block.damaged(error.index, error.detail) from error
                if self.is_full:
                    return self._check_progress(job)
        self.end = max(job.end_offset, self.start)

    def _check_progress(self, job: CleanerJob) -> None:
        if self.end <= self.start:
            raise StorageFailure(
                f"{job.dedupe_bytes} bytes cannot hold the keys of one batch: raise log.cleaner.dedupe.buffer.size"
            )

    def _add_block(self, block: Block) -> None:
        mask = (block.last_offsets >= self.start) & self._holds_data(block)
        for chunk in record_chunks(block, mask):
            self._add(chunk, block)
            if self.is_full:
                return
        self.end = int(block.last_offsets[-1]) + 1

    def _holds_data(self, block: Block) -> Flags:
        holds = np.ones(len(block), np.bool_)
        for index in np.flatnonzero((block.magics == 2) & (block.attributes & (CONTROL | TRANSACTIONAL) != 0)).tolist():
            if block.attributes[index] & CONTROL:
                self.transactions.control(block.entry(index))
                holds[index] = False
            else:
                holds[index] = not self.transactions.data(
                    int(block.producer_ids[index]), int(block.last_offsets[index])
                )
        return holds

    def _add(self, chunk: RecordChunk, block: Block) -> None:
        is_dirty = chunk.offsets >= self.start
        counted = np.flatnonzero(is_dirty & (chunk.keys.length >= 0))
        self.without_key += int(np.count_nonzero(is_dirty)) - len(counted)
        first, second = self.hash(chunk.keys.some(counted))
        offsets = chunk.offsets[counted]
        if len(counted) <= self.map.free or self.map.missing(first, second) <= self.map.free:
            self.map.put(first, second, offsets)
            self.end = int(block.last_offsets[chunk.numbers[-1]]) + 1
            return
        batch = chunk.batch[counted]
        for number in chunk.numbers.tolist():
            some = slice(*np.searchsorted(batch, (number, number + 1)).tolist())
            if self.map.missing(first[some], second[some]) > self.map.free:
                self.is_full = True
                return
            self.map.put(first[some], second[some], offsets[some])
            self.end = int(block.last_offsets[number]) + 1


def _dirty(job: CleanerJob) -> tuple[SourceSegment, ...]:
    return tuple(source for source, end in job.bounded if end > job.first_dirty_offset)
