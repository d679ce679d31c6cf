"""A leader as a producer meets it: it checks sequences as Kafka does, and the way to it may break at any place."""

from __future__ import annotations

from collections import deque

import attrs

from pylogbroker.client.partition_queue import PartitionQueue
from pylogbroker.client.producer.batch import Batch
from pylogbroker.errors import ErrorCode

CACHED_ENTRIES_MAX = 5


@attrs.define
class Leader:
    """One partition's log, and what it remembers of one producer: the epoch, and its last batches by sequence.

    As long as it knows nothing of the producer, it takes a batch with any sequence.
    """

    log: list[bytes | None] = attrs.Factory(list)
    epoch: int = -1
    expected: int = 0
    remembered: deque[tuple[int, int, int]] = attrs.Factory(lambda: deque(maxlen=CACHED_ENTRIES_MAX))

    def take(self, batch: Batch, sequence: int) -> tuple[ErrorCode, int]:
        """Append the batch, or say why not; and its base offset."""
        epoch = batch.identity.epoch
        if epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if epoch > self.epoch:
            if sequence and self.epoch >= 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.epoch, self.expected = epoch, sequence
            self.remembered.clear()
        for base, count, offset in self.remembered:
            if (base, count) == (sequence, batch.count):
                return ErrorCode.NONE, offset
        if sequence != self.expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        self.remembered.append((sequence, batch.count, len(self.log)))
        self.log += batch.values
        self.expected += batch.count
        return ErrorCode.NONE, len(self.log) - batch.count

    def forget(self, all_but: int) -> None:
        """Forget batches, oldest first. Kafka's snapshots keep one: that is what it knows after a clean restart."""
        while len(self.remembered) > all_but:
            self.remembered.popleft()


@attrs.define
class LeaderConnection:
    """The connection to a leader: batches arrive in the order in which they left, as long as it holds."""

    queue: PartitionQueue
    leader: Leader
    under_way: deque[Batch] = attrs.Factory(deque)
    acknowledged: list[bytes | None] = attrs.Factory(list)
    failed: list[bytes | None] = attrs.Factory(list)
    surely_not_written: list[bytes | None] = attrs.Factory(list)

    def send(self, window: int) -> None:
        """Let the partition queue send all that it may."""
        while (batch := self.queue.sendable(window, 1)) is not None:
            self.queue.take(batch, 1)
            self.under_way.append(batch)

    def arrive(self) -> None:
        """The oldest batch arrives, and the answer comes back."""
        batch = self.under_way.popleft()
        code, _ = self.leader.take(batch, self.queue.sequence(batch))
        if code is ErrorCode.NONE:
            for other in self.queue.succeeded(batch):
                self.acknowledged += other.values
            self.acknowledged += batch.values
        else:
            self.queue.requeue(batch, rejected=True)
        self.settle()

    def put_off(self) -> None:
        """The leader does not take the oldest batch now, and says so."""
        self.queue.requeue(self.under_way.popleft())
        self.settle()

    def reject(self) -> None:
        """The leader will never take the oldest batch, and says so."""
        batch = self.under_way.popleft()
        if not batch.outcome_unknown:
            self.surely_not_written += batch.values
        self.failed += batch.values
        self.queue.failed(batch)
        self.settle()

    def split(self) -> None:
        """The leader finds the oldest batch too large."""
        batch = self.under_way.popleft()
        if batch.count > 1:
            self.queue.split(batch)
        else:
            self.queue.requeue(batch)
        self.settle()

    def break_after(self, arrived: int) -> None:
        """The connection breaks: so many batches have arrived, no answer has."""
        for number, batch in enumerate(list(self.under_way)):
            if number < arrived:
                self.leader.take(batch, self.queue.sequence(batch))
            self.queue.requeue(batch, outcome_unknown=True)
        self.under_way.clear()
        self.settle()

    def abort(self) -> None:
        """The time of the oldest batch that came back is over."""
        if self.queue.requeued:
            batch = self.queue.requeued[0]
            self.failed += batch.values
            self.queue.failed(batch)
            self.settle()

    def settle(self) -> None:
        for batch in self.queue.settle():
            self.failed += batch.values
