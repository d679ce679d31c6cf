"""Partition queue of a producer: the batches of one partition, in order. No I/O.

    append -> unsent -> take -> in_flight -> succeeded, failed
                         ^          |
                         |          v
                         +---- requeued

A batch's position counts the partition's records taken before it. Retries keep it; with an identity it gives the
sequence number. Once nothing is in flight, requeued batches leave in order, before new ones.

When a batch fails for good, the leader rejects later sequence numbers. Once nothing is in flight, `settle` repairs
that:

    never written (`gap`)                           renumber later batches: they cannot be written either
    outcome unknown (`lost`), others follow         send those with their old numbers: if the leader takes one,
                                                    the lost batch was written
    outcome unknown, none follow; or the leader     begin a new epoch, with sequence numbers from 0
    rejected the first that follows; or it had
    nothing of this identity yet

A leader without records of an identity accepts any number. Until it accepts a batch, only one is in flight: it could
accept a later one after missing an earlier one.

A batch rejected because an earlier one is missing is resent in the new epoch. If an attempt may have been written, it
fails instead: another could duplicate it. An accepted batch proves all earlier ones of its epoch written.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import Final, Generic, Protocol, Self, TypeVar

import attrs

LAST_EPOCH: Final = 0x7FFF - 1  # coordinators use 32767 for fencing
_SEQUENCE_BITS: Final = 0x7FFFFFFF
_position = attrgetter("position")


@attrs.frozen
class ProducerIdentity:
    id: int
    epoch: int

    def bumped(self) -> ProducerIdentity | None:
        """Return the next epoch's identity; None after the last."""
        return ProducerIdentity(self.id, self.epoch + 1) if self.epoch < LAST_EPOCH else None


ANONYMOUS: Final = ProducerIdentity(-1, -1)
"""Identity without idempotence."""


def sequence_at(position: int, origin: int) -> int:
    """Return the sequence number at `position`; the record at `origin` has 0."""
    return (position - origin) & _SEQUENCE_BITS


class QueuedBatch(Protocol):
    position: int
    identity: ProducerIdentity
    attempts: int
    outcome_unknown: bool  # an earlier attempt may have been written
    rejected: bool  # because an earlier batch is missing

    @property
    def count(self) -> int: ...

    def halves(self) -> tuple[Self, Self]:
        """Split in two; records keep their positions."""


B = TypeVar("B", bound=QueuedBatch)


