"""The shards of a coordinator, and when requests to them are served.

A shard is one partition's state. `epoch` is the partition's leader epoch.

    state      requests                       load(epoch)             activate(replay)   unload(epoch)
    --------   ----------------------------   ---------------------   ----------------   ------------------
    unloaded   NOT_COORDINATOR                loading                 -                  -
    loading    COORDINATOR_LOAD_IN_PROGRESS   loading, if newer       active             unloaded, if newer
    active     served                         loading, if newer       -                  unloaded, if newer

With a newer epoch another broker may have written in between, so the shard is read again. Calls without a newer epoch
come late and change nothing.

The driver replays the log into the result of `load` and calls `activate`, or `abort` if the log is unreadable. Without
a log, a shard would answer as if nothing were stored. The driver runs `tick` at `next_deadline()`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import attrs

from pylogbroker.coordinators.event_queue import EventQueue
from pylogbroker.coordinators.log_port import LogPort
from pylogbroker.coordinators.record_writer import RecordWriter
from pylogbroker.coordinators.replay import PartitionReplay, ReplayState
from pylogbroker.coordinators.timers import Timer, Timers
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import advance, give_way
from pylogbroker.partition_hash import partition_for

R = TypeVar("R", bound=ReplayState)
S = TypeVar("S")


@attrs.define(eq=False, repr=False)
class CoordinatorContext:
    _log_port: LogPort
    events: EventQueue = attrs.field(factory=EventQueue)
    timers: Timers = attrs.field(factory=Timers, init=False)
    writer: RecordWriter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.writer = RecordWriter(self._log_port, self.events)


class ShardHandler(Protocol[R, S]):
    @property
    def sweep_interval_ms(self) -> int:
        """Return the time between sweeps."""

    def new_state(self) -> R:
        """Return the state for a replay."""

    async def make_shard(self, replay: PartitionReplay[R], now_ms: int) -> S:
        """Return the shard of a complete replay, in steps; the load may be superseded between them."""

    async def on_active(self, shard: S, state: R, now_ms: int) -> None:
        """Continue what the former coordinator left unfinished, in steps; the shard may change between them.

        No request is served before the first step ends.
        """

    def on_unload(self, shard: S, now_ms: int) -> None:
        """Answer waiting requests; stop timers."""

    async def sweep(self, shard: S, now_ms: int) -> None:
        """Expire what is older than its retention, in steps; the shard may change between them."""


@attrs.frozen
class _ActiveShard(Generic[S]):
    shard: S
    epoch: int
    sweep: Timer


@attrs.define(eq=False, repr=False)
class CoordinatorRuntime(Generic[R, S]):
    """`partitions` is set before the first load."""

    partitions: int
    _context: CoordinatorContext
    _handler: ShardHandler[R, S]
    _loading: dict[int, PartitionReplay[R]] = attrs.field(factory=dict, init=False)
    _active: dict[int, _ActiveShard[S]] = attrs.field(factory=dict, init=False)

    def partition_for(self, key: str) -> int:
        return partition_for(key, self.partitions)

    def find(self, key: str) -> S | ErrorCode:
        """Return the active shard, or the error of requests about it."""
        partition = self.partition_for(key)
        active = self._active.get(partition)
        if active is not None:
            return active.shard
        loading = partition in self._loading
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NOT_COORDINATOR

    def shard_for(self, key: str) -> S:
        """Raise KeyError without active shard."""
        return self._active[self.partition_for(key)].shard

    def shard(self, partition: int) -> S | None:
        active = self._active.get(partition)
        return None if active is None else active.shard

    def shards(self) -> Iterator[S]:
        return (active.shard for active in self._active.values())

    def loading(self) -> list[R]:
        return [replay.state for replay in self._loading.values()]

    def load(self, partition: int, epoch: int, now_ms: int) -> PartitionReplay[R] | None:
        """Begin a load; return None if the epoch is not newer."""
        if self._epoch(partition) >= epoch:
            return None
        self._remove(partition, now_ms)
        replay = self._loading[partition] = PartitionReplay(partition, epoch, self._handler.new_state())
        return replay

    async def activate(self, replay: PartitionReplay[R], now_ms: int) -> None:
        """Serve a completely replayed shard, unless the load was or is superseded: in steps, as it may be large."""
        if not self.is_loading(replay):
            return
        partition, handler = replay.partition, self._handler
        shard = await handler.make_shard(replay, now_ms)
        if not self.is_loading(replay):
            return
        del self._loading[partition]
        sweep = self._start_sweep(partition, shard, now_ms)
        self._active[partition] = _ActiveShard(shard, replay.leader_epoch, sweep)
        await self._in_events(handler.on_active(shard, replay.state, now_ms))

    async def _in_events(self, work: Coroutine[Any, Any, None]) -> None:
        """Run each step as an event."""
        is_left = True
        while is_left:
            with self._context.events:
                is_left = advance(work)
            await give_way()

    def is_loading(self, replay: PartitionReplay[R]) -> bool:
        """Return False after the load was superseded or the shard unloaded."""
        return self._loading.get(replay.partition) is replay

    def abort(self, replay: PartitionReplay[R]) -> None:
        """Unload a shard with an unreadable log, unless the load was superseded."""
        if self.is_loading(replay):
            del self._loading[replay.partition]

    def unload(self, partition: int, now_ms: int, epoch: int | None = None) -> None:
        """Stop serving, once the current operation ends.

        Another broker leads since `epoch`; without epoch, no broker leads.
        """
        if epoch is None or self._epoch(partition) < epoch:
            self._context.events.as_event(self._remove)(partition, now_ms)

    def close(self, now_ms: int) -> None:
        for partition in [*self._loading, *self._active]:
            self._remove(partition, now_ms)

    def _epoch(self, partition: int) -> int:
        if partition in self._loading:
            return self._loading[partition].leader_epoch
        return self._active[partition].epoch if partition in self._active else -1

    def _remove(self, partition: int, now_ms: int) -> None:
        self._loading.pop(partition, None)
        active = self._active.pop(partition, None)
        if active is not None:
            active.sweep.cancel()
            with self._context.events:
                self._handler.on_unload(active.shard, now_ms)

    def watch_deadlines(self, on_earlier: Callable[[int], None]) -> None:
        """Call `on_earlier` with each new earliest deadline."""
        self._context.timers.on_earlier = on_earlier

    def next_deadline(self) -> int | None:
        return self._context.timers.next_due()

    async def tick(self, now_ms: int) -> None:
        """Run what is due: a step for each timer."""
        has_fired = True
        while has_fired:
            with self._context.events:
                has_fired = self._context.timers.fire_next(now_ms)
            await give_way()

    def _start_sweep(self, partition: int, shard: S, now_ms: int) -> Timer:
        """Start the sweeps, for each partition at another point of the interval."""
        interval_ms = max(self._handler.sweep_interval_ms, 1)
        first_ms = now_ms + max(interval_ms * (partition + 1) // self.partitions, 1)
        return self._context.timers.start_periodic(first_ms, interval_ms, partial(self._handler.sweep, shard))
