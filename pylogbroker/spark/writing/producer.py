"""Idempotent producer: several batches in flight, in order per partition, each written once.

    producer = Producer(cluster, identify(cluster))
    producer.send({("events", 0): [encoded]})    # returns when buffer.memory allows more, not when it is written
    producer.flush()                             # returns when everything is written

    send -> waiting -> flying -> written
               ^         |
               +---------+   failed batches are resent before newer ones, when no batch is in flight any more

A batch keeps its sequence number, so that a leader that already has it reports a duplicate.

| response                                     | action                                                        |
|----------------------------------------------|---------------------------------------------------------------|
| no error, or duplicate sequence number       | done                                                          |
| too large, and there are several records     | resend as two batches, with the same sequence numbers         |
| out of order, while an earlier one failed    | resend after the earlier one                                  |
| a retriable error, or no response            | resend after a backoff, until delivery.timeout.ms             |
| any other                                    | raise: the producer cannot be used any more                   |
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import attrs

from pylogbroker.client.errors import ConnectionLost, RequestTimedOut, is_retriable
from pylogbroker.errors import ErrorCode, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.errors import error_of
from pylogbroker.spark.brokers.cluster import BlockingCluster
from pylogbroker.spark.brokers.connection import Connection
from pylogbroker.spark.brokers.connections import Connections
from pylogbroker.spark.writing.producer_ids import ProducerIdentity, acks_of, window_of
from pylogbroker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from pylogbroker.spark.writing.encoder import Encoded

_PRODUCE: Final = 11  # newest version without transactions v2 (KIP-890)
_SEQUENCES: Final = 0x7FFFFFFF
_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


@attrs.define(eq=False)
class _Batch:
    encoded: Encoded
    sequence: int
    deadline: float | None = None  # counts from the first attempt, not from queueing, since rows may arrive slowly
    attempts: int = 0


@attrs.define(eq=False)
class _PartitionQueue:
    topic: str
    partition: int
    waiting: deque[_Batch] = attrs.Factory(deque)
    in_flight: deque[_Batch] = attrs.Factory(deque)
    failed: list[_Batch] = attrs.Factory(list)
    leader: int = -1  # receiver of the batches in flight
    sequence: int = 0
    resume_at: float = 0.0
    is_known: bool = False  # whether the leader has a batch of this producer; before, it accepts any sequence number

    @property
    def place(self) -> str:
        return f"{self.topic}/{self.partition}"

    def is_full(self, window: int) -> bool:
        """Return whether the window is full. The first batch is sent alone."""
        return len(self.in_flight) >= (window if self.is_known else 1)

    def requeue_failed(self) -> None:
        """Once nothing is in flight, requeue failed batches in their original order."""
        if self.failed and not self.in_flight:
            self.waiting.extendleft(sorted(self.failed, key=self._age))
            self.failed.clear()

    def _age(self, batch: _Batch) -> int:
        """Return the number of records queued since this batch."""
        return (self.sequence - batch.sequence) & _SEQUENCES


@attrs.frozen
class _SentRequest:
    connection: Connection
    batches: dict[TopicPartition, _Batch]
    deadline: float


class IdempotentProducer:
    """Producer of one task, with connections of its own; `add` is called with partitions before their first batch."""

    def __init__(
        self,
        cluster: BlockingCluster,
        identity: ProducerIdentity,
        add: Callable[[list[TopicPartition]], None] | None = None,
    ) -> None:
        settings = cluster.settings
        self._cluster = cluster
        self._identity = identity
        self._add = add
        self._connections = Connections(cluster)
        self._queues: dict[TopicPartition, _PartitionQueue] = {}
        self._in_flight: deque[_SentRequest] = deque()
        self._buffered_bytes = 0  # bytes not yet written
        self._acks = acks_of(settings)
        self._window = window_of(settings)
        self._timeout = settings.integer("request.timeout.ms")
        self._largest_request = settings.integer("max.request.size")
        self._buffer_memory = settings.integer("buffer.memory")
        self._delivery_timeout = settings.integer("delivery.timeout.ms") / 1000
        self._retries = settings.integer("retries")
        self._limits: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._identity.transactional_id is not None:
            self._settle()
        self.close()

    def limit(self, topic: str) -> int | None:
        """Return the batch size limit that a topic's leaders have shown; None if unknown."""
        return self._limits.get(topic)

    def send(self, batches: Mapping[TopicPartition, Sequence[Encoded]]) -> None:
        """Queue batches, and wait until the buffer is below buffer.memory."""
        new = [key for key in batches if key not in self._queues]
        if new and self._add is not None:
            self._add(new)
        self._queues.update({key: _PartitionQueue(*key) for key in new})
        for key, some in batches.items():
            for encoded in some:
                self._take(self._queues[key], encoded)
        self._advance(wait=False)
        while self._buffered_bytes > self._buffer_memory:
            self._advance(wait=True)

    def flush(self) -> None:
        """Wait until all batches are written."""
        while self._buffered_bytes:
            self._advance(wait=True)

    def close(self) -> None:
        """Close the connections; drop batches that are not written."""
        self._connections.close()

    def _settle(self) -> None:
        """Wait for requests in flight.

        A late batch could reach its leader after the abort, and begin a transaction that nobody ends.
        """
        for asked in self._in_flight:
            with suppress(PylogbrokerError):
                if asked.connection.is_open:
                    asked.connection.receive(max(0.0, asked.deadline - time.monotonic()))

    def _take(self, queue: _PartitionQueue, encoded: Encoded) -> None:
        queue.waiting.append(_Batch(encoded, queue.sequence))
        queue.sequence = (queue.sequence + encoded.count) & _SEQUENCES
        self._buffered_bytes += len(encoded)

    # -- out -----------------------------------------------------------------------------------------------------

    def _advance(self, *, wait: bool) -> None:
        """Receive available responses and send what is ready; else wait for the next event."""
        collected = self._collect(wait=False)
        if self._send_ready() or collected or not wait:
            return
        if self._in_flight:
            self._collect(wait=True)
        else:
            pauses = [queue.resume_at for queue in self._queues.values() if queue.waiting]
            time.sleep(max(0.0, min(pauses) - time.monotonic()))

    def _send_ready(self) -> bool:
        """Send all requests that leaders may have now; return whether there were any."""
        sent = False
        while (ready := self._ready()) is not None:
            self._request(*ready)
            sent = True
        return sent

    def _ready(self) -> tuple[int, list[_PartitionQueue]] | None:
        """Return a leader that may receive a request, and the queues whose first batches make it."""
        now = time.monotonic()
        chosen: list[_PartitionQueue] = []
        leader, size = -1, 0
        for queue in self._queues.values():
            if not queue.waiting or queue.failed or queue.resume_at > now or queue.is_full(self._window):
                continue
            node = self._leader_of(queue)
            if node is None or (queue.in_flight and node != queue.leader) or self._is_busy(node):
                continue
            more = len(queue.waiting[0].encoded)
            if chosen and (node != leader or size + more > self._largest_request):
                continue
            chosen.append(queue)
            leader, size = node, size + more
        return (leader, chosen) if chosen else None

    def _is_busy(self, leader: int) -> bool:
        return self._connections.in_flight(leader) >= self._window

    def _leader_of(self, queue: _PartitionQueue) -> int | None:
        try:
            return self._cluster.leader_id(queue.topic, queue.partition)
        except PylogbrokerError as error:
            if not is_retriable(error):
                raise
            self._pause(queue, queue.waiting[0], error)
            return None

    def _request(self, leader: int, queues: list[_PartitionQueue]) -> None:
        batches: dict[TopicPartition, _Batch] = {}
        for queue in queues:
            batch = batches[queue.topic, queue.partition] = queue.waiting.popleft()
            batch.attempts += 1
            batch.deadline = batch.deadline or time.monotonic() + self._delivery_timeout
            queue.in_flight.append(batch)
            queue.leader = leader
        try:
            connection = self._connections.to(leader)
            version = min(_PRODUCE, connection.version_of(ProduceRequest))
            connection.send(self._produce(batches), version=version, answered=self._acks != 0)
        except PylogbrokerError as error:
            self._unanswered(batches, error)
            return
        if self._acks:
            self._in_flight.append(_SentRequest(connection, batches, time.monotonic() + self._timeout / 1000))
        else:
            for key, batch in batches.items():
                self._written(self._queues[key], batch)

    def _produce(self, batches: dict[TopicPartition, _Batch]) -> ProduceRequest:
        identity = self._identity
        topics: dict[str, TopicProduceData] = {}
        for (topic, partition), batch in batches.items():
            producer = (identity.id, identity.epoch, batch.sequence if identity.id >= 0 else -1)
            sealed = batch.encoded.sealed(producer, transactional=identity.transactional_id is not None)
            data = topics.setdefault(topic, TopicProduceData(topic)).partition_data
            data.append(PartitionProduceData(partition, sealed))
        return ProduceRequest(identity.transactional_id, self._acks, self._timeout, list(topics.values()))

    # -- and back ------------------------------------------------------------------------------------------------

    def _collect(self, *, wait: bool) -> bool:
        """Handle one response per connection, or wait for one; return whether there were any.

        An overdue request counts as a response.
        """
        oldest = {asked.connection: asked for asked in reversed(self._in_flight)}
        ready = self._readable(oldest, wait=wait) if all(each.is_open for each in oldest) else set()
        now = time.monotonic()
        due = [
            asked
            for connection, asked in oldest.items()
            if not connection.is_open or connection.fileno() in ready or asked.deadline <= now
        ]
        for asked in due:
            self._in_flight.remove(asked)
            self._receive(asked)
        return bool(due)

    def _readable(self, oldest: Mapping[Connection, _SentRequest], *, wait: bool) -> set[int]:
        """Return the readable sockets' descriptors; wait at most until the first deadline."""
        if not oldest:
            return set()
        poll = select.poll()
        for connection in oldest:
            poll.register(connection, select.POLLIN)
        left = min(asked.deadline for asked in oldest.values()) - time.monotonic()
        return {number for number, _ in poll.poll(max(0.0, left) * 1000 if wait else 0)}

    def _receive(self, asked: _SentRequest) -> None:
        try:
            if not asked.connection.is_open:
                raise ConnectionLost(f"the connection to {asked.connection.address} was lost")
            response: ProduceResponse = asked.connection.receive(max(0.0, asked.deadline - time.monotonic()))
        except PylogbrokerError as error:
            self._unanswered(asked.batches, error)
            return
        missing = dict(asked.batches)
        for topic in response.responses:
            for answer in topic.partition_responses:
                batch = missing.pop((topic.name, answer.index), None)
                if batch is not None:
                    self._answered(self._queues[topic.name, answer.index], batch, answer)
        self._unanswered(missing, RequestTimedOut("the response has no result for the records"))

    def _answered(self, queue: _PartitionQueue, batch: _Batch, answer: PartitionProduceResponse) -> None:
        code = answer.error_code
        if code in _WRITTEN:
            self._written(queue, batch)
            return
        queue.in_flight.remove(batch)
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.encoded.count > 1:
            self._split(queue, batch)
        elif code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.failed:
            queue.failed.append(batch)
        else:
            error = error_of(code, f"{queue.place}: {answer.error_message or error_of(code).detail}")
            self._try_again(queue, batch, error)
        queue.requeue_failed()

    def _written(self, queue: _PartitionQueue, batch: _Batch) -> None:
        queue.is_known = True
        queue.in_flight.remove(batch)
        queue.requeue_failed()
        self._buffered_bytes -= len(batch.encoded)

    def _split(self, queue: _PartitionQueue, batch: _Batch) -> None:
        limit = self._limits.get(queue.topic, len(batch.encoded))
        self._limits[queue.topic] = min(limit, max(1, len(batch.encoded) // 2))
        self._buffered_bytes -= len(batch.encoded)
        sequence = batch.sequence
        for half in batch.encoded.halves():
            queue.failed.append(_Batch(half, sequence, batch.deadline))
            sequence = (sequence + half.count) & _SEQUENCES
            self._buffered_bytes += len(half)

    def _unanswered(self, batches: dict[TopicPartition, _Batch], error: PylogbrokerError) -> None:
        for key, batch in batches.items():
            queue = self._queues[key]
            queue.in_flight.remove(batch)
            self._try_again(queue, batch, error)
            queue.requeue_failed()

    def _try_again(self, queue: _PartitionQueue, batch: _Batch, error: PylogbrokerError) -> None:
        """Requeue a batch; raise the error if it is not retriable or the retries are used up."""
        if not is_retriable(error) or batch.attempts > self._retries:
            raise error
        self._pause(queue, batch, error)
        queue.failed.append(batch)

    def _pause(self, queue: _PartitionQueue, batch: _Batch, error: PylogbrokerError) -> None:
        now = time.monotonic()
        batch.deadline = batch.deadline or now + self._delivery_timeout
        if now >= batch.deadline:
            raise RequestTimedOut(f"{queue.place}: records exceeded delivery.timeout.ms: {error}") from error
        settings = self._cluster.settings
        first, longest = settings.integer("retry.backoff.ms"), settings.integer("retry.backoff.max.ms")
        queue.resume_at = now + min(longest, first << min(16, max(0, batch.attempts - 1))) / 1000
        self._cluster.forget(queue.topic)
