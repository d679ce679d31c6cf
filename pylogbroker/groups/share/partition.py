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
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.record_range import RecordRange
from pylogbroker.groups.share.values import (
    FINISHED,
    Acknowledgement,
    AcknowledgeType,
    AcquiredRecords,
    LogBatch,
    MissingLetters,
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


@attrs.frozen(eq=False, repr=False)
class StateChange:
    """A change of ranges that waits for its persistence: call `commit` or `roll_back` once.

    `batches`, `start_offset` and `delivery_complete_count` are to be persisted together. The latter two are the
    partition's, once the change is committed.
    """

    _partition: SharePartition
    _outcomes: Sequence[tuple[RecordRange, RecordState]]
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]

    @property
    def is_empty(self) -> bool:
        return not self._outcomes

    def commit(self) -> None:
        for piece, state in self._outcomes:
            piece.is_changing = False
            piece.member_id = ""
            self._partition.enter_state(piece, state)
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
    _ranges: list[RecordRange] = attrs.field(factory=list, init=False)
    _locks: list[tuple[int, int, int]] = attrs.field(factory=list, init=False)  # heap: deadline, first, last
    _firsts: list[int] = attrs.field(factory=list, init=False)  # offsets of `_ranges`
    _tracked: int = attrs.field(default=0, init=False)  # offsets in `_ranges`
    _counts: list[int] = attrs.field(factory=lambda: [0] * len(RecordState), init=False)  # of them, by state
    _available_from: int = attrs.field(default=0, init=False)  # no record before is AVAILABLE

    @classmethod
    def restored(
        cls, settings: SharePartitionSettings, start_offset: int, batches: Iterable[StateBatch]
    ) -> SharePartition:
        """Return the partition as it was persisted; `batches` are in order and do not overlap.

        Why a record is ARCHIVING is not persisted: it was rejected if it could have been delivered again.
        """
        partition = cls(settings, start_offset, start_offset)
        for batch in batches:
            if batch.last < start_offset:
                continue
            first = max(batch.first, start_offset)
            if first > partition.end_offset:  # was acquired at most, which is not persisted
                partition._add(RecordRange(partition.end_offset, first - 1, RecordState.AVAILABLE))
            piece = RecordRange(first, batch.last, batch.state, batch.delivery_count)
            piece.is_rejected = batch.delivery_count < settings.delivery_count_limit
            partition._add(piece)
        partition.forget_finished()
        return partition

    # -- what is there -----------------------------------------------------------------------------------------------

    @property
    def next_fetch_offset(self) -> int:
        """The first offset that can be acquired."""
        if not self._counts[RecordState.AVAILABLE]:
            return self.end_offset
        index = self._index(self._available_from)
        while not self._ranges[index].is_available:
            index += 1
        self._available_from = self._firsts[index]
        return self._available_from

    @property
    def can_acquire(self) -> bool:
        return self._tracked < self.settings.record_locks_max or self._counts[RecordState.AVAILABLE] > 0

    @property
    def delivery_complete_count(self) -> int:
        """Finished records from `start_offset` on, which are no lag."""
        return self._counts[RecordState.ACKNOWLEDGED] + self._counts[RecordState.ARCHIVED]

    @property
    def in_flight(self) -> int:
        """Records that members have acquired."""
        return self._counts[RecordState.ACQUIRED]

    @property
    def is_idle(self) -> bool:
        """True if no record is locked, being changed, or to become a dead letter."""
        return not self._counts[RecordState.ACQUIRED] and not self._counts[RecordState.ARCHIVING]

    def state_batches(self) -> tuple[StateBatch, ...]:
        """Return all states as a snapshot persists them."""
        return tuple(piece.persisted(piece.state) for piece in self._ranges)

    def dead_letters(self) -> list[MissingLetters]:
        """Return the records whose dead letters are to be stored."""
        if not self._counts[RecordState.ARCHIVING]:
            return []
        return [
            MissingLetters(piece.first, piece.last, piece.delivery_count, piece.is_rejected)
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
        `is_exact`. The limit of locked records holds in the same way. Ranges that are acquired for the first time have
        `batch_size` records, if there are so many, and end with a log batch.
        """
        taken: list[RecordRange] = []
        left = records_max
        covered = max(fetch_offset, self.start_offset)
        for batch in batches:
            if left <= 0:
                break
            first = max(batch.first, covered)
            if batch.last < first:
                continue
            if covered < first:
                self._archive_available(covered, first - 1)
            covered = batch.last + 1
            if batch.is_hidden:
                self._hide(first, batch.last)
                continue
            left -= self._take(first, batch.last, left if is_exact else None, taken, batch_size)
            if self.end_offset <= batch.last:  # too many records are locked: do not step over the rest
                break
        for piece in taken:
            self._lock(piece, member_id, now_ms)
        self.forget_finished()
        return [AcquiredRecords(piece.first, piece.last, piece.delivery_count) for piece in taken]

    def _take(self, first: int, last: int, size_max: int | None, taken: list[RecordRange], batch_size: int) -> int:
        """Add ranges that can be acquired to those taken: known ones, then new ones; return how many records they are.

        A log batch is taken whole if `size_max` is None and fewer records are locked than may be.
        """
        left = last - first + 1 if size_max is None else min(size_max, last - first + 1)
        begun = left
        if first < self.end_offset:
            for piece in self._between(first, last):
                if left > 0 and piece.is_available:
                    if piece.size > left:
                        self._split_at(piece.first + left)
                    left -= piece.size
                    former = taken[-1] if taken else None
                    if former is not None and former.can_grow(piece.first, piece.delivery_count, batch_size):
                        former.last = piece.last
                        del self._ranges[place := self._index(piece.first)], self._firsts[place]
                    else:
                        taken.append(piece)
        first = max(first, self.end_offset)
        locks_left = self.settings.record_locks_max - self._tracked
        size = min(last - first + 1, left)
        if size_max is not None or locks_left <= 0:
            size = min(size, locks_left)
        if size > 0:
            left -= size
            former = taken[-1] if taken else None
            if former is not None and former.can_grow(first, 0, batch_size):  # the last range of all
                former.last = first + size - 1
                self.end_offset = first + size
                self._count(RecordState.AVAILABLE, size)
            else:
                piece = RecordRange(first, first + size - 1, RecordState.AVAILABLE)
                self._add(piece)
                taken.append(piece)
        return begun - left

    def _lock(self, piece: RecordRange, member_id: str, now_ms: int) -> None:
        self.enter_state(piece, RecordState.ACQUIRED)
        piece.delivery_count += 1
        piece.member_id = member_id
        piece.lock_until_ms = now_ms + self.settings.lock_duration_ms
        self.watch_lock(piece)

    def _hide(self, first: int, last: int) -> None:
        """Archive records that nobody may get."""
        self._archive_available(first, last)
        if last >= self.end_offset:
            self._add(RecordRange(max(first, self.end_offset), last, RecordState.ARCHIVED))

    def _archive_available(self, first: int, last: int) -> None:
        for piece in self._between(first, last):
            if piece.is_available:
                self.enter_state(piece, RecordState.ARCHIVED)

    # -- changes that are persisted ----------------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, acknowledgements: Iterable[Acknowledgement], now_ms: int, *, may_renew: bool = False
    ) -> StateChange | ErrorCode:
        """Return the change that all acknowledgements make together, or the error of all of them.

        INVALID_REQUEST    types that do not exist or do not match the offsets; offsets that are not ascending
        INVALID_RECORD_STATE    a record is not acquired by the member, or is already being changed

        Records before `start_offset` are ignored: the log has lost them.
        """
        outcomes: list[tuple[RecordRange, RecordState]] = []
        renewed: list[RecordRange] = []
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
        outcomes: dict[RecordRange, RecordState] = {}
        while self._locks and self._locks[0][0] <= now_ms:
            _, first, last = heapq.heappop(self._locks)
            for piece in self._overlapping(first, last):
                is_locked = piece.state is RecordState.ACQUIRED and not piece.is_changing
                if is_locked and piece.lock_until_ms <= now_ms:
                    outcomes[piece] = self._outcome(piece, AcknowledgeType.RELEASE)
        return self._begin(sorted(outcomes.items(), key=lambda outcome: outcome[0].first))

    def progress(self) -> StateChange:
        """Return a change of no record, to persist how far the start offset has moved."""
        return self._begin(())

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
            self._count(piece.state, piece.first - log_start_offset)
            piece.first = self._firsts[count] = log_start_offset
        self._drop(count)
        self.end_offset = max(self.end_offset, log_start_offset)
        self.forget_finished()

    def _outcome(self, piece: RecordRange, kind: AcknowledgeType) -> RecordState:
        if kind is AcknowledgeType.ACCEPT:
            return RecordState.ACKNOWLEDGED
        if kind is AcknowledgeType.GAP:
            return RecordState.ARCHIVED
        if kind is AcknowledgeType.RELEASE and piece.delivery_count < self.settings.delivery_count_limit:
            return RecordState.AVAILABLE
        piece.is_rejected = kind is AcknowledgeType.REJECT
        return RecordState.ARCHIVING if self.settings.has_dead_letters else RecordState.ARCHIVED

    def _begin(self, outcomes: Sequence[tuple[RecordRange, RecordState]]) -> StateChange:
        for piece, _ in outcomes:
            piece.is_changing = True
        batches = merged(piece.persisted(state) for piece, state in outcomes)
        start, complete = self._progress_after(dict(outcomes))
        return StateChange(self, outcomes, start, complete, batches)

    def _progress_after(self, outcomes: dict[RecordRange, RecordState]) -> tuple[int, int]:
        """Return the start offset after a change, and how many records from there on are finished."""
        start, passed = self.end_offset, 0
        for piece in self._ranges:
            if outcomes.get(piece, piece.state) not in FINISHED:
                start = piece.first
                break
            passed += piece.size
        newly_finished = sum(piece.size for piece, state in outcomes.items() if state in FINISHED)
        return start, self.delivery_complete_count + newly_finished - passed

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
    ) -> Iterator[tuple[RecordRange, AcknowledgeType]]:
        """Split the ranges from `first` to `last`, which follow each other, where the type changes."""
        start, end = self._split_at(first), self._split_at(last + 1)
        places = iter(runs)
        _, run_end, kind = next(places)
        cut: list[RecordRange] = []
        kinds: list[AcknowledgeType] = []
        for piece in self._ranges[start:end]:
            while run_end < piece.first:
                _, run_end, kind = next(places)
            rest: RecordRange | None = piece
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

    def watch_lock(self, piece: RecordRange) -> None:
        """Let an acquired range expire; entries of locks that have ended are dropped when they are many."""
        if piece.state is not RecordState.ACQUIRED:
            return
        heapq.heappush(self._locks, piece.lock_entry)
        if len(self._locks) > 2 * len(self._ranges) + _LOCKS_KEPT_MIN:
            self._locks = [piece.lock_entry for piece in self._ranges if piece.state is RecordState.ACQUIRED]
            heapq.heapify(self._locks)

    def forget_finished(self) -> None:
        """Move `start_offset` over finished ranges."""
        count = 0
        for piece in self._ranges:
            if piece.state not in FINISHED:
                break
            count += 1
        if count:
            self._drop(count)
        self.start_offset = self._firsts[0] if self._firsts else self.end_offset

    def enter_state(self, piece: RecordRange, state: RecordState) -> None:
        """Let a range have another state."""
        size = piece.size
        self._counts[piece.state] -= size
        self._counts[state] += size
        piece.state = state
        if state is RecordState.AVAILABLE:
            self._available_from = min(self._available_from, piece.first)

    def _count(self, state: RecordState, change: int) -> None:
        """Note that more offsets are in `_ranges`, or fewer."""
        self._tracked += change
        self._counts[state] += change

    def _add(self, piece: RecordRange) -> None:
        """Append a range behind all others."""
        self._ranges.append(piece)
        self._firsts.append(piece.first)
        self._count(piece.state, piece.size)
        self.end_offset = piece.last + 1
        if piece.is_available:
            self._available_from = min(self._available_from, piece.first)

    def _drop(self, count: int) -> None:
        """Forget the first ranges; changes that have them change nothing."""
        for piece in self._ranges[:count]:
            self._count(piece.state, -piece.size)
            piece.last = piece.first - 1
        del self._ranges[:count], self._firsts[:count]

    def _index(self, offset: int) -> int:
        """Return the index of the range that contains the offset, or of the first one behind it."""
        index = bisect_right(self._firsts, offset) - 1
        return index if index >= 0 and self._ranges[index].last >= offset else index + 1

    def _overlapping(self, first: int, last: int) -> Iterator[RecordRange]:
        """Yield the ranges that have an offset from `first` to `last`, whole."""
        if first >= self.end_offset:
            return iter(())
        start, end = self._index(first), bisect_right(self._firsts, last)
        return iter(self._ranges[start:end])

    def _between(self, first: int, last: int) -> Iterator[RecordRange]:
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
