"""Records as events: the path through a producer with callback handlers or a custom event handler.

    send -> before_enqueue -> queue -> after_dequeue -> handle -> built-in handler -> before_send -> leader
                         after_enqueue

Events wait unserialized, for `queue.time` or a full batch; the event handler takes all together. The built-in one
serializes them into batches, sent at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from pylogbroker.client.callbacks import Callbacks
from pylogbroker.client.errors import PluginFailed
from pylogbroker.client.plugin_guards import Handle
from pylogbroker.client.producer.accumulator import OVERHEAD, Accumulator
from pylogbroker.client.producer.batch import Batch, BatchQueue, RecordCompletion
from pylogbroker.client.producer.buffer_admission import BufferAdmission
from pylogbroker.client.producer.model import UNKNOWN_OFFSET, Counts, RecordMetadata
from pylogbroker.client.producer.topics import PendingRecord
from pylogbroker.interfaces import Event, IEventHandler

T = TypeVar("T")


@attrs.define(eq=False, repr=False)
class EventCompletion:
    """Passes on an event's first result."""

    completion: RecordCompletion
    reserved: int  # bytes counted until completion or entering a batch
    release: Callable[[int], object]
    done: Deferred[None] = attrs.Factory(Deferred)

    @property
    def open(self) -> bool:
        return not self.done.called

    @property
    def is_kept(self) -> bool:
        """True if there is no result and no batch will bring one."""
        return self.open and self.reserved > 0

    def callback(self, result: Any) -> None:
        if self.open:
            self._close()
            self.completion.callback(result)

    def errback(self, fail: Any) -> None:
        if self.open:
            self._close()
            self.completion.errback(fail)

    def leave(self) -> None:
        """Release the event's bytes: a batch counts them now."""
        reserved, self.reserved = self.reserved, 0
        if reserved:
            self.release(reserved)

    def _close(self) -> None:
        self.leave()
        self.done.callback(None)


