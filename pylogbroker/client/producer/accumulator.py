"""Group records into batches: the producer's queue, without I/O; the time is passed in.

The last batch of a partition's `PartitionQueue` takes records until it is full. A queue is *ready* when it may have a
batch to send: full, past its `linger`, requeued and past its backoff, or any during a flush (`flushers`).

Bytes and optionally records, in flight included, bound the queue. `append` exceeds the bound: the caller asks
`has_space` first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import accumulate, count, takewhile
from math import inf
from typing import Final

import attrs

from pylogbroker.client.producer.batch import Batch, BatchQueue, Collector, RecordCompletion, Span
from pylogbroker.client.producer.delivery import DeliveryReport
from pylogbroker.records import Header

OVERHEAD: Final = 16  # bytes of a record's lengths, deltas and attributes


@attrs.frozen
class BufferLimits:
    """Limits of batches and queue. Times in seconds, sizes in bytes; 0 records: no limit."""

    batch_bytes: int = 16384
    batch_records: int = 0
    linger: float = 0.0
    delivery_timeout: float = 120.0
    memory: int = 33_554_432
    records: int = 0


@attrs.define(eq=False, repr=False)
class AppendRun:
    """Open batch that takes the topic's next records without keys and headers, with no more than a look at `room`.

    The run is over when the batch has left `queue.open`, or `Accumulator.run` is NO_RUN: after other records, which use
    the memory too, and while records wait.
    """

    topic: str
    queue: BatchQueue
    batch: Batch
    room: int
    """Bytes that the batch and the memory still take; a record that fills the batch exceeds them."""

    report: DeliveryReport
    values: list[bytes | None]
    timestamps: list[int]


NO_RUN: Final = AppendRun("", BatchQueue("", -1), Batch(0.0, 0.0, 0.0), -1, DeliveryReport(), [], [])
"""Run that takes no record."""


def ignore(queue: BatchQueue) -> None:
    """Ignore the event."""


@attrs.define(eq=False, repr=False)
class Accumulator:
    limits: BufferLimits
    idempotent: bool = True
    may_bump_epoch: bool = True
    on_closed: Callable[[BatchQueue], object] = ignore
    queues: dict[tuple[str, int], BatchQueue] = attrs.Factory(dict)
    ready: dict[BatchQueue, None] = attrs.Factory(dict)  # ordered set
    used: int = 0
    held: int = 0  # records
    flushers: int = 0
    run: AppendRun = NO_RUN
    _timers: list[tuple[float, int, BatchQueue]] = attrs.Factory(list)
    _order: count[int] = attrs.Factory(count)

    def queue(self, topic: str, partition: int) -> BatchQueue:
        queue = self.queues.get((topic, partition))
        if queue is None:
            queue = self.queues[topic, partition] = BatchQueue(topic, partition, self.idempotent, self.may_bump_epoch)
        return queue

    def has_space(self, size: int, records: int = 1) -> bool:
        """Return whether the records fit; one record always fits an empty queue."""
        limits = self.limits
        if not self.held:
            return True
        return self.used + size <= limits.memory and not 0 < limits.records < self.held + records

    def append(
        self,
        queue: BatchQueue,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: tuple[Header, ...],
        size: int,
        completion: RecordCompletion | None,
        now: float,
    ) -> Batch:
        self.run = NO_RUN
        batch = queue.open
        if batch is None or batch.size + size > self.limits.batch_bytes:
            batch = self._new_batch(queue, now)
        if key is not None and batch.keys is None:
            batch.with_key(key)
        elif batch.keys is not None:
            batch.keys.append(key)
        if headers and batch.headers is None:
            batch.with_headers(headers)
        elif batch.headers is not None:
            batch.headers.append(headers)
        if completion is not None:
            batch.completions[len(batch.values)] = completion
        batch.values.append(value)
        batch.timestamps.append(timestamp)
        batch.size += size
        self.used += size
        self.held += 1
        if batch.size >= self.limits.batch_bytes or len(batch.values) == self.limits.batch_records:
            self.close(queue)
        return batch

    def begin_run(self, queue: BatchQueue, batch: Batch) -> None:
        """Let the topic's next records go to the batch directly, if it is open and has none with keys or headers."""
        limits = self.limits
        if batch is not queue.open or limits.records or limits.batch_records:
            return
        if batch.keys is None and batch.headers is None and batch.events is None:
            if batch.report is None:
                batch.report = DeliveryReport()
            room = min(limits.batch_bytes - batch.size - 1, limits.memory - self.used)
            self.run = AppendRun(queue.topic, queue, batch, room, batch.report, batch.values, batch.timestamps)

    def extend(
        self,
        queue: BatchQueue,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        timestamp: int,
        sizes: Sequence[int],
        collector: Collector,
        places: Sequence[int],
        now: float,
    ) -> int:
        """Add records without headers; return how many one batch took.

        `places` are their indexes in `collector`; `sizes` include OVERHEAD.
        """
        self.run = NO_RUN
        batch = queue.open
        if batch is None or batch.size + sizes[0] > self.limits.batch_bytes:
            batch = self._new_batch(queue, now)
        taken = self._fitting(batch, sizes)
        batch.spans.append(Span(batch.count, places[:taken], collector))
        _extend(batch, None if keys is None else keys[:taken], values[:taken], timestamp)
        size = sum(sizes[:taken])
        batch.size += size
        self.used += size
        self.held += taken
        if batch.size >= self.limits.batch_bytes or batch.count == self.limits.batch_records:
            self.close(queue)
        return taken

    def close(self, queue: BatchQueue) -> None:
        queue.open = None
        self.ready[queue] = None
        self.on_closed(queue)

    def take(self, queue: BatchQueue, batch: Batch, node: int) -> None:
        was_open = batch is queue.open
        queue.take(batch, node)
        if was_open:
            self.on_closed(queue)

    def next_batch(self, queue: BatchQueue, now: float, window: int, node: int) -> Batch | None:
        """Return the batch that may go now to the leader `node`, or None.

        If only time is missing, a timer makes the queue ready then.
        """
        batch = queue.sendable(window, node)
        if batch is None:
            return None
        due = queue.resume_at
        if batch is queue.open and not self.flushers:
            due = max(due, batch.due)
        if due > now:
            self.wait(queue, due)
            return None
        return batch

    def wait(self, queue: BatchQueue, due: float) -> None:
        heapq.heappush(self._timers, (due, next(self._order), queue))

    def next_due(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def collect(self, now: float) -> list[BatchQueue]:
        while self._timers and self._timers[0][0] <= now:
            self.ready[heapq.heappop(self._timers)[2]] = None
        queues = list(self.ready)
        self.ready.clear()
        return queues

    def stop_lingering(self) -> None:
        """Stop lingering until the caller decrements `flushers`."""
        self.flushers += 1
        self.wake()

    def wake(self) -> None:
        self.ready.update((queue, None) for queue in self.queues.values() if queue.unsent or queue.requeued)

    def release(self, batch: Batch) -> None:
        if self.run.batch is batch:
            self.run = NO_RUN  # would keep the values in memory
        self.used -= batch.size
        self.held -= batch.count

    def count(self, batch: Batch) -> None:
        self.used += batch.size
        self.held += batch.count

    def expire(self, now: float) -> list[tuple[BatchQueue, Batch]]:
        """Remove batches past their deadline, except in flight."""
        expired = []
        for queue in self.queues.values():
            while queue.unsent and queue.unsent[0].deadline <= now:
                expired.append((queue, queue.unsent[0]))
                queue.leave(queue.unsent[0])
            for batch in [batch for batch in queue.requeued if batch.deadline <= now]:
                queue.failed(batch)
                expired.append((queue, batch))
        return expired

    def drop(self) -> list[tuple[BatchQueue, Batch]]:
        return self.expire(inf)

    def batches(self) -> list[Batch]:
        queues = self.queues.values()
        return [batch for queue in queues for batch in (*queue.in_flight, *queue.requeued, *queue.unsent)]

    def _fitting(self, batch: Batch, sizes: Sequence[int]) -> int:
        space, records = self.limits.batch_bytes - batch.size, self.limits.batch_records
        most = records - batch.count if records else len(sizes)
        ends = accumulate(sizes[: min(most, space // OVERHEAD + 1)])
        return max(1, sum(1 for _ in takewhile(lambda end: end <= space, ends)))

    def _new_batch(self, queue: BatchQueue, now: float) -> Batch:
        limits = self.limits
        if queue.open is not None:
            self.close(queue)
        batch = Batch(now, now + limits.delivery_timeout, now + limits.linger)
        if queue.unsent or limits.linger <= 0 or self.flushers:
            self.ready[queue] = None
        else:
            self.wait(queue, batch.due)
        queue.unsent.append(batch)
        queue.open = batch
        return batch


def _extend(batch: Batch, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None], timestamp: int) -> None:
    number = len(values)
    if keys is not None and batch.keys is None:
        batch.keys = [None] * batch.count
    if batch.keys is not None:
        batch.keys.extend(keys if keys is not None else [None] * number)
    if batch.headers is not None:
        batch.headers.extend([()] * number)
    batch.values.extend(values)
    batch.timestamps.extend([timestamp] * number)
