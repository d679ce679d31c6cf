"""Topics that a producer writes to: their partitions, and records that wait for metadata.

Records of an unknown topic wait in order, and count in the queue meanwhile.
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
    """A serialized record before it enters a batch; `event` is the event that callback handlers see."""

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
    """A topic with known partitions."""

    name: str
    lanes: list[Lane]
    partitioner: TopicPartitioner
    sticky: int = -1  # the partition of the last record without a key

    def choose(self, key: bytes | None) -> Lane:
        """Return the partition queue for a record with this key; raise PluginFailed if the partitioner fails."""
        partition = self.partitioner.partition(key, len(self.lanes))
        if key is None:
            self.sticky = partition
        return self.lanes[partition]

    def lane(self, partition: int) -> Lane | None:
        return self.lanes[partition] if self.has(partition) else None

    def has(self, partition: int | None) -> bool:
        """Return whether the topic has the partition; for None, whether it has any."""
        return 0 <= (partition or 0) < len(self.lanes)


@attrs.define(eq=False)
class Topics:
    """Topics by name, and the records that wait for them. `refused` receives records that fail here."""

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
        self._stop_watching = self.cluster.watch(self._refreshed)
        self.accumulator.on_closed = self._batch_full

    def put(self, arrival: Arrival) -> None:
        """Put a record into its partition's batch, once its topic is known."""
        topic = self.ready(arrival.topic)
        if topic is None or not topic.has(arrival.partition):
            self._wait(arrival)
        else:
            self._place(topic, arrival)

    def ready(self, name: str) -> Topic | None:
        """Return the topic if it is known and no record waits for it."""
        return None if name in self._waiting else self.known.get(name)

    def settled(self) -> Deferred[None]:
        """Fire when no record waits for its topic."""
        done: Deferred[None] = Deferred()
        if self._waiting:
            self._markers.append(done)
        else:
            done.callback(None)
        return done

    def refuse_all(self, error: BaseException) -> None:
        for name in list(self._waiting):
            self._refuse(name, error)

    def close(self) -> None:
        self._stop_watching()

    def _place(self, topic: Topic, arrival: Arrival) -> None:
        try:
            lane = topic.choose(arrival.key) if arrival.partition is None else topic.lanes[arrival.partition]
            self._append(lane, arrival)
        except Exception as error:  # a plugin's, for example
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
        """Queue a record whose topic or partition is unknown; later records of the topic wait behind it."""
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
        """Place the waiting records one by one, so that records that arrive meanwhile stay behind them."""
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
        what = f"the partitions of {name} are 0 to {count - 1}" if count else f"{name} has no partitions"
        self.refused(arrival, KafkaError(what, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def _stuck(self, name: str, error: BaseException) -> None:
        """Fail the waiting records after an unexpected error; the next record starts a new lookup."""
        log.failure("records that waited for the topic {topic} have failed", Failure(error), topic=name)
        self._seeking.discard(name)
        self._refuse(name, error)

    def _missed(self, name: str, error: BaseException) -> None:
        """Fail the records whose time is over, or all if the error is final; look again for the rest."""
        self._refuse(name, error, self.reactor.seconds() if is_retriable(error) else inf)
        self._seeking.discard(name)
        if name in self._waiting:
            self._seek(name)

    def _refuse(self, name: str, error: BaseException, until: float = inf) -> None:
        for _ in range(len(self._waiting.get(name, ()))):
            if name in self._waiting and self._waiting[name][0][0] <= until:
                self.refused(self._leave(name), error)

    def _leave(self, name: str) -> Arrival:
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
        count = self.cluster.partitions_of(name) or 0
        topic = self.known.get(name)
        if count and topic is None:
            topic = self.known[name] = Topic(name, [], self.partitioners.of(name))
        if count and topic is not None:
            topic.lanes = [self.accumulator.lane(name, partition) for partition in range(count)]

    def _refreshed(self) -> None:
        for name in self.known:
            self._update(name)
        self.accumulator.wake()
        self.kick()

    def _batch_full(self, lane: Lane) -> None:
        topic = self.known.get(lane.topic)
        if topic is not None and topic.sticky == lane.partition and topic.partitioner.batch_full is not None:
            topic.partitioner.batch_full()
