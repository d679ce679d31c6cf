"""Producer ids, epochs and sequence numbers of an idempotent producer.

For each partition and producer id, a broker keeps the epoch and the sequence number that the next batch must begin
with: the number of records before it. Sequence numbers wrap to 0 after 2^31 - 1. A higher epoch begins at 0.
"""

from __future__ import annotations

from typing import Final

import attrs

LAST_EPOCH: Final = 0x7FFF - 1  # coordinators use 32767 for fencing
_SEQUENCE_BITS: Final = 0x7FFFFFFF


@attrs.frozen
class ProducerIdentity:
    id: int
    epoch: int

    def bumped(self) -> ProducerIdentity | None:
        """Return the identity in its next epoch; None if there is none left."""
        return ProducerIdentity(self.id, self.epoch + 1) if self.epoch < LAST_EPOCH else None


ANONYMOUS: Final = ProducerIdentity(-1, -1)
"""Identity without idempotence."""


def sequence_at(position: int, origin: int) -> int:
    """Return the sequence number of the record at `position`, where the record at `origin` has 0."""
    return (position - origin) & _SEQUENCE_BITS
