"""One partition's batches, in order: what waits, what is on its way, what came back.

    append -> queue -> take -> flying -> done
                        ^        |
                        |        v
                        +---- returned

Each batch that is taken gets a position, the number of records taken before it, and keeps it when it is sent again.
With an identity, the position becomes the sequence number, by which the leader keeps order and recognizes repetitions.
Batches that came back go out again, in their order, before anything new, and after all that was on its way is answered.

When a batch fails for good, what follows it has sequence numbers that the leader will not take.  Once nothing is on its
way any more, `settle` puts that right, by what is known of the batch that failed:

==============================================  ==============================================================
it was never written (`hole`)                   those behind it move up: they cannot have been written either
nobody knows (`lost`), and there are others     they are sent with their old numbers, which tells: if one of them is
                                                taken, the lost one was written
nobody knows, there are no others, the leader   a new epoch begins, and with it numbers from 0
refused the first of them, or had nothing yet
==============================================  ==============================================================

A leader that has nothing of an identity takes a batch with any number.  Until one was taken no more than one is under
way: a later one would be taken though the one before it was not, and prove nothing.

A batch that the leader refuses because something before it is missing is sent again in the new epoch, unless an earlier
attempt of its own may have been written: to send that one again could double it, so it fails.  A batch that is taken
proves that all before it, in the same epoch, had been written.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable
from operator import attrgetter

import attrs

from pylogbroker.client.producer.batch import Batch
from pylogbroker.client.producer.sequences import ANONYMOUS, Identity, sequence_at

_position = attrgetter("position")


@attrs.define(eq=False)
class Lane:
    """The batches of one partition."""

    topic: str
    partition: int
    idempotent: bool = False
    may_renew: bool = True  # whether a new epoch may begin here; not in transactions, where the coordinator gives them
    queue: deque[Batch] = attrs.Factory(deque)
    open: Batch | None = None  # the last one of the queue, while it takes records
    flying: list[Batch] = attrs.Factory(list)
    returned: list[Batch] = attrs.Factory(list)
    resume_at: float = 0.0  # nothing leaves before
    identity: Identity | None = None  # None: it has to be asked for
    is_known: bool = False  # whether the leader has taken something of it
    spent: int = -1  # a producer id that had no epoch left when `identity` became None
    origin: int = 0  # the position with sequence number 0
    taken: int = 0
    hole: int | None = None
    lost: int | None = None
    node: int = -1  # where the flying ones went

    @property
    def idle(self) -> bool:
        """Whether there is nothing here."""
        return not (self.queue or self.flying or self.returned)

    @property
    def is_stuck(self) -> bool:
        """Whether a batch is missing, so that the leader would not take what follows."""
        return self.hole is not None or self.lost is not None

    def is_next(self, batch: Batch) -> bool:
        """Whether the batch is the first one of the queue."""
        return bool(self.queue) and self.queue[0] is batch

    def sequence(self, batch: Batch) -> int:
        """The batch's base sequence; -1 without idempotence."""
        return sequence_at(batch.position, self.origin) if self.idempotent else -1

    def adopt(self, identity: Identity) -> None:
        """Number batches for `identity` from here on. Nothing may be on its way."""
        self._begin(identity)

    def sendable(self, window: int, node: int) -> Batch | None:
        """The batch that may leave next to the leader `node`, not looking at the time; None if it has to wait."""
        flying = self.flying
        if flying and (len(flying) >= window or node != self.node or (self.idempotent and not self.is_known)):
            return None
        if self.returned:
            first = self.returned[0]
            return first if not flying or flying[-1].position < first.position else None
        if not self.queue or self.is_stuck:
            return None
        return self.queue[0]

    def take(self, batch: Batch, node: int) -> None:
        """`batch`, which `sendable` gave, leaves."""
        if self.returned:
            del self.returned[0]
        else:
            self.leave(batch)
            batch.position = self.taken
            self.taken += batch.count
        batch.identity = self.identity or ANONYMOUS
        batch.attempts += 1
        batch.refused = False
        self.flying.append(batch)
        self.node = node

    def leave(self, batch: Batch) -> None:
        """The first batch leaves the queue; it takes no more records."""
        self.queue.popleft()
        if batch is self.open:
            self.open = None

    def succeeded(self, batch: Batch) -> list[Batch]:
        """The leader took the batch; returned are those before it which have been written too, as that shows."""
        self._land(batch)
        if not self.idempotent:
            return []
        self.is_known = True
        if self.lost is not None and self.lost < batch.position:
            self.lost = None
        proven = [other for other in self.returned if other.position < batch.position]
        self.returned = self.returned[len(proven) :]
        return proven

    def came_back(self, batch: Batch, *, refused: bool = False, doubtful: bool = False) -> None:
        """The batch is to be sent again.

        It was `refused` because something before it is missing, or it is `doubtful` whether it was written.
        """
        self._land(batch)
        batch.refused = refused
        batch.doubtful = batch.doubtful or doubtful
        insort(self.returned, batch, key=_position)

    def failed(self, batch: Batch, *, doubtful: bool = False) -> None:
        """The batch is not to be sent any more."""
        self._land(batch)
        if not self.idempotent:
            return
        if doubtful or batch.doubtful:
            self.lost = max(self.lost or 0, batch.position)
        else:
            self.hole = batch.position if self.hole is None else min(self.hole, batch.position)

    def split(self, batch: Batch) -> tuple[Batch, Batch]:
        """The batch, which is flying and was not written, is sent again as two."""
        self._land(batch)
        halves = batch.halves()
        for half in halves:
            insort(self.returned, half, key=_position)
        return halves

    def settle(self) -> list[Batch]:
        """To be called when nothing is flying any more: go on after failures. Returned are batches that fail by it."""
        if self.flying or not self.idempotent:
            return []
        if self.hole is not None and self.lost is None:
            self._move_up(self.hole)
        refused = bool(self.returned) and self.returned[0].refused
        if refused or (self.lost is not None and not (self.returned and self.is_known)):
            return self._renew() if self.may_renew else self._give_up()
        return []

    def _renew(self) -> list[Batch]:
        """Begin a new epoch."""
        given_up = [batch for batch in self.returned if batch.doubtful]
        self.returned = [batch for batch in self.returned if not batch.doubtful]
        self.spent = -1 if self.identity is None else self.identity.id
        self._begin(None if self.identity is None else self.identity.bumped())
        return given_up

    def _give_up(self) -> list[Batch]:
        """Leave it to a transaction's end to begin a new epoch."""
        given_up, self.returned = self.returned, []
        self.lost = self.taken
        return given_up

    def _begin(self, identity: Identity | None) -> None:
        self.origin = self.taken
        self._renumber(self.returned, self.taken)
        self.identity = identity
        self.is_known = False
        self.hole = self.lost = None

    def _move_up(self, position: int) -> None:
        """What was to follow a batch that was never written takes its place."""
        self._renumber([batch for batch in self.returned if batch.position > position], position)
        self.hole = None

    def _renumber(self, batches: Iterable[Batch], position: int) -> None:
        for batch in batches:
            batch.position = position
            batch.refused = batch.doubtful = False
            position += batch.count
        self.taken = position

    def _land(self, batch: Batch) -> None:
        """The batch is on its way no longer; it may have come back before, if it is now given up."""
        if batch in self.flying:
            self.flying.remove(batch)
        elif batch in self.returned:
            self.returned.remove(batch)
