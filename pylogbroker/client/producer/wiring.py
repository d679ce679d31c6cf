"""Wiring of a producer's parts; flush and close."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import Closed
from pylogbroker.client.plugin_guards import guarded_handler
from pylogbroker.client.producer.accumulator import OVERHEAD, Accumulator, BufferLimits
from pylogbroker.client.producer.batch import BatchQueue, RecordCompletion
from pylogbroker.client.producer.buffer_admission import BufferAdmission
from pylogbroker.client.producer.coordinator_client import TransactionCoordinatorClient
from pylogbroker.client.producer.errors import NotAllSent
from pylogbroker.client.producer.identities import Identities, OpenGate
from pylogbroker.client.producer.model import Counts
from pylogbroker.client.producer.options import ProducerOptions
from pylogbroker.client.producer.pipeline import BuiltInHandler, Pipeline
from pylogbroker.client.producer.response_handler import ResponseHandler
from pylogbroker.client.producer.sender import Gate, Sender
from pylogbroker.client.producer.topics import PendingRecord, ProducerTopics
from pylogbroker.client.producer.transactions import TransactionManager
from pylogbroker.client.producer.validation import (
    Plugins,
    check_partition,
    check_time,
    check_topic,
    checked_headers,
    too_large,
)
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import Event
from pylogbroker.rpc.retries import Pauses

log = Logger()


class ProducerParts:
    def __init__(self, reactor: Any, options: ProducerOptions, plugins: Plugins, cluster: Cluster) -> None:
        self.reactor = reactor
        self.options = options
        self.plugins = plugins
        self.cluster = cluster
        self.counts = counts = Counts()
        self.is_closed = False
        self._first_failure: BaseException | None = None  # of a record since `close`
        self._late = 0  # records rejected since `close`
        is_transactional = options.transactional_id is not None
        self._pauses = Pauses(reactor)
        self.accumulator = Accumulator(self._limits(), options.idempotent, not is_transactional)
        self.admission = BufferAdmission(reactor, self.accumulator, counts, options.enqueue_timeout, self.kick)
        self.response_handler = ResponseHandler(reactor, cluster, self.accumulator, options, counts)
        self.response_handler.on_released = self.released
        self.response_handler.on_failed = self._failed
        self.transactions = self._make_transactions() if is_transactional else None
        before_send = plugins.callbacks.before_send
        built_in = BuiltInHandler(reactor, self.serialize, self._put, self.record_failed, counts, before_send)
        prepare = None if before_send is None else built_in.prepare
        gate = self._gate()
        self.sender = Sender(reactor, cluster, self.accumulator, options, gate, self.response_handler, counts, prepare)
        self.topics = ProducerTopics(
            reactor,
            cluster,
            self.accumulator,
            plugins.partitioners,
            options.block_timeout,
            self.kick,
            self.reject_record,
        )
        self.topics.watch()
        self.pipeline = self._make_pipeline(built_in) if self._in_events else None

    # shared by the parts

    @property
    def trouble(self) -> str:
        return "; ".join(filter(None, (self.cluster.trouble, self.response_handler.trouble)))

    def kick(self) -> None:
        """Run the sender: at once with `sync`, else in the next iteration."""
        if self.options.sync and not self.sender.running:
            self.sender.run()
        else:
            self.sender.kick()

    def released(self) -> None:
        if self.admission.waiting:
            self.admission.move()

    def record_failed(self, error: BaseException) -> None:
        self.counts.failed += 1
        self._failed(error)

    def reject_late(self) -> None:
        self.counts.failed += 1
        self._late += 1

    def _failed(self, error: BaseException) -> None:
        if self._first_failure is None:
            self._first_failure = error
        if self.transactions is not None:
            self.transactions.failed(error)

    def reject_record(self, record: PendingRecord, error: BaseException) -> None:
        self.record_failed(error)
        record.completion.errback(error)
        self.released()

    async def flush(self) -> None:
        self.accumulator.stop_lingering()
        try:
            if self.pipeline is not None:
                self.pipeline.dispatch()
            self.kick()
            await self.admission.waiters_done()
            await self.topics.settled()
            if self.pipeline is not None:
                await self.pipeline.handled()
            await self.in_flight_done()
        finally:
            self.accumulator.flushers -= 1

    def in_flight_done(self) -> Deferred[None]:
        return self.response_handler.finished(self.accumulator.batches())

    def reject_waiting(self, error: BaseException) -> None:
        if self.pipeline is not None:
            self.pipeline.reject_all(error)
        self.admission.reject_all(error)
        self.topics.reject_all(error)
        self.reject_queued(error)

    def reject_queued(self, error: BaseException) -> None:
        for queue, batch in self.accumulator.drop():
            self.response_handler.fail_removed(queue, batch, error)

    async def close(self, timeout: float | None) -> None:
        """Flush within `timeout` and close; abort an open transaction.

        Raise NotAllSent if records were lost outside a transaction.
        """
        failed, self._late, self._first_failure = self.counts.failed, 0, None
        obstacle = await self._within(timeout, self.flush() if self.transactions is None else self.transactions.close())
        reasons = (str(self._first_failure or ""), obstacle, self.trouble)
        self.is_closed = True
        self.sender.close()
        self.topics.close()
        self._pauses.close()
        error = Closed("the producer has been closed")
        self.reject_waiting(error)
        await self.cluster.close()
        self.reject_queued(error)  # batches requeued meanwhile
        self.plugins.callbacks.close()
        unsent = self.counts.failed - self._late - failed
        if unsent and self.transactions is None:
            raise NotAllSent(unsent, "; ".join(filter(None, reasons)))

    async def _within(self, timeout: float | None, work: Coroutine[Any, Any, None]) -> str:
        """Await at most `timeout` seconds; return why `work` did not finish, or ""."""
        done = Deferred.fromCoroutine(work)
        if timeout is not None:
            done.addTimeout(timeout, self.reactor)
        try:
            await done
        except (PylogbrokerError, TimedOut, CancelledError) as error:
            log.warn("closing the producer before all records were acknowledged: {error!r}", error=error)
            return str(error) if isinstance(error, PylogbrokerError) else f"not done within {timeout or 0:g} s"
        return ""

    # construction

    @property
    def _in_events(self) -> bool:
        return self.plugins.handler is not None or bool(self.plugins.callbacks.handlers)

    def _limits(self) -> BufferLimits:
        """Events have lingered already."""
        limits = self.options.limits
        return attrs.evolve(limits, linger=0.0) if self._in_events else limits

    def _gate(self) -> Gate:
        if self.transactions is not None:
            return self.transactions
        if not self.options.idempotent:
            return OpenGate()
        return Identities(self._pauses, self.cluster, self.options.backoff, self._resume, self.reject_queued)

    def _make_transactions(self) -> TransactionManager:
        transactions = TransactionManager(
            TransactionCoordinatorClient(self._pauses, self.cluster, self.options),
            self.accumulator,
            self._resume,
            self.flush,
            self.in_flight_done,
            self.reject_waiting,
        )
        self.response_handler.may_resend = lambda: transactions.takes_records
        return transactions

    def _make_pipeline(self, built_in: BuiltInHandler) -> Pipeline:
        limits, handler = self.options.limits, self.plugins.handler
        return Pipeline(
            self.reactor,
            self.accumulator,
            self.admission,
            self.plugins.callbacks,
            self.counts,
            limits.linger,
            limits.batch_bytes,
            limits.batch_records,
            built_in.handle if handler is None else guarded_handler(handler, built_in),
            self.record_failed,
        )

    def _put(self, record: PendingRecord) -> None:
        self.topics.put(record)

    def serialize(self, event: Event, completion: RecordCompletion) -> PendingRecord:
        if self.is_closed:
            raise Closed("the producer has been closed")
        if self.transactions is not None:
            self.transactions.check_taking()
        plugins = self.plugins
        value, key = plugins.encode(event.value), None if event.key is None else plugins.encode_key(event.key)
        headers, size = checked_headers(event.headers, OVERHEAD + len(value or b"") + len(key or b""))
        if size > self.options.max_request_size:
            raise too_large(size, self.options)
        check_topic(event.topic)
        check_partition(event.partition)
        if event.timestamp is None:
            event.timestamp = int(self.reactor.seconds() * 1000)
        check_time(event.timestamp)
        seen = event if plugins.callbacks.before_send is not None else None
        return PendingRecord(event.topic, key, value, event.partition, event.timestamp, headers, size, completion, seen)

    def _resume(self, queues: Sequence[BatchQueue]) -> None:
        self.accumulator.ready.update((queue, None) for queue in queues)
        self.sender.kick()
