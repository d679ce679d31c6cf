"""The queue of a producer, on a clock and with a cluster that does what the test says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from pylogbroker.client.errors import ConnectionLost, PluginFailed, QueueFull
from pylogbroker.client.producer import DeliveryTimedOut, Producer, RecordMetadata
from pylogbroker.errors import ConfigError, ErrorCode, InvalidRecords, KafkaError
from pylogbroker.interfaces import CallbackHandler, Event, IEventHandler
from tests.client.producer.fake_cluster import Make, failure, run_due


def test_a_full_queue_drops(make: Make, clock: Clock) -> None:
    producer, cluster = make(queue_size=2, queue_enqueue_timeout_ms=0)
    sent = [producer.send("t", b"value", partition=0) for _ in range(3)]
    assert isinstance(failure(sent[2]), QueueFull)
    assert producer.counts.dropped == 1
    run_due(clock)
    cluster.acknowledge()
    assert [each.result.offset for each in sent[:2]] == [0, 1]
    assert not producer.send("t", b"value", partition=0).called


def test_a_full_queue_blocks_for_a_while(make: Make, clock: Clock) -> None:
    producer, cluster = make(queue_size=1, queue_enqueue_timeout_ms=500)
    first, second = producer.send("t", b"1", partition=0), producer.send("t", b"2", partition=0)
    run_due(clock, 0.4)
    third = producer.send("t", b"3", partition=0)
    assert producer.counts.waiting == 2
    run_due(clock, 0.2)
    assert isinstance(failure(second), QueueFull)
    assert not third.called
    cluster.acknowledge()
    run_due(clock)
    cluster.acknowledge(1)
    assert (first.result.offset, third.result.offset) == (0, 1)


def test_a_full_queue_blocks_for_ever(make: Make, clock: Clock) -> None:
    producer, cluster = make(buffer_memory=20, queue_enqueue_timeout_ms=-1, delivery_timeout_ms=10_000_000)
    first, second = producer.send("t", b"1", partition=0), producer.send("t", b"2", partition=0)
    run_due(clock, 5000)
    assert not second.called
    cluster.acknowledge()
    run_due(clock)
    cluster.acknowledge(1)
    assert (first.result.offset, second.result.offset) == (0, 1)


def test_space_is_reported_in_its_order(make: Make, clock: Clock) -> None:
    producer, cluster = make(queue_size=1)
    assert producer.room().called
    producer.send("t", b"1", partition=0)
    waiting, room = producer.send("t", b"2", partition=0), producer.room()
    run_due(clock)
    cluster.acknowledge()
    run_due(clock)
    assert not room.called
    cluster.acknowledge(1)
    assert waiting.called
    assert room.called


@pytest.mark.parametrize("topic", ["", "no/such", "..", "x" * 250, "\udc80", None])
def test_an_invalid_topic_name_fails_alone(make: Make, clock: Clock, topic: Any) -> None:
    producer, _ = make()
    error = failure(producer.send(topic, b"value"))
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert producer.counts.failed == 1


@pytest.mark.parametrize("headers", [{"name": b"data"}, ["name"], [("name",)], [(b"name", b"")], [("name", "data")]])
def test_invalid_headers_fail_alone(make: Make, headers: Any) -> None:
    producer, _ = make()
    error = failure(producer.send("t", b"value", partition=0, headers=headers))
    assert isinstance(error, InvalidRecords)
    assert "header" in str(error)


@pytest.mark.parametrize("timestamp", [-1, 2**63, 1.5, "now", True])
def test_an_invalid_timestamp_fails_alone(make: Make, clock: Clock, timestamp: Any) -> None:
    producer, cluster = make()
    good = producer.send("t", b"value", partition=0)
    assert isinstance(failure(producer.send("t", b"value", timestamp=timestamp)), InvalidRecords)
    run_due(clock)
    cluster.acknowledge(3)
    assert good.result.offset == 3


def test_sync_leaves_within_the_call(make: Make, clock: Clock) -> None:
    producer, cluster = make(producer_type="sync")
    producer.send("t", b"1", partition=0)
    run_due(clock)
    assert len(cluster.requests) == 1
    cluster.acknowledge()
    run_due(clock)
    producer.send("t", b"2", partition=0)
    assert len(cluster.requests) == 1
    producer.send("t", b"3", partition=0)
    assert len(cluster.requests) == 2


def test_no_more_requests_than_allowed(make: Make, clock: Clock) -> None:
    producer, cluster = make(batch_num_messages=1, max_in_flight_requests_per_connection=2)
    for partition in range(2):
        producer.send("t", b"first", partition=partition)
    run_due(clock)
    while cluster.requests:
        cluster.acknowledge()
    for number in range(5):
        producer.send("t", b"%d" % number, partition=number % 2)
    run_due(clock)
    assert [len(request.topic_data[0].partition_data) for request, _ in cluster.requests] == [2, 2]
    cluster.acknowledge()
    run_due(clock)
    assert [len(request.topic_data[0].partition_data) for request, _ in cluster.requests] == [2, 1]


def test_delivery_times_out(make: Make, clock: Clock) -> None:
    producer, cluster = make(delivery_timeout_ms=3000, retry_backoff_ms=10)
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    while not sent.called:
        assert clock.seconds() < 10
        if cluster.requests:
            cluster.lose()
        run_due(clock, 0.05)
    assert 3.0 <= clock.seconds() < 4.2
    assert isinstance(failure(sent), DeliveryTimedOut | ConnectionLost)
    assert producer.counts.retries > 2


def test_retries_are_counted(make: Make, clock: Clock) -> None:
    producer, cluster = make(message_send_max_retries=2, retry_backoff_ms=10, retry_backoff_max_ms=10)
    sent = producer.send("t", b"value", partition=0)
    for _ in range(3):
        run_due(clock, 0.1)
        cluster.lose()
    assert isinstance(failure(sent), ConnectionLost)


class Steps(CallbackHandler):
    """Notes each step; changes and drops by the value."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[Any]]] = []

    def before_enqueue(self, event: Event) -> Event | None:
        self.seen.append(("before_enqueue", [event.value]))
        if event.value == b"changed":
            event.value = b"to this"
        return None if event.value == b"dropped first" else event

    def after_enqueue(self, event: Event, is_queued: bool) -> None:
        self.seen.append(("after_enqueue", [event.value, is_queued]))

    def after_dequeue(self, events: Sequence[Event]) -> Sequence[Event]:
        self.seen.append(("after_dequeue", [event.value for event in events]))
        return [event for event in events if event.value != b"dropped second"]

    def before_send(self, events: Sequence[Event]) -> Sequence[Event]:
        self.seen.append(("before_send", [event.value for event in events]))
        return [event for event in events if event.value != b"dropped third"]

    def close(self) -> None:
        self.seen.append(("close", []))