@attrs.define(eq=False, repr=False)
class PartitionQueue(Generic[B]):
    # Stages without types: an identity, a gap and a loss are independent of each other

    topic: str
    partition: int
    idempotent: bool = False
    may_bump_epoch: bool = True  # else the owner begins epochs or fails
    unsent: deque[B] = attrs.Factory(deque)
    open: B | None = None  # last of `unsent`, while it takes records
    in_flight: list[B] = attrs.Factory(list)
    requeued: list[B] = attrs.Factory(list)
    resume_at: float = 0.0  # backoff
    identity: ProducerIdentity | None = None
    is_known: bool = False  # the leader has accepted one of its batches
    exhausted_id: int = -1
    origin: int = 0  # the position with sequence number 0
    taken: int = 0
    gap: int | None = None
    lost: int | None = None
    node: int = -1  # leader of the batches in flight

    @property
    def idle(self) -> bool:
        return not (self.unsent or self.in_flight or self.requeued)

    @property
    def is_stuck(self) -> bool:
        """True if a missing batch would make the leader reject the rest."""
        return self.gap is not None or self.lost is not None

    def is_next(self, batch: B) -> bool:
        return bool(self.unsent) and self.unsent[0] is batch

    def sequence(self, batch: B) -> int:
        """Return the base sequence; -1 without idempotence."""
        return sequence_at(batch.position, self.origin) if self.idempotent else -1

    def start_epoch(self, identity: ProducerIdentity) -> None:
        """Nothing may be in flight."""
        self._begin(identity)

    def sendable(self, window: int, node: int) -> B | None:
        """Return the next batch for `node`, regardless of backoff."""
        in_flight = self.in_flight
        if in_flight and (len(in_flight) >= window or node != self.node or (self.idempotent and not self.is_known)):
            return None
        if self.requeued:
            first = self.requeued[0]
            return first if not in_flight or in_flight[-1].position < first.position else None
        if not self.unsent or self.is_stuck:
            return None
        return self.unsent[0]

    def take(self, batch: B, node: int) -> None:
        if self.requeued:
            del self.requeued[0]
        else:
            self.leave(batch)
            batch.position = self.taken
            self.taken += batch.count
        batch.identity = self.identity or ANONYMOUS
        batch.attempts += 1
        batch.rejected = False
        self.in_flight.append(batch)
        self.node = node

    def leave(self, batch: B) -> None:
        self.unsent.popleft()
        if batch is self.open:
            self.open = None

    def succeeded(self, batch: B) -> list[B]:
        """Mark the batch as written; return earlier requeued ones, now proven written."""
        self._remove(batch)
        if not self.idempotent:
            return []
        self.is_known = True
        if self.lost is not None and self.lost < batch.position:
            self.lost = None
        proven = [other for other in self.requeued if other.position < batch.position]
        self.requeued = self.requeued[len(proven) :]
        return proven

    def requeue(self, batch: B, *, rejected: bool = False, outcome_unknown: bool = False) -> None:
        self._remove(batch)
        batch.rejected = rejected
        batch.outcome_unknown = batch.outcome_unknown or outcome_unknown
        insort(self.requeued, batch, key=_position)

    def failed(self, batch: B, *, outcome_unknown: bool = False) -> None:
        """Drop the batch for good; remember the gap."""
        self._remove(batch)
        if not self.idempotent:
            return
        if outcome_unknown or batch.outcome_unknown:
            self.lost = max(self.lost or 0, batch.position)
        else:
            self.gap = batch.position if self.gap is None else min(self.gap, batch.position)

    def split(self, batch: B) -> tuple[B, B]:
        """Requeue the halves of an unwritten batch."""
        self._remove(batch)
        halves = batch.halves()
        for half in halves:
            insort(self.requeued, half, key=_position)
        return halves

    def settle(self) -> list[B]:
        """Repair the sequence once nothing is in flight; return failed batches."""
        if self.in_flight or not self.idempotent:
            return []
        if self.gap is not None and self.lost is None:
            self._close_gap(self.gap)
        rejected = bool(self.requeued) and self.requeued[0].rejected
        if rejected or (self.lost is not None and not (self.requeued and self.is_known)):
            return self._bump_epoch() if self.may_bump_epoch else self._fail_requeued()
        return []

    def _bump_epoch(self) -> list[B]:
        failed_batches = [batch for batch in self.requeued if batch.outcome_unknown]
        self.requeued = [batch for batch in self.requeued if not batch.outcome_unknown]
        self.exhausted_id = -1 if self.identity is None else self.identity.id
        self._begin(None if self.identity is None else self.identity.bumped())
        return failed_batches

    def _fail_requeued(self) -> list[B]:
        """Fail them; the owner may begin a new epoch."""
        failed_batches, self.requeued = self.requeued, []
        self.lost = self.taken
        return failed_batches

    def _begin(self, identity: ProducerIdentity | None) -> None:
        self.origin = self.taken
        self._renumber(self.requeued, self.taken)
        self.identity = identity
        self.is_known = False
        self.gap = self.lost = None

    def _close_gap(self, position: int) -> None:
        self._renumber([batch for batch in self.requeued if batch.position > position], position)
        self.gap = None

    def _renumber(self, batches: Iterable[B], position: int) -> None:
        for batch in batches:
            batch.position = position
            batch.rejected = batch.outcome_unknown = False
            position += batch.count
        self.taken = position

    def _remove(self, batch: B) -> None:
        if batch in self.in_flight:
            self.in_flight.remove(batch)
        elif batch in self.requeued:
            self.requeued.remove(batch)
