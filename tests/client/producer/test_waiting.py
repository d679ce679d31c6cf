"""Waits for space, for a topic, for an answer or for the end: in order, bounded, and completed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from pylogbroker.client.errors import Closed, ConnectionLost, PluginFailed, QueueFull, RequestTimedOut
from pylogbroker.client.producer import (
    DeliveryTimedOut,
    NotAllSent,
    Producer,
    ProducerRecord,
    RecordMetadata,
    SomeFailed,
)
from pylogbroker.errors import ErrorCode, InvalidRecords, KafkaError
from pylogbroker.interfaces import CallbackHandler, IPartitioner, IStickyPartitioner
from tests.client.producer.fake_cluster import FakeCluster, Make, failure, result_of, run_due, sent_values
from tests.support.examples import examples


def calls(clock: Clock, seconds: float) -> int:
    """Return the number of calls that the reactor makes meanwhile."""
    count, end = 0, clock.seconds() + seconds
    while clock.getDelayedCalls() and clock.getDelayedCalls()[0].getTime() <= end and count < 100:
        clock.advance(max(0.0, clock.getDelayedCalls()[0].getTime() - clock.seconds()))
        count += 1
    clock.advance(max(0.0, end - clock.seconds()))
    return count


def test_a_wait_for_space_outlives_a_send_that_times_out(make: Make, clock: Clock) -> None:
    producer, cluster = make(queue_size=1, queue_enqueue_timeout_ms=500)
    producer.send("t", b"1", partition=0)
    room, late = producer.room(), producer.send("t", b"2", partition=0)
    run_due(clock)
    assert calls(clock, 0.9) < 10
    assert isinstance(failure(late), QueueFull)
    assert not room.called
    cluster.acknowledge()
    assert room.called


def test_a_small_record_enters_when_a_large_one_times_out(make: Make, clock: Clock) -> None:
    producer, cluster = make(buffer_memory=1000, queue_enqueue_timeout_ms=500)
    first = producer.send("t", b"x" * 500, partition=0)
    run_due(clock, 0.3)
    large = producer.send("t", b"y" * 900, partition=0)
    run_due(clock, 0.3)
    small = producer.send("t", b"z", partition=0)
    run_due(clock, 0.3)
    assert isinstance(failure(large), QueueFull)
    assert producer.counts.waiting == 0
    while cluster.requests:
        cluster.acknowledge()
        run_due(clock)
    assert (first.called, small.called) == (True, True)


class LateCluster(FakeCluster):
    """Makes the topic unknown until the test lets it appear."""

    def __init__(self, *_: Any) -> None:
        super().__init__()
        self.searches: list[Deferred[Any]] = []
        self.partitions = 0

    async def find_topic(self, topic: str) -> Any:
        if not self.partitions:
            self.searches.append(Deferred())
            await self.searches[-1]

    def refresh(self) -> Deferred[None]:
        self.searches.append(Deferred())
        return self.searches[-1]

    def appear(self) -> None:
        self.partitions = 2
        self.searches.pop(0).callback(None)


@pytest.fixture
def late(make: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Producer, LateCluster]]:
    cluster = LateCluster()
    monkeypatch.setattr("pylogbroker.client.producer.producer.Cluster", lambda *_: cluster)
    return lambda **settings: (make(**settings)[0], cluster)


@implementer(IPartitioner)
class Picky:
    """Fails for the key `bad`."""

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        if key == b"bad":
            raise LookupError("so")
        return 0


def test_a_later_send_does_not_overtake_sends_that_await_the_topic(
    late: Callable[..., tuple[Producer, LateCluster]], clock: Clock
) -> None:
    producer, cluster = late(partitioner=Picky())
    first = producer.send("t", b"0", b"bad")
    others = [producer.send("t", b"%d" % number, b"good") for number in range(1, 4)]
    first.addErrback(lambda _: others.append(producer.send("t", b"later", b"good")))
    cluster.appear()
    cluster.searches.pop(0).callback(None)  # for the one who came while the others went on
    run_due(clock)
    assert sent_values(cluster.requests[0][0]) == [b"1", b"2", b"3", b"later"]
    cluster.acknowledge()
    assert all(each.called for each in others)
    assert producer.counts.queued == producer.counts.queued_bytes == 0


def test_an_abort_while_awaiting_sends_resume_drops_them(
    late: Callable[..., tuple[Producer, LateCluster]], clock: Clock
) -> None:
    producer, cluster = late(transactional_id="id", partitioner=Picky())
    result_of(producer.begin())
    first = producer.send("t", b"0", b"bad")
    others = [producer.send("t", b"%d" % number, b"good") for number in range(1, 4)]
    first.addErrback(lambda _: producer.abort())
    cluster.appear()
    run_due(clock)
    for each in others:
        failure(each)
    assert cluster.requests == []
    assert producer.counts.queued == producer.counts.queued_bytes == 0


def test_a_topic_that_never_appears_releases_its_space(
    late: Callable[..., tuple[Producer, LateCluster]], clock: Clock
) -> None:
    producer, cluster = late(max_block_ms=1000)
    sent = [producer.send("t", b"%d" % number) for number in range(3)]
    assert producer.counts.queued == 3
    clock.advance(2)
    cluster.searches.pop(0).errback(KafkaError("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert [type(failure(each)) for each in sent] == [KafkaError] * 3
    assert producer.counts.queued == producer.counts.queued_bytes == 0


def test_an_unknown_topic_is_not_waited_for_again(
    late: Callable[..., tuple[Producer, LateCluster]], clock: Clock
) -> None:
    producer, cluster = late(max_block_ms=60_000)
    sent = producer.send("t", b"value")
    clock.advance(2)
    cluster.searches.pop(0).errback(KafkaError("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert isinstance(failure(sent), KafkaError)
    assert cluster.searches == []


def test_a_sender_that_retries_for_ever_does_not_block_the_reactor(
    late: Callable[..., tuple[Producer, LateCluster]], clock: Clock
) -> None:
    producer, cluster = late()
    tries = 0

    def send(_: object = None) -> None:
        nonlocal tries
        tries += 1
        producer.send("t", b"value", partition=7).addErrback(send)

    send()
    cluster.appear()
    run_due(clock)
    for _ in range(3):
        cluster.searches.pop(0).callback(None)
    assert tries == 5


# -- many at once ------------------------------------------------------------------------------------------------------


@implementer(IStickyPartitioner)
class Wearing:
    """Keeps to partition 0, and fails once, when the third batch begins."""

    def __init__(self) -> None:
        self.batches = 1

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        if self.batches == 3:
            self.batches += 1
            raise LookupError("so")
        return 0

    def batch_full(self, topic: str) -> None:
        self.batches += 1


def test_send_many_survives_a_partitioner_that_fails(make: Make, clock: Clock) -> None:
    producer, cluster = make(partitioner=Wearing(), batch_num_messages=2, max_in_flight_requests_per_connection=1)
    warm = producer.send("t", b"warm", partition=0)
    sent = producer.send_many([("t", b"%d" % number) for number in range(6)])
    run_due(clock)
    found: list[bytes | None] = []
    while cluster.requests:
        values = sent_values(cluster.requests[0][0])
        cluster.acknowledge(len(found))
        found += values
        run_due(clock)
    assert found == [b"warm", *(b"%d" % number for number in range(6))]
    assert [each.offset for each in result_of(sent)] == list(range(1, 7))
    assert warm.called
    assert producer.counts.queued == producer.counts.queued_bytes == 0


@pytest.mark.parametrize(
    "bad", [(), ("t",), ("t", b"v", b"k", 0), "to", None, 7, (["t"], b"v"), (None, b"v"), ProducerRecord(None)]  # type: ignore[arg-type]
)  # fmt: skip
@pytest.mark.parametrize("place", [0, 1])
def test_an_invalid_record_of_many_fails_alone(make: Make, clock: Clock, bad: Any, place: int) -> None:
    producer, cluster = make()
    records: list[Any] = [("t", b"good")]
    records.insert(place, bad)
    sent = producer.send_many(records)
    run_due(clock)
    cluster.acknowledge()
    error = failure(sent)
    assert isinstance(error, SomeFailed)
    assert isinstance(error.results[1 - place], RecordMetadata)
    assert isinstance(error.results[place], InvalidRecords | KafkaError | TypeError)


# -- answers -----------------------------------------------------------------------------------------------------------


def test_requests_time_out_no_later_than_their_records(make: Make, clock: Clock) -> None:
    producer, cluster = make(delivery_timeout_ms=3000)
    producer.send("t", b"value", partition=0)
    run_due(clock)
    assert cluster.timeouts == [3.0]


def test_an_epoch_that_is_too_old_is_left(make: Make, clock: Clock) -> None:
    producer, cluster = make(retry_backoff_ms=10)
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    cluster.acknowledge(code=ErrorCode.INVALID_PRODUCER_EPOCH)
    run_due(clock, 0.1)
    cluster.acknowledge(5)
    assert result_of(sent).offset == 5


@pytest.mark.parametrize("code", [code for code in ErrorCode if code])
def test_any_error_of_a_leader_completes_records_and_frees_space(make: Make, clock: Clock, code: ErrorCode) -> None:
    producer, cluster = make(retries=3, retry_backoff_ms=10, retry_backoff_max_ms=10)
    sent = [producer.send("t", b"%d" % number, partition=0) for number in range(4)]
    for _ in range(20):
        run_due(clock, 0.1)
        if cluster.requests:
            cluster.acknowledge(code=code)
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        assert [result_of(each).offset for each in sent] == [-1] * 4
    else:
        errors = [failure(each) for each in sent]
        assert {getattr(error, "code", None) for error in errors} == {code}
    assert producer.counts.queued == producer.counts.queued_bytes == 0
    again = producer.send("t", b"again", partition=0)
    run_due(clock, 1)
    cluster.acknowledge(7)
    assert result_of(again).offset == 7


ACTIONS = ("send", "send", "many", "cancel", "acknowledge", "lose", "refuse", "large", "wait", "flush")


@settings(max_examples=examples(60), deadline=None)
@given(
    story=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 7)), max_size=40),
    acks=st.sampled_from(["all", "1", "0"]),
    room=st.integers(0, 4),
    seen=st.booleans(),
)
def test_all_records_complete_and_all_space_is_released(
    story: list[tuple[str, int]], acks: str, room: int, seen: bool
) -> None:
    clock, cluster = Clock(), FakeCluster()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pylogbroker.client.producer.producer.Cluster", lambda *_: cluster)
        producer = Producer(
            "nowhere:1",
            reactor=clock,
            acks=acks,
            queue_size=room,
            batch_num_messages=3,
            retry_backoff_ms=10,
            delivery_timeout_ms=2000,
            callback_handlers=[Watching()] if seen else [],
        )
    waiting: list[Deferred[Any]] = []
    for number, (action, by) in enumerate(story):
        _do(action, by, number, producer, cluster, clock, waiting)
    for _ in range(300):
        run_due(clock, 0.05)
        if cluster.requests:
            cluster.acknowledge()
    assert [each.called for each in waiting] == [True] * len(waiting)
    counts = producer.counts
    assert counts.queued == counts.queued_bytes == counts.waiting == 0
    assert producer._accumulator.flushers == 0
    for each in waiting:
        each.addErrback(lambda _: None)
    result_of(producer.close())
    assert all(queue.idle for queue in producer._accumulator.queues.values())


class Watching(CallbackHandler):
    """Looks on at each step."""

    def before_send(self, events: Any) -> Any:
        return list(events)


def _do(
    action: str, by: int, number: int, producer: Producer, cluster: FakeCluster, clock: Clock, waiting: list[Any]
) -> None:
    match action:
        case "send":
            waiting.append(producer.send("t", b"%d" % number, partition=by % 2))
        case "many":
            waiting.append(producer.send_many([("t", b"%d-%d" % (number, each)) for each in range(by + 1)]))
        case "flush":
            waiting.append(producer.flush())
        case "cancel" if waiting:
            waiting[by % len(waiting)].cancel()
        case "wait":
            run_due(clock, by / 4)
        case "acknowledge" if cluster.requests:
            cluster.acknowledge()
        case "lose" if cluster.requests:
            cluster.lose()
        case "refuse" if cluster.requests:
            cluster.acknowledge(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if by % 2 else ErrorCode.INVALID_RECORD)
        case "large" if cluster.requests:
            cluster.acknowledge(code=ErrorCode.MESSAGE_TOO_LARGE)
    run_due(clock)


# -- the end -----------------------------------------------------------------------------------------------------------


class Ending(CallbackHandler):
    """Counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_closing_twice_is_closing_once(make: Make, clock: Clock) -> None:
    handler = Ending()
    producer, cluster = make(callback_handlers=[handler])
    sent = producer.send("t", b"value", partition=0)
    ends = [producer.close(), producer.close(timeout=0)]
    assert isinstance(failure(producer.send("t", b"late", partition=0)), Closed)
    run_due(clock)
    assert not any(end.called for end in ends)
    cluster.acknowledge(2)
    run_due(clock)
    for end in (*ends, producer.close()):
        result_of(end)
    assert result_of(sent).offset == 2
    assert (handler.closed, cluster.closed) == (1, 1)


