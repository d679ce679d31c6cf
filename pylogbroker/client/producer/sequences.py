"""Who an idempotent producer is, and how its batches are numbered.

A broker keeps, for each partition and producer id, the epoch and the sequence number that the next batch must begin
with: the number of records before it.  Sequence numbers go on at 0 behind 2^31 - 1.  A higher epoch begins at 0 again.
"""

from __future__ import annotations

from typing import Final

import attrs

LAST_EPOCH: Final = 0x7FFF - 1  # 32767 is what coordinators fence with
_SEQUENCE_BITS: Final = 0x7FFFFFFF


@attrs.frozen
class Identity:
    """A producer id and its epoch."""

    id: int
    epoch: int

    def bumped(self) -> Identity | None:
        """The same producer in its next epoch; None when there is none left."""
        return Identity(self.id, self.epoch + 1) if self.epoch < LAST_EPOCH else None


ANONYMOUS: Final = Identity(-1, -1)
"""A producer without idempotence."""


def sequence_at(position: int, origin: int) -> int:
    """The sequence number of the record at `position` of its partition, if the one at `origin` has 0."""
    return (position - origin) & _SEQUENCE_BITS
