"""Send batches to their leaders.

A run takes the due batch of every ready partition queue and sends a request per leader, until there is no more. At most
`max.in.flight.requests.per.connection` requests are in flight per leader. A new leader gets no batch before the old one
has answered earlier batches.
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
from pylogbroker.client.producer.batch import Batch, BatchQueue
from pylogbroker.client.producer.errors import DeliveryTimedOut
from pylogbroker.client.producer.model import Counts
from pylogbroker.client.producer.options import ProducerOptions
from pylogbroker.client.producer.response_handler import ResponseHandler
from pylogbroker.records.columnar.encode import encode
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

log = Logger()

_EXPIRY_CHECK_SECONDS: Final = 1.0


class Gate(Protocol):
    """Decides which partitions may send: with a producer id, or in the transaction."""

    def admits(self, queue: BatchQueue) -> bool:
        """Return whether the partition may send; else make it ready and wake the sender later."""

    @property
    def produce_version(self) -> int | None:
        """Version of produce requests; None for the newest one without transactions v2."""


@attrs.define(eq=False, repr=False)
class Sender:
    """Sends batches; `prepare` sees each before its first attempt."""

    # Stages without types: calls are pending, or not

    reactor: IReactorTime
    cluster: Cluster
    accumulator: Accumulator
    options: ProducerOptions
    gate: Gate
    response_handler: ResponseHandler
    counts: Counts
    prepare: Callable[[BatchQueue, Batch], None] | None = None
    scheduled: bool = False
    running: bool = False
    closed: bool = False
    _run_call: IDelayedCall | None = None
    _timer: IDelayedCall | None = None
    _expiry_call: IDelayedCall | None = None
    _requests_in_flight: dict[int, int] = attrs.Factory(dict)
    _blocked: dict[int, dict[BatchQueue, None]] = attrs.Factory(dict)
    _finding_leader: set[BatchQueue] = attrs.Factory(set)

    def kick(self) -> None:
        if not self.scheduled and not self.closed:
            self.scheduled = True
            self._run_call = self.reactor.callLater(0, self.run)

    def run(self) -> None:
        if self._run_call is not None and self._run_call.active():
            self._run_call.cancel()
        self.scheduled = False
        self.running = True
        try:
            queues = self.accumulator.collect(self.reactor.seconds())
            while queues and not self.closed:
                queues = self._send_round(queues)
        finally:
            self.running = False
        self._set_timer()
        self._schedule_expiry()

    def close(self) -> None:
        self.closed = True
        for call in (self._run_call, self._timer, self._expiry_call):
            if call is not None and call.active():
                call.cancel()

    # requests

    def _send_round(self, queues: Iterable[BatchQueue]) -> list[BatchQueue]:
        now = self.reactor.seconds()
        loads: dict[int, _RequestBatches] = {}
        more = []
        for queue in queues:
            load = self._load_for(queue, loads)
            if load is None:
                continue
            batch = self.accumulator.next_batch(queue, now, self.options.in_flight_max, load.node)
            if batch is None:
                continue
            more.append(queue)
            if not load.size or load.size + batch.size <= self.options.max_request_size:
                self._load(queue, batch, load, now)
        for load in loads.values():
            if load.batches:
                self._send(load, now)
        return more

    def _load_for(self, queue: BatchQueue, loads: dict[int, _RequestBatches]) -> _RequestBatches | None:
        if queue.idle or not self.gate.admits(queue):
            return None
        node = self.cluster.leader_of(queue.topic, queue.partition)
        if node is None:
            self._find_leader(queue)
            return None
        if node not in loads:
            if self._requests_in_flight.get(node, 0) >= self.options.in_flight_max:
                self._blocked.setdefault(node, {})[queue] = None
                return None
            loads[node] = _RequestBatches(node)
        return loads[node]

    def _load(self, queue: BatchQueue, batch: Batch, load: _RequestBatches, now: float) -> None:
        try:
            if not batch.attempts and not self._prepare(queue, batch):
                return
            self.accumulator.take(queue, batch, load.node)
            data = self._encode(queue, batch)
        except Exception as error:
            self.response_handler.reject(queue, batch, error)
            return
        self._count(batch, len(data), now)
        load.add(queue, batch, data)

    def _prepare(self, queue: BatchQueue, batch: Batch) -> bool:
        if self.prepare is None:
            return True
        if batch is queue.open:  # handlers' later records go into the next batch
            self.accumulator.close(queue)
        self.accumulator.release(batch)
        try:
            self.prepare(queue, batch)
        finally:
            self.accumulator.count(batch)
        if not queue.is_next(batch):
            return False
        if not batch.count:
            queue.leave(batch)
            self.response_handler.finish(batch)
        return batch.count > 0

    def _encode(self, queue: BatchQueue, batch: Batch) -> bytes:
        options, identity = self.options, batch.identity
        return encode(
            batch.keys,
            batch.values,
            batch.timestamps,
            batch.headers,
            codec=options.codec_of(queue.topic),
            level=options.level,
            producer_id=identity.id,
            producer_epoch=identity.epoch,
            base_sequence=queue.sequence(batch),
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

    def _send(self, load: _RequestBatches, now: float) -> None:
        options = self.options
        request = load.request(options)
        self.counts.requests += 1
        self._requests_in_flight[load.node] = self._requests_in_flight.get(load.node, 0) + 1
        timeout = min(options.request_timeout, max(_EXPIRY_CHECK_SECONDS, load.deadline - now))
        sent = self.cluster.send(
            load.node, request, expect_answer=options.acks != 0, timeout=timeout, version=self.gate.produce_version
        )
        sent.addCallbacks(
            self.response_handler.handle_response,
            self.response_handler.handle_failure,
            (load.batches,),
            {},
            (load.batches,),
            {},
        )
        sent.addErrback(lambda failure: log.failure("handling a produce response failed", failure))
        sent.addBoth(self._request_done, load.node)

    def _request_done(self, _: object, node: int) -> None:
        self._requests_in_flight[node] -= 1
        self.accumulator.ready.update(self._blocked.pop(node, {}))
        self.kick()

    def _find_leader(self, queue: BatchQueue) -> None:
        if queue not in self._finding_leader:
            self._finding_leader.add(queue)
            lookup = Deferred.fromCoroutine(self.cluster.find_leader(queue.topic, queue.partition))
            lookup.addBoth(self._leader_found, queue)

    def _leader_found(self, result: object, queue: BatchQueue) -> None:
        self._finding_leader.discard(queue)
        if isinstance(result, Failure):
            queue.resume_at = self.reactor.seconds() + self.options.backoff.pause(1)
            why = result.getErrorMessage()
            log.debug("no leader for {topic}-{partition}: {why}", topic=queue.topic, partition=queue.partition, why=why)
            self.accumulator.wait(queue, queue.resume_at)
            self._set_timer()
        else:
            self.accumulator.ready[queue] = None
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

    def _schedule_expiry(self) -> None:
        if self.accumulator.held and not self.closed and (self._expiry_call is None or not self._expiry_call.active()):
            self._expiry_call = self.reactor.callLater(_EXPIRY_CHECK_SECONDS, self._expire)

    def _expire(self) -> None:
        for queue, batch in self.accumulator.expire(self.reactor.seconds()):
            seconds = self.options.limits.delivery_timeout
            why = self.response_handler.troubles.get(queue, "")
            error = DeliveryTimedOut(queue.topic, queue.partition, seconds, why)
            self.response_handler.fail_removed(queue, batch, error)
        self._schedule_expiry()


@attrs.define(eq=False, repr=False)
class _RequestBatches:
    node: int
    batches: dict[tuple[str, int], tuple[BatchQueue, Batch]] = attrs.Factory(dict)
    topics: dict[str, list[PartitionProduceData]] = attrs.Factory(dict)
    size: int = 0
    deadline: float = 0.0

    def add(self, queue: BatchQueue, batch: Batch, data: bytes) -> None:
        self.batches[queue.topic, queue.partition] = (queue, batch)
        self.topics.setdefault(queue.topic, []).append(PartitionProduceData(queue.partition, data))
        self.size += batch.size
        self.deadline = max(self.deadline, batch.deadline)

    def request(self, options: ProducerOptions) -> ProduceRequest:
        topics = [TopicProduceData(name, partitions) for name, partitions in self.topics.items()]
        return ProduceRequest(options.transactional_id, options.acks, int(options.request_timeout * 1000), topics)
