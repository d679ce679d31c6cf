"""The target of a mirror: writes batches in transactions.

    open --> put ... --> commit --> put ... --> commit --> close
      |                                           |
      +--- fences earlier writers of the same     +--- an error at any place: the writer is of no use any more;
           transactional id, aborts their              another one begins at the committed positions
           transaction

Without transactions, batches have sequence numbers alone, and positions are written after the records that they count.

With transactions of version 2 (KIP-890), the first request of a transaction is sent alone. The coordinator rejects it
while it still completes the last transaction, which takes long if that has many partitions. So it is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.partition_queue import ANONYMOUS, ProducerIdentity
from pylogbroker.client.producer.coordinator_client import TransactionCoordinatorClient
from pylogbroker.client.producer.options import ProducerOptions
from pylogbroker.client.transaction_requests import PRODUCE_VERSION
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.batches import MirroredBatch
from pylogbroker.mirror.errors import MirrorError, RecordsRejected
from pylogbroker.mirror.send_queue import Load, SendQueue, SentBatch
from pylogbroker.mirror.wake_up import WakeUp
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import ConnectionLost, error_of, raise_for
from pylogbroker.rpc.retries import Pauses
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

log = Logger()

REQUESTS_IN_FLIGHT: Final = 10
"""Requests to each broker. More than the five of a producer: the mirror never sends a batch again."""
REQUEST_BYTES_MAX: Final = 1_048_576
_NO_TIMEOUT: Final = 2**31 - 1
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_OF_THE_TOPIC: Final = _TOO_LARGE | {
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_RECORD,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
}
"""Errors that concern one topic of the target, and come again if its records are sent again."""


@attrs.frozen(eq=False, repr=False)
class AcknowledgedBatch:
    """A batch in the target's log: the first of its records is at `target_offset`. Positions have no source."""

    target: TopicPartition
    target_offset: int
    batch: MirroredBatch
    source: TopicPartition | None


