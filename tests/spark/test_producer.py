"""Sending batches: order, repetition, errors; against both brokers, and read back with librdkafka."""

from __future__ import annotations

import itertools
import select
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import IsolationLevel

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.connection import BlockingConnection
from pylogbroker.client.errors import RecordTooLarge
from pylogbroker.client.producer_guarantees import in_flight_max, is_idempotent
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.spark.options import WriteOptions
from pylogbroker.spark.writing import producer as producing
from pylogbroker.spark.writing.columns import Fields
from pylogbroker.spark.writing.producer import IdempotentProducer
from pylogbroker.spark.writing.producer_ids import WriterIdentity, identify
from pylogbroker.spark.writing.task import TaskWriter
from tests.spark.rows import VALUES, batches, options, read, values
from tests.spark.short_times import error_of
from tests.spark.topics import LIMIT, Topics
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

CONNECT = BlockingCluster.connect
NUMBERS = [b"%06d" % number for number in range(20_000)]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_read_by_others(topics: Topics, codec: str) -> None:
    topic = topics.make()
    rows = pa.record_batch(
        {
            "key": pa.array(["k", None, ""]),
            "value": pa.array([b"v", b"", None], pa.binary()),
            "headers": pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None, []], HEADERS),
        }
    )
    _write(options(topics.bootstrap, topic, compression_type=codec), [rows], Fields(value=1, key=0, headers=2))
    found = [(each.key(), each.value(), each.headers()) for each in read(topics.bootstrap, topic)]
    assert found == [(b"k", b"v", [("h", b"1"), ("h", None)]), (None, b"", None), (b"", None, None)]


def test_many_batches_of_several_partitions_keep_their_order(topics: Topics) -> None:
    topic = topics.make(3)
    rows = pa.record_batch({"value": NUMBERS, "partition": pa.array([n % 3 for n in range(len(NUMBERS))], pa.int32())})
    fields = Fields(value=0, partition=1)
    _write(options(topics.bootstrap, topic, batch_size=1000, max_request_size=2500), [rows], fields)
    for number in range(3):
        assert values(topics.bootstrap, topic, [number]) == NUMBERS[number::3]


def test_keys_go_where_librdkafka_sends_them_with_the_hash_of_java(topics: Topics) -> None:
    keys = [b"key-%d" % number for number in range(300)]
    ours, theirs = topics.make(4), topics.make(4)
    producer = topics._producer({"partitioner": "murmur2"})
    for key in keys:
        producer.produce(theirs, key, key)
    assert producer.flush(LIMIT) == 0
    _write(options(topics.bootstrap, ours), [pa.record_batch({"key": keys})], Fields(value=0, key=0))
    for number in range(4):
        assert sorted(values(topics.bootstrap, ours, [number])) == sorted(values(topics.bootstrap, theirs, [number]))


def test_rows_go_to_the_topics_that_they_name(topics: Topics) -> None:
    one, two = topics.make(), topics.make()
    rows = pa.record_batch({"value": [b"1", b"2", b"3"], "topic": [one, two, one]})
    _write(options(topics.bootstrap), [rows], Fields(value=0, topic=1))
    assert values(topics.bootstrap, one) == [b"1", b"3"]
    assert values(topics.bootstrap, two) == [b"2"]


def test_a_topic_that_takes_small_batches_only(topics: Topics) -> None:
    topic = topics.make(max_message_bytes="3000")
    with (
        _cluster(options(topics.bootstrap, topic)) as cluster,
        IdempotentProducer(cluster, identify(cluster)) as producer,
    ):
        writing = TaskWriter(options(topics.bootstrap, topic), VALUES, cluster, producer)
        writing.write(batches(NUMBERS[:2000]))
        assert (producer.limit(topic) or 0) <= 3000
        writing.write(batches(NUMBERS[2000:3000]))
    assert values(topics.bootstrap, topic) == NUMBERS[:3000]


def test_a_record_that_is_too_large_for_its_topic(topics: Topics) -> None:
    topic = topics.make(max_message_bytes="3000")
    with pytest.raises(KafkaError, match=f"{topic}/0") as caught:
        _write(options(topics.bootstrap, topic), batches([b"x" * 4000]))
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_record_that_is_too_large_for_a_request(topics: Topics) -> None:
    topic = topics.make()
    with pytest.raises(RecordTooLarge, match=r"kafka\.max\.request\.size"):
        _write(options(topics.bootstrap, topic, max_request_size=5000), batches([b"x" * 5000]))
    _write(options(topics.bootstrap, topic, max_request_size=5200), batches([b"x" * 5000]))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acknowledgements(topics: Topics, acks: str) -> None:
    topic = topics.make()
    _write(options(topics.bootstrap, topic, acks=acks, batch_size=2000), batches(NUMBERS))
    _write(options(topics.bootstrap, topic, acks="all"), batches([b"last"]))  # may be handled earlier than acks=0
    wait_until(lambda: topics.end(topic, 0, IsolationLevel.READ_UNCOMMITTED) == len(NUMBERS) + 1)
    assert sorted(values(topics.bootstrap, topic)) == [*NUMBERS, b"last"]


