"""Callback and event handlers that do what is not hoped for: order, capacity and everybody's answer are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from pylogbroker.client.errors import Closed, PluginFailed
from pylogbroker.client.producer import NotAllSent, Producer, RecordMetadata, TransactionAborted, TransactionError
from pylogbroker.interfaces import CallbackHandler, Event, IEventHandler, IForwardingEventHandler
from tests.client.producer.fake_cluster import FakeCluster, Make, failure, result_of, run_due, sent_values


class Seeing(CallbackHandler):
    """Has a look at what is sent."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def before_send(self, events: Sequence[Event]) -> Sequence[Event]:
        self.values += [event.value for event in events]
        return events


class Dropping(CallbackHandler):
    """Drops values that begin with a minus, before they are sent."""

    def before_send(self, events: Sequence[Event]) -> Sequence[Event]:
        return [event for event in events if not event.value.startswith(b"-")]


def all_sent(cluster: FakeCluster, clock: Clock) -> list[bytes | None]:
    """Return the sent values, with every request acknowledged."""
    found: list[bytes | None] = []
    for _ in range(100):
        run_due(clock)
        while cluster.requests:
            found += sent_values(cluster.requests[0][0])
            cluster.acknowledge()
    return found


@pytest.mark.parametrize("settings", [{}, {"batch_num_messages": 1}, {"batch_num_messages": 3}, {"linger_ms": 50}])
@pytest.mark.parametrize("room", [1, 2, 5])
def test_a_full_queue_keeps_the_order(make: Make, clock: Clock, settings: dict[str, Any], room: int) -> None:
    producer, cluster = make(callback_handlers=[Seeing()], queue_size=room, **settings)
    sent = [producer.send("t", b"%d" % number, partition=0) for number in range(10)]
    most = 0
    found: list[bytes | None] = []
    for _ in range(50):
        run_due(clock, 0.1)
        most = max(most, producer.counts.queued)
        if cluster.requests:
            found += sent_values(cluster.requests[0][0])
            cluster.acknowledge()
    assert found == [b"%d" % number for number in range(10)]
    assert all(each.called for each in sent)
    assert most <= room
    assert producer.counts.queued == producer.counts.queued_bytes == 0


@pytest.mark.parametrize("batch", [0, 1])
def test_a_record_sent_from_a_callback_is_not_lost(make: Make, clock: Clock, batch: int) -> None:
    """A callback of a dropped record sends another one, while the batch is prepared."""
    producer, cluster = make(callback_handlers=[Dropping()], batch_num_messages=batch)
    more: list[Deferred[RecordMetadata]] = []
    dropped = producer.send("t", b"-", partition=0)
    dropped.addCallback(lambda _: more.append(producer.send("t", b"more", partition=0)))
    kept = producer.send("t", b"kept", partition=0)
    flushed = producer.flush()
    assert all_sent(cluster, clock) == [b"kept", b"more"]
    assert [each.called for each in (dropped, kept, flushed, more[0])] == [True] * 4
    assert producer.counts.queued == producer.counts.queued_bytes == 0


class Sending(CallbackHandler):
    """Sends a record from within a step."""

    def __init__(self, step: str) -> None:
        self.send: Callable[[], Deferred[RecordMetadata]] | None = None
        self.sent: list[Deferred[RecordMetadata]] = []
        setattr(self, step, self.change)

    def change(self, given: Any, *_: Any) -> Any:
        send, self.send = self.send, None
        if send is not None:
            self.sent.append(send())
        return given


@pytest.mark.parametrize("step", ["before_enqueue", "after_enqueue", "after_dequeue", "before_send"])
@pytest.mark.parametrize("batch", [0, 1])
def test_a_handler_that_sends_itself(make: Make, clock: Clock, step: str, batch: int) -> None:
    handler = Sending(step)
    producer, cluster = make(callback_handlers=[handler], batch_num_messages=batch)
    handler.send = lambda: producer.send("t", b"of its own", partition=0)
    sent = [producer.send("t", b"%d" % number, partition=0) for number in range(3)]
    producer.flush()
    found = all_sent(cluster, clock)
    assert sorted(map(bytes, filter(None, found))) == [b"0", b"1", b"2", b"of its own"]
    assert [value for value in found if value != b"of its own"] == [b"0", b"1", b"2"]
    assert all(each.called for each in (*sent, *handler.sent))
    assert producer.counts.queued == producer.counts.queued_bytes == 0


@pytest.mark.parametrize("is_failing", [False, True])
def test_a_handler_that_has_the_queue_emptied(make: Make, clock: Clock, is_failing: bool) -> None:
    producer, cluster = make(transactional_id="id", callback_handlers=[handler := Sending("before_send")])
    result_of(producer.begin())

    def abort() -> Any:
        producer.abort()
        if is_failing:
            raise LookupError("so")

    handler.send = abort
    sent = [producer.send("t", b"%d" % number, partition=number % 2) for number in range(4)]
    run_due(clock)
    assert [type(failure(each)) for each in sent] == [TransactionAborted] * 4
    assert cluster.requests == []
    assert producer.counts.queued == producer.counts.queued_bytes == 0
    result_of(producer.begin())


