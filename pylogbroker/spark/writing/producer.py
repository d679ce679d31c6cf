"""Idempotent producer: several batches in flight, in order per partition, each written once.

    producer = IdempotentProducer(cluster, identify(cluster))
    producer.send({("events", 0): [encoded]})    # returns when buffer.memory allows more
    producer.flush()                             # returns when all is written

`PartitionQueue` keeps order and sequence numbers, by which leaders recognize duplicates.

    response                                     action
    no error, or duplicate sequence number       done
    several records, too large                   resend as two batches, with the same sequence numbers
    out of order, while an earlier one failed    resend after the earlier one; without one, raise
    a retriable error, or no response            resend after a backoff, until delivery.timeout.ms
    any other                                    raise: the producer is unusable
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, TypeAlias

import attrs

from pylogbroker.blocking.cluster import BlockingCluster, LeaderConnections
from pylogbroker.blocking.connection import BlockingConnection, readable
from pylogbroker.client.errors import ConnectionLost, RequestTimedOut, is_retriable
from pylogbroker.client.partition_queue import ANONYMOUS, PartitionQueue, ProducerIdentity
from pylogbroker.client.producer_guarantees import acks_of, in_flight_max
from pylogbroker.client.transaction_requests import PRODUCE_VERSION
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.errors import error_of
from pylogbroker.spark.writing.encoded import Encoded
from pylogbroker.spark.writing.producer_ids import WriterIdentity
from pylogbroker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_PRODUCE: Final = 11  # newest version without transactions v2 (KIP-890)
_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


@attrs.define(eq=False, repr=False)
class _Batch:
    encoded: Encoded
    deadline: float | None = None  # from the first attempt: rows may arrive slowly
    position: int = -1
    identity: ProducerIdentity = ANONYMOUS
    attempts: int = 0
    outcome_unknown: bool = False
    rejected: bool = False
    error: PylogbrokerError | None = None

    @property
    def count(self) -> int:
        return self.encoded.count

    def halves(self) -> tuple[_Batch, _Batch]:
        first, second = self.encoded.halves()
        return _Batch(first, self.deadline, self.position), _Batch(second, self.deadline, self.position + first.count)


_PartitionQueue: TypeAlias = PartitionQueue[_Batch]


@attrs.frozen
class _SentRequest:
    connection: BlockingConnection
    batches: dict[TopicPartition, _Batch]
    deadline: float


class IdempotentProducer:
    """Producer of one task; `add` gets partitions before their first batch."""

    def __init__(
        self,
        cluster: BlockingCluster,
        identity: WriterIdentity,
        add: Callable[[list[TopicPartition]], None] | None = None,
        written: Callable[[TopicPartition, int], object] | None = None,
    ) -> None:
        """`written` gets the partition and the number of records of each batch that is acknowledged."""
        settings = cluster.settings
        self.trouble = ""  # why a batch is sent again
        self._notify_written = written
        self._cluster = cluster
        self._identity = identity
        self._add = add
        self._connections = LeaderConnections(cluster)
        self._queues: dict[TopicPartition, _PartitionQueue] = {}
        self._in_flight: deque[_SentRequest] = deque()
        self._buffered_bytes = 0
        self._acks = acks_of(settings)
        self._window = in_flight_max(settings)
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
        """Batch size limit that leaders have shown; None if unknown."""
        return self._limits.get(topic)

    def send(self, batches: Mapping[TopicPartition, Sequence[Encoded]]) -> None:
        """Queue batches; wait until the buffer is below buffer.memory."""
        new = [key for key in batches if key not in self._queues]
        if new and self._add is not None:
            self._add(new)
        self._queues.update({key: self._new_queue(key) for key in new})
        for key, some in batches.items():
            self._queues[key].unsent.extend(map(_Batch, some))
            self._buffered_bytes += sum(map(len, some))
        self._advance(wait=False)
        while self._buffered_bytes > self._buffer_memory:
            self._advance(wait=True)

    @property
    def has_unwritten(self) -> bool:
        return bool(self._buffered_bytes)

    def wait(self) -> None:
        """Wait until something has been acknowledged, sent or is due again."""
        self._advance(wait=True)

    def flush(self) -> None:
        while self._buffered_bytes:
            self._advance(wait=True)

    def close(self) -> None:
        """Unwritten batches are lost."""
        self._connections.close()

    def _settle(self) -> None:
        """Wait for requests in flight: after the abort, a late batch could begin a transaction that nobody ends."""
        for request in self._in_flight:
            with suppress(PylogbrokerError):
                if request.connection.is_open:
                    request.connection.receive(max(0.0, request.deadline - time.monotonic()))

    def _new_queue(self, key: TopicPartition) -> _PartitionQueue:
        queue = _PartitionQueue(*key, idempotent=self._identity.id >= 0, may_bump_epoch=False)
        if queue.idempotent:
            queue.start_epoch(self._identity)
        return queue

    def _advance(self, *, wait: bool) -> None:
        collected = self._collect(wait=False)
        if self._send_ready() or collected or not wait:
            return
        if self._in_flight:
            self._collect(wait=True)
        else:
            pauses = [queue.resume_at for queue in self._queues.values() if not queue.idle]
            time.sleep(max(0.0, min(pauses) - time.monotonic()))

    def _send_ready(self) -> bool:
        sent = False
        while (ready := self._ready()) is not None:
            self._request(*ready)
            sent = True
        return sent

    def _ready(self) -> tuple[int, list[tuple[_PartitionQueue, _Batch]]] | None:
        """Return a leader that may receive a request, and its batches."""
        now = time.monotonic()
        chosen: list[tuple[_PartitionQueue, _Batch]] = []
        leader, size = -1, 0
        for queue in self._queues.values():
            batch = queue.sendable(self._window, queue.node) if queue.resume_at <= now else None
            if batch is None:
                continue
            node = self._leader_of(queue, batch)
            if node is None or self._is_busy(node) or queue.sendable(self._window, node) is None:
                continue
            if chosen and (node != leader or size + len(batch.encoded) > self._largest_request):
                continue
            chosen.append((queue, batch))
            leader, size = node, size + len(batch.encoded)
        return (leader, chosen) if chosen else None

    def _is_busy(self, leader: int) -> bool:
        return self._connections.in_flight(leader) >= self._window

    def _leader_of(self, queue: _PartitionQueue, batch: _Batch) -> int | None:
        try:
            return self._cluster.leader_id(queue.topic, queue.partition)
        except PylogbrokerError as error:
            if not is_retriable(error):
                raise
            self._pause(queue, batch, error)
            return None

    def _request(self, leader: int, chosen: Iterable[tuple[_PartitionQueue, _Batch]]) -> None:
        batches: dict[TopicPartition, _Batch] = {}
        for queue, batch in chosen:
            batches[queue.topic, queue.partition] = batch
            batch.deadline = batch.deadline or time.monotonic() + self._delivery_timeout
            queue.take(batch, leader)
        try:
            connection = self._connections.to(leader)
            is_v2 = self._identity.is_v2
            version = PRODUCE_VERSION if is_v2 else min(_PRODUCE, connection.version_of(ProduceRequest))
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
            sequence = self._queues[topic, partition].sequence(batch)
            sealed = batch.encoded.sealed(
                (identity.id, identity.epoch, sequence), transactional=identity.transactional_id is not None
            )
            data = topics.setdefault(topic, TopicProduceData(topic)).partition_data
            data.append(PartitionProduceData(partition, sealed))
        return ProduceRequest(identity.transactional_id, self._acks, self._timeout, list(topics.values()))

    def _collect(self, *, wait: bool) -> bool:
        """Handle one response per connection, or wait for one. An overdue request counts as a response."""
        oldest = {request.connection: request for request in reversed(self._in_flight)}
        ready = self._readable(oldest, wait=wait) if all(connection.is_open for connection in oldest) else set()
        now = time.monotonic()
        due = [
            request
            for connection, request in oldest.items()
            if not connection.is_open or connection.fileno() in ready or request.deadline <= now
        ]
        for answered in due:
            self._in_flight.remove(answered)
            self._receive(answered)
        return bool(due)

    def _readable(self, oldest: Mapping[BlockingConnection, _SentRequest], *, wait: bool) -> set[int]:
        if not oldest:
            return set()
        left = min(request.deadline for request in oldest.values()) - time.monotonic()
        return readable(oldest, max(0.0, left) if wait else 0.0)

    def _receive(self, request: _SentRequest) -> None:
        try:
            if not request.connection.is_open:
                raise ConnectionLost(f"the connection to {request.connection.address} was lost")
            response: ProduceResponse = request.connection.receive(max(0.0, request.deadline - time.monotonic()))
        except PylogbrokerError as error:
            self._unanswered(request.batches, error)
            return
        missing = dict(request.batches)
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
        elif code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(queue, batch)
        else:
            batch.error = error_of(code, f"{_place(queue)}: {answer.error_message or error_of(code).detail}")
            if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.idempotent:
                queue.requeue(batch, rejected=True)
            else:
                self._try_again(queue, batch, batch.error)
        _raise_rejected(queue)

    def _written(self, queue: _PartitionQueue, batch: _Batch) -> None:
        self.trouble = ""
        for written in (*queue.succeeded(batch), batch):
            self._buffered_bytes -= len(written.encoded)
            if self._notify_written is not None:
                self._notify_written((queue.topic, queue.partition), written.count)

    def _split(self, queue: _PartitionQueue, batch: _Batch) -> None:
        limit = self._limits.get(queue.topic, len(batch.encoded))
        self._limits[queue.topic] = min(limit, max(1, len(batch.encoded) // 2))
        self._buffered_bytes -= len(batch.encoded)
        self._buffered_bytes += sum(len(half.encoded) for half in queue.split(batch))

    def _unanswered(self, batches: dict[TopicPartition, _Batch], error: PylogbrokerError) -> None:
        for key, batch in batches.items():
            queue = self._queues[key]
            self._try_again(queue, batch, error)
            _raise_rejected(queue)

    def _try_again(self, queue: _PartitionQueue, batch: _Batch, error: PylogbrokerError) -> None:
        if not is_retriable(error) or batch.attempts > self._retries:
            raise error
        self._pause(queue, batch, error)
        queue.requeue(batch)

    def _pause(self, queue: _PartitionQueue, batch: _Batch, error: PylogbrokerError) -> None:
        self.trouble = str(error)
        now = time.monotonic()
        batch.deadline = batch.deadline or now + self._delivery_timeout
        if now >= batch.deadline:
            raise RequestTimedOut(f"{_place(queue)}: records exceeded delivery.timeout.ms: {error}") from error
        settings = self._cluster.settings
        first, longest = settings.integer("retry.backoff.ms"), settings.integer("retry.backoff.max.ms")
        queue.resume_at = now + min(longest, first << min(16, max(0, batch.attempts - 1))) / 1000
        self._cluster.forget(queue.topic)


def _raise_rejected(queue: _PartitionQueue) -> None:
    for batch in queue.settle():
        raise batch.error or KafkaError(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def _place(queue: _PartitionQueue) -> str:
    return f"{queue.topic}/{queue.partition}"
