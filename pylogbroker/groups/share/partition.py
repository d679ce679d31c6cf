"""The records of one partition as one share group sees them (KIP-932): a state machine without I/O and clock.

             start_offset                            end_offset
    ---------|---------------------------------------|--------------------
     finished| ranges: neighbours in the same state  | never acquired

    state        event                                          next state
    -----------  ---------------------------------------------  ------------------------------------------------
    AVAILABLE    a member acquires it                           ACQUIRED, delivery count + 1
                 the log does not have it any more              ARCHIVED
    ACQUIRED     ACCEPT                                         ACKNOWLEDGED
                 RELEASE, the lock expires, the member leaves   AVAILABLE; at the delivery limit as for REJECT
                 REJECT                                         ARCHIVED; in a group with dead letters ARCHIVING
                 GAP                                            ARCHIVED
                 RENEW                                          ACQUIRED, with a new lock
    ARCHIVING    its dead letter is stored                      ARCHIVED

ACKNOWLEDGED and ARCHIVED are the ends. `start_offset` is the first offset that is not finished.

Changes of ACQUIRED and ARCHIVING records are persisted before they count. `acknowledge`, `release`, `expire` and
`dead_letters_stored` return a StateChange; its ranges are locked until it is committed or rolled back. Acquisitions
are not persisted: after a restart the records are AVAILABLE with their former count.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.values import (
    FINISHED,
    Acknowledgement,
    AcknowledgeType,
    AcquiredRecords,
    LogBatch,
    RecordState,
    StateBatch,
    merged,
    runs_of_types,
)

_LOCKS_KEPT_MIN: Final = 1_000


@attrs.frozen
class SharePartitionSettings:
    lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    record_locks_max: int = 2_000
    has_dead_letters: bool = False


@attrs.define(eq=False, repr=False)
class _Range:
    first: int
    last: int
    state: RecordState
    delivery_count: int = 0
    member_id: str = ""
    lock_until_ms: int = 0
    is_changing: bool = False

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def split(self, offset: int) -> _Range:
        """End before the offset; return the rest."""
        rest = _Range(offset, self.last, self.state, self.delivery_count, self.member_id, self.lock_until_ms)
        self.last = offset - 1
        return rest

    @property
    def is_free(self) -> bool:
        return self.state is RecordState.AVAILABLE and not self.is_changing


@attrs.frozen(eq=False, repr=False)
class StateChange:
    """A change of ranges that waits for its persistence: call `commit` or `roll_back` once.

    `batches`, `start_offset` and `delivery_complete_count` are to be persisted together. The latter two are the
    partition's, once the change is committed.
    """

    _partition: SharePartition
    _outcomes: Sequence[tuple[_Range, RecordState]]
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]

    @property
    def is_empty(self) -> bool:
        return not self._outcomes

    def commit(self) -> None:
        for piece, state in self._outcomes:
            piece.is_changing = False
            piece.state = state
            piece.member_id = ""
        self._partition.forget_finished()

    def roll_back(self) -> None:
        """Leave the records as they were; locks that have expired meanwhile expire at the next `expire`."""
        for piece, _ in self._outcomes:
            piece.is_changing = False
            self._partition.watch_lock(piece)


@attrs.define(eq=False, repr=False)
class SharePartition:
    """`settings` may be replaced at any time; locks that are held keep their deadlines."""

    settings: SharePartitionSettings
    start_offset: int
    end_offset: int  # after the last offset that was ever acquired
    _ranges: list[_Range] = attrs.field(factory=list, init=False)
    _locks: list[tuple[int, int, int]] = attrs.field(factory=list, init=False)  # heap: deadline, first, last
    _firsts: list[int] = attrs.field(factory=list, init=False)  # offsets of `_ranges`
    _tracked: int = attrs.field(default=0, init=False)  # offsets in `_ranges`

    @classmethod
    def restored(
        cls, settings: SharePartitionSettings, start_offset: int, batches: Iterable[StateBatch]
    ) -> SharePartition:
        """Return the partition as it was persisted; `batches` are in order and do not overlap."""
        partition = cls(settings, start_offset, start_offset)
        for batch in batches:
            if batch.last < start_offset:
                continue
            first = max(batch.first, start_offset)
            if first > partition.end_offset:  # was acquired at most, which is not persisted
                partition._add(_Range(partition.end_offset, first - 1, RecordState.AVAILABLE))
            partition._add(_Range(first, batch.last, batch.state, batch.delivery_count))
        partition.forget_finished()
        return partition

    # -- what is there -----------------------------------------------------------------------------------------------

    @property
    def next_fetch_offset(self) -> int:
        """The first offset that can be acquired."""
        return next((piece.first for piece in self._ranges if piece.is_free), self.end_offset)

    @property
    def can_acquire(self) -> bool:
        return self._tracked < self.settings.record_locks_max or any(piece.is_free for piece in self._ranges)

    @property
    def delivery_complete_count(self) -> int:
        """Finished records from `start_offset` on, which are no lag."""
        return sum(piece.size for piece in self._ranges if piece.state in FINISHED)

    @property
    def in_flight(self) -> int:
        """Records that members have acquired."""
        return sum(piece.size for piece in self._ranges if piece.state is RecordState.ACQUIRED)

    @property
    def is_idle(self) -> bool:
        """True if no record is locked, being changed, or to become a dead letter."""
        return not any(
            piece.is_changing or piece.state in (RecordState.ACQUIRED, RecordState.ARCHIVING) for piece in self._ranges
        )

    def state_batches(self) -> tuple[StateBatch, ...]:
        """Return all states as a snapshot persists them."""
        return tuple(_persisted(piece, piece.state) for piece in self._ranges)

    def dead_letters(self) -> list[StateBatch]:
        """Return the records whose dead letters are to be stored."""
        return [
            _persisted(piece, piece.state)
            for piece in self._ranges
            if piece.state is RecordState.ARCHIVING and not piece.is_changing
        ]

    # -- acquisition -------------------------------------------------------------------------------------------------

    def acquire(
        self,
        member_id: str,
        fetch_offset: int,
        batches: Iterable[LogBatch],
        records_max: int,
        now_ms: int,
        *,
        batch_size: int = 1,
        is_exact: bool = False,
    ) -> list[AcquiredRecords]:
        """Acquire records of batches that were read from `fetch_offset` on.

        At least `records_max` are acquired if there are so many: up to the end of a log batch, or not one more if
        `is_exact`. Ranges that are acquired for the first time have `batch_size` records, if there are so many, and end
        with a log batch.
        """
        taken: list[_Range] = []
        left = records_max
        covered = max(fetch_offset, self.start_offset)
        for batch in batches:
            if left <= 0:
                break
            first = max(batch.first, covered)
            if batch.last < first:
                continue
            self._archive_available(covered, first - 1)
            covered = batch.last + 1
            if batch.is_hidden:
                self._hide(first, batch.last)
                continue
            pieces = self._take(first, batch.last, left if is_exact else batch.last - first + 1)
            taken += pieces
            left -= sum(piece.size for piece in pieces)
            if self.end_offset <= batch.last:  # too many records are locked: do not step over the rest
                break
        taken = self._coalesced(taken, batch_size)
        for piece in taken:
            self._lock(piece, member_id, now_ms)
        self.forget_finished()
        return [AcquiredRecords(piece.first, piece.last, piece.delivery_count) for piece in taken]

    def _take(self, first: int, last: int, size_max: int) -> list[_Range]:
        """Return ranges of at most `size_max` records that can be acquired: known ones, then new ones."""
        taken: list[_Range] = []
        for piece in self._between(first, last):
            if size_max > 0 and piece.is_free:
                if piece.size > size_max:
                    self._split_at(piece.first + size_max)
                size_max -= piece.size
                taken.append(piece)
        first = max(first, self.end_offset)
        size = min(last - first + 1, size_max, self.settings.record_locks_max - self._tracked)
        if size > 0:
            piece = _Range(first, first + size - 1, RecordState.AVAILABLE)
            self._add(piece)
            taken.append(piece)
        return taken

    def _coalesced(self, taken: Sequence[_Range], batch_size: int) -> list[_Range]:
        """Join neighbours of the same delivery count until they have `batch_size` records."""
        kept: list[_Range] = []
        dropped: set[_Range] = set()
        for piece in taken:
            former = kept[-1] if kept else None
            if (
                former is not None
                and former.size < batch_size
                and former.last + 1 == piece.first
                and former.delivery_count == piece.delivery_count
            ):
                former.last = piece.last
                dropped.add(piece)
            else:
                kept.append(piece)
        if dropped:
            self._ranges = [piece for piece in self._ranges if piece not in dropped]
            self._firsts = [piece.first for piece in self._ranges]
        return kept

    def _lock(self, piece: _Range, member_id: str, now_ms: int) -> None:
        piece.state = RecordState.ACQUIRED
        piece.delivery_count += 1
        piece.member_id = member_id
        piece.lock_until_ms = now_ms + self.settings.lock_duration_ms
        self.watch_lock(piece)

    def _hide(self, first: int, last: int) -> None:
        """Archive records that nobody may get."""
        self._archive_available(first, last)
        if last >= self.end_offset:
            self._add(_Range(max(first, self.end_offset), last, RecordState.ARCHIVED))

    def _archive_available(self, first: int, last: int) -> None:
        for piece in self._between(first, last):
            if piece.is_free:
                piece.state = RecordState.ARCHIVED

    # -- changes that are persisted ----------------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, acknowledgements: Iterable[Acknowledgement], now_ms: int, *, may_renew: bool = False
    ) -> StateChange | ErrorCode:
        """Return the change that all acknowledgements make together, or the error of all of them.

        INVALID_REQUEST    types that do not exist or do not match the offsets; offsets that are not ascending
        INVALID_RECORD_STATE    a record is not acquired by the member, or is already being changed

        Records before `start_offset` are ignored: the log has lost them.
        """
        outcomes: list[tuple[_Range, RecordState]] = []
        renewed: list[_Range] = []
        above = -1
        for acknowledgement in acknowledgements:
            first, last = acknowledgement.first, acknowledgement.last
            runs = runs_of_types(acknowledgement, may_renew)
            if first <= above or last < first or not runs:
                return ErrorCode.INVALID_REQUEST
            above = last
            if last < self.start_offset:
                continue
            first = max(first, self.start_offset)
            if not self._is_acquired(first, last, member_id):
                return ErrorCode.INVALID_RECORD_STATE
            for piece, kind in self._cut(first, last, runs):
                if kind is AcknowledgeType.RENEW:
                    renewed.append(piece)
                else:
                    outcomes.append((piece, self._outcome(piece, kind)))
        for piece in renewed:
            piece.lock_until_ms = now_ms + self.settings.lock_duration_ms
            self.watch_lock(piece)
        return self._begin(outcomes)

    def release(self, member_id: str) -> StateChange:
        """Return the change after a member has left."""
        return self._begin(
            [
                (piece, self._outcome(piece, AcknowledgeType.RELEASE))
                for piece in self._ranges
                if piece.state is RecordState.ACQUIRED and piece.member_id == member_id and not piece.is_changing
            ]
        )

    @property
    def next_expiry_ms(self) -> int | None:
        """The time at which `expire` is to be called; None without locks."""
        return self._locks[0][0] if self._locks else None

    def expire(self, now_ms: int) -> StateChange:
        """Return the change of all records whose locks have expired."""
        outcomes: dict[_Range, RecordState] = {}
        while self._locks and self._locks[0][0] <= now_ms:
            _, first, last = heapq.heappop(self._locks)
            for piece in self._overlapping(first, last):
                is_locked = piece.state is RecordState.ACQUIRED and not piece.is_changing
                if is_locked and piece.lock_until_ms <= now_ms:
                    outcomes[piece] = self._outcome(piece, AcknowledgeType.RELEASE)
        return self._begin(sorted(outcomes.items(), key=lambda outcome: outcome[0].first))

    def dead_letters_stored(self, first: int, last: int) -> StateChange:
        """Return the change after the dead letters of these offsets were stored."""
        return self._begin(
            [
                (piece, RecordState.ARCHIVED)
                for piece in self._between(first, last)
                if piece.state is RecordState.ARCHIVING and not piece.is_changing
            ]
        )

    def drop_before(self, log_start_offset: int) -> None:
        """Forget the records that the log has deleted, also acquired ones."""
        count = bisect_left(self._firsts, log_start_offset)
        if count and self._ranges[count - 1].last >= log_start_offset:
            count -= 1
            piece = self._ranges[count]
            self._tracked -= log_start_offset - piece.first
            piece.first = self._firsts[count] = log_start_offset
        self._drop(count)
        self.end_offset = max(self.end_offset, log_start_offset)
        self.forget_finished()

    def _outcome(self, piece: _Range, kind: AcknowledgeType) -> RecordState:
        if kind is AcknowledgeType.ACCEPT:
            return RecordState.ACKNOWLEDGED
        if kind is AcknowledgeType.GAP:
            return RecordState.ARCHIVED
        if kind is AcknowledgeType.RELEASE and piece.delivery_count < self.settings.delivery_count_limit:
            return RecordState.AVAILABLE
        return RecordState.ARCHIVING if self.settings.has_dead_letters else RecordState.ARCHIVED

    def _begin(self, outcomes: Sequence[tuple[_Range, RecordState]]) -> StateChange:
        for piece, _ in outcomes:
            piece.is_changing = True
        batches = merged(_persisted(piece, state) for piece, state in outcomes)
        start, complete = self._progress_after(dict(outcomes))
        return StateChange(self, outcomes, start, complete, batches)

    def _progress_after(self, outcomes: dict[_Range, RecordState]) -> tuple[int, int]:
        """Return the start offset after a change, and how many records from there on are finished."""
        start, complete = None, 0
        for piece in self._ranges:
            if outcomes.get(piece, piece.state) not in FINISHED:
                start = piece.first if start is None else start
            elif start is not None:
                complete += piece.size
        return self.end_offset if start is None else start, complete

    def _is_acquired(self, first: int, last: int, member_id: str) -> bool:
        """Return whether the member has acquired all offsets from `first` to `last`."""
        expected = first
        for piece in self._overlapping(first, last):
            is_held = piece.state is RecordState.ACQUIRED and piece.member_id == member_id and not piece.is_changing
            if piece.first > expected or not is_held:
                return False
            expected = piece.last + 1
        return expected > last

    def _cut(
        self, first: int, last: int, runs: Sequence[tuple[int, int, AcknowledgeType]]
    ) -> Iterator[tuple[_Range, AcknowledgeType]]:
        """Split the ranges from `first` to `last`, which follow each other, where the type changes."""
        start, end = self._split_at(first), self._split_at(last + 1)
        places = iter(runs)
        _, run_end, kind = next(places)
        cut: list[_Range] = []
        kinds: list[AcknowledgeType] = []
        for piece in self._ranges[start:end]:
            while run_end < piece.first:
                _, run_end, kind = next(places)
            rest: _Range | None = piece
            while rest is not None:
                piece, rest = rest, rest.split(run_end + 1) if run_end < rest.last else None
                cut.append(piece)
                kinds.append(kind)
                if rest is not None:
                    _, run_end, kind = next(places)
        self._ranges[start:end] = cut
        self._firsts[start:end] = [piece.first for piece in cut]
        return zip(cut, kinds, strict=True)

    # -- ranges ------------------------------------------------------------------------------------------------------

    def watch_lock(self, piece: _Range) -> None:
        """Let an acquired range expire; entries of locks that have ended are dropped when they are many."""
        if piece.state is not RecordState.ACQUIRED:
            return
        heapq.heappush(self._locks, _lock_entry(piece))
        if len(self._locks) > 2 * len(self._ranges) + _LOCKS_KEPT_MIN:
            self._locks = [_lock_entry(piece) for piece in self._ranges if piece.state is RecordState.ACQUIRED]
            heapq.heapify(self._locks)

    def forget_finished(self) -> None:
        """Move `start_offset` over finished ranges."""
        self._drop(sum(1 for _ in takewhile(lambda piece: piece.state in FINISHED, self._ranges)))
        self.start_offset = self._ranges[0].first if self._ranges else self.end_offset

    def _add(self, piece: _Range) -> None:
        """Append a range behind all others."""
        self._ranges.append(piece)
        self._firsts.append(piece.first)
        self._tracked += piece.size
        self.end_offset = piece.last + 1

    def _drop(self, count: int) -> None:
        """Forget the first ranges."""
        self._tracked -= sum(piece.size for piece in self._ranges[:count])
        del self._ranges[:count], self._firsts[:count]

    def _index(self, offset: int) -> int:
        """Return the index of the range that contains the offset, or of the first one behind it."""
        index = bisect_right(self._firsts, offset) - 1
        return index if index >= 0 and self._ranges[index].last >= offset else index + 1

    def _overlapping(self, first: int, last: int) -> Iterator[_Range]:
        """Yield the ranges that have an offset from `first` to `last`, whole."""
        if first >= self.end_offset:
            return iter(())
        start, end = self._index(first), bisect_right(self._firsts, last)
        return iter(self._ranges[start:end])

    def _between(self, first: int, last: int) -> Iterator[_Range]:
        """Yield the ranges from `first` to `last`, after splitting those that begin before or end behind."""
        if first >= self.end_offset:
            return iter(())
        return iter(self._ranges[self._split_at(first) : self._split_at(last + 1)])

    def _split_at(self, offset: int) -> int:
        """Let a range begin at the offset; return its index. A changing range stays whole, and is the one returned."""
        index = self._index(offset)
        if index < len(self._ranges):
            piece = self._ranges[index]
            if piece.first < offset and not piece.is_changing:
                index += 1
                self._ranges.insert(index, piece.split(offset))
                self._firsts.insert(index, offset)
        return index


def _persisted(piece: _Range, state: RecordState) -> StateBatch:
    """Return what is persisted: an acquisition is not."""
    is_acquired = state is RecordState.ACQUIRED
    return StateBatch(
        piece.first,
        piece.last,
        RecordState.AVAILABLE if is_acquired else state,
        piece.delivery_count - 1 if is_acquired else piece.delivery_count,
    )


def _lock_entry(piece: _Range) -> tuple[int, int, int]:
    return piece.lock_until_ms, piece.first, piece.last
