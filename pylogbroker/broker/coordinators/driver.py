"""Drives a coordinator: loads its shards from its topic's logs, and calls it when a timer is due.

    this broker leads a partition of the topic --> load --log replayed, and committed--> active
                                                     |
                                                     +--log unreadable--> unloaded
    another broker leads it, its log directory fails, or the topic is deleted --> unload

Worker threads replay one partition after the other; the reactor thread makes the shards.

The end of the log may not be committed: another leader may cut it off. So a shard waits until the in-sync replicas have
all that it was loaded from. Else it would write the markers of a transaction whose end is lost, or answer with offsets
that are lost. Apache Kafka does not wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

import attrs
from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred, gatherResults, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from pylogbroker.broker.coordinators.internal_topic import InternalTopic
from pylogbroker.broker.coordinators.recent_loads import RecentLoads
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.coordinators import CoordinatorRuntime, PartitionReplay, ReplayState
from pylogbroker.metadata.delta import Change, PartitionsChanged, TopicCreated
from pylogbroker.metadata.image import TopicImage

log = Logger()

R = TypeVar("R", bound=ReplayState)
S = TypeVar("S")


@attrs.define(eq=False, repr=False)
class CoordinatorDriver(Generic[R, S]):
    """Drives one coordinator of `subject`, as log messages name it."""

    _runtime: Runtime
    _topic: InternalTopic
    _coordinator: CoordinatorRuntime[R, S]
    _subject: str
    loads: RecentLoads = attrs.field(factory=RecentLoads, init=False)
    _tick: IDelayedCall | None = attrs.field(default=None, init=False)
    _is_open: bool = attrs.field(default=False, init=False)
    _is_ticking: bool = attrs.field(default=False, init=False)
    _replaying: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    def open(self) -> Deferred[None]:
        """Load all shards of partitions that the broker leads by now; fire when they are loaded."""
        self._is_open = True
        self._coordinator.watch_deadlines(self._schedule)
        topic = self._topic.find()
        return succeed(None) if topic is None else self._load_topic(topic)

    def close(self) -> None:
        """Unload all shards, which answers waiting requests."""
        self._is_open = False
        self._coordinator.close(self._runtime.now_ms())
        if self._tick is not None and self._tick.active():
            self._tick.cancel()

    def on_change(self, change: Change) -> None:
        name = self._topic.name
        match change:
            case TopicCreated(TopicImage(name=created) as topic) if created == name and self._is_open:
                self._load_topic(topic)
            case PartitionsChanged(changed, partitions) if changed == name and self._is_open:
                self._count_partitions()
                for index, state in partitions.items():
                    self._follow_leader(index, state.leader_epoch)

    def unload_topic(self, topic: TopicImage) -> None:
        """Unload all shards if their topic is being deleted, before an append meets a missing partition."""
        if topic.name == self._topic.name:
            self._coordinator.close(self._runtime.now_ms())

    def _follow_leader(self, index: int, epoch: int) -> None:
        if self._topic.partition(index) is None:
            self._coordinator.unload(index, self._runtime.now_ms(), epoch)
        else:
            self._load([index])

    def on_led(self, topic: str, index: int, epoch: int) -> None:
        """Load the shard of a partition that this broker leads since this leader epoch.

        A topic that is not announced yet is loaded then: its number of partitions is unknown.
        """
        if topic == self._topic.name and self._is_open and self._topic.find() is not None:
            self._load([index])

    def on_resigned(self, topic: str, index: int, epoch: int) -> None:
        """Unload the shard of a partition that this broker led; without a later epoch if its replica is stopped."""
        if topic == self._topic.name:
            self._coordinator.unload(index, self._runtime.now_ms())

    def on_partition_led(self, topic: str, index: int) -> None:
        """Load the shard of a partition whose log was opened late."""
        if topic == self._topic.name and self._is_open:
            self._coordinator.unload(index, self._runtime.now_ms())
            self._load([index])

    def on_partition_offline(self, topic: str, index: int) -> None:
        """Unload the shard of a partition whose log failed; the next start loads it."""
        if topic == self._topic.name:
            self._coordinator.unload(index, self._runtime.now_ms())

    def _load_topic(self, topic: TopicImage) -> Deferred[None]:
        self._count_partitions()
        return self._load(topic.partitions)

    def _count_partitions(self) -> None:
        """Take the number of partitions from the image: it decides which one has a key's records."""
        topic = self._topic.find()
        if topic is not None:
            self._coordinator.partitions = len(topic.partitions)

    def _load(self, indexes: Iterable[int]) -> Deferred[None]:
        loads = []
        for index in indexes:
            partition = self._topic.partition(index)
            if partition is not None:
                replay = self._coordinator.load(index, partition.leader_epoch, self._runtime.now_ms())
                if replay is not None:
                    loads.append((partition, replay))
        return ensureDeferred(self._replay_all(loads))

    async def _replay_all(self, loads: list[tuple[Partition, PartitionReplay[R]]]) -> None:
        await gatherResults([ensureDeferred(self._replay(*load)) for load in loads])

    async def _replay(self, partition: Partition, replay: PartitionReplay[R]) -> None:
        name, index = partition.topic, partition.index
        begun = self._runtime.clock.seconds()
        is_complete = False
        try:
            is_complete = await self._replay_committed(partition, replay)
        except Exception:
            log.failure(
                "{subject} of {topic}-{index} are not served before the next election or start",
                subject=self._subject,
                topic=name,
                index=index,
            )
        if is_complete:
            await self._runtime.slices.run(self._coordinator.activate(replay, self._runtime.now_ms()))
            self.loads.add(begun, self._runtime.clock.seconds())
        else:
            self._coordinator.abort(replay)
        for problem in replay.problems:
            log.warn("{topic}-{index}: {problem}", topic=name, index=index, problem=problem)
        more = replay.skipped - len(replay.problems)
        if more:
            log.warn("{topic}-{index}: {count} more were skipped", topic=name, index=index, count=more)

    async def _replay_committed(self, partition: Partition, replay: PartitionReplay[R]) -> bool:
        """Replay until all of the log is replayed and below the high watermark; False if the load is superseded."""
        offset = partition.log.log_start_offset

        def is_wanted() -> bool:
            return self._coordinator.is_loading(replay)

        while is_wanted():
            await self._replaying.acquire()
            try:
                offset = await self._topic.replay(partition, offset, replay.replay, is_wanted)
            finally:
                self._replaying.release()
            if partition.log.high_watermark >= offset:
                return True
            if not is_wanted() or not await self._topic.is_committed(partition, offset):
                break  # another broker leads, or none
        return False

    def _schedule(self, due_ms: int) -> None:
        if not self._is_open or self._is_ticking:
            return
        clock: IReactorTime = self._runtime.clock
        delay = max(due_ms / 1000 - clock.seconds(), 0)
        if self._tick is None or not self._tick.active():
            self._tick = clock.callLater(delay, self._on_due)
        elif self._tick.getTime() > clock.seconds() + delay:
            self._tick.reset(delay)

    def _on_due(self) -> None:
        """Call `tick` in the next reactor iteration: timely requests may not have been read yet."""
        self._tick = self._runtime.clock.callLater(0, self._run_timers)

    def _run_timers(self) -> None:
        """Run in slices: the sessions of a large group may expire together."""
        self._is_ticking = True
        ticked = ensureDeferred(self._runtime.slices.run(self._coordinator.tick(self._runtime.now_ms())))
        ticked.addErrback(lambda failure: log.failure("a timer of {subject} failed", failure, subject=self._subject))
        ticked.addCallback(self._ticked)

    def _ticked(self, _: None) -> None:
        self._is_ticking = False
        due_ms = self._coordinator.next_deadline()
        if due_ms is not None:
            self._schedule(due_ms)