@pytest.mark.parametrize("error", [ConnectionLost("lost"), RequestTimedOut("late"), Closed("closed")])
def test_records_in_flight_at_the_close_fail(make: Make, clock: Clock, error: Exception) -> None:
    producer, cluster = make(batch_num_messages=1)

    async def close() -> None:
        for _, waiting in cluster.requests:
            waiting.errback(error)

    cluster.close = close  # type: ignore[method-assign]
    sent = [producer.send("t", b"%d" % number, partition=number % 2) for number in range(4)]
    run_due(clock)
    end = producer.close(timeout=1)
    run_due(clock, 1)
    assert isinstance(failure(end), NotAllSent)
    assert [type(failure(each)) for each in sent] == [Closed] * 4
    assert producer.counts.queued == producer.counts.queued_bytes == 0
    assert clock.getDelayedCalls() == []


def test_an_end_that_nobody_waits_for_comes_all_the_same(make: Make, clock: Clock) -> None:
    producer, cluster = make()
    sent = producer.send("t", b"value", partition=0)
    end = producer.close()
    end.cancel()
    assert isinstance(failure(end), CancelledError)
    run_due(clock)
    cluster.acknowledge(1)
    run_due(clock)
    assert result_of(sent).offset == 1
    assert cluster.closed == 1


