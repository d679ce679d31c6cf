"""Transactions v2 (KIP-890) of the producer: what it sends, and the epochs that it takes."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.record.memory_records import MemoryRecords
from twisted.internet.task import Clock

from pylogbroker.client.producer import Fenced, NeedsAbort, Producer
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.produce import ProduceRequest
from pylogbroker.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.client.producer.fake_cluster import FakeCluster, Make, failure, result_of, run_due
from tests.client.producer.test_transactions_failing import settled

INIT, PRODUCE, END = (InitProducerIdRequest, None), (ProduceRequest, 12), (EndTxnRequest, 5)
OLD_PRODUCE, OLD_END = (ProduceRequest, None), (EndTxnRequest, None)


def made(make: Make, level: int = 2) -> tuple[Producer, FakeCluster]:
    producer, cluster = make(transactional_id="id", retry_backoff_ms=10, retry_backoff_max_ms=10)
    cluster.levels = {"transaction.version": level}
    return producer, cluster


def sent(producer: Producer, clock: Clock) -> Any:
    """Send a record that waits for its acknowledgement."""
    record = producer.send("t", b"value", partition=0)
    run_due(clock)
    return record


def first_batch(request: ProduceRequest) -> Any:
    [topic] = request.topic_data
    return MemoryRecords(bytes(topic.partition_data[0].records or b"")).next_batch()


def test_each_transaction_has_the_epoch_that_the_end_of_the_last_one_gave(make: Make, clock: Clock) -> None:
    producer, cluster = made(make)
    epochs = []
    for end in (producer.commit, producer.abort, producer.commit):
        result_of(producer.begin())
        for _ in range(2):
            record = sent(producer, clock)
            batch = first_batch(cluster.requests[0][0])
            epochs.append((batch.producer_epoch, batch.base_sequence))
            cluster.acknowledge()
            result_of(record)
        settled(clock, end())
    assert epochs == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert cluster.versions == [INIT, *[PRODUCE, PRODUCE, END] * 3]


def test_offsets_add_their_partition(make: Make, clock: Clock) -> None:
    producer, cluster = made(make)
    result_of(producer.begin())
    result_of(producer.send_offsets({("t", 0): 5}, "g"))
    settled(clock, producer.commit())
    assert cluster.versions == [INIT, (TxnOffsetCommitRequest, 5), END]


def test_a_transaction_without_records_is_not_ended(make: Make, clock: Clock) -> None:
    producer, cluster = made(make)
    for end in (producer.commit, producer.abort):
        result_of(producer.begin())
        settled(clock, end())
    assert cluster.versions == [INIT]


@pytest.mark.parametrize("level", [0, 1])
def test_a_cluster_without_the_feature_gets_older_requests(make: Make, clock: Clock, level: int) -> None:
    producer, cluster = made(make, level)
    result_of(producer.begin())
    sent(producer, clock)
    cluster.acknowledge()
    settled(clock, producer.commit())
    assert [call for call in cluster.versions if call[0] in (ProduceRequest, EndTxnRequest)] == [OLD_PRODUCE, OLD_END]


def test_a_transaction_goes_on_as_it_began(make: Make, clock: Clock) -> None:
    """The level is looked at between transactions, and only if there is a connection to the coordinator."""
    producer, cluster = made(make)
    ends = []
    for level in (0, 2, None, 0):
        result_of(producer.begin())
        cluster.levels = None if level is None else {"transaction.version": level}
        sent(producer, clock)
        cluster.acknowledge()
        settled(clock, producer.commit())
        ends.append(cluster.versions[-1])
    assert ends == [END, OLD_END, END, END]


def test_a_failed_transaction_is_aborted_without_another_epoch(make: Make, clock: Clock) -> None:
    producer, cluster = made(make)
    result_of(producer.begin())
    record = sent(producer, clock)
    cluster.acknowledge(code=ErrorCode.TRANSACTION_ABORTABLE)
    assert isinstance(failure(record), KafkaError)
    assert isinstance(failure(producer.commit()), NeedsAbort)
    settled(clock, producer.abort())
    assert cluster.versions == [INIT, PRODUCE, END]
    result_of(producer.begin())
    sent(producer, clock)
    batch = first_batch(cluster.requests[0][0])
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_a_commit_that_loses_to_the_timeout_can_go_on(make: Make, clock: Clock) -> None:
    producer, cluster = made(make)
    result_of(producer.begin())
    sent(producer, clock)
    cluster.acknowledge()
    cluster.fail(EndTxnRequest, ErrorCode.TRANSACTION_ABORTABLE)
    error = failure(producer.commit())
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.TRANSACTION_ABORTABLE
    settled(clock, producer.abort())
    result_of(producer.begin())
    assert cluster.versions[-2:] == [END, END]


def test_records_wait_for_the_end_of_the_last_transaction(make: Make, clock: Clock) -> None:
    producer, cluster = made(make)
    result_of(producer.begin())
    record = sent(producer, clock)
    cluster.acknowledge(code=ErrorCode.CONCURRENT_TRANSACTIONS)
    run_due(clock, 1)
    cluster.acknowledge()
    result_of(record)
    settled(clock, producer.commit())


def test_another_producer_fences_this_one(make: Make, clock: Clock) -> None:
    producer, cluster = made(make)
    result_of(producer.begin())
    sent(producer, clock)
    cluster.acknowledge()
    cluster.fail(EndTxnRequest, ErrorCode.PRODUCER_FENCED)
    failure(producer.commit())
    assert isinstance(failure(producer.abort()), Fenced)


def test_an_end_without_a_next_epoch(make: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not do what it says: the producer asks for an epoch before it goes on."""
    producer, cluster = made(make)
    result_of(producer.begin())
    sent(producer, clock)
    cluster.acknowledge()
    monkeypatch.setattr(cluster, "_ended", lambda version, code: EndTxnResponse())
    settled(clock, producer.commit())
    result_of(producer.begin())
    assert cluster.versions[-2:] == [END, INIT]
    sent(producer, clock)
    assert first_batch(cluster.requests[0][0]).producer_epoch == 1
