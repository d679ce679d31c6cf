"""State of a share partition in `__share_group_state`, as a value that snapshots and updates make."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pylogbroker.groups.share.state_records import (
    UNCHANGED,
    ShareSnapshotValue,
    ShareUpdateValue,
    from_schema,
    to_schema,
)
from pylogbroker.groups.share.values import StateBatch, merged

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
        self, leader_epoch: int, start_offset: int, delivery_complete_count: int, batches: Iterable[StateBatch]
    ) -> StoredState:
        """Return the state after a write. A start offset only rises; batches below it are dropped."""
        start = max(self.start_offset, start_offset)
        kept = combined(self.batches, batches)
        return attrs.evolve(
            self,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=delivery_complete_count,
            batches=merged(
                batch if batch.first >= start else attrs.evolve(batch, first=start)
                for batch in kept
                if batch.last >= start
            ),
            updates=self.updates + 1,
        )


def combined(former: Iterable[StateBatch], newer: Iterable[StateBatch]) -> list[StateBatch]:
    """Return all batches in order; where they overlap, those of `newer` hold. Both are in order."""
    result: list[StateBatch] = []
    rest = list(former)
    rest.reverse()
    for batch in newer:
        while rest and rest[-1].first < batch.first:
            kept = rest.pop()
            if kept.last < batch.first:
                result.append(kept)
                continue
            result.append(attrs.evolve(kept, last=batch.first - 1))
            if kept.last > batch.last:
                rest.append(attrs.evolve(kept, first=batch.last + 1))
                break
        while rest and rest[-1].first <= batch.last:
            covered = rest.pop()
            if covered.last > batch.last:
                rest.append(attrs.evolve(covered, first=batch.last + 1))
        result.append(batch)
    rest.reverse()
    return result + rest