def test_a_topic_that_there_is_not_is_made(broker: Broker, topic: str) -> None:
    _write(options(broker.bootstrap, topic), batches([b"first"]))
    assert values(broker.bootstrap, topic) == [b"first"]


def test_a_missing_topic_is_an_error_without_auto_creation(broker: Broker, topic: str) -> None:
    def write(milliseconds: int) -> None:
        wanted = options(broker.bootstrap, topic, allow_auto_create_topics="false", max_block_ms=milliseconds)
        _write(wanted, batches([b"first"]))

    error_of(write, KafkaError, f"there is no topic {topic}")


def test_partitions_that_came_meanwhile(topics: Topics) -> None:
    topic = topics.make()
    wanted = options(topics.bootstrap, topic)
    with _cluster(wanted) as cluster, IdempotentProducer(cluster, identify(cluster)) as producer:
        writing = TaskWriter(wanted, Fields(value=0, partition=1), cluster, producer)
        writing.write([_placed([b"old"], [0])])
        topics.widen(topic, 3)
        writing.write([_placed([b"new", b"old"], [2, 0])])
        with pytest.raises(KafkaError, match=f"topic {topic} has 3 partitions, so no partition 3"):
            writing.write([_placed([b"x"], [3])])
    assert [values(topics.bootstrap, topic, [number]) for number in range(3)] == [[b"old", b"old"], [], [b"new"]]


def test_an_answer_that_does_not_come_is_not_waited_for_twice(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = topics.make()
    sent, waited = itertools.count(), list[float]()
    monkeypatch.setattr(BlockingCluster, "connect", lambda *given: _Deaf(CONNECT(*given), sent, waited))
    wanted = options(topics.bootstrap, topic, batch_size=5000, request_timeout_ms=2000, retry_backoff_ms=1)
    _write(wanted, batches(NUMBERS[:2000]))
    assert values(topics.bootstrap, topic) == NUMBERS[:2000]
    assert waited == [0.0]


def test_rows_so_slow_that_the_connection_is_lost_are_sent(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, passed, made = topics.make(), [0.0], list[BlockingConnection]()
    first = [b"%02d" % number + b"x" * 100_000 for number in range(60)]

    def connected(*arguments: Any) -> BlockingConnection:
        made.append(CONNECT(*arguments))
        return made[-1]

    def rows() -> Iterator[pa.RecordBatch]:
        yield from batches(first)
        assert select.select(made, [], [], LIMIT)[0]
        made[0]._socket.shutdown(socket.SHUT_WR)
        passed[0] = 1000.0
        yield from batches([b"last"])

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0], sleep=time.sleep)
    monkeypatch.setattr(BlockingCluster, "connect", connected)
    monkeypatch.setattr(producing, "time", clock)
    _write(options(topics.bootstrap, topic, retry_backoff_ms=1), rows())
    assert len(made) == 2
    assert values(topics.bootstrap, topic) == [*first, b"last"]


