"""Batches of a log as share groups acquire them.

Members of a group acquire few records at a time, so one read serves several fetches. A piece of a log is kept until its
records are acquired, for the share partitions that were read last. A fetch gets the stored bytes of the batches that it
acquires. Records in a response need not follow each other: a batch without acquired records is left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Final

import attrs

from pylogbroker.broker.fetch.readahead import read_if_cached
from pylogbroker.groups.share.values import AcquiredRecords, LogBatch
from pylogbroker.records import Buffer, LogEntry, entries
from pylogbroker.storage import FileRegion, Log, NotCached
from pylogbroker.storage.log.transaction_index import AbortedTxn

PIECE_BYTES: Final = 256 * 1024
"""Bytes that are read at once, unless a batch has more."""

PIECE_BATCHES_MAX: Final = 500
"""Batches of one read, in about 1 ms."""

PIECES_MAX: Final = 16
"""Pieces that a broker keeps: 4 MiB, unless batches are larger."""

_COPIED_BYTES_MAX: Final = 32 * 1024
"""Bytes that an answer copies: while it is sent, a larger one holds the whole piece."""


@attrs.frozen(eq=False, repr=False)
class LogPiece:
    """Neighbouring batches from one read, from `first_offset` on; `next_offset` is above all of them.

    `ends` are the positions of the batches' ends in `data`.
    """

    data: memoryview
    first_offset: int
    batches: Sequence[LogBatch]
    ends: Sequence[int]
    next_offset: int
    is_committed: bool

    def part(self, offset: int, bytes_max: int, *, min_one: bool) -> LogPiece | None:
        """Return the batches from the one with `offset` on, as far as they fit; None if none does.

        With `min_one` the first one may exceed `bytes_max`.
        """
        begin = bisect_left(self.batches, offset, key=_last_offset)
        if begin == len(self.batches):
            return None
        position = self.ends[begin - 1] if begin else 0
        end = bisect_right(self.ends, position + bytes_max, lo=begin)
        if end == begin:
            if not min_one:
                return None
            end += 1
        if end - begin == len(self.batches):
            return self
        next_offset = self.next_offset if end == len(self.batches) else self.batches[end - 1].last + 1
        ends = [stop - position for stop in self.ends[begin:end]]
        data = self.data[position : position + ends[-1]]
        return LogPiece(data, offset, self.batches[begin:end], ends, next_offset, self.is_committed)

    def of_acquired(self, acquired: Sequence[AcquiredRecords]) -> list[Buffer]:
        """Return the bytes of the batches with records that were acquired; both are in order."""
        chosen: list[Buffer] = []
        ranges = iter(acquired)
        current = next(ranges, None)
        begin, position = None, 0
        for batch, end in zip(self.batches, self.ends, strict=True):
            while current is not None and current.last < batch.first:
                current = next(ranges, None)
            if current is not None and current.first <= batch.last:
                begin = position if begin is None else begin
            elif begin is not None:
                chosen.append(_chunk(self.data[begin:position]))
                begin = None
            if current is None:
                break
            position = end
        if begin is not None:
            chosen.append(_chunk(self.data[begin:position]))
        return chosen


@attrs.define(eq=False, repr=False)
class RecentPieces:
    """The pieces that were read last, by share partition."""

    _pieces: dict[Hashable, LogPiece] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._pieces)

    def read(
        self,
        reader: Hashable,
        log: Log,
        offset: int,
        bytes_max: int,
        *,
        is_committed: bool,
        min_one: bool,
        may_wait: bool = False,
    ) -> LogPiece | None:
        """Return batches from the one with `offset` on; None if there are none below the bound, or no more fit.

        Raise NotCached unless `may_wait`, OffsetOutOfRange, StorageFailure, or CorruptRecords.
        """
        piece = self._pieces.get(reader)
        if piece is None or not piece.first_offset <= offset < piece.next_offset or piece.is_committed != is_committed:
            piece = read_piece(log, offset, is_committed=is_committed, may_wait=may_wait)
            self.forget(reader)
            if piece is None:
                return None
            self._keep(reader, piece)
        return piece.part(offset, bytes_max, min_one=min_one)

    def _keep(self, reader: Hashable, piece: LogPiece) -> None:
        if len(self._pieces) >= PIECES_MAX:
            del self._pieces[next(iter(self._pieces))]
        self._pieces[reader] = piece

    def forget(self, reader: Hashable) -> None:
        self._pieces.pop(reader, None)


def upper_bound(log: Log, is_committed: bool) -> int:
    """Return the offset below which a group may acquire records."""
    return log.last_stable_offset if is_committed else log.high_watermark


def read_piece(log: Log, offset: int, *, is_committed: bool, may_wait: bool = False) -> LogPiece | None:
    """Read batches from the one with `offset` on; None if there are none below the bound.

    Raise NotCached unless `may_wait`, OffsetOutOfRange, StorageFailure, or CorruptRecords.
    """
    upto = upper_bound(log, is_committed)
    region = log.read(offset, PIECE_BYTES, upto=upto, may_wait=may_wait)
    if region is None:
        return None
    data = memoryview(_bytes_of(log, region, may_wait))
    return piece_of(
        data,
        offset,
        is_committed,
        lambda next_offset: log.aborted_transactions(offset, next_offset, may_wait=may_wait),
    )


def piece_of(data: Buffer, offset: int, is_committed: bool, aborted: Callable[[int], Iterable[AbortedTxn]]) -> LogPiece:
    """Return the batches that were read from `offset` on; `aborted` gets the offset behind them.

    Raise CorruptRecords.
    """
    log_entries = list(islice(entries(data), PIECE_BATCHES_MAX))
    next_offset = log_entries[-1].next_offset
    hidden = _Aborted.of(aborted(next_offset)) if is_committed else None
    batches: list[LogBatch] = []
    ends: list[int] = []
    behind, end = offset, 0
    for entry in log_entries:
        first = entry.base_offset if entry.count >= 0 else min(behind, entry.last_offset)
        behind = entry.next_offset
        end += len(entry.buffer)
        batches.append(LogBatch(first, entry.last_offset, _is_hidden(entry, hidden)))
        ends.append(end)
    first_offset = min(offset, batches[0].first)
    return LogPiece(memoryview(data)[:end], first_offset, batches, ends, next_offset, is_committed)


def _chunk(data: memoryview) -> Buffer:
    return data if len(data) > _COPIED_BYTES_MAX else bytes(data)


def _last_offset(batch: LogBatch) -> int:
    return batch.last


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


@attrs.frozen(eq=False, repr=False)
class _Aborted:
    """Aborted transactions by producer: first offsets in order, and the last offset of each."""

    by_producer: dict[int, tuple[list[int], list[int]]]

    @classmethod
    def of(cls, transactions: Iterable[AbortedTxn]) -> _Aborted:
        """Take transactions: those of a producer do not overlap."""
        by_producer: dict[int, tuple[list[int], list[int]]] = {}
        for aborted in sorted(transactions, key=lambda transaction: transaction.first_offset):
            firsts, lasts = by_producer.setdefault(aborted.producer_id, ([], []))
            firsts.append(aborted.first_offset)
            lasts.append(aborted.last_offset)
        return cls(by_producer)

    def has(self, producer_id: int, offset: int) -> bool:
        """Return whether a record of a producer is in an aborted transaction."""
        transactions = self.by_producer.get(producer_id)
        if transactions is None:
            return False
        firsts, lasts = transactions
        index = bisect_right(firsts, offset) - 1
        return index >= 0 and offset <= lasts[index]


def _is_hidden(entry: LogEntry, aborted: _Aborted | None) -> bool:
    """Return whether no member may get a batch: a marker, an empty one, or one of an aborted transaction."""
    if entry.is_control or not entry.count:
        return True
    return aborted is not None and entry.is_transactional and aborted.has(entry.producer_id, entry.base_offset)
