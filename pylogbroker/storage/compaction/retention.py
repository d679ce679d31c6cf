"""Second pass: decides which batches of a block stay, and how they change.

A record stays if it is the last of its key, and has a value or a future delete horizon. The first cleaning that keeps a
tombstone sets its batch's horizon: `delete_retention_ms` from now. v0 and v1 have none; the age of the segment decides
about their tombstones.

An empty batch stays if it is the last of its file or has an active producer's last sequence. Batches from `end` on, the
end of the first pass, stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from pylogbroker.records.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from pylogbroker.records.columnar.varints import Flags
from pylogbroker.storage.compaction.batch_rewriter import emptied, rewritten, shortened
from pylogbroker.storage.compaction.blocks import Block
from pylogbroker.storage.compaction.jobs import CleanerJob
from pylogbroker.storage.compaction.latest_records import LatestRecords
from pylogbroker.storage.compaction.record_chunks import BatchChunk, MessageChunk, record_chunks
from pylogbroker.storage.compaction.record_columns import has_value, read_keys
from pylogbroker.storage.compaction.transactions import CleanedTransactions
from pylogbroker.storage.log.transaction_index import AbortedTxn

Changes = dict[int, bytes | None]
"""New bytes by the index of a batch; None drops it."""


@attrs.define(eq=False, repr=False)
class Retention:
    """Call it in the order of the log."""

    job: CleanerJob
    latest: LatestRecords
    end: int
    transactions: CleanedTransactions
    on_aborted: Callable[[AbortedTxn], None]
    old_tombstones_before_ms: int
    records_read: int = 0
    records_dropped: int = 0

    @property
    def horizon(self) -> int:
        return self.job.now_ms + self.job.delete_retention_ms

    def changes(self, block: Block, ends_file: bool) -> Changes:
        """Leave out unchanged batches."""
        verdict = Verdict.of(block, self.job.now_ms)
        self._check_transactions(block, verdict)
        for chunk in record_chunks(block, verdict.is_data & (block.last_offsets < self.end)):
            keep = self.latest(chunk)
            if isinstance(chunk, MessageChunk):
                self._check_messages(block, chunk, keep, ends_file, verdict)
            else:
                self._check_batches(block, chunk, keep, verdict)
        self._empty(block, self._must_stay(block, ends_file), verdict)
        self.records_read += int(block.counts[block.magics == 2].sum())
        return verdict.changes

    def _check_transactions(self, block: Block, verdict: Verdict) -> None:
        special = (block.magics == 2) & (block.attributes & (CONTROL | TRANSACTIONAL) != 0)
        for index in np.flatnonzero(special).tolist():
            if block.attributes[index] & CONTROL:
                self._check_control(block, index, verdict)
            elif self.transactions.data(int(block.producer_ids[index]), int(block.last_offsets[index])):
                verdict.is_data[index], verdict.is_empty[index] = False, True
        for chunk in record_chunks(block, verdict.is_due):
            self._rewrite(block, chunk, np.ones(len(chunk.offsets), np.bool_), verdict)

    def _check_control(self, block: Block, index: int, verdict: Verdict) -> None:
        verdict.is_data[index] = False
        has_served, aborted = self.transactions.control(block.entry(index))
        if aborted is not None:
            self.on_aborted(aborted)
        if not has_served:
            return
        if not block.counts[index] or verdict.has_expired[index]:
            verdict.is_empty[index] = True
        elif not verdict.has_horizon[index]:
            verdict.is_due[index] = True

    def _check_batches(self, block: Block, chunk: BatchChunk, keep: Flags, verdict: Verdict) -> None:
        rows, numbers = chunk.rows, chunk.numbers
        latest = np.flatnonzero(keep)
        tombstones = latest[~has_value(read_keys(rows, latest))]
        has_expired = verdict.has_expired[rows.batch[tombstones]]
        keep[tombstones[has_expired]] = False
        staying = rows.batch[tombstones[~has_expired]]
        verdict.is_due[staying] = ~verdict.has_horizon[staying]
        left = np.bincount(rows.batch[keep] - numbers[0], minlength=numbers[-1] - numbers[0] + 1)[numbers - numbers[0]]
        verdict.is_empty[numbers] = left == 0
        touched = np.zeros(len(block), np.bool_)
        touched[numbers] = (left > 0) & ((left < block.counts[numbers]) | verdict.is_due[numbers])
        self._rewrite(block, chunk, keep & touched[rows.batch], verdict)
        self.records_dropped += len(rows) - int(left.sum())

    def _rewrite(self, block: Block, chunk: BatchChunk | MessageChunk, keep: Flags, verdict: Verdict) -> None:
        if isinstance(chunk, BatchChunk):
            verdict.changes.update(rewritten(block, chunk.rows, keep, verdict.is_due, self.horizon))

    def _check_messages(
        self, block: Block, chunk: MessageChunk, keep: Flags, ends_file: bool, verdict: Verdict
    ) -> None:
        stay_anyway = block.source.modified_ms > self.old_tombstones_before_ms
        position = 0
        for number, records in zip(chunk.numbers.tolist(), chunk.records, strict=True):
            latest = keep[position : position + len(records)].tolist()
            kept = [
                is_last and (stay_anyway or r.value is not None) for is_last, r in zip(latest, records, strict=True)
            ]
            position += len(records)
            self.records_read += len(records)
            self.records_dropped += kept.count(False)
            if not all(kept):
                entry = block.entry(number)
                new = shortened(entry, records, kept, ends_file and number == len(block) - 1)
                if new is None or new != bytes(entry.buffer):
                    verdict.changes[number] = new

    def _must_stay(self, block: Block, ends_file: bool) -> Flags:
        stays = np.zeros(len(block), np.bool_)
        sequences = self.job.last_sequences
        if sequences and (block.producer_ids >= 0).any():
            offsets = np.fromiter(sequences.values(), np.int64, len(sequences))
            for index in np.flatnonzero(np.isin(block.last_offsets, offsets)).tolist():
                stays[index] = sequences.get(int(block.producer_ids[index])) == block.last_offsets[index]
        stays[-1] |= ends_file
        return stays

    def _empty(self, block: Block, must_stay: Flags, verdict: Verdict) -> None:
        self.records_dropped += int(block.counts[verdict.is_empty & ~verdict.is_data].sum())
        for index in np.flatnonzero(verdict.is_empty).tolist():
            if not must_stay[index]:
                verdict.changes[index] = None
            elif block.counts[index]:
                verdict.changes[index] = emptied(block.entry(index))
            else:
                verdict.changes.pop(index, None)


@attrs.frozen(eq=False, repr=False)
class Verdict:
    is_data: Flags  # neither a marker nor aborted
    has_horizon: Flags
    has_expired: Flags
    is_due: Flags  # gets a horizon
    is_empty: Flags  # has no record left
    changes: Changes

    @classmethod
    def of(cls, block: Block, now_ms: int) -> Verdict:
        has_horizon = (block.magics == 2) & (block.attributes & DELETE_HORIZON != 0)
        has_expired = has_horizon & (block.first_timestamps <= now_ms)
        none = np.zeros(len(block), np.bool_)
        return cls(~none, has_horizon, has_expired, none, none.copy(), {})
