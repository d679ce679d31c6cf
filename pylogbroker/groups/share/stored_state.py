"""State of a share partition in `__share_group_state`, as a value that snapshots and updates make.

A write of the partition's leader whose connection is lost may arrive after later ones. So a write moves records on, and
never back: what is finished stays finished, and delivery counts do not fall.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import attrs

from pylogbroker.groups.share.state_records import (
    UNCHANGED,
    ShareSnapshotValue,
    ShareUpdateValue,
    from_schema,
    to_schema,
)
from pylogbroker.groups.share.values import FINISHED, RecordState, StateBatch, merged

NO_START: int = UNCHANGED
"""Start offset of a share partition that has none yet: the group's setting decides where it begins."""


@attrs.frozen
class StoredState:
    """`updates`: those since the snapshot. `delivery_complete_count` is -1 if it is not known."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_START
    delivery_complete_count: int = UNCHANGED
    batches: tuple[StateBatch, ...] = ()
    snapshot_epoch: int = 0
    created_ms: int = 0
    updates: int = 0

    @classmethod
    def of_snapshot(cls, value: ShareSnapshotValue) -> StoredState:
        """Raise CorruptRecords for invalid batches."""
        return cls(
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            from_schema(value.state_batches),
            value.snapshot_epoch,
            value.create_timestamp,
        )

    def snapshot(self, now_ms: int) -> ShareSnapshotValue:
        return ShareSnapshotValue(
            self.snapshot_epoch,
            self.state_epoch,
            self.leader_epoch,
            self.start_offset,
            self.delivery_complete_count,
            self.created_ms,
            now_ms,
            to_schema(self.batches),
        )

    def updated(self, value: ShareUpdateValue) -> StoredState:
        """Return the state after an update; raise CorruptRecords for invalid batches."""
        return self.written(
            value.leader_epoch, value.start_offset, value.delivery_complete_count, from_schema(value.state_batches)
        )

    def written(
        self, leader_epoch: int, start_offset: int, delivery_complete_count: int, batches: Sequence[StateBatch]
    ) -> StoredState:
        """Return the state after a write. A start offset only rises; batches below it are dropped."""
        start = max(self.start_offset, start_offset)
        return StoredState(
            self.state_epoch,
            leader_epoch,
            start,
            delivery_complete_count,
            batches_from(start, replaced(self.batches, batches)),
            self.snapshot_epoch,
            self.created_ms,
            self.updates + 1,
        )


def batches_from(start: int, batches: tuple[StateBatch, ...]) -> tuple[StateBatch, ...]:
    """Return the batches without offsets before `start`."""
    kept = batches[bisect_left(batches, start, key=_last_offset) :]
    if kept and kept[0].first < start:
        return (attrs.evolve(kept[0], first=start), *kept[1:])
    return kept


def replaced(former: tuple[StateBatch, ...], newer: Sequence[StateBatch]) -> tuple[StateBatch, ...]:
    """Return all batches in order, with neighbours joined; where they overlap, those of `newer` hold.

    The former ones that `newer` does not touch are many, and not looked at.
    """
    if not newer:
        return former
    begin = bisect_left(former, newer[0].first - 1, key=_last_offset)
    end = bisect_right(former, newer[-1].last + 1, lo=begin, key=_first_offset)
    return (*former[:begin], *merged(combined(former[begin:end], newer)), *former[end:])


def _first_offset(batch: StateBatch) -> int:
    return batch.first


def _last_offset(batch: StateBatch) -> int:
    return batch.last


def combined(former: Iterable[StateBatch], newer: Iterable[StateBatch]) -> list[StateBatch]:
    """Return all batches in order; where they overlap, the one that is further on holds. Both are in order."""
    result: list[StateBatch] = []
    rest = list(former)
    rest.reverse()
    for batch in newer:
        while rest and rest[-1].first < batch.first:
            before = rest.pop()
            if before.last >= batch.first:
                rest.append(attrs.evolve(before, first=batch.first))
                before = attrs.evolve(before, last=batch.first - 1)
            result.append(before)
        while rest and rest[-1].first <= batch.last:
            covered = rest.pop()
            if covered.last > batch.last:
                rest.append(attrs.evolve(covered, first=batch.last + 1))
                covered = attrs.evolve(covered, last=batch.last)
            if _progress(covered) > _progress(batch):
                if batch.first < covered.first:
                    result.append(attrs.evolve(batch, last=covered.first - 1))
                result.append(covered)
                batch = attrs.evolve(batch, first=covered.last + 1)
        if batch.first <= batch.last:
            result.append(batch)
    rest.reverse()
    return result + rest


def _progress(batch: StateBatch) -> tuple[int, int]:
    """Return a value that only grows while a record goes through its states."""
    if batch.state in FINISHED:
        return 2, 0
    return int(batch.state is RecordState.ARCHIVING), batch.delivery_count
