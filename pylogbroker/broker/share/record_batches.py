"""Batches of a log as share groups acquire them.

A share fetch reads small pieces, and stops when it has acquired enough records. Records in a response need not follow
each other: a batch without acquired records is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from pylogbroker.broker.fetch.readahead import read_if_cached
from pylogbroker.groups.share.values import AcquiredRecords, LogBatch
from pylogbroker.records import Buffer, LogEntry, entries
from pylogbroker.storage import FileRegion, Log, NotCached

PIECE_BYTES: Final = 64 * 1024
"""Bytes that are read at once, unless a batch has more."""


@attrs.frozen(eq=False, repr=False)
class LogPiece:
    """Neighbouring batches from one read; `next_offset` is above all of them."""

    entries: Sequence[LogEntry]
    batches: Sequence[LogBatch]
    next_offset: int

    def of_acquired(self, acquired: Sequence[AcquiredRecords]) -> list[Buffer]:
        """Return the batches with records that were acquired; both are in order."""
        chosen: list[Buffer] = []
        ranges = iter(acquired)
        current = next(ranges, None)
        for entry, batch in zip(self.entries, self.batches, strict=True):
            while current is not None and current.last < batch.first:
                current = next(ranges, None)
            if current is None:
                break
            if current.first <= batch.last:
                chosen.append(entry.buffer)
        return chosen


def upper_bound(log: Log, is_committed: bool) -> int:
    """Return the offset below which a group may acquire records."""
    return log.last_stable_offset if is_committed else log.high_watermark


def read_piece(
    log: Log, offset: int, bytes_max: int, *, is_committed: bool, min_one: bool, may_wait: bool = False
) -> LogPiece | None:
    """Read batches from the one with `offset` on; None if there are none below the bound, or no more fit.

    Raise NotCached unless `may_wait`, OffsetOutOfRange, StorageFailure, or CorruptRecords.
    """
    upto = upper_bound(log, is_committed)
    region = log.read(offset, min(PIECE_BYTES, bytes_max), upto=upto, min_one=min_one, may_wait=may_wait)
    if region is None:
        return None
    log_entries = list(entries(_bytes_of(log, region, may_wait)))
    hidden = _aborted(log, offset, region.next_offset, may_wait) if is_committed else ()
    batches = []
    behind = offset
    for entry in log_entries:
        first = entry.base_offset if entry.count >= 0 else min(behind, entry.last_offset)
        behind = entry.next_offset
        batches.append(LogBatch(first, entry.last_offset, _is_hidden(entry, hidden)))
    return LogPiece(log_entries, batches, behind)


def _bytes_of(log: Log, region: FileRegion, may_wait: bool) -> Buffer:
    if may_wait:
        try:
            return region.read()
        except OSError as error:
            raise log.record_failure(error) from error
    data = read_if_cached(region)
    if data is None:
        raise NotCached(region)
    return data


def _aborted(log: Log, first_offset: int, upto: int, may_wait: bool) -> Sequence[tuple[int, int, int]]:
    """Return the aborted transactions between two offsets: producer, first and last offset."""
    overlapping = log.aborted_transactions(first_offset, upto, may_wait=may_wait)
    return [(aborted.producer_id, aborted.first_offset, aborted.last_offset) for aborted in overlapping]


def _is_hidden(entry: LogEntry, aborted: Iterable[tuple[int, int, int]]) -> bool:
    """Return whether no member may get a batch: a marker, an empty one, or one of an aborted transaction."""
    if entry.is_control or not entry.count:
        return True
    return entry.is_transactional and any(
        producer == entry.producer_id and first <= entry.base_offset <= last for producer, first, last in aborted
    )
