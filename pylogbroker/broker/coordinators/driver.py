"""What drives a coordinator: it is given its partitions, loaded from their logs, and woken when something is due.

Its topic is made when the coordinator is first asked for. From then on, and at every start,

    topic is there --> each partition: COORDINATOR_LOAD_IN_PROGRESS --log read and replayed--> served
                                                    |
                                                    +--log cannot be read--> NOT_COORDINATOR

The log is read and replayed slice by slice in a worker thread, one partition after the other; only what it results in
is put in its place on the reactor thread. A partition that cannot be read is not served at all: to answer as if
nothing had ever been kept there would be worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

import attrs
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from pylogbroker.broker.coordinators.internal_topic import InternalTopic, Replay
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import LogServices
from pylogbroker.metadata.topic_names import Topic

log = Logger()


class PartitionReplay(Replay, Protocol):
    """A partition that is being read back."""

    problems: list[str]
    """Sentences about records that were passed over."""


L = TypeVar("L", bound=PartitionReplay)
L_in = TypeVar("L_in", bound=PartitionReplay, contravariant=True)


class Coordinator(Protocol[L_in]):
    """A state machine that keeps what it must remember in a topic, and that is told the time."""

    partitions: int

    def finish_load(self, loading: L_in, now_ms: int) -> None: ...
    def unload(self, partition: int, now_ms: int) -> None: ...
    def close(self, now_ms: int) -> None: ...
    def tick(self, now_ms: int) -> None: ...
    def next_deadline(self) -> int | None: ...


@attrs.define(eq=False)
class CoordinatorDriver(Generic[L]):
    """Looks after one coordinator; `kept` is what it coordinates, as messages call it."""

    _services: LogServices
    _topic: InternalTopic
    _subject: str
    _coordinator: Coordinator[L] = attrs.field(init=False)
    _begin_load: Callable[[Partition], L] = attrs.field(init=False)
    _alarm: IDelayedCall | None = attrs.field(default=None, init=False)
    _is_open: bool = attrs.field(default=False, init=False)

    def attach(self, coordinator: Coordinator[L], begin_load: Callable[[Partition], L]) -> None:
        """Look after this one, which was made with `wake`."""
        self._coordinator, self._begin_load = coordinator, begin_load

    # -- start and stop --------------------------------------------------------------------------------------------

    def open(self) -> Deferred[None]:
        """Begin to load what the topic holds; fires when that is done. The broker leads its partitions by now."""
        self._is_open = True
        topic = self._topic.find()
        return succeed(None) if topic is None else self._load_topic(topic)

    def close(self) -> None:
        """Let it answer whoever waits, and have no partition any more."""
        self._is_open = False
        self._coordinator.close(self._services.runtime.now_ms())
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()

    # -- what happens to its topic ---------------------------------------------------------------------------------

    def on_topic_created(self, topic: Topic) -> None:
        """The topic that was made on demand is there."""
        if topic.name == self._topic.name and self._is_open:
            self._load_topic(topic)

    def on_partition_led(self, topic: str, index: int) -> None:
        """A partition has got its log late."""
        if topic == self._topic.name and self._is_open:
            self._load([index])

    def on_topic_deleted(self, topic: Topic) -> None:
        """Everything is forgotten that was kept in the topic."""
        if topic.name == self._topic.name:
            self._coordinator.close(self._services.runtime.now_ms())

    # -- loading ---------------------------------------------------------------------------------------------------

    def _load_topic(self, topic: Topic) -> Deferred[None]:
        self._coordinator.partitions = len(topic.partitions)
        return self._load(topic.partitions)

    def _load(self, indexes: Iterable[int]) -> Deferred[None]:
        found = [partition for index in indexes if (partition := self._topic.partition(index)) is not None]
        return ensureDeferred(self._load_all([(partition, self._begin_load(partition)) for partition in found]))

    async def _load_all(self, loadings: list[tuple[Partition, L]]) -> None:
        for partition, loading in loadings:
            name, index = partition.topic, partition.index
            try:
                await self._topic.replay(partition, loading, lambda: self._is_open)
            except Exception:
                log.failure("{kept} of {topic}-{index} are not served", subject=self._subject, topic=name, index=index)
                if self._topic.partition(index) in (partition, None):  # not that of a topic made anew
                    self._coordinator.unload(index, self._services.runtime.now_ms())
            else:
                self._coordinator.finish_load(loading, self._services.runtime.now_ms())
            for problem in loading.problems:
                log.warn("{topic}-{index}: {problem}", topic=name, index=index, problem=problem)

    # -- time ------------------------------------------------------------------------------------------------------

    def wake(self, due_ms: int) -> None:
        """Something is due at that time, before everything else."""
        if not self._is_open:
            return
        delay = max(due_ms / 1000 - self._services.runtime.clock.seconds(), 0)
        if self._alarm is None or not self._alarm.active():
            self._alarm = self._services.runtime.clock.callLater(delay, self._ring)
        elif self._alarm.getTime() > self._services.runtime.clock.seconds() + delay:
            self._alarm.reset(delay)

    def _ring(self) -> None:
        """It is time, but requests that came while the reactor was busy may not have been read: let them go first."""
        self._alarm = self._services.runtime.clock.callLater(0, self._tick)

    def _tick(self) -> None:
        try:
            self._coordinator.tick(self._services.runtime.now_ms())
        finally:
            due_ms = self._coordinator.next_deadline()
            if due_ms is not None:
                self.wake(due_ms)
