"""Neighbouring records of a share partition that are in one state."""

from __future__ import annotations

import attrs

from pylogbroker.groups.share.values import RecordState, StateBatch


@attrs.define(eq=False, repr=False)
class RecordRange:
    """Inclusive offsets. Only ACQUIRED and ARCHIVING ranges are changing. A forgotten range is empty.

    `is_rejected` says why an ARCHIVING range, or one that is changing to it, has dead letters.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int = 0
    member_id: str = ""
    lock_until_ms: int = 0
    is_changing: bool = False
    is_rejected: bool = False

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE

    @property
    def lock_entry(self) -> tuple[int, int, int]:
        return self.lock_until_ms, self.first, self.last

    def split(self, offset: int) -> RecordRange:
        """End before the offset; return the rest."""
        rest = RecordRange(offset, self.last, self.state, self.delivery_count, self.member_id, self.lock_until_ms)
        rest.is_rejected = self.is_rejected
        self.last = offset - 1
        return rest

    def can_grow(self, offset: int, delivery_count: int, batch_size: int) -> bool:
        """Return whether a range that is acquired goes on with more records: up to about `batch_size`."""
        return self.last + 1 == offset and self.delivery_count == delivery_count and offset - self.first < batch_size

    def persisted(self, state: RecordState) -> StateBatch:
        """Return what is persisted of the range in a state: an acquisition is not."""
        if state is RecordState.ACQUIRED:
            return StateBatch(self.first, self.last, RecordState.AVAILABLE, self.delivery_count - 1)
        return StateBatch(self.first, self.last, state, self.delivery_count)
