"""Batches of a log as share groups acquire them.

Members of a group acquire few records at a time, so one read serves several fetches. A piece of a log is kept until its
records are acquired, for the share partitions that were read last. A fetch gets the stored bytes of the batches that it
acquires. Records in a response need not follow each other: a batch without acquired records is left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import Final

import attrs

from pylogbroker.broker.fetch.readahead import read_if_cached
from pylogbroker.groups.share.values import AcquiredRecords, LogBatch
from pylogbroker.records import HEADER_V2, MAGIC_AT, Buffer
from pylogbroker.records.batch import CONTROL, TRANSACTIONAL
from pylogbroker.records.log_entry import bounds, parse
from pylogbroker.storage import FileRegion, Log, NotCached
from pylogbroker.storage.log.transaction_index import AbortedTxn

PIECE_BYTES: Final = 256 * 1024
"""Bytes that are read at once, unless a batch has more."""

PIECE_BATCHES_MAX: Final = 500
"""Batches of one read, in about 1 ms."""

PIECES_MAX: Final = 16
"""Pieces that a broker keeps: 4 MiB, unless batches are larger."""

_NEWEST_MAGIC: Final = 2
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
    aborted = log.aborted_transactions(offset, region.next_offset, may_wait=may_wait) if is_committed else ()
    return piece_of(data, offset, is_committed, aborted)


def piece_of(data: memoryview, offset: int, is_committed: bool, transactions: Iterable[AbortedTxn]) -> LogPiece:
    """Return the batches that were read from `offset` on, with the aborted transactions among them.

    Raise CorruptRecords.
    """
    aborted = _Aborted.of(transactions) if is_committed else None
    batches: list[LogBatch] = []
    ends: list[int] = []
    next_offset = offset
    for begin, end in islice(bounds(data), PIECE_BATCHES_MAX):
        batch = _batch_at(data, begin, end, next_offset, aborted)
        next_offset = batch.last + 1
        batches.append(batch)
        ends.append(end)
    first_offset = min(offset, batches[0].first)
    return LogPiece(data[: ends[-1]], first_offset, batches, ends, next_offset, is_committed)


def _batch_at(data: memoryview, begin: int, end: int, next_offset: int, aborted: _Aborted | None) -> LogBatch:
    """Return a batch of a log.

    No member may get a marker, an empty batch, or one of an aborted transaction. In formats before v2, a compressed
    batch does not say where it begins.
    """
    if data[begin + MAGIC_AT] != _NEWEST_MAGIC:
        entry = parse(data[begin:end])
        first = entry.base_offset if entry.count >= 0 else min(next_offset, entry.last_offset)
        return LogBatch(first, entry.last_offset, not entry.count)
    first, _, _, _, _, attributes, last_delta, _, _, producer_id, _, _, count = HEADER_V2.unpack_from(data, begin)
    is_hidden = not count or bool(attributes & CONTROL)
    if aborted is not None and attributes & TRANSACTIONAL and not is_hidden:
        is_hidden = aborted.has(producer_id, first)
    return LogBatch(first, first + last_delta, is_hidden)


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
