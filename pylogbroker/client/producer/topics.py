"""Where records go: the topics that a producer writes to, their partitions and partitioners.

Records of a topic that is not known yet wait with it, in order, and take their room in the queue meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import PluginFailed, is_retriable
from pylogbroker.client.guarding import Partitioners, TopicPartitioner
from pylogbroker.client.producer.accumulator import Accumulator
from pylogbroker.client.producer.batch import Sink
from pylogbroker.client.producer.lane import Lane
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Event
from pylogbroker.records import Header

log = Logger()


@attrs.frozen
class Arrival:
    """A record on its way into a batch; `event` is what callback handlers shall see of it before it is sent."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp: int
    headers: tuple[Header, ...]
    size: int
    sink: Sink
    event: Event | None = None


@attrs.define(eq=False)
class Topic:
    """A topic that is known."""

    name: str
    lanes: list[Lane]
    partitioner: TopicPartitioner
    sticky: int = -1  # where the last record without a key went

    def choose(self, key: bytes | None) -> Lane:
        """The lane of a record with this key; PluginFailed if the partitioner fails."""
        partition = self.partitioner.partition(key, len(self.lanes))
        if key is None:
            self.sticky = partition
        return self.lanes[partition]

    def lane(self, partition: int) -> Lane | None:
        """The lane of a partition, if the topic has it."""
        return self.lanes[partition] if _has(len(self.lanes), partition) else None


@attrs.define(eq=False)
class Topics:
    """The topics by their names, and the records that wait for them. `refused` is told of records that fail here."""

    reactor: IReactorTime
    cluster: Cluster
    accumulator: Accumulator
    partitioners: Partitioners
    patience: float
    kick: Callable[[], None]
    refused: Callable[[Arrival, BaseException], object]
    known: dict[str, Topic] = attrs.Factory(dict)
    _waiting: dict[str, list[tuple[float, Arrival]]] = attrs.Factory(dict)
    _markers: list[Deferred[None]] = attrs.Factory(list)
    _stop_watching: Callable[[], None] = lambda: None

    def watch(self) -> None:
        """Keep the numbers of partitions up to date."""
        self._stop_watching = self.cluster.watch(self._refreshed)
        self.accumulator.on_closed = self._batch_full

    def put(self, arrival: Arrival) -> None:
        """Put a record into its partition's batch, as soon as its topic is known."""
        topic = self.ready(arrival.topic)
        if topic is None:
            self._wait(arrival)
            return
        try:
            lane = topic.choose(arrival.key) if arrival.partition is None else topic.lane(arrival.partition)
        except PluginFailed as error:
            self.refused(arrival, error)
            return
        if lane is None:
            self._wait(arrival)
        else:
            self._append(lane, arrival)
            self.kick()

    def ready(self, name: str) -> Topic | None:
        """The topic, if it is known and no record waits for it."""
        return None if name in self._waiting else self.known.get(name)

    def settled(self) -> Deferred[None]:
        """Fires when no record waits for its topic."""
        done: Deferred[None] = Deferred()
        if self._waiting:
            self._markers.append(done)
        else:
            done.callback(None)
        return done

    def refuse_all(self, error: BaseException) -> None:
        """Those that wait fail."""
        for name in list(self._waiting):
            self._refuse(name, error, self._waiting[name])

    def close(self) -> None:
        """Look at the cluster no more."""
        self._stop_watching()

    def _append(self, lane: Lane, arrival: Arrival) -> None:
        now = self.reactor.seconds()
        sink, event = arrival.sink, arrival.event
        accumulator = self.accumulator
        batch = accumulator.append(
            lane, arrival.key, arrival.value, arrival.timestamp, arrival.headers, arrival.size, sink, now
        )
        if event is not None:
            event.partition = lane.partition
            batch.events = batch.events or []
            batch.events.append(event)

    def _wait(self, arrival: Arrival) -> None:
        """The record's topic, or its partition, is not known: it waits, and all that follow to the topic do."""
        waiting = self._waiting.setdefault(arrival.topic, [])
        waiting.append((self.reactor.seconds() + self.patience, arrival))
        self.accumulator.used += arrival.size
        self.accumulator.held += 1
        if len(waiting) == 1:
            self._seek(arrival.topic)

    def _seek(self, name: str) -> None:
        finding = self.cluster.refresh() if name in self.known else Deferred.fromCoroutine(self._find(name))
        finding.addCallbacks(lambda _: self._found(name), lambda why: self._missed(name, why.value))
        finding.addErrback(lambda failure: log.failure("records that waited for a topic are stuck", failure))

    async def _find(self, name: str) -> None:
        await self.cluster.find_topic(name)

    def _found(self, name: str) -> None:
        self._update(name)
        count = len(self.known[name].lanes) if name in self.known else 0
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        lacking = [entry for entry in self._waiting.get(name, ()) if not _has(count, entry[1].partition)]
        self._refuse(name, KafkaError(f"the partitions of {name} are those from 0 to {count - 1}", unknown), lacking)
        for arrival in self._leave(name, self._waiting.get(name, ())):
            self.put(arrival)

    def _missed(self, name: str, error: BaseException) -> None:
        """The topic was not found in time: nor will it be for those who wait as long."""
        now = self.reactor.seconds()
        late = self._waiting.get(name, [])
        if is_retriable(error):
            late = [entry for entry in late if entry[0] <= now]
        self._refuse(name, error, late)
        if name in self._waiting:
            self._seek(name)

    def _refuse(self, name: str, error: BaseException, entries: Sequence[tuple[float, Arrival]]) -> None:
        for arrival in self._leave(name, entries):
            self.refused(arrival, error)

    def _leave(self, name: str, entries: Sequence[tuple[float, Arrival]]) -> list[Arrival]:
        """These wait no more."""
        entries = list(entries)
        if name in self._waiting:
            gone = {id(entry) for entry in entries}
            self._waiting[name] = [entry for entry in self._waiting[name] if id(entry) not in gone]
            if not self._waiting[name]:
                del self._waiting[name]
        for _, arrival in entries:
            self.accumulator.used -= arrival.size
            self.accumulator.held -= 1
        if not self._waiting:
            self.reactor.callLater(0, self._tell_markers)
        return [arrival for _, arrival in entries]

    def _tell_markers(self) -> None:
        if not self._waiting:
            markers, self._markers = self._markers, []
            for marker in markers:
                marker.callback(None)

    def _update(self, name: str) -> None:
        """Take over how many partitions the topic has."""
        count = self.cluster.partitions_of(name) or 0
        topic = self.known.get(name)
        if count and topic is None:
            topic = self.known[name] = Topic(name, [], self.partitioners.of(name))
        if count and topic is not None:
            topic.lanes = [self.accumulator.lane(name, partition) for partition in range(count)]

    def _refreshed(self) -> None:
        """The cluster knows something new: leaders, and how many partitions there are."""
        for name in self.known:
            self._update(name)
        self.accumulator.wake()
        self.kick()

    def _batch_full(self, lane: Lane) -> None:
        topic = self.known.get(lane.topic)
        if topic is not None and topic.sticky == lane.partition and topic.partitioner.batch_full is not None:
            topic.partitioner.batch_full()


def _has(count: int, partition: int | None) -> bool:
    return partition is None or 0 <= partition < count
