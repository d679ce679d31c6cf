"""Send batches to their leaders.

One run takes the due batch of every ready partition queue and sends one request per leader, then repeats while there
is more. At most `max.in.flight.requests.per.connection` requests are in flight per leader. A request has at most one
batch per partition. No batch goes to a new leader before the old one has answered for the batches before it.
`answers` handles the responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.producer.accumulator import Accumulator
from pylogbroker.client.producer.answers import Answers
from pylogbroker.client.producer.batch import Batch
from pylogbroker.client.producer.errors import DeliveryTimedOut
from pylogbroker.client.producer.lane import Lane
from pylogbroker.client.producer.model import Counts
from pylogbroker.client.producer.options import Options
from pylogbroker.records.columnar.encode import encode
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

log = Logger()

_SWEEPS: Final = 1.0  # seconds between checks for expired batches


class Gate(Protocol):
    """Decides which partitions may send: those with a producer id; in a transaction those added to it."""

    def admits(self, lane: Lane) -> bool:
        """Return whether the partition may send now. If not, make it ready and wake the sender once it may."""


@attrs.define(eq=False)
class Sender:
    """Sends the accumulator's batches. `prepare` sees each batch before its first attempt."""

    reactor: IReactorTime
    cluster: Cluster
    accumulator: Accumulator
    options: Options
    gate: Gate
    answers: Answers
    counts: Counts
    prepare: Callable[[Lane, Batch], None] | None = None
    scheduled: bool = False
    running: bool = False
    closed: bool = False
    _turn: IDelayedCall | None = None
    _timer: IDelayedCall | None = None
    _sweep: IDelayedCall | None = None
    _under_way: dict[int, int] = attrs.Factory(dict)
    _blocked: dict[int, dict[Lane, None]] = attrs.Factory(dict)
    _seeking: set[Lane] = attrs.Factory(set)

    def kick(self) -> None:
        if not self.scheduled and not self.closed:
            self.scheduled = True
            self._turn = self.reactor.callLater(0, self.run)

    def run(self) -> None:
        if self._turn is not None and self._turn.active():
            self._turn.cancel()
        self.scheduled = False
        self.running = True
        try:
            lanes = self.accumulator.collect(self.reactor.seconds())
            while lanes and not self.closed:
                lanes = self._send_round(lanes)
        finally:
            self.running = False
        self._set_timer()
        self._start_sweeping()

    def close(self) -> None:
        self.closed = True
        for call in (self._turn, self._timer, self._sweep):
            if call is not None and call.active():
                call.cancel()

    # requests

    def _send_round(self, lanes: Iterable[Lane]) -> list[Lane]:
        """Send one batch of each partition; return the partitions that may have another."""
        now = self.reactor.seconds()
        loads: dict[int, _Load] = {}
        more = []
        for lane in lanes:
            load = self._load_for(lane, loads)
            if load is None:
                continue
            batch = self.accumulator.next_batch(lane, now, self.options.in_flight, load.node)
            if batch is None:
                continue
            more.append(lane)
            if not load.size or load.size + batch.size <= self.options.max_request_size:
                self._load(lane, batch, load, now)
        for load in loads.values():
            if load.batches:
                self._send(load, now)
        return more

    def _load_for(self, lane: Lane, loads: dict[int, _Load]) -> _Load | None:
        """Return the request that a batch of the partition may join; None if it must wait."""
        if lane.idle or not self.gate.admits(lane):
            return None
        node = self.cluster.leader_of(lane.topic, lane.partition)
        if node is None:
            self._seek(lane)
            return None
        if node not in loads:
            if self._under_way.get(node, 0) >= self.options.in_flight:
                self._blocked.setdefault(node, {})[lane] = None
                return None
            loads[node] = _Load(node)
        return loads[node]

    def _load(self, lane: Lane, batch: Batch, load: _Load, now: float) -> None:
        """Add the batch to the request; fail it if a plugin or the encoder raises."""
        try:
            if not batch.attempts and not self._prepare(lane, batch):
                return
            self.accumulator.take(lane, batch, load.node)
            data = self._encode(lane, batch)
        except Exception as error:
            self.answers.refuse(lane, batch, error)
            return
        self._count(batch, len(data), now)
        load.add(lane, batch, data)

    def _prepare(self, lane: Lane, batch: Batch) -> bool:
        """Run `prepare`; return False if it left no records, or if the batch is not to be sent any more."""
        if self.prepare is None:
            return True
        if batch is lane.open:  # records that handlers send meanwhile go into the next batch
            self.accumulator.close(lane)
        self.accumulator.release(batch)
        try:
            self.prepare(lane, batch)
        finally:
            self.accumulator.count(batch)
        if not lane.is_next(batch):
            return False
        if not batch.count:
            lane.leave(batch)
            self.answers.finish(batch)
        return batch.count > 0

    def _encode(self, lane: Lane, batch: Batch) -> bytes:
        options, identity = self.options, batch.identity
        return encode(
            batch.keys,
            batch.values,
            batch.timestamps,
            batch.headers,
            codec=options.codec_of(lane.topic),
            level=options.level,
            producer_id=identity.id,
            producer_epoch=identity.epoch,
            base_sequence=lane.sequence(batch),
            transactional=options.transactional_id is not None,
        )

    def _count(self, batch: Batch, size: int, now: float) -> None:
        counts = self.counts
        counts.bytes += size
        batch.sent_at = now
        if batch.attempts > 1:
            counts.retries += 1
        else:
            counts.batches += 1
            counts.sent += batch.count
            counts.queue_time += now - batch.created

    def _send(self, load: _Load, now: float) -> None:
        options = self.options
        request = load.request(options)
        self.counts.requests += 1
        self._under_way[load.node] = self._under_way.get(load.node, 0) + 1
        timeout = min(options.request_timeout, max(_SWEEPS, load.deadline - now))
        sent = self.cluster.send(load.node, request, expect_answer=options.acks != 0, timeout=timeout)
        sent.addCallbacks(self.answers.answered, self.answers.unanswered, (load.batches,), {}, (load.batches,), {})
        sent.addErrback(lambda failure: log.failure("handling a produce response failed", failure))
        sent.addBoth(self._landed, load.node)

    def _landed(self, _: object, node: int) -> None:
        self._under_way[node] -= 1
        self.accumulator.ready.update(self._blocked.pop(node, {}))
        self.kick()

    def _seek(self, lane: Lane) -> None:
        if lane not in self._seeking:
            self._seeking.add(lane)
            found = Deferred.fromCoroutine(self.cluster.find_leader(lane.topic, lane.partition))
            found.addBoth(self._found, lane)

    def _found(self, result: object, lane: Lane) -> None:
        """Resume the partition; if no leader was found in time, after a pause."""
        self._seeking.discard(lane)
        if isinstance(result, Failure):
            lane.resume_at = self.reactor.seconds() + self.options.backoff.pause(1)
            why = result.getErrorMessage()
            log.debug("no leader for {topic}-{partition}: {why}", topic=lane.topic, partition=lane.partition, why=why)
            self.accumulator.wait(lane, lane.resume_at)
            self._set_timer()
        else:
            self.accumulator.ready[lane] = None
            self.kick()

    # timers

    def _set_timer(self) -> None:
        due = self.accumulator.next_due()
        if self._timer is not None and self._timer.active():
            if due is not None and due >= self._timer.getTime():
                return
            self._timer.cancel()
        if due is not None and not self.closed:
            self._timer = self.reactor.callLater(max(0.0, due - self.reactor.seconds()), self.run)

    def _start_sweeping(self) -> None:
        """Check every second for expired batches, while there are records."""
        if self.accumulator.held and not self.closed and (self._sweep is None or not self._sweep.active()):
            self._sweep = self.reactor.callLater(_SWEEPS, self._expire)

    def _expire(self) -> None:
        for lane, batch in self.accumulator.expire(self.reactor.seconds()):
            seconds = self.options.bounds.delivery_timeout
            self.answers.give_up(lane, batch, DeliveryTimedOut(lane.topic, lane.partition, seconds))
        self._start_sweeping()


@attrs.define(eq=False)
class _Load:
    node: int
    batches: dict[tuple[str, int], tuple[Lane, Batch]] = attrs.Factory(dict)
    topics: dict[str, list[PartitionProduceData]] = attrs.Factory(dict)
    size: int = 0
    deadline: float = 0.0  # the latest of its batches

    def add(self, lane: Lane, batch: Batch, data: bytes) -> None:
        self.batches[lane.topic, lane.partition] = (lane, batch)
        self.topics.setdefault(lane.topic, []).append(PartitionProduceData(lane.partition, data))
        self.size += batch.size
        self.deadline = max(self.deadline, batch.deadline)

    def request(self, options: Options) -> ProduceRequest:
        topics = [TopicProduceData(name, partitions) for name, partitions in self.topics.items()]
        return ProduceRequest(options.transactional_id, options.acks, int(options.request_timeout * 1000), topics)