def test_an_abort_because_a_record_was_dropped(make: Make, clock: Clock) -> None:
    producer, cluster = make(transactional_id="id", callback_handlers=[Dropping()])
    result_of(producer.begin())
    dropped = producer.send("t", b"-", partition=0)
    dropped.addCallback(lambda _: producer.abort())
    kept = producer.send("t", b"kept", partition=0)
    all_sent(cluster, clock)
    assert kept.called
    assert producer.counts.queued == producer.counts.queued_bytes == 0
    result_of(producer.begin())


class Another(CallbackHandler):
    """Puts the same event of its own in the place of each."""

    def __init__(self) -> None:
        self.event = Event("t", b"always the same", partition=0)

    def before_enqueue(self, event: Event) -> Event | None:
        return self.event if event.value == b"first" else attrs.evolve(self.event, ticket=self.event.ticket)


def test_a_handler_that_replaces_records_still_notifies_the_sender(make: Make, clock: Clock) -> None:
    producer, cluster = make(callback_handlers=[Another()])
    sent = [producer.send("t", value) for value in (b"first", b"second")]
    assert all_sent(cluster, clock) == [b"always the same"] * 2
    assert [result_of(each).offset for each in sent] == [0, 1]


@implementer(IForwardingEventHandler)
class Forwarding:
    """Passes events on, and then returns what the test has set."""

    def __init__(self, answer: Callable[[], Any], times: int = 1) -> None:
        self.answer, self.times = answer, times
        self.built_in: Any = None

    def forward_to(self, handler: IEventHandler) -> None:
        self.built_in = handler

    def handle(self, events: Sequence[Event]) -> Any:
        for _ in range(self.times):
            self.built_in.handle(events)
        return self.answer()


def test_events_that_were_passed_on_are_reported_by_their_batches(make: Make, clock: Clock) -> None:
    producer, cluster = make(event_handler=Forwarding(lambda: None))
    sent = [producer.send("t", b"%d" % number, partition=0) for number in range(2)]
    assert all_sent(cluster, clock) == [b"0", b"1"]
    assert [result_of(each).offset for each in sent] == [0, 1]


def test_events_forwarded_before_a_failure_are_reported_once(make: Make, clock: Clock) -> None:
    def fail() -> Any:
        raise LookupError("so")

    producer, cluster = make(event_handler=Forwarding(fail))
    sent = [producer.send("t", b"%d" % number, partition=0) for number in range(2)]
    assert all_sent(cluster, clock) == [b"0", b"1"]
    assert [type(failure(each)) for each in sent] == [PluginFailed] * 2
    assert producer.counts.queued == producer.counts.queued_bytes == 0


def test_events_that_were_passed_on_twice_are_reported_once(make: Make, clock: Clock) -> None:
    producer, cluster = make(event_handler=Forwarding(lambda: None, times=2))
    sent, other = producer.send("t", b"1", partition=0), producer.send("t", b"2", partition=0)
    assert all_sent(cluster, clock) == [b"1", b"2", b"1", b"2"]
    assert [result_of(each).offset for each in (sent, other)] == [0, 1]
    assert producer.counts.queued == producer.counts.queued_bytes == 0


@implementer(IForwardingEventHandler)
class Keeping(Forwarding):
    """Keeps events to itself."""

    def __init__(self) -> None:
        super().__init__(Deferred, times=0)
        self.events: list[Event] = []

    def handle(self, events: Sequence[Event]) -> Any:
        self.events += events
        return self.answer()


def keeping(make: Make, **settings: Any) -> tuple[Producer, FakeCluster, Keeping]:
    handler = Keeping()
    producer, cluster = make(event_handler=handler, **settings)
    return producer, cluster, handler


def test_events_that_are_never_dealt_with_fail_in_the_end(make: Make, clock: Clock) -> None:
    producer, cluster, handler = keeping(make)
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    end = producer.close(timeout=3)
    run_due(clock, 3)
    assert isinstance(failure(end), NotAllSent)
    assert isinstance(failure(sent), Closed)
    assert producer.counts.queued == producer.counts.queued_bytes == 0
    handler.built_in.handle(handler.events)
    handler.built_in.handle([Event("t", b"its own", partition=0)])
    run_due(clock)
    assert cluster.requests == []


def test_events_of_an_aborted_transaction_are_not_sent_in_the_next(make: Make, clock: Clock) -> None:
    producer, cluster, handler = keeping(make, transactional_id="id")
    result_of(producer.begin())
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    aborted = producer.abort()
    run_due(clock)
    result_of(aborted)
    assert isinstance(failure(sent), TransactionAborted)
    handler.built_in.handle([*handler.events, Event("t", b"its own", partition=0)])
    result_of(producer.begin())
    handler.built_in.handle(handler.events)
    run_due(clock)
    assert cluster.requests == []


def test_events_that_cannot_be_sent_break_the_transaction(make: Make, clock: Clock) -> None:
    producer, _ = make(transactional_id="id", callback_handlers=[Seeing()])
    result_of(producer.begin())
    bad = producer.send("t", object(), partition=0)
    run_due(clock)
    assert isinstance(failure(bad), PluginFailed)
    assert isinstance(failure(producer.commit()), TransactionError)