@attrs.define(eq=False, repr=False)
class Pipeline:
    """Queue of events. Times in seconds."""

    reactor: IReactorTime
    accumulator: Accumulator
    admission: BufferAdmission
    callbacks: Callbacks
    counts: Counts
    linger: float
    batch_bytes: int
    batch_records: int
    handle: Handle
    failed: Callable[[BaseException], object]  # called for each failed record
    _queue: list[Event] = attrs.Factory(list)
    _size: int = 0
    _timer: IDelayedCall | None = None
    _handling: dict[Deferred[None], Sequence[Event]] = attrs.Factory(dict)
    _is_dispatching: bool = False
    _is_more: bool = False  # dispatch again

    def send(self, event: Event, completion: RecordCompletion) -> None:
        event.ticket = EventCompletion(completion, 0, self._release)
        change = self.callbacks.before_enqueue
        try:
            changed = event if change is None else change(event)
        except PluginFailed as error:
            self._fail([event], error)
            return
        if changed is None:
            self._drop([event])
        else:
            self._enter(changed, event.ticket)

    def dispatch(self) -> None:
        self._is_more = True
        if self._is_dispatching:
            return
        self._is_dispatching = True
        try:
            while self._is_more:
                self._is_more = False
                self._dequeue(self._take_queue())
        finally:
            self._is_dispatching = False

    async def handled(self) -> None:
        self.dispatch()
        for pending in list(self._handling):
            done: Deferred[None] = Deferred()
            pending.addBoth(_pass_on, done)
            await done

    def reject_all(self, error: BaseException) -> None:
        handled = [event for events in self._handling.values() for event in events if event.ticket is not None]
        kept = [event for event in handled if event.ticket.is_kept]
        self._fail(self._take_queue(), error)
        self._fail(kept, error)

    def _take_queue(self) -> list[Event]:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        events, self._queue, self._size = self._queue, [], 0
        return events

    def _enter(self, event: Event, completion: EventCompletion) -> None:
        event.ticket = completion
        reserved = OVERHEAD + _size(event.key) + _size(event.value)

        def proceed() -> None:
            completion.reserved = reserved
            self.accumulator.used += reserved
            self.accumulator.held += 1
            self._report_enqueued(event, True)

        def reject(error: BaseException) -> None:
            self._report_enqueued(event, False)
            if completion.open:
                self._fail([event], error)

        self.admission.admit(reserved, proceed, reject)

    def _report_enqueued(self, event: Event, is_queued: bool) -> None:
        try:
            if self.callbacks.after_enqueue is not None:
                self.callbacks.after_enqueue(event, is_queued)
        except PluginFailed as error:
            self._fail([event], error)
            return
        if is_queued:
            self._enqueue(event)

    def _enqueue(self, event: Event) -> None:
        self._queue.append(event)
        self._size += event.ticket.reserved
        full = self._size >= self.batch_bytes or len(self._queue) == self.batch_records
        if full or self.accumulator.flushers or self.batch_records == 1:
            self.dispatch()
        elif self._timer is None or not self._timer.active():
            self._timer = self.reactor.callLater(self.linger, self.dispatch)

    def _dequeue(self, events: Sequence[Event]) -> None:
        kept: Sequence[Event] = events
        if events and self.callbacks.after_dequeue is not None:
            try:
                kept = self.callbacks.after_dequeue(events)
            except PluginFailed as error:
                self._fail(events, error)
                return
            self._drop(_left_out(events, kept))
        if kept:
            done = self.handle(kept)
            self._handling[done] = kept
            done.addCallbacks(lambda _: self._dealt_with(kept), lambda failure: self._fail(kept, failure.value))
            done.addBoth(lambda _: self._handling.pop(done, None))

    def _drop(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.ticket is not None and event.ticket.open:
                self.counts.dropped += 1
                event.ticket.callback(_nowhere(event))

    def _dealt_with(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.ticket is not None and event.ticket.is_kept:
                event.ticket.callback(_nowhere(event))

    def _fail(self, events: Iterable[Event], error: BaseException) -> None:
        for event in events:
            if event.ticket is not None and event.ticket.open:
                self.failed(error)
                event.ticket.errback(error)

    def _release(self, reserved: int) -> None:
        self.accumulator.used -= reserved
        self.accumulator.held -= 1
        self.admission.move()


@implementer(IEventHandler)
@attrs.define(eq=False, repr=False)
class BuiltInHandler:
    """Built-in event handler. `serialize` converts an event to a `PendingRecord`, or raises."""

    reactor: IReactorTime
    serialize: Callable[[Event, RecordCompletion], PendingRecord]
    put: Callable[[PendingRecord], object]
    failed: Callable[[BaseException], object]
    counts: Counts
    before_send: Callable[[Sequence[Event]], Sequence[Event]] | None

    def handle(self, events: Sequence[Event]) -> Deferred[None]:
        waiting: list[Deferred[None]] = []
        for event in events:
            if not isinstance(event.ticket, EventCompletion):
                event.ticket = EventCompletion(_Nobody(), 0, lambda reserved: None)
            if event.ticket.open:
                waiting.append(event.ticket.done)
                self._send(event, event.ticket)
        return _all(waiting)

    def _send(self, event: Event, completion: EventCompletion) -> None:
        try:
            record = self.serialize(event, completion)
        except Exception as error:
            self.failed(error)
            completion.errback(error)
            return
        self.put(record)
        completion.leave()  # last: waiting records must not overtake

    def prepare(self, queue: BatchQueue, batch: Batch) -> None:
        """Pass the batch's events to `before_send` handlers and rebuild the batch.

        Dropped records complete in the next iteration: callbacks may call the producer, and the batch is half built.
        """
        events, change = batch.events, self.before_send
        if not events or change is None:
            return
        kept = change(events)
        if not queue.is_next(batch):  # a handler emptied the queue
            return
        for event in _left_out(events, kept):
            self.counts.dropped += 1
            self.reactor.callLater(0, event.ticket.callback, _nowhere(event))
        self._fill(batch, kept)

    def _fill(self, batch: Batch, events: Sequence[Event]) -> None:
        pending_records = []
        for event in events:
            if not isinstance(event.ticket, EventCompletion):
                event.ticket = EventCompletion(_Nobody(), 0, lambda reserved: None)
            try:
                pending_records.append(self.serialize(event, event.ticket))
            except Exception as error:
                self.reactor.callLater(0, self._fail_later, event.ticket, error)
        batch.values = [record.value for record in pending_records]
        batch.keys = [record.key for record in pending_records]
        batch.headers = [record.headers for record in pending_records]
        batch.timestamps = [record.timestamp for record in pending_records]
        batch.completions = dict(enumerate(record.completion for record in pending_records))
        batch.size = sum(record.size for record in pending_records)
        batch.events = None

    def _fail_later(self, completion: EventCompletion, error: BaseException) -> None:
        self.failed(error)
        completion.errback(error)


class _Nobody:
    def callback(self, result: object) -> None:
        """Ignore."""

    def errback(self, fail: object) -> None:
        """Ignore."""


def _nowhere(event: Event) -> RecordMetadata:
    partition = UNKNOWN_OFFSET if event.partition is None else event.partition
    timestamp = UNKNOWN_OFFSET if event.timestamp is None else event.timestamp
    return RecordMetadata(event.topic, partition, UNKNOWN_OFFSET, timestamp)


def _pass_on(result: T, done: Deferred[None]) -> T:
    done.callback(None)
    return result


def _left_out(events: Sequence[Event], kept: Sequence[Event]) -> list[Event]:
    kept_by_identity = {id(event.ticket) for event in kept if event.ticket is not None}
    return [event for event in events if id(event.ticket) not in kept_by_identity]


def _all(waiting: list[Deferred[None]]) -> Deferred[None]:
    done: Deferred[None] = Deferred()
    missing = len(waiting)

    def one_less(_: object) -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            done.callback(None)

    for pending in waiting:
        pending.addCallback(one_less)
    if not waiting:
        done.callback(None)
    return done


def _size(data: object) -> int:
    return len(data) if isinstance(data, bytes | str | bytearray | memoryview) else 0 if data is None else 64
