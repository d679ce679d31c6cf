"""The public producer: send records, get Deferreds of their metadata.

    producer = Producer("localhost:9092", linger_ms=5)
    metadata = await producer.send("greetings", b"hello", key=b"world")
    print(metadata.partition, metadata.offset)
    await producer.close()

A partition's records keep the order of calls, even if retried. They leave in the next reactor iteration, or after
`linger.ms`: a sending loop must let the reactor run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail

from pylogbroker.background import with_cleanup
from pylogbroker.client import arguments
from pylogbroker.client.arguments import reactor_or_default
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import Closed
from pylogbroker.client.plugin_lookup import given_as_arguments
from pylogbroker.client.producer.accumulator import OVERHEAD
from pylogbroker.client.producer.batch import Collector
from pylogbroker.client.producer.bulk_send import columns_of, put
from pylogbroker.client.producer.delivery import RecordDeferred
from pylogbroker.client.producer.errors import SomeFailed
from pylogbroker.client.producer.model import Counts, GroupMember, Offsets, ProducerRecord, RecordMetadata
from pylogbroker.client.producer.options import options_of
from pylogbroker.client.producer.topics import PendingRecord
from pylogbroker.client.producer.transactions import TransactionManager
from pylogbroker.client.producer.validation import (
    check_partition,
    check_time,
    check_topic,
    checked_headers,
    merged_settings,
    plugins_of,
    source_of,
    too_large,
)
from pylogbroker.client.producer.wiring import ProducerParts
from pylogbroker.client.settings import PRODUCER, read
from pylogbroker.client.single_flight import SingleFlight
from pylogbroker.client.zookeeper import zookeeper_of
from pylogbroker.errors import ConfigError, InvalidRecords, PylogbrokerError
from pylogbroker.interfaces import Event, ICallbackHandler, ITree
from pylogbroker.records import Header

_new_deferred = RecordDeferred.__new__

Record = ProducerRecord | tuple[str, Any] | tuple[str, Any, Any]


class Producer:
    """Sends records to a cluster, with the settings of `pylogbroker.client.settings`.

    Brokers come from `bootstrap` ("host:port,host:port"), or from a coordination tree: `tree`, or the setting
    `zookeeper.connect`. Plugins are objects, or named by settings. Call methods on the reactor thread.

    With `transactional.id`, records are sent between `begin` and `commit` or `abort`.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        coordination: ITree | None = None,
        reactor: Any = None,
        settings: Mapping[str, Any] | None = None,
        encoder: object = None,
        key_encoder: object = None,
        partitioner: object = None,
        event_handler: object = None,
        callback_handlers: object = None,
        **named: Any,
    ) -> None:
        choices = {
            "value.serializer": encoder,
            "key.serializer": key_encoder,
            "partitioner.class": partitioner,
            "event.handler": event_handler,
            "callback.handlers": callback_handlers,
        }
        given = merged_settings(settings, named)
        chosen = {name: plugin for name, plugin in choices.items() if plugin is not None}
        own = {name: value for name, value in given.items() if name not in chosen}
        values = read(PRODUCER, own, arguments.names_of(Producer))
        with given_as_arguments(chosen):
            plugins = plugins_of({name: chosen.get(name, values[name]) for name in choices}, values)
        self._plugins = plugins
        self._encode, self._plain_values = plugins.encode, plugins.plain_values
        self._encode_key, self._plain_keys = plugins.encode_key, plugins.plain_keys
        self._reactor = reactor_or_default(reactor)
        self._seconds = self._reactor.seconds
        self._options = options_of(values)
        arguments.tree("coordination", coordination)
        self._zookeeper = zookeeper_of(values, coordination, self._reactor)
        tree = coordination if self._zookeeper is None else self._zookeeper
        cluster = Cluster(self._reactor, values, source_of(bootstrap, tree, values))
        self._parts = parts = ProducerParts(self._reactor, self._options, plugins, cluster)
        self._accumulator, self._admission, self._topics = parts.accumulator, parts.admission, parts.topics
        self._sender, self._pipeline, self._transactions = parts.sender, parts.pipeline, parts.transactions
        self._may_run = self._plain_values and self._options.max_request_size >= self._options.limits.batch_bytes
        self._closing = SingleFlight()
        self._is_closing = False
        self._has_closed = False

    def __repr__(self) -> str:
        return f"<Producer of {self._parts.cluster}{', closed' if self._has_closed else ''}>"

    # records

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Deferred[RecordMetadata]:
        """Send a record; the Deferred fires with its metadata once acknowledged.

        By default the partitioner chooses the partition, and the timestamp (milliseconds since 1970) is now. The
        Deferred fails with KafkaError, DeliveryTimedOut, QueueFull, RecordTooLarge, PluginFailed, TransactionError or
        Closed. Cancelling it does not withdraw the record.
        """
        if self._is_closing or self._transactions is not None:
            try:
                self._check_open()
            except PylogbrokerError as error:
                self._parts.reject_late()
                return fail(error)
        accumulator = self._accumulator
        run = accumulator.run
        if type(value) is bytes and key is None and partition is None and timestamp is None:
            size = OVERHEAD + len(value)
            batch = run.batch
            if size <= run.room and topic == run.topic and not headers and run.queue.open is batch:
                sent = _new_deferred(RecordDeferred)
                sent.report = run.report
                sent.place = len(run.values)
                run.values.append(value)
                run.timestamps.append(int(self._seconds() * 1000))
                run.room -= size
                batch.size += size
                accumulator.used += size
                accumulator.held += 1
                return sent
        done: Deferred[RecordMetadata] = Deferred()
        if self._pipeline is not None:
            self._pipeline.send(Event(topic, value, key, partition, timestamp, headers), done)
            return done
        try:
            if type(value) is not bytes or not self._plain_values:
                value = self._encode(value)
            if key is not None and (type(key) is not bytes or not self._plain_keys):
                key = self._encode_key(key)
            size = OVERHEAD + len(value or b"") + len(key or b"")
            if headers:
                headers, size = checked_headers(headers, size)
            if size > self._options.max_request_size:
                raise too_large(size, self._options)
            now = self._reactor.seconds()
            if timestamp is None:
                timestamp = int(now * 1000)
            else:
                check_time(timestamp)
            if partition is not None:
                check_partition(partition)
            producer_topic = self._topics.ready(topic)
            queue = None
            if producer_topic is not None and self._admission.is_open(size):
                queue = producer_topic.choose(key) if partition is None else producer_topic.queue(partition)
            if queue is None:
                self._send_pending(PendingRecord(topic, key, value, partition, timestamp, tuple(headers), size, done))
                return done
        except Exception as error:
            self._parts.record_failed(error)
            done.errback(error)
            return done
        batch = accumulator.append(queue, key, value, timestamp, headers, size, done, now)  # type: ignore[arg-type]
        if key is None and partition is None and self._may_run:
            self._topics.begin_run(queue, batch)
        if not self._sender.scheduled:
            self._parts.kick()
        return done

    def send_many(self, records: Iterable[Record]) -> Deferred[list[RecordMetadata]]:
        """Send records, each a ProducerRecord, (topic, value) or (topic, value, key).

        The Deferred fires with their metadata, in order, when all are acknowledged, or fails with SomeFailed.
        """
        done: Deferred[list[RecordMetadata]] = Deferred()
        given = records if isinstance(records, list) else list(records)
        if not given:
            done.callback([])
            return done

        def finish(results: list[RecordMetadata | BaseException]) -> None:
            if any(isinstance(result, BaseException) for result in results):
                done.errback(SomeFailed(results))
            else:
                done.callback(results)  # type: ignore[arg-type]

        collector = Collector([RecordMetadata("", -1, -1, -1)] * len(given), finish)
        together = self._send_columns(given, collector)
        self._send_each(given, together, collector)
        return done

    @property
    def callback_handlers(self) -> tuple[ICallbackHandler, ...]:
        """Handlers in order, including those from settings."""
        return self._plugins.callbacks.handlers

    @property
    def trouble(self) -> str:
        """Why records are not acknowledged: the last errors of brokers, of requests for metadata, too; "" without."""
        return self._parts.trouble

    @property
    def counts(self) -> Counts:
        """Counters, current at the call."""
        counts, accumulator = self._parts.counts, self._accumulator
        counts.queued, counts.queued_bytes = accumulator.held, accumulator.used
        counts.waiting = len(self._admission.waiting)
        return counts

    def room(self) -> Deferred[None]:
        """Fire when the queue has space; sending loops await this."""
        return self._admission.space_available()

    def flush(self) -> Deferred[None]:
        """Send without lingering; fire when everything is acknowledged or has failed."""
        if self._has_closed:
            return fail(Closed("the producer has been closed"))
        return Deferred.fromCoroutine(self._parts.flush())

    def close(self, timeout: float | None = None) -> Deferred[None]:
        """Flush and close; after `timeout` seconds, unacknowledged records fail with Closed.

        Aborts an open transaction; accepts no more records. Fails with NotAllSent, after closing, if records could not
        be sent. Repeated calls share the close; cancelling one does not stop it.
        """
        self._is_closing = True
        return self._closing.run(lambda: self._close(timeout))

    # transactions

    def begin(self) -> Deferred[None]:
        """Begin a transaction. The first call fences other producers with this transactional id."""
        if self._is_closing:
            return fail(Closed("the producer has been closed"))
        return Deferred.fromCoroutine(self._in_transactions().begin())

    def send_offsets(self, offsets: Offsets, group: str | GroupMember) -> Deferred[None]:
        """Commit a group's offsets, by (topic, partition), in the transaction; its end waits for them."""
        member = GroupMember(group) if isinstance(group, str) else group
        return self._in_transactions().send_offsets(offsets, member)

    def commit(self) -> Deferred[None]:
        """Flush and commit; fail with NeedsAbort if anything in the transaction failed.

        Cancelling ends only the wait. Repeated calls share the commit.
        """
        return self._in_transactions().commit()

    def abort(self) -> Deferred[None]:
        """Abort: records not in flight fail with TransactionAborted.

        Fails with TransactionError if an earlier commit with unknown outcome proves successful.
        """
        return self._in_transactions().abort()

    def _in_transactions(self) -> TransactionManager:
        if self._transactions is None:
            raise ConfigError("transactional.id: is not set; transactions need one")
        return self._transactions

    # internals

    def _check_open(self) -> None:
        if self._is_closing:
            raise Closed("the producer has been closed")
        if self._transactions is not None:
            self._transactions.check_open()

    def _send_pending(self, pending: PendingRecord) -> None:
        check_topic(pending.topic)
        self._admission.admit(
            pending.size, lambda: self._topics.put(pending), lambda error: self._parts.reject_record(pending, error)
        )

    def _send_each(self, records: Sequence[Any], start: int, collector: Collector) -> None:
        for place, record in enumerate(records[start:], start):
            try:
                one = record if isinstance(record, ProducerRecord) else ProducerRecord(*_fields(record))
            except InvalidRecords as error:
                self._parts.record_failed(error)
                collector.put([place], [error])
                continue
            sent = self.send(
                one.topic, one.value, one.key, partition=one.partition, timestamp=one.timestamp, headers=one.headers
            )
            sent.addCallbacks(
                lambda result, place=place: collector.put([place], [result]),
                lambda failure, place=place: collector.put([place], [failure.value]),
            )

    def _send_columns(self, records: Sequence[Any], collector: Collector) -> int:
        columns = None
        if self._pipeline is None and self._plain_values and self._plain_keys and not self._is_closing:
            columns = columns_of(records)
        topic = None if columns is None else self._topics.ready(columns.topic)
        if columns is None or topic is None or not self._takes(columns.sizes):
            return 0
        count = put(self._accumulator, topic, columns, collector, self._reactor.seconds())
        self._parts.kick()
        return count

    def _takes(self, sizes: Sequence[int]) -> bool:
        if self._transactions is not None and not self._transactions.is_open:
            return False
        return max(sizes) <= self._options.max_request_size and self._admission.is_open(sum(sizes), len(sizes))

    async def _close(self, timeout: float | None) -> None:
        if not self._has_closed:
            await with_cleanup(self._parts.close(timeout), self._end)

    async def _end(self) -> None:
        self._has_closed = True
        if self._zookeeper is not None:
            await self._zookeeper.close()


def _fields(record: Any) -> Sequence[Any]:
    if isinstance(record, tuple | list) and 2 <= len(record) <= 3:
        return record
    raise InvalidRecords(f"expected a ProducerRecord, (topic, value) or (topic, value, key); not {record!r:.100}")
