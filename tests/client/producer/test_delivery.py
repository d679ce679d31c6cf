"""Deferreds of records that follow others into a batch: used before its result, after it, or never."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from pylogbroker.client.producer import Producer, RecordMetadata
from pylogbroker.client.producer.delivery import RecordDeferred
from pylogbroker.errors import ErrorCode, KafkaError
from tests.client.producer.fake_cluster import Make, failure, run_due


def send(producer: Producer, count: int = 4) -> list[Deferred[RecordMetadata]]:
    """Send more records after two others: the topic is known at the second, which begins the direct way."""
    _begin(producer)
    sent = [producer.send("t", b"%d" % number) for number in range(count)]
    assert {type(deferred) for deferred in sent} == {RecordDeferred}
    return sent


def _begin(producer: Producer) -> None:
    for value in (b"first", b"second"):
        producer.send("t", value).addErrback(lambda why: None)


def test_results_are_the_same_before_and_after_the_acknowledgement(make: Make, clock: Clock) -> None:
    producer, cluster = make()
    sent = send(producer)
    offsets: list[int] = []
    for deferred in reversed(sent[:2]):
        deferred.addCallback(lambda metadata: offsets.append(metadata.offset))
    assert not sent[0].called
    run_due(clock)
    cluster.acknowledge(10)
    assert offsets == [12, 13]
    assert sent[2].called
    assert sent[3].result == RecordMetadata("t", sent[3].result.partition, 15, 0)


async def test_awaiting_a_settled_record(make: Make, clock: Clock) -> None:
    producer, cluster = make()
    sent = send(producer)
    run_due(clock)
    cluster.acknowledge()
    assert [(await deferred).offset for deferred in sent] == [2, 3, 4, 5]


def test_a_callback_may_return_an_unused_deferred(make: Make, clock: Clock) -> None:
    producer, cluster = make()
    sent = send(producer)
    outer: Deferred[Any] = Deferred()
    outer.addCallback(lambda _: sent[1])
    outer.callback(None)
    assert not hasattr(outer, "no_such_attribute")
    run_due(clock)
    cluster.acknowledge()
    assert outer.result.offset == 3


def test_cancelling_does_not_withdraw_the_record(make: Make, clock: Clock) -> None:
    producer, cluster = make()
    sent = send(producer)
    sent[0].cancel()
    assert isinstance(failure(sent[0]), CancelledError)
    run_due(clock)
    cluster.acknowledge()
    assert producer.counts.acknowledged == 6
    assert sent[1].result.offset == 3


def test_an_unused_deferred_needs_no_attribute_of_twisted(
    make: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some attributes of a `Deferred` are the class's until they change; which ones depends on the version."""
    init = Deferred.__init__

    def init_by_class(deferred: Deferred[Any], *how: Any) -> None:
        init(deferred, *how)
        for name in defaults:
            deferred.__dict__.pop(name, None)

    defaults = [name for name, value in vars(Deferred()).items() if value is None]
    for name in defaults:
        monkeypatch.setattr(Deferred, name, None, raising=False)
    monkeypatch.setattr(Deferred, "__init__", init_by_class)
    producer, cluster = make()
    sent = send(producer)
    offsets: list[int] = []
    sent[0].addCallback(lambda metadata: offsets.append(metadata.offset))
    sent[1].pause()
    sent[1].addCallback(lambda metadata: offsets.append(metadata.offset))
    assert not sent[2].called
    assert not hasattr(sent[3], "result")
    run_due(clock)
    cluster.acknowledge()
    assert offsets == [2]
    sent[1].unpause()
    assert offsets == [2, 3]
    assert (sent[2].called, sent[2].result.offset, sent[3].result.offset) == (True, 4, 5)


def test_split_batches_report_to_their_own_records(make: Make, clock: Clock) -> None:
    producer, cluster = make()
    sent = send(producer, 4)
    sent[3].addErrback(lambda why: why.value)
    run_due(clock)
    cluster.acknowledge(code=ErrorCode.MESSAGE_TOO_LARGE)
    run_due(clock)
    cluster.acknowledge(20)
    run_due(clock)
    cluster.acknowledge(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert [deferred.result.offset for deferred in sent[:1]] == [22]
    assert isinstance(failure(sent[1]), KafkaError)
    assert isinstance(failure(sent[2]), KafkaError)
    assert isinstance(sent[3].result, KafkaError)


@pytest.mark.parametrize(("used", "logged"), [((), [4]), ((0, 2), [2]), (range(4), [])])
def test_errors_that_nobody_handles_are_logged_once(
    make: Make, clock: Clock, used: Sequence[int], logged: list[int]
) -> None:
    producer, cluster = make()
    sent = send(producer)
    run_due(clock)
    with capturedLogs() as events:
        cluster.acknowledge(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for place in used:
            assert isinstance(failure(sent[place]), KafkaError)
        sent.clear()
        gc.collect()
    assert [event["count"] for event in events if "nobody handled" in event["log_format"]] == logged


def test_other_records_end_the_direct_way(make: Make, clock: Clock) -> None:
    """Keys, headers, partitions and times of single records keep their order among the others."""
    producer, _ = make()
    kinds: list[dict[str, Any]] = [{}, {}, {"key": b"k"}, {}, {"headers": [("h", b"")]}, {"timestamp": 5}, {}]
    partition = None
    for number, options in enumerate(kinds):
        producer.send("t", b"%d" % number, partition=partition, **options)
    batches = producer._accumulator.batches()
    assert sorted(value for batch in batches for value in batch.values) == [b"%d" % n for n in range(7)]
    for batch in batches:
        assert batch.values == sorted(batch.values, key=lambda value: value or b"")
        assert len(batch.values) == len(batch.timestamps) == len(batch.keys or batch.values)
    counts = producer.counts
    assert (counts.queued, counts.queued_bytes) == (7, sum(batch.size for batch in batches))


def test_direct_records_wait_when_the_memory_is_full(make: Make, clock: Clock) -> None:
    producer, cluster = make(buffer_memory=100, linger_ms=1000)
    for number in range(8):
        producer.send("t", b"%d" % number)
    assert producer.counts.queued_bytes == 85
    assert producer.counts.waiting == 3
    run_due(clock)
    assert len(cluster.requests) == 1