def test_the_steps_of_a_record(make: Make, clock: Clock) -> None:
    steps = Steps()
    producer, cluster = make(callback_handlers=[steps], queue_time=100)
    given = [b"kept", b"changed", b"dropped first", b"dropped second", b"dropped third"]
    sent = [producer.send("t", value, partition=0) for value in given]
    assert [step for step, _ in steps.seen] == [
        *["before_enqueue", "after_enqueue"] * 2, "before_enqueue", *["before_enqueue", "after_enqueue"] * 2,
    ]  # fmt: skip
    assert cluster.requests == []
    run_due(clock, 0.1)
    assert steps.seen[-2:] == [
        ("after_dequeue", [b"kept", b"to this", b"dropped second", b"dropped third"]),
        ("before_send", [b"kept", b"to this", b"dropped third"]),
    ]
    cluster.acknowledge(7)
    assert [each.result.offset for each in sent] == [7, 8, -1, -1, -1]
    assert producer.counts.dropped == 3
    assert producer.counts.queued == producer.counts.queued_bytes == 0
    producer.close()
    assert steps.seen[-1] == ("close", [])


def test_a_full_queue_is_reported_to_handlers(make: Make, clock: Clock) -> None:
    steps = Steps()
    producer, _ = make(callback_handlers=[steps], queue_size=1, queue_enqueue_timeout_ms=0, queue_time=100)
    producer.send("t", b"1", partition=0)
    assert isinstance(failure(producer.send("t", b"2", partition=0)), QueueFull)
    assert steps.seen[-1] == ("after_enqueue", [b"2", False])


class Failing(CallbackHandler):
    """Fails at one step."""

    name = "failing"

    def __init__(self, step: str) -> None:
        setattr(self, step, self.fail)

    def fail(self, *_: Any) -> Any:
        raise LookupError("so")


@pytest.mark.parametrize("step", ["before_enqueue", "after_enqueue", "after_dequeue", "before_send"])
def test_a_failing_step_fails_its_records_alone(make: Make, clock: Clock, step: str) -> None:
    handler = Failing(step)
    producer, cluster = make(callback_handlers=[handler])
    sent = producer.send("t", b"1", partition=0)
    run_due(clock)
    error = failure(sent)
    assert isinstance(error, PluginFailed)
    assert error.plugin == "failing"
    assert producer.counts.queued == producer.counts.queued_bytes == 0
    setattr(handler, step, lambda *given: given[0])
    assert cluster.requests == []


@implementer(IEventHandler)
class Shelf:
    """Keeps events back, and reports that when the test asks for it."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.done: Deferred[None] = Deferred()

    def handle(self, events: Sequence[Event]) -> Deferred[None]:
        self.batches.append([event.value for event in events])
        return self.done


def test_an_event_handler_takes_batches(make: Make, clock: Clock) -> None:
    shelf = Shelf()
    producer, cluster = make(event_handler=shelf, batch_num_messages=2)
    sent = [producer.send("t", {"any": number}) for number in range(3)]
    run_due(clock)
    assert shelf.batches == [[{"any": 0}, {"any": 1}], [{"any": 2}]]
    assert not sent[0].called
    assert producer.counts.queued == 3
    shelf.done.callback(None)
    assert [each.result for each in sent] == [RecordMetadata("t", -1, -1, -1)] * 3
    assert cluster.requests == []
    assert producer.counts.queued == 0


def test_flush_waits_for_the_event_handler(make: Make, clock: Clock) -> None:
    shelf = Shelf()
    producer, _ = make(event_handler=shelf, queue_time=60_000)
    producer.send("t", b"1")
    flushed = producer.flush()
    run_due(clock)
    assert shelf.batches == [[b"1"]]
    assert not flushed.called
    shelf.done.callback(None)
    run_due(clock)
    assert flushed.called


@pytest.mark.parametrize(
    ("settings", "error_line"),
    [
        ({"queue.time": 1, "linger.ms": 2}, "given twice"),
        ({"acks": "1", "enable.idempotence": True}, "needs all"),
        ({"acks": "0", "transactional.id": "t"}, "needs all"),
        ({"transactional.id": "t", "enable.idempotence": False}, "transactions"),
        ({"max.in.flight.requests.per.connection": 6}, "at most 5"),
        ({"producer.type": "other"}, "async, sync"),
        ({"batch.sise": 1}, r"batch\.size"),
        ({"compression.codec": 7}, "gzip"),
        ({"serializer.class": "no-such"}, "utf-8"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, Any], error_line: str) -> None:
    with pytest.raises(ConfigError, match=error_line):
        Producer("nowhere:1", reactor=Clock(), settings=settings)