def test_a_producer_that_never_sent_leaves_no_timers(make: Make, clock: Clock) -> None:
    producer, _ = make()
    result_of(producer.close())
    assert clock.getDelayedCalls() == []


def test_a_delivery_that_took_too_long_is_reported(make: Make, clock: Clock) -> None:
    producer, cluster = make(delivery_timeout_ms=1000, batch_num_messages=1, max_in_flight_requests_per_connection=1)
    first, second = (producer.send("t", b"%d" % number, partition=0) for number in range(2))
    run_due(clock)
    run_due(clock, 2.5)
    assert not first.called
    assert isinstance(failure(second), DeliveryTimedOut)
    cluster.acknowledge(3)
    assert result_of(first).offset == 3


def test_the_last_answer_is_reported_while_records_wait_and_when_they_fail(make: Make, clock: Clock) -> None:
    producer, cluster = make(delivery_timeout_ms=1000, retry_backoff_ms=10_000)
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    assert producer.trouble == ""
    cluster.acknowledge(code=ErrorCode.KAFKA_STORAGE_ERROR)
    reason = f"t-0: {ErrorCode.KAFKA_STORAGE_ERROR.meaning}"
    assert producer.trouble == reason
    run_due(clock, 2.5)
    error = failure(sent)
    assert isinstance(error, DeliveryTimedOut)
    assert str(error).endswith(f"the record may or may not be written; {reason}")
    assert producer.trouble == ""


def test_an_acknowledged_retry_is_no_trouble(make: Make, clock: Clock) -> None:
    producer, cluster = make(retry_backoff_ms=100)
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    cluster.acknowledge(code=ErrorCode.KAFKA_STORAGE_ERROR)
    run_due(clock, 1)
    cluster.acknowledge(5)
    assert (result_of(sent).offset, producer.trouble) == (5, "")


def test_a_partitioner_that_fails_fails_its_record(make: Make, clock: Clock) -> None:
    producer, _ = make(partitioner=Picky())
    assert isinstance(failure(producer.send("t", b"value", b"bad")), PluginFailed)