@pytest.mark.parametrize("when", ["before", "after", "both"])
def test_lost_batches_are_resent_once_and_in_order(topics: Topics, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    topic = topics.make(2)
    cuts = itertools.count()
    monkeypatch.setattr(BlockingCluster, "connect", lambda *given: _Cut(CONNECT(*given), cuts, when))
    rows = pa.record_batch({"value": NUMBERS, "partition": pa.array([n % 2 for n in range(len(NUMBERS))], pa.int32())})
    wanted = options(topics.bootstrap, topic, batch_size=5000, max_request_size=10_000, retry_backoff_ms=1)
    _write(wanted, [rows], Fields(value=0, partition=1))
    assert next(cuts) > 20
    assert [values(topics.bootstrap, topic, [number]) for number in range(2)] == [NUMBERS[::2], NUMBERS[1::2]]


def test_a_leader_that_rejects_the_first_batch_for_a_moment(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that knows nothing of the producer would start with any batch, also with the second one."""
    topic = topics.make()
    lost = itertools.count()
    monkeypatch.setattr(BlockingCluster, "connect", lambda *given: _Refusing(CONNECT(*given), lost))
    _write(options(topics.bootstrap, topic, batch_size=5000, retry_backoff_ms=1), batches(NUMBERS[:2000]))
    assert values(topics.bootstrap, topic) == NUMBERS[:2000]


def test_an_epoch_that_is_over_ends_it(topics: Topics) -> None:
    topic = topics.make()
    with _cluster(options(topics.bootstrap, topic)) as cluster:
        older = identify(cluster)
        newer = WriterIdentity(older.id, older.epoch + 1)
        for identity in (older, newer):
            with IdempotentProducer(cluster, identity) as producer:
                TaskWriter(options(topics.bootstrap, topic), VALUES, cluster, producer).write(batches([b"x"]))
        with IdempotentProducer(cluster, older) as producer, pytest.raises(KafkaError) as caught:
            TaskWriter(options(topics.bootstrap, topic), VALUES, cluster, producer).write(batches([b"y"]))
    assert caught.value.code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    assert values(topics.bootstrap, topic) == [b"x", b"x"]


@pytest.mark.parametrize(
    ("given", "idempotent", "window"),
    [
        ({}, True, 5),
        ({"acks": "-1"}, True, 5),
        ({"acks": "1"}, False, 1),
        ({"enable_idempotence": "false"}, False, 1),
        ({"enable_idempotence": "true", "max_in_flight_requests_per_connection": 2}, True, 2),
        ({"acks": "0", "max_in_flight_requests_per_connection": 9}, False, 9),
    ],
)
def test_guarantees(given: dict[str, Any], idempotent: bool, window: int) -> None:
    settings = options("nowhere:1", **given).settings
    assert (is_idempotent(settings), in_flight_max(settings)) == (idempotent, window)


@pytest.mark.parametrize(
    "given", [{"acks": "1", "enable_idempotence": "true"}, {"max_in_flight_requests_per_connection": 6}]
)
def test_guarantees_that_contradict_each_other(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="is not accepted"):
        in_flight_max(options("nowhere:1", **given).settings)


class _Cut(BlockingConnection):
    """Ends at every eleventh request, before or after it is sent."""

    def __init__(self, connection: BlockingConnection, cuts: itertools.count[int], when: str) -> None:
        self.__dict__ = connection.__dict__
        self._cuts, self._when = cuts, when

    def send(self, *arguments: Any, **named: Any) -> None:
        number = next(self._cuts)
        is_cut = number % 11 == 10
        if is_cut and (self._when == "before" or (self._when == "both" and number % 2)):
            self._socket.shutdown(socket.SHUT_RDWR)
        super().send(*arguments, **named)
        if is_cut:
            self._socket.shutdown(socket.SHUT_RDWR)


class _Deaf(BlockingConnection):
    """Sends the fourth request of all nowhere, and notes for how long its answer is waited for then."""

    def __init__(self, connection: BlockingConnection, sent: itertools.count[int], waited: list[float]) -> None:
        self.__dict__ = connection.__dict__
        self._all, self._waited = sent, waited
        self._nowhere: socket.socket | None = None

    def send(self, *arguments: Any, **named: Any) -> None:
        if next(self._all) == 3:
            self._real, (self._socket, self._nowhere) = self._socket, socket.socketpair()
            self._timeout_now = -1.0
        super().send(*arguments, **named)

    def receive(self, timeout: float | None = None) -> Any:
        if self._nowhere is not None and timeout is not None:
            self._waited.append(timeout)
        return super().receive(timeout)


class _Refusing(BlockingConnection):
    """Sends the first request to a partition that there is not."""

    def __init__(self, connection: BlockingConnection, sent: itertools.count[int]) -> None:
        self.__dict__ = connection.__dict__
        self._sent_before = sent
        self._real: list[int] = []

    def send(self, request: Any, **named: Any) -> None:
        [data] = request.topic_data[0].partition_data
        self._real.append(data.index)
        if next(self._sent_before) == 0:
            data.index = 99
        super().send(request, **named)

    def receive(self, timeout: float | None = None) -> Any:
        response = super().receive(timeout)
        response.responses[0].partition_responses[0].index = self._real.pop(0)
        return response


def _placed(values: Sequence[bytes], partitions: Sequence[int]) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values), "partition": pa.array(partitions, pa.int32())})


def _cluster(wanted: WriteOptions) -> BlockingCluster:
    return BlockingCluster(wanted.settings)


def _write(wanted: WriteOptions, rows: Iterable[pa.RecordBatch], fields: Fields = VALUES) -> None:
    with _cluster(wanted) as cluster, IdempotentProducer(cluster, identify(cluster)) as producer:
        TaskWriter(wanted, fields, cluster, producer).write(rows)