@attrs.define(eq=False, repr=False)
class TargetWriter:
    """`coordinator` is None without transactions. `wake_up` is called when something was acknowledged, or failed."""

    # Stages without types: requests come and go until the first failure

    _cluster: Cluster
    _coordinator: TransactionCoordinatorClient | None
    _options: ProducerOptions
    _pauses: Pauses
    _wake_up: WakeUp
    written: list[AcknowledgedBatch] = attrs.field(factory=list)
    """Batches since the last commit that the target has acknowledged."""
    _queue: SendQueue = attrs.field(factory=lambda: SendQueue(REQUESTS_IN_FLIGHT, REQUEST_BYTES_MAX))
    _identity: ProducerIdentity = ANONYMOUS
    _is_v2: bool = False
    _is_accepted: bool = True
    """Whether the coordinator may be sent several requests of the transaction."""
    _is_first_in_flight: bool = False
    _added: set[TopicPartition] = attrs.field(factory=set)
    _adding: set[TopicPartition] = attrs.field(factory=set)
    _announced: set[TopicPartition] = attrs.field(factory=set)
    _looking: set[TopicPartition] = attrs.field(factory=set)
    _work: dict[Deferred[Any], None] = attrs.field(factory=dict)
    _is_closed: bool = False
    _failures: list[BaseException] = attrs.field(factory=list)

    # calls of the copier

    async def open(self) -> None:
        """Get a producer id. With transactions, earlier writers are fenced and their transaction is aborted."""
        if self._coordinator is None:
            response = await self._cluster.send_anywhere(InitProducerIdRequest(None, _NO_TIMEOUT))
            raise_for(response.error_code)
            self._begin(ProducerIdentity(response.producer_id, response.producer_epoch))
        else:
            self._begin(await self._coordinator.initialize(ANONYMOUS))
            self._is_v2 = bool(self._coordinator.has_transactions_v2())
            self._is_accepted = not self._is_v2

    @property
    def is_transactional(self) -> bool:
        return self._coordinator is not None

    @property
    def unsent_bytes(self) -> int:
        return self._queue.waiting_bytes

    def put(self, key: TopicPartition, batch: MirroredBatch, source: TopicPartition | None) -> None:
        self._queue.put(key, batch, source)

    def announce(self, key: TopicPartition) -> None:
        """Let the next call of `send` add a partition to the transaction, which gets records later."""
        self._announced.add(key)

    def send(self) -> None:
        """Send what may be sent now: looks at all waiting partitions. `check` raises errors."""
        if self._is_closed or self._failures or self._is_first_in_flight:
            return
        waiting = self._queue.waiting_partitions()
        self._add([key for key in (*waiting, *self._announced) if not self._is_added(key)])
        for key in waiting:
            if self._cluster.leader_of(*key) is None:
                self._look_for_leader(key)
        for load in self._queue.next_loads(self._leader_of):
            self._run(self._deliver(load))
            if not self._is_accepted:
                self._is_first_in_flight = True
                return

    async def flushed(self) -> None:
        """Wait until the target has all batches; raise the first error."""
        self.send()
        while self._queue.unacknowledged and not self._failures:
            await self._wake_up.wait()
        self.check()

    def check(self) -> None:
        """Raise the first error, if there was one."""
        for error in self._failures:
            raise error

    async def end(self) -> None:
        """Commit all that was put since the last call, which the target has."""
        self.check()
        self.written.clear()
        if self._coordinator is not None:
            await self._end_transaction(self._coordinator)

    def close(self) -> None:
        self._is_closed = True
        for work in list(self._work):
            work.cancel()

    # transactions

    def _begin(self, identity: ProducerIdentity) -> None:
        self._identity = identity
        self._queue.begin(identity, is_transactional=self._coordinator is not None)

    async def _end_transaction(self, coordinator: TransactionCoordinatorClient) -> None:
        self._added.clear()
        self._announced.clear()
        if not self._is_v2:
            await coordinator.end(self._identity, committed=True)
            return
        self._is_accepted = False
        following = await coordinator.end_for_next(self._identity, committed=True)
        if following is not None:
            self._begin(following)

    def _is_added(self, key: TopicPartition) -> bool:
        return self._coordinator is None or self._is_v2 or key in self._added

    def _add(self, keys: Iterable[TopicPartition]) -> None:
        new = list(dict.fromkeys(key for key in keys if key not in self._adding))
        if new and self._coordinator is not None:
            self._adding.update(new)
            self._run(self._add_to_transaction(self._coordinator, new))

    async def _add_to_transaction(self, coordinator: TransactionCoordinatorClient, keys: list[TopicPartition]) -> None:
        await coordinator.add(self._identity, keys)
        self._adding.difference_update(keys)
        self._added.update(keys)
        self.send()

    # requests

    def _leader_of(self, key: TopicPartition) -> int | None:
        return self._cluster.leader_of(*key) if self._is_added(key) else None

    def _look_for_leader(self, key: TopicPartition) -> None:
        if key not in self._looking:
            self._looking.add(key)
            self._run(self._find_leader(key))

    async def _find_leader(self, key: TopicPartition) -> None:
        try:
            await self._cluster.find_leader(*key)
        finally:
            self._looking.discard(key)
        self.send()

    async def _deliver(self, load: Load) -> None:
        """Send batches until the target has all of them; raise an error that does not pass."""
        started, failures = self._pauses.clock.seconds(), 0
        remaining: Sequence[SentBatch] = load.batches
        while remaining := await self._rejected_for_now(load.node, remaining):
            failures += 1
            if self._pauses.clock.seconds() - started > self._options.block_timeout:
                raise error_of(ErrorCode.CONCURRENT_TRANSACTIONS)
            await self._pauses.pause(self._options.backoff.pause(failures))
        self._is_accepted, self._is_first_in_flight = True, False
        self._queue.acknowledged(load)
        self.send()
        self._wake_up.call()

    async def _rejected_for_now(self, node: int, batches: Sequence[SentBatch]) -> list[SentBatch]:
        """Send batches; return those that can be sent again because the last transaction is not complete."""
        keys = [sent.partition for sent in batches]
        try:
            response: ProduceResponse = await self._cluster.send(
                node,
                self._request(batches),
                timeout=self._options.request_timeout,
                version=PRODUCE_VERSION if self._is_v2 else None,
            )
        except PylogbrokerError:
            for key in keys:
                self._cluster.leader_is_stale(*key)
            raise
        rejected: list[SentBatch] = []
        rows = rows_by_key(response, "responses.partition_responses", node, keys, _key)
        for sent in batches:
            row = rows[sent.partition]
            if row.error_code == ErrorCode.CONCURRENT_TRANSACTIONS and not self._is_accepted:
                rejected.append(sent)
            elif row.error_code:
                self._cluster.leader_is_stale(*sent.partition)
                raise _rejection(sent, error_of(row.error_code, row.error_message))
            else:
                self.written.append(AcknowledgedBatch(sent.partition, row.base_offset, sent.batch, sent.source))
        return rejected

    def _request(self, batches: Sequence[SentBatch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for sent in batches:
            name, partition = sent.partition
            topic = topics.setdefault(name, TopicProduceData(name, []))
            topic.partition_data.append(PartitionProduceData(partition, sent.data))
        transactional_id = None if self._coordinator is None else self._coordinator.id
        timeout_ms = round(self._options.request_timeout * 1000)
        return ProduceRequest(transactional_id, -1, timeout_ms, list(topics.values()))

    def _run(self, work: Any) -> None:
        running = ensureDeferred(work)
        running.addErrback(self._failed)
        if not running.called:
            self._work[running] = None
            running.addBoth(lambda _: self._work.pop(running, None))

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, CancelledError) and self._is_closed:
            return
        if not isinstance(error, PylogbrokerError | CancelledError):
            log.failure("writing to the target failed", failure)
        self._failures.append(error or ConnectionLost("no answer"))
        self._wake_up.call()


def _key(topic: Any, partition: Any) -> TopicPartition:
    return topic.name, partition.index


def _rejection(sent: SentBatch, error: KafkaError) -> PylogbrokerError:
    if error.code not in _OF_THE_TOPIC:
        topic, partition = sent.partition
        return error_of(error.code, f"{topic}-{partition}: {error}")
    if sent.source is None:
        return MirrorError(f"positions cannot be written to {sent.partition[0]} in the target: {error}")
    return RecordsRejected(sent.source[0], _why(sent, error))


def _why(sent: SentBatch, error: KafkaError) -> str:
    topic, partition = sent.partition
    batch = sent.batch
    place = f"from offset {batch.first_offset} of the source on"
    if error.code in _TOO_LARGE:
        return (
            f"a batch of {batch.count} records, {place}, has {batch.size} bytes: more than max.message.bytes of {topic}"
            f" in the target allows. Set it to {batch.size} or more (`pylogbroker config alter topic {topic} --set"
            f" max.message.bytes={batch.size}`)"
        )
    if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"the mirror's user needs the right to write to {topic} in the target"
    return f"the target rejects records of {topic}-{partition}, {place}: {error}"
