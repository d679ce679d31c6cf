"""Topics that a producer writes to: partitions, and records that wait for metadata.

Waiting records keep their order, and count in the queue.
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
from pylogbroker.client.plugin_guards import Partitioners, TopicPartitioner
from pylogbroker.client.producer.accumulator import NO_RUN, Accumulator
from pylogbroker.client.producer.batch import Batch, BatchQueue, RecordCompletion
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Event
from pylogbroker.records import Header

log = Logger()


@attrs.frozen
class PendingRecord:
    """Serialized record before it enters a batch; `event` is for callback handlers."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp: int
    headers: tuple[Header, ...]
    size: int
    completion: RecordCompletion
    event: Event | None = None


@attrs.define(eq=False, repr=False)
class ProducerTopic:
    name: str
    queues: list[BatchQueue]
    partitioner: TopicPartitioner
    sticky: int = -1  # partition of the last record without a key

    def choose(self, key: bytes | None) -> BatchQueue:
        """Return the queue for a key; raise PluginFailed."""
        partition = self.partitioner.partition(key, len(self.queues))
        if key is None:
            self.sticky = partition
        return self.queues[partition]

    def queue(self, partition: int) -> BatchQueue | None:
        return self.queues[partition] if self.has(partition) else None

    def has(self, partition: int | None) -> bool:
        """Return whether the partition exists; None: whether any does."""
        return 0 <= (partition or 0) < len(self.queues)


@attrs.define(eq=False, repr=False)
class ProducerTopics:
    """Topics by name. `on_rejected` receives records that fail here."""

    reactor: IReactorTime
    cluster: Cluster
    accumulator: Accumulator
    partitioners: Partitioners
    block_timeout: float
    kick: Callable[[], None]
    on_rejected: Callable[[PendingRecord, BaseException], object]
    by_name: dict[str, ProducerTopic] = attrs.Factory(dict)
    _waiting: dict[str, deque[tuple[float, PendingRecord]]] = attrs.Factory(dict)
    _seeking: set[str] = attrs.Factory(set)
    _markers: list[Deferred[None]] = attrs.Factory(list)
    _stop_watching: Callable[[], None] = lambda: None

    def watch(self) -> None:
        self._stop_watching = self.cluster.watch(self._refreshed)
        self.accumulator.on_closed = self._batch_full

    def put(self, record: PendingRecord) -> None:
        topic = self.ready(record.topic)
        if topic is None or not topic.has(record.partition):
            self._wait(record)
        else:
            self._place(topic, record)

    def ready(self, name: str) -> ProducerTopic | None:
        """Return the topic if known and no record waits for it."""
        return None if name in self._waiting else self.by_name.get(name)

    def begin_run(self, queue: BatchQueue, batch: Batch) -> None:
        """Let the next records without keys follow the last one into its batch, if the partitioner is sticky."""
        topic = self.by_name.get(queue.topic)
        if topic is not None and topic.partitioner.batch_full is not None:
            self.accumulator.begin_run(queue, batch)

    def settled(self) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        if self._waiting:
            self._markers.append(done)
        else:
            done.callback(None)
        return done

    def reject_all(self, error: BaseException) -> None:
        for name in list(self._waiting):
            self._reject(name, error)

    def close(self) -> None:
        self._stop_watching()

    def _place(self, topic: ProducerTopic, record: PendingRecord) -> None:
        try:
            queue = topic.choose(record.key) if record.partition is None else topic.queues[record.partition]
            self._append(queue, record)
        except Exception as error:  # such as a plugin's
            self.on_rejected(record, error)
            return
        self.kick()

    def _append(self, queue: BatchQueue, record: PendingRecord) -> None:
        now = self.reactor.seconds()
        completion, event = record.completion, record.event
        accumulator = self.accumulator
        batch = accumulator.append(
            queue, record.key, record.value, record.timestamp, record.headers, record.size, completion, now
        )
        if event is not None:
            event.partition = queue.partition
            batch.events = batch.events or []
            batch.events.append(event)

    def _wait(self, record: PendingRecord) -> None:
        waiting = self._waiting.setdefault(record.topic, deque())
        self.accumulator.run = NO_RUN
        waiting.append((self.reactor.seconds() + self.block_timeout, record))
        self.accumulator.used += record.size
        self.accumulator.held += 1
        self._seek(record.topic)

    def _seek(self, name: str) -> None:
        if name in self._seeking:
            return
        self._seeking.add(name)
        finding = self.cluster.refresh() if name in self.by_name else Deferred.fromCoroutine(self._find(name))
        finding.addCallbacks(lambda _: self._found(name), lambda why: self._missed(name, why.value))
        finding.addErrback(lambda why: self._stuck(name, why.value or LookupError(name)))

    async def _find(self, name: str) -> None:
        await self.cluster.find_topic(name)

    def _found(self, name: str) -> None:
        """Place records one by one: those that arrive meanwhile stay behind."""
        self._update(name)
        for _ in range(len(self._waiting.get(name, ()))):
            if name in self._waiting:
                self._go_on(name, self._leave(name))
        self._seeking.discard(name)
        if name in self._waiting:
            self._seek(name)

    def _go_on(self, name: str, record: PendingRecord) -> None:
        topic = self.by_name.get(name)
        if topic is not None and topic.has(record.partition):
            self._place(topic, record)
            return
        count = 0 if topic is None else len(topic.queues)
        what = f"the partitions of {name} are 0 to {count - 1}" if count else f"{name} has no partitions"
        self.on_rejected(record, KafkaError(what, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def _stuck(self, name: str, error: BaseException) -> None:
        log.failure("records that waited for the topic {topic} have failed", Failure(error), topic=name)
        self._seeking.discard(name)
        self._reject(name, error)

    def _missed(self, name: str, error: BaseException) -> None:
        """Fail records past their time, or all for a final error; look again for the rest.

        An unknown topic is final: `find_topic` has waited for it.
        """
        is_missing = isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        may_come = is_retriable(error) and not is_missing
        self._reject(name, error, self.reactor.seconds() if may_come else inf)
        self._seeking.discard(name)
        if name in self._waiting:
            self._seek(name)

    def _reject(self, name: str, error: BaseException, until: float = inf) -> None:
        for _ in range(len(self._waiting.get(name, ()))):
            if name in self._waiting and self._waiting[name][0][0] <= until:
                self.on_rejected(self._leave(name), error)

    def _leave(self, name: str) -> PendingRecord:
        waiting = self._waiting[name]
        _, record = waiting.popleft()
        self.accumulator.used -= record.size
        self.accumulator.held -= 1
        if not waiting:
            del self._waiting[name]
            if not self._waiting:
                self.reactor.callLater(0, self._complete_markers)
        return record

    def _complete_markers(self) -> None:
        if not self._waiting:
            markers, self._markers = self._markers, []
            for marker in markers:
                marker.callback(None)

    def _update(self, name: str) -> None:
        count = self.cluster.partitions_of(name) or 0
        topic = self.by_name.get(name)
        if count and topic is None:
            topic = self.by_name[name] = ProducerTopic(name, [], self.partitioners.of(name))
        self.accumulator.run = NO_RUN
        if count and topic is not None:
            topic.queues = [self.accumulator.queue(name, partition) for partition in range(count)]

    def _refreshed(self) -> None:
        for name in self.by_name:
            self._update(name)
        self.accumulator.wake()
        self.kick()

    def _batch_full(self, queue: BatchQueue) -> None:
        topic = self.by_name.get(queue.topic)
        if topic is not None and topic.sticky == queue.partition and topic.partitioner.batch_full is not None:
            topic.partitioner.batch_full()
