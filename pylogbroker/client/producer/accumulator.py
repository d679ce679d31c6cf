"""Records become batches: the queue of a producer, without I/O; the time is passed in.

Each partition has a lane (see `lane`), whose last batch takes records until it is full. A lane is *ready* when it has
something that may leave: a full batch, one whose `linger` has passed, one that came back and has waited long enough, or
anything while somebody waits for everything to leave (`hurry`). Which leader it goes to, and when, is the sender's
business.

The queue is bounded by the bytes and, if wished, the number of the records in it; those on their way count. What is
appended is counted, whether there is room or not: who appends asks `has_room` first.
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
    """How batches and the queue are bounded. Times in seconds, sizes in bytes; 0 records is no bound on them."""

    batch_bytes: int = 16384
    batch_records: int = 0
    linger: float = 0.0
    delivery_timeout: float = 120.0
    memory: int = 33_554_432
    records: int = 0


def nobody_to_tell(lane: Lane) -> None:
    """For who does not want to know which batches are full."""


@attrs.define(eq=False)
class Accumulator:
    """The lanes of a producer, and which are ready."""

    bounds: Bounds
    idempotent: bool = True
    may_renew: bool = True
    on_closed: Callable[[Lane], object] = nobody_to_tell  # called when a lane's last batch takes no more
    lanes: dict[tuple[str, int], Lane] = attrs.Factory(dict)
    ready: dict[Lane, None] = attrs.Factory(dict)  # a set in order
    used: int = 0
    held: int = 0  # records
    hurry: int = 0  # how many wait for everything to leave
    _timers: list[tuple[float, int, Lane]] = attrs.Factory(list)
    _order: count[int] = attrs.Factory(count)

    def lane(self, topic: str, partition: int) -> Lane:
        """The lane of a partition."""
        lane = self.lanes.get((topic, partition))
        if lane is None:
            lane = self.lanes[topic, partition] = Lane(topic, partition, self.idempotent, self.may_renew)
        return lane

    def has_room(self, size: int, records: int = 1) -> bool:
        """Whether the queue may take as much; an empty one takes anything."""
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
        """Put a record of `size` bytes, overhead included, into the lane's last batch, or into a new one."""
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
        """Put as many of the records as it takes into the lane's last batch, or a new one; returned is how many.

        They have no headers. `collector` has `places` for what becomes of them. The sizes are as those of `append`.
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
        """The lane's last batch takes no more."""
        lane.open = None
        self.ready[lane] = None
        self.on_closed(lane)

    def take(self, lane: Lane, batch: Batch, node: int) -> None:
        """The batch, which `next_batch` gave, leaves for the leader `node`."""
        was_open = batch is lane.open
        lane.take(batch, node)
        if was_open:
            self.on_closed(lane)

    def next_batch(self, lane: Lane, now: float, window: int, node: int) -> Batch | None:
        """The lane's batch that may go now to the leader `node`.

        If it is only too early for it, the lane will be ready in time.
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
        """The lane is ready at that time."""
        heapq.heappush(self._timers, (due, next(self._order), lane))

    def next_due(self) -> float | None:
        """When a lane becomes ready by time alone."""
        return self._timers[0][0] if self._timers else None

    def collect(self, now: float) -> list[Lane]:
        """The lanes that are ready, to be looked at; they are ready no more until something happens to them."""
        while self._timers and self._timers[0][0] <= now:
            self.ready[heapq.heappop(self._timers)[2]] = None
        lanes = list(self.ready)
        self.ready.clear()
        return lanes

    def hurry_on(self) -> None:
        """Nothing lingers, until `hurry` is taken back by one."""
        self.hurry += 1
        self.wake()

    def wake(self) -> None:
        """All lanes with something in them are to be looked at."""
        self.ready.update((lane, None) for lane in self.lanes.values() if lane.queue or lane.returned)

    def release(self, batch: Batch) -> None:
        """The batch's room is free again: it is done, or has failed."""
        self.used -= batch.size
        self.held -= batch.count

    def count(self, batch: Batch) -> None:
        """The batch takes room."""
        self.used += batch.size
        self.held += batch.count

    def expire(self, now: float) -> list[tuple[Lane, Batch]]:
        """Take out what is not to be tried any longer; batches that are on their way are left alone."""
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
        """Take out all that is not on its way."""
        return self.expire(inf)

    def batches(self) -> list[Batch]:
        """All that is here, on its way or not."""
        lanes = self.lanes.values()
        return [batch for lane in lanes for batch in (*lane.flying, *lane.returned, *lane.queue)]

    def _fitting(self, batch: Batch, sizes: Sequence[int]) -> int:
        """How many records of these sizes the batch takes: one at least."""
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
