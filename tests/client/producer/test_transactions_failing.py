"""Transactions whose coordinator, leaders or callers do what is not hoped for."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import Clock

from pylogbroker.client.errors import Closed, PluginFailed, QueueFull, RecordTooLarge
from pylogbroker.client.producer import Fenced, NeedsAbort, Producer, TransactionAborted, TransactionError
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire import Request
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.client.producer.fake_cluster import FakeCluster, Make, failure, result_of, run_due


def begun(make: Make, clock: Clock, **settings: Any) -> tuple[Producer, FakeCluster]:
    producer, cluster = make(transactional_id="id", retry_backoff_ms=10, retry_backoff_max_ms=10, **settings)
    result_of(producer.begin())
    return producer, cluster


def settled(clock: Clock, call: Deferred[Any]) -> Any:
    run_due(clock)
    return result_of(call)


def in_order(cluster: FakeCluster) -> list[type[Request]]:
    return [type(request) for request in cluster.asked]


@pytest.mark.parametrize(
    ("code", "kafka_error"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, NeedsAbort),
        (ErrorCode.INVALID_PRODUCER_EPOCH, NeedsAbort),
        (ErrorCode.PRODUCER_FENCED, Fenced),
    ],
)
def test_a_partition_that_is_not_added_fails_its_records_at_once(
    make: Make, clock: Clock, code: ErrorCode, kafka_error: type[TransactionError]
) -> None:
    producer, cluster = begun(make, clock)
    cluster.fail(AddPartitionsToTxnRequest, code)
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    error = failure(sent)
    assert isinstance(error, KafkaError)
    assert error.code is code
    assert isinstance(failure(producer.send("t", b"more")), kafka_error)
    assert isinstance(failure(producer.commit()), kafka_error)
    assert producer.counts.queued == producer.counts.queued_bytes == 0


def test_a_failure_fails_queued_records(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock, batch_num_messages=1, max_in_flight_requests_per_connection=1)
    sent = [producer.send("t", b"%d" % number, partition=0) for number in range(3)]
    run_due(clock)
    cluster.acknowledge(code=ErrorCode.INVALID_RECORD)
    assert [type(failure(each)) for each in sent] == [KafkaError] * 3
    settled(clock, producer.abort())
    result_of(producer.begin())


@pytest.mark.parametrize("way", ["too large", "encoder", "no room", "partition"])
def test_a_record_that_fails_before_it_is_sent_fails_the_transaction(make: Make, clock: Clock, way: str) -> None:
    """Or it would be committed without that record."""
    producer, _ = begun(make, clock, max_request_size=1000, queue_size=1, queue_enqueue_timeout_ms=0)
    if way == "no room":
        producer.send("t", b"good", partition=0).addErrback(lambda _: None)  # fails with the transaction
    value: Any = {"too large": b"x" * 2000, "encoder": object()}.get(way, b"value")
    bad = producer.send("t", value, partition=7 if way == "partition" else 0)
    kinds = {"too large": RecordTooLarge, "encoder": PluginFailed, "no room": QueueFull, "partition": KafkaError}
    assert isinstance(failure(bad), kinds[way])
    assert isinstance(failure(producer.commit()), NeedsAbort)


def test_an_abort_unknown_to_the_coordinator_succeeds(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock)
    cluster.fail(AddPartitionsToTxnRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    failure(sent)
    cluster.fail(EndTxnRequest, ErrorCode.INVALID_TXN_STATE)
    settled(clock, producer.abort())
    assert cluster.epoch == 1
    result_of(producer.begin())


def test_an_id_that_was_forgotten_is_asked_for_again(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock)
    cluster.fail(AddPartitionsToTxnRequest, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    failure(sent)
    cluster.fail(EndTxnRequest, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    settled(clock, producer.abort())
    last = cluster.asked[-1]
    assert isinstance(last, InitProducerIdRequest)
    assert (last.producer_id, last.producer_epoch) == (-1, -1)
    result_of(producer.begin())


def lost_commit(make: Make, clock: Clock) -> tuple[Producer, FakeCluster]:
    """A commit of which nobody knows whether it took place."""
    producer, cluster = begun(make, clock, max_block_ms=100)
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    cluster.acknowledge()
    assert sent.called
    cluster.held.add(EndTxnRequest)
    committed = producer.commit()
    for _ in range(30):
        run_due(clock, 0.01)
    assert committed.called
    failure(committed)
    cluster.calls.clear()
    cluster.held.clear()
    return producer, cluster


def test_an_abort_does_not_pass_over_a_commit_that_took_place(make: Make, clock: Clock) -> None:
    producer, cluster = lost_commit(make, clock)
    cluster.fail(EndTxnRequest, ErrorCode.INVALID_TXN_STATE)
    cancelled = producer.abort()
    run_due(clock)
    error = failure(cancelled)
    assert isinstance(error, TransactionError)
    assert "committed" in str(error)
    result_of(producer.begin())


def test_an_abort_reports_that_a_commit_did_not_take_place(make: Make, clock: Clock) -> None:
    producer, cluster = lost_commit(make, clock)
    settled(clock, producer.abort())
    assert cluster.epoch == 1
    result_of(producer.begin())


def test_two_aborts_are_one(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock)
    producer.send("t", b"value", partition=0)
    run_due(clock)
    first, second, end = producer.abort(), producer.abort(), producer.close()
    cluster.acknowledge()
    for call in (first, second, end):
        settled(clock, call)
    assert cluster.count(EndTxnRequest) == 1
    assert cluster.closed == 1


def test_the_end_waits_for_a_commit(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock)
    sent = producer.send("t", b"value", partition=0)
    committed, end = producer.commit(), producer.close()
    run_due(clock)
    assert not end.called
    cluster.acknowledge(3)
    settled(clock, committed)
    settled(clock, end)
    assert result_of(sent).offset == 3
    assert isinstance(failure(producer.begin()), Closed)


@pytest.mark.parametrize("kind", [AddOffsetsToTxnRequest, TxnOffsetCommitRequest])
@pytest.mark.parametrize("way", ["commit", "abort"])
def test_the_end_waits_for_offsets(make: Make, clock: Clock, kind: type[Request], way: str) -> None:
    producer, cluster = begun(make, clock)
    cluster.held.add(kind)
    offered = producer.send_offsets({("t", 0): 5}, "group")
    ended = getattr(producer, way)()
    run_due(clock)
    assert not ended.called
    assert cluster.count(EndTxnRequest) == 0
    cluster.answer(kind)
    settled(clock, ended)
    assert result_of(offered) is None
    assert in_order(cluster)[-1] is EndTxnRequest


def test_offsets_that_fail_meanwhile_fail_the_commit(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock)
    cluster.held.add(TxnOffsetCommitRequest)
    offered, committed = producer.send_offsets({("t", 0): 5}, "group"), producer.commit()
    cluster.fail(TxnOffsetCommitRequest, ErrorCode.ILLEGAL_GENERATION)
    cluster.answer(TxnOffsetCommitRequest)
    run_due(clock)
    assert isinstance(failure(offered), KafkaError)
    assert isinstance(failure(committed), NeedsAbort)
    assert cluster.count(EndTxnRequest) == 0


def test_a_commit_that_nobody_waits_for_goes_on(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock)
    producer.send("t", b"value", partition=0)
    cancelled, again = producer.commit(), producer.commit()
    run_due(clock)
    cancelled.cancel()
    assert isinstance(failure(cancelled), CancelledError)
    assert isinstance(failure(producer.abort()), TransactionError)
    cluster.acknowledge()
    settled(clock, again)
    assert cluster.count(EndTxnRequest) == 1
    result_of(producer.begin())


def test_offsets_that_nobody_waits_for_are_committed_all_the_same(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock)
    cluster.held.add(TxnOffsetCommitRequest)
    offered = producer.send_offsets({("t", 0): 5}, "group")
    offered.cancel()
    assert isinstance(failure(offered), CancelledError)
    committed = producer.commit()
    run_due(clock)
    assert not committed.called
    cluster.answer(TxnOffsetCommitRequest)
    settled(clock, committed)


def test_a_beginning_that_is_revoked_can_be_tried_again(make: Make, clock: Clock) -> None:
    producer, cluster = make(transactional_id="id")
    cluster.held.add(InitProducerIdRequest)
    cancelled = producer.begin()
    assert isinstance(failure(producer.begin()), TransactionError)
    cancelled.cancel()
    assert isinstance(failure(cancelled), CancelledError)
    cluster.held.clear()
    cluster.calls.clear()
    result_of(producer.begin())


def test_a_record_that_comes_too_late_does_no_harm(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock)
    sent = producer.send("t", b"value", partition=0)
    committed = producer.commit()
    assert isinstance(failure(producer.send("t", b"late", partition=0)), TransactionError)
    run_due(clock)
    cluster.acknowledge()
    settled(clock, committed)
    assert result_of(sent).offset == 0


def test_an_abort_while_records_wait_to_be_sent_again(make: Make, clock: Clock) -> None:
    """Nobody knows whether they were written: the next transaction needs a new epoch."""
    producer, cluster = begun(make, clock)
    lost = producer.send("t", b"value", partition=0)
    run_due(clock)
    cluster.lose()
    cancelled = producer.abort()
    assert isinstance(failure(lost), TransactionAborted)
    settled(clock, cancelled)
    assert cluster.epoch == 1
    result_of(producer.begin())
    sent = producer.send("t", b"value", partition=0)
    run_due(clock, 1)
    cluster.acknowledge(4)
    assert result_of(sent).offset == 4


def test_an_abort_while_a_commit_fails(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock, batch_num_messages=1)
    producer.send("t", b"good", partition=0)  # so that two may be under way
    run_due(clock)
    cluster.acknowledge()
    bad, other = producer.send("t", b"bad", partition=0), producer.send("t", b"other", partition=0)
    committed = producer.commit()
    run_due(clock)
    cluster.acknowledge(code=ErrorCode.INVALID_RECORD)
    cancelled = producer.abort()
    cluster.acknowledge(code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    settled(clock, cancelled)
    assert isinstance(failure(committed), TransactionError)
    for each in (bad, other):
        assert isinstance(failure(each), KafkaError)
    [end] = [request for request in cluster.asked if isinstance(request, EndTxnRequest)]
    assert not end.committed
    result_of(producer.begin())


def test_an_abort_from_a_record_s_callback(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock, batch_num_messages=1)
    cancelled: list[Deferred[None]] = []

    async def work() -> None:
        try:
            await producer.send("t", b"1", partition=0)
        except KafkaError:
            cancelled.append(producer.abort())

    working = ensureDeferred(work())
    others = [producer.send("t", b"%d" % number, partition=number % 2) for number in range(4)]
    run_due(clock)
    cluster.acknowledge(code=ErrorCode.INVALID_RECORD)
    while cluster.requests:
        cluster.acknowledge()
    run_due(clock)
    result_of(working)
    result_of(cancelled[0])
    for each in others:
        assert each.called
        each.addErrback(lambda _: None)
    assert producer.counts.queued == producer.counts.queued_bytes == 0
    result_of(producer.begin())


def test_a_coordinator_that_is_busy_is_asked_again(make: Make, clock: Clock) -> None:
    producer, cluster = begun(make, clock)
    passing = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    for kind in (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest):
        cluster.fail(kind, *passing)
    sent = producer.send("t", b"value", partition=0)
    offered = producer.send_offsets({("t", 0): 5}, "group")
    for _ in range(20):
        run_due(clock, 0.02)
    cluster.acknowledge()
    committed = producer.commit()
    for _ in range(20):
        run_due(clock, 0.02)
    for call in (sent, offered, committed):
        result_of(call)
    assert cluster.count(EndTxnRequest) == 4
