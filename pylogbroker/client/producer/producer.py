"""The producer that programs use: records in, Deferreds of where they went out.

    producer = Producer("localhost:9092", linger_ms=5)
    metadata = await producer.send("greetings", b"hello", key=b"world")
    print(metadata.partition, metadata.offset)
    await producer.close()

Records of one partition keep the order of the calls, whatever fails and is tried again in between. What is sent leaves
at the next turn of the reactor, or when it has lingered (`linger.ms`); who sends in a loop gives way to the reactor now
and then, best by awaiting `room`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import Closed
from pylogbroker.client.guarding import handling
from pylogbroker.client.producer.accumulator import OVERHEAD, Accumulator
from pylogbroker.client.producer.answers import Answers
from pylogbroker.client.producer.batch import Collector, Sink
from pylogbroker.client.producer.entrance import Entrance
from pylogbroker.client.producer.errors import SomeFailed, TransactionAborted
from pylogbroker.client.producer.given import (
    check_time,
    check_topic,
    checked_headers,
    given_settings,
    plugins_of,
    reactor_or,
    source_of,
    too_large,
)
from pylogbroker.client.producer.identities import Identities, OpenGate
from pylogbroker.client.producer.lane import Lane
from pylogbroker.client.producer.many import columns_of, put
from pylogbroker.client.producer.model import Counts, GroupMember, Offsets, ProducerRecord, RecordMetadata
from pylogbroker.client.producer.options import options_of
from pylogbroker.client.producer.pipeline import BuiltInHandler, Pipeline
from pylogbroker.client.producer.sender import Gate, Sender
from pylogbroker.client.producer.topics import Arrival, Topics
from pylogbroker.client.producer.transactions import Transactions
from pylogbroker.client.retrying import Pauses
from pylogbroker.client.settings import PRODUCER, read
from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.interfaces import Event, ICallbackHandler, ITree
from pylogbroker.records import Header

log = Logger()

Record = ProducerRecord | tuple[str, Any] | tuple[str, Any, Any]


class Producer:
    """Sends records to a cluster; see the module's text, and `pylogbroker.client.settings` for its settings.

    Brokers are found by `bootstrap` ("host:port,host:port") or in a coordination tree. Plugins are given as objects, or
    named by settings. Everything is called on the reactor's thread.

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
        plugins = {
            "value.serializer": encoder,
            "key.serializer": key_encoder,
            "partitioner.class": partitioner,
            "event.handler": event_handler,
            "callback.handlers": callback_handlers,
        }
        given = given_settings(settings, named)
        chosen = {name: plugin for name, plugin in plugins.items() if plugin is not None}
        values = read(PRODUCER, {name: value for name, value in given.items() if name not in chosen})
        self._plugins = plugins_of({name: chosen.get(name, values[name]) for name in plugins}, values)
        self._encode, self._plain_values = self._plugins.encode, self._plugins.plain_values
        self._encode_key, self._plain_keys = self._plugins.encode_key, self._plugins.plain_keys
        self._reactor = reactor_or(reactor)
        self._options = options_of(values)
        self._counts = Counts()
        source = source_of(bootstrap, coordination, values)
        self._cluster = Cluster(self._reactor, values, source)
        self._pauses = Pauses(self._reactor)
        self._closing = False
        self._connect_parts()

    # -- records -----------------------------------------------------------------------------------------------------

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
        """Send a record; the Deferred fires with where it went, once that is acknowledged.

        Without a partition, the partitioner chooses; without a timestamp (milliseconds since 1970) it is now. It fails
        with KafkaError (what the broker said), DeliveryTimedOut, QueueFull, RecordTooLarge, PluginFailed,
        TransactionError or Closed. To cancel it does not take the record back.
        """
        done: Deferred[RecordMetadata] = Deferred()
        if self._pipeline is not None:
            self._send_event(Event(topic, value, key, partition, timestamp, headers), done)
            return done
        try:
            if self._closing or self._transactions is not None:
                self._check_open()
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
            known = self._topics.ready(topic)
            lane = None
            if known is not None and self._entrance.is_open(size):
                lane = known.choose(key) if partition is None else known.lane(partition)
            if lane is None:
                self._arrive(Arrival(topic, key, value, partition, timestamp, tuple(headers), size, done))
                return done
        except Exception as error:
            self._counts.failed += 1
            done.errback(error)
            return done
        self._accumulator.append(lane, key, value, timestamp, headers, size, done, now)  # type: ignore[arg-type]
        if not self._sender.scheduled:
            self._kick()
        return done

    def send_many(self, records: Iterable[Record]) -> Deferred[list[RecordMetadata]]:
        """Send records, each a ProducerRecord or (topic, value) or (topic, value, key).

        The Deferred fires with where they went, in their order, when all are done; if some have failed, it fails with
        SomeFailed, which says what became of each.
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
        if not self._send_columns(given, collector):
            self._send_each(given, collector)
        return done

    @property
    def callback_handlers(self) -> tuple[ICallbackHandler, ...]:
        """The handlers in their order, those that settings name too: their counts can be read there."""
        return self._plugins.callbacks.handlers

    @property
    def counts(self) -> Counts:
        """What the producer has done so far."""
        counts, accumulator = self._counts, self._accumulator
        counts.queued, counts.queued_bytes = accumulator.held, accumulator.used
        counts.waiting = len(self._entrance.waiting)
        return counts

    def room(self) -> Deferred[None]:
        """Fires when the queue has room: what a loop that sends awaits, so that it is never ahead by more than that."""
        return self._entrance.room()

    def flush(self) -> Deferred[None]:
        """Send all that waits, without lingering; fires when it is acknowledged, or has failed."""
        return Deferred.fromCoroutine(self._flush())

    def close(self, timeout: float | None = None) -> Deferred[None]:
        """Flush and end; what is not done after `timeout` seconds fails with Closed. An open transaction is aborted."""
        return Deferred.fromCoroutine(self._close(timeout))

    # -- transactions --------------------------------------------------------------------------------------------------

    def begin(self) -> Deferred[None]:
        """Begin a transaction. The first time, producers with the same transactional id are shut out."""
        return Deferred.fromCoroutine(self._in_transactions().begin())

    def send_offsets(self, offsets: Offsets, group: str | GroupMember) -> Deferred[None]:
        """Commit offsets of a group, by (topic, partition), as part of the transaction."""
        member = GroupMember(group) if isinstance(group, str) else group
        return Deferred.fromCoroutine(self._in_transactions().send_offsets(offsets, member))

    def commit(self) -> Deferred[None]:
        """Flush, and commit the transaction. NeedsAbort if a record has failed."""
        return Deferred.fromCoroutine(self._commit())

    def abort(self) -> Deferred[None]:
        """Abort the transaction: records that are not on their way yet fail with TransactionAborted."""
        return Deferred.fromCoroutine(self._abort())

    async def _commit(self) -> None:
        transactions = self._in_transactions()
        if self._pipeline is not None:
            self._pipeline.dispatch()
        transactions.begin_commit()
        await self._flush()
        await transactions.commit()

    async def _abort(self) -> None:
        transactions = self._in_transactions()
        transactions.begin_abort()
        self._refuse_waiting(TransactionAborted("the transaction was aborted"))
        await self._answers.finished(self._accumulator.batches())
        await transactions.abort()

    async def _flush(self) -> None:
        """Wait until all that was sent so far is done."""
        self._accumulator.hurry_on()
        try:
            if self._pipeline is not None:
                self._pipeline.dispatch()
            self._kick()
            await self._entrance.passed()
            await self._topics.settled()
            if self._pipeline is not None:
                await self._pipeline.handled()
            await self._answers.finished(self._accumulator.batches())
        finally:
            self._accumulator.hurry -= 1

    def _in_transactions(self) -> Transactions:
        if self._transactions is None:
            raise ConfigError("transactional.id: is not set; transactions need one")
        return self._transactions

    # -- the inside ---------------------------------------------------------------------------------------------------

    def _connect_parts(self) -> None:
        """Make the parts, and let them know of each other."""
        reactor, options, cluster = self._reactor, self._options, self._cluster
        bounds = options.bounds
        in_events = self._plugins.handler is not None or self._plugins.callbacks.handlers
        if in_events:
            bounds = attrs.evolve(bounds, linger=0.0)
        transactional = options.transactional_id is not None
        self._accumulator = Accumulator(bounds, options.idempotent, not transactional)
        self._entrance = Entrance(reactor, self._accumulator, self._counts, options.enqueue_timeout, self._kick)
        self._answers = Answers(reactor, cluster, self._accumulator, options, self._counts)
        self._answers.on_released = self._released
        self._transactions = None
        gate: Gate = OpenGate()
        if transactional:
            self._transactions = Transactions(self._pauses, cluster, self._accumulator, options, self._resume)
            self._answers.on_failed = self._transactions.failed
            gate = self._transactions
        elif options.idempotent:
            gate = Identities(self._pauses, cluster, options.backoff, self._resume, self._refuse_queued)
        self._sender = Sender(reactor, cluster, self._accumulator, options, gate, self._answers, self._counts)
        self._topics = Topics(
            reactor, cluster, self._accumulator, self._plugins.partitioners, options.patience, self._kick, self._refused
        )
        self._topics.watch()
        self._pipeline = self._make_pipeline() if in_events else None

    def _make_pipeline(self) -> Pipeline:
        bounds = self._options.bounds
        built_in = BuiltInHandler(self._serialize, self._topics.put, self._counts, self._plugins.callbacks.before_send)
        if self._plugins.callbacks.before_send is not None:
            self._sender.prepare = built_in.prepare
        pipeline = Pipeline(
            self._reactor,
            self._accumulator,
            self._entrance,
            self._plugins.callbacks,
            self._counts,
            bounds.linger,
            bounds.batch_bytes,
            bounds.batch_records,
            built_in.handle if self._plugins.handler is None else handling(self._plugins.handler, built_in),
        )
        return pipeline

    def _check_open(self) -> None:
        """Raise why no record can be sent, if none can."""
        if self._closing:
            raise Closed("the producer has been closed")
        if self._transactions is not None:
            self._transactions.check_open()

    def _arrive(self, arrival: Arrival) -> None:
        """A record that could not be put into a batch at once."""
        check_topic(arrival.topic)
        self._entrance.enter(
            arrival.size, lambda: self._topics.put(arrival), lambda error: self._refused(arrival, error)
        )

    def _send_event(self, event: Event, sink: Sink) -> None:
        try:
            self._check_open()
        except PylogbrokerError as error:
            self._counts.failed += 1
            sink.errback(error)
            return
        if self._pipeline is not None:
            self._pipeline.send(event, sink)

    def _send_each(self, records: Sequence[Record], collector: Collector) -> None:
        """One by one: what is not alike, or has to wait."""
        for place, record in enumerate(records):
            one = record if isinstance(record, ProducerRecord) else ProducerRecord(*record)
            sent = self.send(
                one.topic, one.value, one.key, partition=one.partition, timestamp=one.timestamp, headers=one.headers
            )
            sent.addCallbacks(
                lambda result, place=place: collector.put([place], [result]),
                lambda failure, place=place: collector.put([place], [failure.value]),
            )

    def _send_columns(self, records: Sequence[Record], collector: Collector) -> bool:
        """All together, if they are tuples for one topic that is known, and there is room."""
        first = records[0]
        if self._pipeline is not None or type(first) is not tuple or not (self._plain_values and self._plain_keys):
            return False
        try:
            self._check_open()
            topic = self._topics.ready(first[0])
            columns = None if topic is None else columns_of(records)
            if topic is None or columns is None or not self._takes(columns.sizes):
                return False
            put(self._accumulator, topic, columns, collector, self._reactor.seconds())
        except PylogbrokerError:
            return False  # each record is told by itself
        self._kick()
        return True

    def _takes(self, sizes: Sequence[int]) -> bool:
        """Whether records of these sizes may enter now."""
        return max(sizes) <= self._options.max_request_size and self._entrance.is_open(sum(sizes), len(sizes))

    def _serialize(self, event: Event, sink: Sink) -> Arrival:
        """The event as bytes; raises what it has to fail with."""
        value, key = self._encode(event.value), None if event.key is None else self._encode_key(event.key)
        headers, size = checked_headers(event.headers, OVERHEAD + len(value or b"") + len(key or b""))
        if size > self._options.max_request_size:
            raise too_large(size, self._options)
        check_topic(event.topic)
        if event.timestamp is None:
            event.timestamp = int(self._reactor.seconds() * 1000)
        check_time(event.timestamp)
        seen = event if self._plugins.callbacks.before_send is not None else None
        return Arrival(event.topic, key, value, event.partition, event.timestamp, headers, size, sink, seen)

    def _kick(self) -> None:
        """Something may leave: now, if each record leaves by itself, or at the next turn."""
        if self._options.sync and not self._sender.running:
            self._sender.run()
        else:
            self._sender.kick()

    def _released(self) -> None:
        """Batches are done: there is room."""
        if self._entrance.waiting:
            self._entrance.move()

    def _resume(self, lanes: Sequence[Lane]) -> None:
        """These lanes may send now."""
        self._accumulator.ready.update((lane, None) for lane in lanes)
        self._sender.kick()

    def _refused(self, arrival: Arrival, error: BaseException) -> None:
        """A record does not get into a batch."""
        self._counts.failed += 1
        arrival.sink.errback(error)
        self._released()

    def _refuse_queued(self, error: BaseException) -> None:
        """Nothing that is not on its way will ever be."""
        for lane, batch in self._accumulator.drop():
            self._answers.give_up(lane, batch, error)

    def _refuse_waiting(self, error: BaseException) -> None:
        """Nothing that is not on its way is wanted any more."""
        if self._pipeline is not None:
            self._pipeline.refuse_all(error)
        self._entrance.refuse_all(error)
        self._topics.refuse_all(error)
        self._refuse_queued(error)

    async def _close(self, timeout: float | None) -> None:
        if self._closing:
            return
        if self._transactions is None:
            await self._within(timeout, self._flush())
        elif self._transactions.can_abort:
            await self._within(timeout, self._abort())
        self._closing = True
        self._sender.close()
        self._topics.close()
        self._pauses.close()
        self._refuse_waiting(Closed("the producer has been closed"))
        await self._cluster.close()
        self._plugins.callbacks.close()

    async def _within(self, timeout: float | None, work: Coroutine[Any, Any, None]) -> None:
        """Do what there is to do before the end, if it succeeds in time."""
        done = Deferred.fromCoroutine(work)
        if timeout is not None:
            done.addTimeout(timeout, self._reactor)
        try:
            await done
        except (PylogbrokerError, TimedOut) as error:
            log.warn("the producer is closed before all was done: {error!r}", error=error)
