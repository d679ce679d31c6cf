"""Handle produce responses.

written, or a duplicate                        acknowledged
several records, too large                     split in two and sent again
sequence out of order, unknown producer id     requeued as rejected; see `partition_queue`
epoch too old                                  likewise; in a transaction the batch fails
retriable error, or no answer                  requeued; the partition pauses (`retry.backoff.ms`, growing)
any other error                                the batch fails
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import ConnectionLost, NotConnected, is_retriable
from pylogbroker.client.producer.accumulator import Accumulator
from pylogbroker.client.producer.batch import Batch, BatchQueue
from pylogbroker.client.producer.model import UNKNOWN_OFFSET, BatchMetadata, Counts
from pylogbroker.client.producer.options import ProducerOptions
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import error_of
from pylogbroker.wire.messages.produce import PartitionProduceResponse, ProduceResponse

log = Logger()

Batches = Mapping[tuple[str, int], tuple[BatchQueue, Batch]]

_SEQUENCE_ERRORS: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
_MAYBE_WRITTEN: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)


@attrs.define(eq=False, repr=False)
class ResponseHandler:
    """`on_failed` gets each failed batch's error; `on_released` signals space in the queue.

    `may_resend` returns whether to send unwritten batches again.
    """

    reactor: IReactorTime
    cluster: Cluster
    accumulator: Accumulator
    options: ProducerOptions
    counts: Counts
    on_failed: Callable[[BaseException], object] = lambda error: None
    on_released: Callable[[], object] = lambda: None
    may_resend: Callable[[], bool] = lambda: True
    troubles: dict[BatchQueue, str] = attrs.Factory(dict)  # the last error of partitions that are retried
    _watches: list[tuple[set[Batch], Deferred[None]]] = attrs.Factory(list)

    def finished(self, batches: Iterable[Batch]) -> Deferred[None]:
        pending, done = set(batches), Deferred[None]()
        if pending:
            self._watches.append((pending, done))
        else:
            done.callback(None)
        return done

    def handle_response(self, response: ProduceResponse | None, batches: Batches) -> None:
        """Handle a response; with `acks=0`, None after sending."""
        waiting = dict(batches)
        if response is not None and self.options.acks:
            for topic in response.responses:
                for answer in topic.partition_responses:
                    sent = waiting.pop((topic.name, answer.index), None)
                    if sent is not None:
                        self._handle_partition(*sent, answer)
                        self._settle(sent[0])
        for queue, batch in waiting.values():
            if self.options.acks:
                self._try_again(
                    queue, batch, KafkaError("the produce response does not contain the batch"), outcome_unknown=True
                )
            else:
                self._written(queue, batch, UNKNOWN_OFFSET, -1)
            self._settle(queue)

    def handle_failure(self, failure: Failure, batches: Batches) -> None:
        error = failure.value or ConnectionLost("no answer")
        for queue, batch in batches.values():
            if is_retriable(error):
                self.cluster.leader_is_stale(queue.topic, queue.partition)
                self._try_again(queue, batch, error, outcome_unknown=not isinstance(error, NotConnected))
            else:
                self._failed(queue, batch, error)
            self._settle(queue)

    def reject(self, queue: BatchQueue, batch: Batch, error: BaseException) -> None:
        """Fail a batch that cannot be sent; a first attempt only if it still heads its queue."""
        if batch.attempts or queue.is_next(batch):
            self._failed(queue, batch, error)
            self._settle(queue)

    def _failed(self, queue: BatchQueue, batch: Batch, error: BaseException) -> None:
        if batch.attempts:
            queue.failed(batch)
        else:
            queue.leave(batch)
        self.troubles.pop(queue, None)
        self.fail_batch(batch, error)

    def fail_removed(self, queue: BatchQueue, batch: Batch, error: BaseException) -> None:
        self.troubles.pop(queue, None)
        self.fail_batch(batch, error)
        self._settle(queue)

    @property
    def trouble(self) -> str:
        """The last errors that brokers gave for unacknowledged records; "" without one."""
        return "; ".join(dict.fromkeys(self.troubles.values()))

    def fail_batch(self, batch: Batch, error: BaseException) -> None:
        self.counts.failed += batch.count
        self.on_failed(error)
        batch.fail(error)
        self.finish(batch)

    def finish(self, batch: Batch) -> None:
        self.accumulator.release(batch)
        self._replace(batch, ())
        self.on_released()

    def _handle_partition(self, queue: BatchQueue, batch: Batch, answer: PartitionProduceResponse) -> None:
        error = error_of(answer.error_code, answer.error_message)
        code = error.code if answer.error_code else ErrorCode.NONE
        if code is ErrorCode.NONE:
            self._written(queue, batch, answer.base_offset, answer.log_append_time_ms)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._written(queue, batch, UNKNOWN_OFFSET, -1)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(queue, batch)
        else:
            self._batch_rejected(queue, batch, code, error)

    def _batch_rejected(self, queue: BatchQueue, batch: Batch, code: ErrorCode, error: KafkaError) -> None:
        if code in _LEADER_MOVED:
            self.cluster.leader_is_stale(queue.topic, queue.partition)
        if queue.idempotent and (
            code in _SEQUENCE_ERRORS or (code is ErrorCode.INVALID_PRODUCER_EPOCH and queue.may_bump_epoch)
        ):
            self._try_again(queue, batch, error, rejected=True)
        elif code.retriable:
            self._try_again(queue, batch, error, outcome_unknown=code in _MAYBE_WRITTEN)
        else:
            self._failed(queue, batch, error)

    def _written(self, queue: BatchQueue, batch: Batch, base_offset: int, append_time: int) -> None:
        if self.troubles:
            self.troubles.pop(queue, None)
        for other in queue.succeeded(batch):
            self._acknowledge(queue, other, UNKNOWN_OFFSET, -1)
        self._acknowledge(queue, batch, base_offset, append_time)

    def _acknowledge(self, queue: BatchQueue, batch: Batch, base_offset: int, append_time: int) -> None:
        self.counts.acknowledged += batch.count
        self.counts.request_time += self.reactor.seconds() - batch.sent_at
        batch.succeed(BatchMetadata(queue.topic, queue.partition, base_offset, batch.timestamps, append_time))
        self.finish(batch)

    def _split(self, queue: BatchQueue, batch: Batch) -> None:
        halves = queue.split(batch)
        self.accumulator.release(batch)
        for half in halves:
            self.accumulator.count(half)
        self._replace(batch, halves)

    def _try_again(
        self,
        queue: BatchQueue,
        batch: Batch,
        error: BaseException,
        *,
        rejected: bool = False,
        outcome_unknown: bool = False,
    ) -> None:
        """Requeue the batch; without retries, time or need left, fail it."""
        now = self.reactor.seconds()
        queue.requeue(batch, rejected=rejected, outcome_unknown=outcome_unknown)
        is_settled = not batch.outcome_unknown and not self.may_resend()
        if batch.attempts > self.options.retries or batch.deadline <= now or is_settled:
            self._failed(queue, batch, error)
            return
        if not rejected or queue not in self.troubles:  # batches behind a failed one are out of order
            self.troubles[queue] = f"{queue.topic}-{queue.partition}: {error}"
        queue.resume_at = max(queue.resume_at, now + self.options.backoff.pause(batch.attempts))

    def _settle(self, queue: BatchQueue) -> None:
        if not queue.in_flight:
            order_error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            for batch in queue.settle():
                self.fail_batch(
                    batch, KafkaError("outcome unknown: the records may or may not have been written", order_error)
                )
        if not queue.idle:
            self.accumulator.ready[queue] = None

    def _replace(self, batch: Batch, others: Iterable[Batch]) -> None:
        for watch in self._watches[:]:
            pending, done = watch
            if batch in pending:
                pending.discard(batch)
                pending.update(others)
                if not pending:
                    self._watches.remove(watch)
                    done.callback(None)
