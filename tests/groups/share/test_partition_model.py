"""Random operations on a share partition beside a model with one entry for each offset.

The model learns from what the partition returns, and checks what must hold of it (KIP-932):

    one_owner               a record is acquired by one member at a time
    limit                   no record is delivered more often than the limit
    never_again             a finished record is never delivered again, also after a restart
    start_offset            it only rises, and no open record is below it
    locks                   the number of locked records is bounded, up to the end of a log batch or exactly
    why                     a record that was rejected is not one that was delivered too often
    counts                  what the partition counts is what its ranges have
    everything_in_the_end   what is not finished is delivered again once locks have expired
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import attrs
import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.partition import SharePartition, SharePartitionSettings, StateChange
from pylogbroker.groups.share.values import Acknowledgement, LogBatch, RecordState, StateBatch

LOCK_MS = 100
LOCKS_MAX = 20
DELIVERIES_MAX = 3
BATCH_RECORDS_MAX = 8
REJECT = 3
MEMBERS = ("anna", "berta", "carla")
FINISHED = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


@attrs.define
class Held:
    member: str
    deadline: int


@attrs.define
class Model:
    random: Random
    has_dead_letters: bool
    is_always_exact: bool = False
    log: list[LogBatch] = attrs.field(factory=list)
    log_start: int = 0
    log_end: int = 0
    now: int = 0
    held: dict[int, Held] = attrs.field(factory=dict)
    changing: set[int] = attrs.field(factory=set)
    counts: dict[int, int] = attrs.field(factory=dict)  # deliveries
    finished: set[int] = attrs.field(factory=set)  # persisted as finished
    archiving: set[int] = attrs.field(factory=set)
    rejected: set[int] = attrs.field(factory=set)  # among those that are archiving, or change to that
    stored: dict[int, tuple[RecordState, int]] = attrs.field(factory=dict)
    stored_start: int = 0
    pending: list[StateChange] = attrs.field(factory=list)
    partition: SharePartition = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.partition = SharePartition(self.settings(), 0, 0)

    def settings(self) -> SharePartitionSettings:
        return SharePartitionSettings(LOCK_MS, DELIVERIES_MAX, LOCKS_MAX, self.has_dead_letters)

    def visible(self) -> set[int]:
        return {offset for batch in self.log if not batch.is_hidden for offset in range(batch.first, batch.last + 1)}

    # -- operations ------------------------------------------------------------------------------------------------

    def append(self) -> None:
        first = self.log_end + (self.random.randrange(5) if self.random.random() < 0.2 else 0)
        last = first + self.random.randrange(BATCH_RECORDS_MAX)
        self.log.append(LogBatch(first, last, self.random.random() < 0.15))
        self.log_end = last + 1

    def compact(self) -> None:
        if self.log:
            del self.log[self.random.randrange(len(self.log))]

    def delete_records(self) -> None:
        self.log_start = self.random.randint(self.log_start, min(self.log_start + 6, self.log_end))
        kept = [batch for batch in self.log if batch.last >= self.log_start]
        self.log = kept
        self.partition.drop_before(self.log_start)
        for offset in [offset for offset in self.held if offset < self.log_start]:
            del self.held[offset]

    def fetch(self, member: str) -> int:
        offset = self.partition.next_fetch_offset
        if not self.partition.can_acquire:
            return 0
        batches = [batch for batch in self.log if batch.last >= offset]
        records_max = self.random.randint(1, 12)
        is_exact = self.is_always_exact or self.random.random() < 0.5
        acquired = self.partition.acquire(
            member, offset, batches, records_max, self.now, batch_size=self.random.randint(1, 6), is_exact=is_exact
        )
        visible = self.visible()
        offsets = [
            (offset, records.delivery_count)
            for records in acquired
            for offset in range(records.first, records.last + 1)
        ]
        assert len({offset for offset, _ in offsets}) == len(offsets)
        for offset, count in offsets:
            assert offset in visible, "never_again: hidden or lost"
            assert offset >= self.log_start
            assert offset not in self.held, "one_owner"
            assert offset not in self.changing, "one_owner"
            assert offset not in self.finished, "never_again"
            assert offset not in self.archiving, "never_again"
            self.counts[offset] = self.counts.get(offset, 0) + 1
            assert count == self.counts[offset] <= DELIVERIES_MAX, "limit"
            self.held[offset] = Held(member, self.now + LOCK_MS)
        if is_exact:
            assert len(offsets) <= records_max
        if offsets:
            changing = sum(offset >= self.log_start for offset in self.changing)
            locks_max = LOCKS_MAX if self.is_always_exact else LOCKS_MAX + BATCH_RECORDS_MAX - 1
            assert len(self.held) + changing <= locks_max, "locks"
        return len(offsets)

    def acknowledge(self, member: str) -> None:
        own = sorted(offset for offset, held in self.held.items() if held.member == member)
        if not own:
            return
        first = self.random.choice(own)
        last = first
        while last + 1 in own and self.random.random() < 0.8:
            last += 1
        types = [self.random.randrange(4) for _ in range(last - first + 1)]
        if self.random.random() < 0.5:
            types = types[:1]
        change = self.partition.acknowledge(member, [Acknowledgement(first, last, types)], self.now)
        assert isinstance(change, StateChange)
        kinds = types if len(types) > 1 else types * (last - first + 1)
        for offset, kind in enumerate(kinds, first):
            (self.rejected.add if kind == REJECT else self.rejected.discard)(offset)
        self.begin(change, set(range(first, last + 1)))

    def renew(self, member: str) -> None:
        own = [offset for offset, held in self.held.items() if held.member == member]
        if own:
            offset = self.random.choice(own)
            change = self.partition.acknowledge(
                member, [Acknowledgement(offset, offset, [4])], self.now, may_renew=True
            )
            assert isinstance(change, StateChange)
            assert not change.batches
            change.commit()
            self.held[offset].deadline = self.now + LOCK_MS

    def acknowledge_wrongly(self, member: str) -> None:
        offset = self.random.randint(self.partition.start_offset, self.log_end + 3)
        held = self.held.get(offset)
        if held is None or held.member != member:
            result = self.partition.acknowledge(member, [Acknowledgement(offset, offset, [1])], self.now)
            assert result is ErrorCode.INVALID_RECORD_STATE

    def leave(self, member: str) -> None:
        offsets = {offset for offset, held in self.held.items() if held.member == member}
        self.rejected -= offsets
        self.begin(self.partition.release(member), offsets)

    def pass_time(self) -> None:
        self.now += self.random.randint(0, LOCK_MS)
        expired = {offset for offset, held in self.held.items() if held.deadline <= self.now}
        due = self.partition.next_expiry_ms
        assert not expired or (due is not None and due <= self.now)
        self.rejected -= expired
        self.begin(self.partition.expire(self.now), expired)

    def store_dead_letters(self) -> None:
        letters = self.partition.dead_letters()
        assert {offset for letter in letters for offset in range(letter.first, letter.last + 1)} == {
            offset for offset in self.archiving if offset not in self.changing and offset >= self.log_start
        }
        for letter in letters:
            for offset in range(letter.first, letter.last + 1):
                assert letter.is_rejected == (offset in self.rejected), "why"
                assert letter.delivery_count == self.counts[offset]
        if letters:
            letter = self.random.choice(letters)
            offsets = set(range(letter.first, letter.last + 1))
            self.begin(self.partition.dead_letters_stored(letter.first, letter.last), offsets)

    def begin(self, change: StateChange, offsets: set[int]) -> None:
        changed = {offset for batch in change.batches for offset in range(batch.first, batch.last + 1)}
        assert changed == offsets
        target = self.states() | {offset: batch.state for batch in change.batches for offset in offsets_of(batch)}
        open_offsets = [offset for offset, state in target.items() if state not in FINISHED]
        start = min(open_offsets, default=self.partition.end_offset)
        finished_behind = sum(state in FINISHED for offset, state in target.items() if offset > start)
        assert (change.start_offset, change.delivery_complete_count) == (start, finished_behind), "counts"
        self.changing |= changed
        for offset in changed & self.held.keys():
            self.held.pop(offset)
        self.pending.append(change)

    def end_change(self) -> None:
        if not self.pending:
            return
        change = self.pending.pop(self.random.randrange(len(self.pending)))
        offsets = {offset for batch in change.batches for offset in offsets_of(batch)}
        self.changing -= offsets
        if self.random.random() < 0.25:
            owners = self.owners(offsets)
            change.roll_back()
            self.held.update({offset: held for offset, held in owners.items() if offset >= self.log_start})
            return
        self.persist(change)
        change.commit()

    def owners(self, offsets: set[int]) -> dict[int, Held]:
        """Read owners and deadlines where the partition has them: the model does not follow changes that fail."""
        return {
            offset: Held(piece.member_id, piece.lock_until_ms)
            for piece in self.partition._ranges
            if piece.state is RecordState.ACQUIRED
            for offset in range(piece.first, piece.last + 1)
            if offset in offsets
        }

    def persist(self, change: StateChange) -> None:
        for batch in change.batches:
            for offset in offsets_of(batch):
                self.stored[offset] = (batch.state, batch.delivery_count)
                self.archiving.discard(offset)
                if batch.state in FINISHED:
                    self.finished.add(offset)
                elif batch.state is RecordState.ARCHIVING:
                    self.archiving.add(offset)
        self.stored_start = max(self.stored_start, change.start_offset)

    def restart(self) -> None:
        self.pending.clear()
        self.changing.clear()
        self.held.clear()
        stored = [
            StateBatch(offset, offset, *state)
            for offset, state in sorted(self.stored.items())
            if offset >= self.stored_start
        ]
        self.partition = SharePartition.restored(self.settings(), self.stored_start, stored)
        self.partition.drop_before(self.log_start)
        self.counts = {offset: count for offset, (_, count) in self.stored.items()}
        self.rejected = {offset for offset, count in self.counts.items() if count < DELIVERIES_MAX}

    # -- what holds ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        start = self.partition.start_offset
        open_offsets = {offset for offset in self.visible() if offset >= self.log_start and offset not in self.finished}
        assert not [offset for offset in open_offsets if offset < start], "start_offset"
        assert start <= self.partition.end_offset
        states = self.states()
        available = [offset for offset, state in states.items() if state is RecordState.AVAILABLE]
        acquired = [offset for offset, state in states.items() if state is RecordState.ACQUIRED]
        assert self.partition.next_fetch_offset == min(available, default=self.partition.end_offset), "counts"
        assert self.partition.can_acquire == bool(available or len(states) < LOCKS_MAX), "counts"
        assert self.partition.in_flight == len(acquired), "counts"
        assert self.partition.is_idle == (not acquired and RecordState.ARCHIVING not in states.values()), "counts"
        assert self.partition.delivery_complete_count == sum(state in FINISHED for state in states.values()), "counts"

    def states(self) -> dict[int, RecordState]:
        """Return the state of each offset in the partition's ranges."""
        return {
            offset: piece.state for piece in self.partition._ranges for offset in range(piece.first, piece.last + 1)
        }

    def finish(self) -> None:
        """Deliver and accept everything that is left."""
        while self.pending:
            self.end_change()
        for _ in range(500):
            self.now += LOCK_MS
            change = self.partition.expire(self.now)
            expired = {offset for batch in change.batches for offset in offsets_of(batch)}
            self.rejected -= expired
            self.begin(change, expired)
            while self.pending:
                self.end_change()
            if self.has_dead_letters:
                self.store_dead_letters()
            self.fetch("anna")
            self.acknowledge("anna")
            if self.partition.start_offset >= max((batch.last + 1 for batch in self.log), default=0):
                break
        rest = {offset for offset in self.visible() if offset >= self.log_start} - self.finished
        assert not rest, "everything_in_the_end"


def offsets_of(batch: StateBatch) -> Iterator[int]:
    return iter(range(batch.first, batch.last + 1))


@pytest.mark.parametrize("seed", range(200))
def test_invariants_hold_over_random_operations(seed: int) -> None:
    random = Random(seed)
    model = Model(random, has_dead_letters=seed % 2 == 1, is_always_exact=seed % 4 > 1)
    for _ in range(150):
        operation = random.random()
        member = random.choice(MEMBERS)
        if operation < 0.2:
            model.append()
        elif operation < 0.45:
            model.fetch(member)
        elif operation < 0.65:
            model.acknowledge(member)
        elif operation < 0.68:
            model.acknowledge_wrongly(member)
        elif operation < 0.71:
            model.renew(member)
        elif operation < 0.73:
            model.leave(member)
        elif operation < 0.79:
            model.pass_time()
        elif operation < 0.93:
            model.end_change()
        elif operation < 0.95:
            model.store_dead_letters()
        elif operation < 0.96:
            model.compact()
        elif operation < 0.98:
            model.delete_records()
        else:
            model.restart()
        model.check()
    model.finish()
