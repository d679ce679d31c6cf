"""Where records go: the topics that a producer writes to, their partitions and partitioners.

Records of a topic that is not known yet wait with it, in order, and take their room in the queue meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import is_retriable
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
        return self.lanes[partition] if self.has(partition) else None

    def has(self, partition: int | None) -> bool:
        """Whether there is such a partition; if it does not matter which, whether there is any."""
        return 0 <= (partition or 0) < len(self.lanes)


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
    _waiting: dict[str, deque[tuple[float, Arrival]]] = attrs.Factory(dict)
    _seeking: set[str] = attrs.Factory(set)
    _markers: list[Deferred[None]] = attrs.Factory(list)
    _stop_watching: Callable[[], None] = lambda: None

    def watch(self) -> None:
        """Keep the numbers of partitions up to date."""
        self._stop_watching = self.cluster.watch(self._refreshed)
        self.accumulator.on_closed = self._batch_full

    def put(self, arrival: Arrival) -> None:
        """Put a record into its partition's batch, as soon as its topic is known."""
        topic = self.ready(arrival.topic)
        if topic is None or not topic.has(arrival.partition):
            self._wait(arrival)
        else:
            self._place(topic, arrival)

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
            self._refuse(name, error)

    def close(self) -> None:
        """Look at the cluster no more."""
        self._stop_watching()

    def _place(self, topic: Topic, arrival: Arrival) -> None:
        """Put the record into a batch; the partition, if it says one, is there."""
        try:
            lane = topic.choose(arrival.key) if arrival.partition is None else topic.lanes[arrival.partition]
            self._append(lane, arrival)
        except Exception as error:  # a plugin's, say
            self.refused(arrival, error)
            return
        self.kick()

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
        waiting = self._waiting.setdefault(arrival.topic, deque())
        waiting.append((self.reactor.seconds() + self.patience, arrival))
        self.accumulator.used += arrival.size
        self.accumulator.held += 1
        self._seek(arrival.topic)

    def _seek(self, name: str) -> None:
        if name in self._seeking:
            return
        self._seeking.add(name)
        finding = self.cluster.refresh() if name in self.known else Deferred.fromCoroutine(self._find(name))
        finding.addCallbacks(lambda _: self._found(name), lambda why: self._missed(name, why.value))
        finding.addErrback(lambda why: self._stuck(name, why.value or LookupError(name)))

    async def _find(self, name: str) -> None:
        await self.cluster.find_topic(name)

    def _found(self, name: str) -> None:
        """Those who wait go on, one by one: who comes meanwhile waits behind them."""
        self._update(name)
        for _ in range(len(self._waiting.get(name, ()))):
            if name in self._waiting:
                self._go_on(name, self._leave(name))
        self._seeking.discard(name)
        if name in self._waiting:
            self._seek(name)

    def _go_on(self, name: str, arrival: Arrival) -> None:
        topic = self.known.get(name)
        if topic is not None and topic.has(arrival.partition):
            self._place(topic, arrival)
            return
        count = 0 if topic is None else len(topic.lanes)
        what = f"the partitions of {name} are those from 0 to {count - 1}" if count else f"{name} has no partitions"
        self.refused(arrival, KafkaError(what, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def _stuck(self, name: str, error: BaseException) -> None:
        """Neither found nor missed: those who wait fail, and whoever comes later has it looked for anew."""
        log.failure("records that waited for the topic {topic} have failed", Failure(error), topic=name)
        self._seeking.discard(name)
        self._refuse(name, error)

    def _missed(self, name: str, error: BaseException) -> None:
        """The topic was not found in time: nor will it be for those who wait as long."""
        self._refuse(name, error, self.reactor.seconds() if is_retriable(error) else inf)
        self._seeking.discard(name)
        if name in self._waiting:
            self._seek(name)

    def _refuse(self, name: str, error: BaseException, until: float = inf) -> None:
        """Those fail who wait for it now, and would not have waited longer than that."""
        for _ in range(len(self._waiting.get(name, ()))):
            if name in self._waiting and self._waiting[name][0][0] <= until:
                self.refused(self._leave(name), error)

    def _leave(self, name: str) -> Arrival:
        """The first one who waits for the topic waits no more."""
        waiting = self._waiting[name]
        _, arrival = waiting.popleft()
        self.accumulator.used -= arrival.size
        self.accumulator.held -= 1
        if not waiting:
            del self._waiting[name]
            if not self._waiting:
                self.reactor.callLater(0, self._tell_markers)
        return arrival

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
