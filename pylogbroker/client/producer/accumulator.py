"""Group records into batches: the producer's queue, without I/O; the time is passed in.

Each partition has a queue (see `lane`), whose last batch takes records until it is full. A partition queue is *ready*
when it may have a batch to send: a full one, one whose `linger` has passed, a requeued one whose backoff is over, or
any while a flush runs (`hurry`). The sender decides about leaders and requests.

The bytes of the records, and optionally their number, bound the queue; records in flight count. `append` counts a
record even above the bound: the caller asks `has_room` first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import accumulate, count, takewhile
from math import inf
from typing import Final

import attrs

from pylogbroker.client.producer.batch import Batch, Collector, Sink, Span
from pylogbroker.client.producer.lane import Lane
from pylogbroker.records import Header

OVERHEAD: Final = 16  # bytes of a record besides its key, value and headers: lengths, deltas, attributes


@attrs.frozen
class Bounds:
    """Limits of batches and of the queue. Times in seconds, sizes in bytes; 0 records means no limit on them."""

    batch_bytes: int = 16384
    batch_records: int = 0
    linger: float = 0.0
    delivery_timeout: float = 120.0
    memory: int = 33_554_432
    records: int = 0


def nobody_to_tell(lane: Lane) -> None:
    """Ignore the event: the default for `on_closed`."""


@attrs.define(eq=False)
class Accumulator:
    """The partition queues of a producer, and which of them are ready."""

    bounds: Bounds
    idempotent: bool = True
    may_renew: bool = True
    on_closed: Callable[[Lane], object] = nobody_to_tell  # called when a queue's last batch is closed
    lanes: dict[tuple[str, int], Lane] = attrs.Factory(dict)
    ready: dict[Lane, None] = attrs.Factory(dict)  # an ordered set
    used: int = 0
    held: int = 0  # records
    hurry: int = 0  # number of callers that wait for everything to be sent
    _timers: list[tuple[float, int, Lane]] = attrs.Factory(list)
    _order: count[int] = attrs.Factory(count)

    def lane(self, topic: str, partition: int) -> Lane:
        """Return the queue of a partition; create it if needed."""
        lane = self.lanes.get((topic, partition))
        if lane is None:
            lane = self.lanes[topic, partition] = Lane(topic, partition, self.idempotent, self.may_renew)
        return lane

    def has_room(self, size: int, records: int = 1) -> bool:
        """Return whether the records fit. An empty queue takes a record of any size."""
        bounds = self.bounds
        if not self.held:
            return True
        return self.used + size <= bounds.memory and not 0 < bounds.records < self.held + records

    def append(
        self,
        lane: Lane,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: tuple[Header, ...],
        size: int,
        sink: Sink | None,
        now: float,
    ) -> Batch:
        """Add a record of `size` bytes, overhead included, to the queue's last batch or to a new one."""
        batch = lane.open
        if batch is None or batch.size + size > self.bounds.batch_bytes:
            batch = self._new_batch(lane, now)
        if key is not None and batch.keys is None:
            batch.with_key(key)
        elif batch.keys is not None:
            batch.keys.append(key)
        if headers and batch.headers is None:
            batch.with_headers(headers)
        elif batch.headers is not None:
            batch.headers.append(headers)
        batch.values.append(value)
        batch.timestamps.append(timestamp)
        batch.sinks.append(sink)
        batch.size += size
        self.used += size
        self.held += 1
        if batch.size >= self.bounds.batch_bytes or len(batch.values) == self.bounds.batch_records:
            self.close(lane)
        return batch

    def extend(
        self,
        lane: Lane,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        timestamp: int,
        sizes: Sequence[int],
        collector: Collector,
        places: Sequence[int],
        now: float,
    ) -> int:
        """Add records without headers to the queue's last batch or to a new one; return how many fitted.

        `places` are the records' indexes in `collector`. Sizes include the overhead, as in `append`.
        """
        batch = lane.open
        if batch is None or batch.size + sizes[0] > self.bounds.batch_bytes:
            batch = self._new_batch(lane, now)
        taken = self._fitting(batch, sizes)
        batch.spans.append(Span(batch.count, places[:taken], collector))
        _extend(batch, None if keys is None else keys[:taken], values[:taken], timestamp)
        size = sum(sizes[:taken])
        batch.size += size
        self.used += size
        self.held += taken
        if batch.size >= self.bounds.batch_bytes or batch.count == self.bounds.batch_records:
            self.close(lane)
        return taken

    def close(self, lane: Lane) -> None:
        lane.open = None
        self.ready[lane] = None
        self.on_closed(lane)

    def take(self, lane: Lane, batch: Batch, node: int) -> None:
        """Mark the batch, which `next_batch` returned, as in flight to the leader `node`."""
        was_open = batch is lane.open
        lane.take(batch, node)
        if was_open:
            self.on_closed(lane)

    def next_batch(self, lane: Lane, now: float, window: int, node: int) -> Batch | None:
        """Return the batch that may go now to the leader `node`, or None.

        If only the time is missing, a timer makes the queue ready when it is due.
        """
        batch = lane.sendable(window, node)
        if batch is None:
            return None
        due = lane.resume_at
        if batch is lane.open and not self.hurry:
            due = max(due, batch.due)
        if due > now:
            self.wait(lane, due)
            return None
        return batch

    def wait(self, lane: Lane, due: float) -> None:
        """Make the queue ready at the time `due`."""
        heapq.heappush(self._timers, (due, next(self._order), lane))

    def next_due(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def collect(self, now: float) -> list[Lane]:
        """Return the ready queues and clear their ready mark, until something happens to them."""
        while self._timers and self._timers[0][0] <= now:
            self.ready[heapq.heappop(self._timers)[2]] = None
        lanes = list(self.ready)
        self.ready.clear()
        return lanes

    def hurry_on(self) -> None:
        """Stop lingering; the caller decrements `hurry` when it is done."""
        self.hurry += 1
        self.wake()

    def wake(self) -> None:
        """Make every queue ready that has batches to send."""
        self.ready.update((lane, None) for lane in self.lanes.values() if lane.queue or lane.returned)

    def release(self, batch: Batch) -> None:
        self.used -= batch.size
        self.held -= batch.count

    def count(self, batch: Batch) -> None:
        self.used += batch.size
        self.held += batch.count

    def expire(self, now: float) -> list[tuple[Lane, Batch]]:
        """Remove and return batches past their deadline, except those in flight."""
        expired = []
        for lane in self.lanes.values():
            while lane.queue and lane.queue[0].deadline <= now:
                expired.append((lane, lane.queue[0]))
                lane.leave(lane.queue[0])
            for batch in [batch for batch in lane.returned if batch.deadline <= now]:
                lane.failed(batch)
                expired.append((lane, batch))
        return expired

    def drop(self) -> list[tuple[Lane, Batch]]:
        return self.expire(inf)

    def batches(self) -> list[Batch]:
        lanes = self.lanes.values()
        return [batch for lane in lanes for batch in (*lane.flying, *lane.returned, *lane.queue)]

    def _fitting(self, batch: Batch, sizes: Sequence[int]) -> int:
        room, records = self.bounds.batch_bytes - batch.size, self.bounds.batch_records
        most = records - batch.count if records else len(sizes)
        ends = accumulate(sizes[: min(most, room // OVERHEAD + 1)])
        return max(1, sum(1 for _ in takewhile(lambda end: end <= room, ends)))

    def _new_batch(self, lane: Lane, now: float) -> Batch:
        bounds = self.bounds
        if lane.open is not None:
            self.close(lane)
        batch = Batch(now, now + bounds.delivery_timeout, now + bounds.linger)
        if lane.queue or bounds.linger <= 0 or self.hurry:
            self.ready[lane] = None
        else:
            self.wait(lane, batch.due)
        lane.queue.append(batch)
        lane.open = batch
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
    batch.sinks.extend([None] * number)
