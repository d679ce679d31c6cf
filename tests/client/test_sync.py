"""`pylogbroker.client.sync` as scripts use it, on running brokers; threads, Ctrl-C, forks, and how programs end."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Producer as OtherProducer
from confluent_kafka.admin import AdminClient, NewTopic

from pylogbroker.client.errors import Closed, OutOfRange, RecordTooLarge
from pylogbroker.client.producer.errors import NotAllSent, SomeFailed
from pylogbroker.client.sync import (
    EARLIEST,
    LATEST,
    Blacklist,
    ConsumerConnector,
    OtherProcess,
    Producer,
    SimpleConsumer,
    Stream,
    TimedOut,
    Whitelist,
)
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from tests.client.test_sync_background import interrupt
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

#: a port that nobody listens on: what is sent there waits
NOWHERE = "127.0.0.1:9"


def read(bootstrap: str, topic: str, count: int, partition: int = 0, **settings: Any) -> list[bytes]:
    """The first values of a partition, read by librdkafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", **settings})
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []

    def consume() -> None:
        messages = consumer.consume(count - len(values), 1)
        values.extend(message.value() for message in messages if not message.error())

    wait_until(lambda: len(values) >= count, what=lambda: values, meanwhile=consume)
    consumer.close()
    return values


def write(bootstrap: str, topic: str, *values: bytes, partition: int = 0) -> None:
    """Values written by librdkafka."""
    producer = OtherProducer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(120) == 0


def create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(200)


def connect(broker: Broker, group: str, **settings: Any) -> ConsumerConnector:
    settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 120_000, **settings}
    return ConsumerConnector(broker.bootstrap, group=group, timeout=200, **settings)


# -- the producer ------------------------------------------------------------------------------------------------------


def test_send_returns_where_the_record_is(broker: Broker, topic: str) -> None:
    before = int(time.time() * 1000)
    with Producer(broker.bootstrap) as producer:
        first = producer.send(topic, b"one", b"key", headers=[("name", b"value")])
        second = producer.send(topic, b"two", partition=0, timestamp=before)
        assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
        assert before <= first.timestamp <= time.time() * 1000
        assert (second.offset, second.timestamp) == (1, before)
        assert producer.counts.acknowledged == 2
    assert read(broker.bootstrap, topic, 2) == [b"one", b"two"]


def test_submitted_records_keep_their_order(broker: Broker, topic: str) -> None:
    values = [b"%d" % number for number in range(3000)]
    with Producer(broker.bootstrap, linger_ms=5) as producer:
        futures = [producer.submit(topic, value) for value in values]
        assert [future.result(200).offset for future in futures] == list(range(3000))
    assert read(broker.bootstrap, topic, 3000) == values


def test_close_sends_submitted_records(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap, linger_ms=10_000) as producer:
        futures = [producer.submit(topic, b"%d" % number) for number in range(10)]
    assert [future.result(0).offset for future in futures] == list(range(10))
    producer.close()
    with pytest.raises(Closed):
        producer.send(topic, b"too late")


def test_flush(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap, linger_ms=10_000) as producer:
        future = producer.submit(topic, b"value")
        producer.flush()
        assert future.result(0).offset == 0


def test_send_many_reads_lot_by_lot(broker: Broker, topic: str) -> None:
    ahead: list[int] = []

    def records() -> Any:
        for number in range(12_000):
            ahead.append(number - producer.counts.acknowledged)
            yield topic, b"%d" % number

    with Producer(broker.bootstrap) as producer:
        metadata = producer.send_many(records())
    assert [each.offset for each in metadata] == list(range(12_000))
    assert max(ahead) <= 10_000
    assert read(broker.bootstrap, topic, 12_000) == [b"%d" % number for number in range(12_000)]


def test_send_many_says_which_failed_and_reads_no_further(broker: Broker, topic: str) -> None:
    taken: list[int] = []

    def records() -> Any:
        for number in range(40_000):
            taken.append(number)
            yield topic, bytes(2_000_000 if number == 1 else 10)

    with Producer(broker.bootstrap) as producer, pytest.raises(SomeFailed) as caught:
        producer.send_many(records())
    results = caught.value.results
    assert isinstance(results[1], RecordTooLarge)
    assert [number for number, result in enumerate(results) if isinstance(result, Exception)] == [1]
    assert len(results) == len(taken) < 40_000


def test_errors_of_records_are_raised_where_the_result_would_be(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap) as producer:
        with pytest.raises(RecordTooLarge):
            producer.send(topic, bytes(2_000_000))
        with pytest.raises(RecordTooLarge):
            producer.submit(topic, bytes(2_000_000)).result(200)
        with pytest.raises(KafkaError) as caught:
            producer.send("no/such/name", b"value")
        assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert producer.send(topic, b"value").offset == 0


def test_threads_share_a_producer(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap) as producer, ThreadPoolExecutor(4) as pool:
        sent = list(pool.map(lambda number: producer.send(topic, b"%d" % number).offset, range(200)))
        submitted = list(pool.map(lambda number: producer.submit(topic, b"%d" % number), range(200)))
        assert sorted(sent + [future.result(200).offset for future in submitted]) == list(range(400))


def test_transactions(broker: Broker, topic: str, group: str) -> None:
    with Producer(broker.bootstrap, transactional_id=group) as producer:
        with producer.transaction():
            producer.submit(topic, b"committed")
            producer.send_offsets({(topic, 0): 7}, group)
        with pytest.raises(RecordTooLarge), producer.transaction():
            producer.send(topic, bytes(2_000_000) if producer.send(topic, b"aborted") else b"")
        producer.begin()
        producer.send(topic, b"aborted too")
        producer.abort()
        producer.begin()
        producer.send(topic, b"last")
        producer.commit()
    assert read(broker.bootstrap, topic, 2, **{"isolation.level": "read_committed"}) == [b"committed", b"last"]
    with connect(broker, group) as connector:
        connector.stream(topic)
        assert connector.committed([(topic, 0)]) == {(topic, 0): 7}


def test_settings_that_are_wrong_are_reported_at_once() -> None:
    with pytest.raises(ConfigError, match=r"linger\.msec"):
        Producer(NOWHERE, linger_msec=5)


def test_a_closed_producer_is_garbage_collected() -> None:
    gc.freeze()  # a collection of what other tests have left takes seconds
    producer = Producer(NOWHERE)
    there = weakref.ref(producer)
    producer.close(timeout=0.01)
    del producer
    gc.collect()
    gc.unfreeze()
    assert there() is None


# -- time, Ctrl-C ------------------------------------------------------------------------------------------------------


def test_calls_time_out(topic: str) -> None:
    producer = Producer(NOWHERE, timeout=0.05)
    with pytest.raises(TimedOut, match=rf"Producer\.send to '{topic}': not done within 0\.05 s"):
        producer.send(topic, b"value")
    with pytest.raises(TimedOut, match=r"flush: not done within 0\.01 s"):
        producer.flush(timeout=0.01)
    future = producer.submit(topic, b"value")
    with pytest.raises(NotAllSent):
        producer.close(timeout=0.05)
    with pytest.raises(Closed):
        future.result(200)


def test_submit_times_out_without_space(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylogbroker.client.sync.submissions.UNACKNOWLEDGED_BYTES_MAX", 10_000)
    producer = Producer(NOWHERE, timeout=0.05)
    submitted = [producer.submit(topic, bytes(4_000)) for _ in range(2)]
    with pytest.raises(TimedOut, match="no space"):
        producer.submit(topic, bytes(4_000))
    assert submitted[0].cancel() is False
    with pytest.raises(NotAllSent):
        producer.close(timeout=0.01)


def test_ctrl_c_leaves_a_producer_that_works(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap, linger_ms=600_000) as producer:
        interrupt(lambda: producer.counts.queued)
        with pytest.raises(KeyboardInterrupt):
            producer.send(topic, b"interrupted")
        after = producer.submit(topic, b"after")
        producer.flush()
        assert after.result(0).offset == 1
    assert read(broker.bootstrap, topic, 2) == [b"interrupted", b"after"]


def test_ctrl_c_leaves_a_stream_that_works(broker: Broker, topic: str, group: str) -> None:
    write(broker.bootstrap, topic, b"0")
    with connect(broker, group, consumer_timeout_ms=-1) as connector:
        stream = connector.stream(topic)
        assert next(stream).value == b"0"
        interrupt(lambda: stream._pending is not None)
        with pytest.raises(KeyboardInterrupt):
            next(stream)
        write(broker.bootstrap, topic, b"1", b"2")
        assert [next(stream).value, next(stream).value] == [b"1", b"2"]


# -- the consumer of groups --------------------------------------------------------------------------------------------


def test_streams_are_iterators(broker: Broker, topic: str, group: str) -> None:
    write(broker.bootstrap, topic, *(b"%d" % number for number in range(1000)))
    with connect(broker, group) as connector:
        stream = connector.stream(topic)
        assert [message.value for message in islice(stream, 1000)] == [b"%d" % number for number in range(1000)]
        assert stream.count == 1000
        write(broker.bootstrap, topic, b"later")
        message = stream.get(120)
        assert message is not None
        assert (message.topic, message.partition, message.offset, message.value) == (topic, 0, 1000, b"later")


def test_an_iteration_ends_when_nothing_comes(broker: Broker, topic: str, group: str) -> None:
    write(broker.bootstrap, topic, b"one")
    with connect(broker, group, consumer_timeout_ms=1000) as connector:
        stream = connector.stream(topic)
        assert iterated(stream) == [b"one"]
        write(broker.bootstrap, topic, b"two")
        assert iterated(stream) == [b"two"]


def iterated(stream: Stream) -> list[bytes]:
    """Return the values of an iteration that has some: an earlier one may end before they have come."""
    while not (found := [message.value for message in stream]):
        continue
    return found


def test_several_streams_share_the_partitions(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic, 4)
    for partition in range(4):
        write(broker.bootstrap, topic, b"%d" % partition, partition=partition)
    with connect(broker, group) as connector:
        streams = connector.create_message_streams({topic: 2})[topic]
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(lambda stream: [message.partition for message in islice(stream, 2)], streams))
        assert connector.assignment == {(topic, partition) for partition in range(4)}
    assert sorted(map(len, parts)) == [2, 2]
    assert sorted(parts[0] + parts[1]) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [Whitelist, Blacklist])
def test_topics_by_a_rule(broker: Broker, fresh_name: Callable[[], str], group: str, kind: type) -> None:
    wanted, other = fresh_name(), fresh_name()
    write(broker.bootstrap, wanted, b"wanted")
    write(broker.bootstrap, other, b"other")
    rule = Whitelist(wanted) if kind is Whitelist else Blacklist(rf"(?!{wanted}$).*")
    with connect(broker, group) as connector:
        (stream,) = connector.create_message_streams_by_filter(rule)
        assert next(stream).value == b"wanted"
        assert stream.get(timeout=0.2) is None


def test_commits_cover_exactly_the_delivered_messages(broker: Broker, topic: str, group: str) -> None:
    write(broker.bootstrap, topic, *(b"%d" % number for number in range(500)))
    with connect(broker, group, enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        for expected in (10, 300):
            while stream.count < expected:
                next(stream)
            connector.commit_offsets()
            assert connector.committed() == {(topic, 0): expected}
            assert connector.position(topic, 0) == expected
            assert connector.lag(topic, 0) == 500 - expected
        next(stream)
        connector.commit_offsets({(topic, 0): 5})
        assert connector.committed() == {(topic, 0): 5}
    with connect(broker, group) as connector:
        assert next(connector.stream(topic)).offset == 5


def test_closing_commits_delivered_messages(broker: Broker, topic: str, group: str) -> None:
    write(broker.bootstrap, topic, *(b"%d" % number for number in range(500)))
    with connect(broker, group) as connector:
        stream = connector.stream(topic)
        while stream.count < 123:
            next(stream)
    with connect(broker, group) as connector:
        assert next(connector.stream(topic)).offset == 123
        connector.shutdown()


def test_closing_while_partitions_are_revoked_loses_nothing(broker: Broker, topic: str, group: str) -> None:
    write(broker.bootstrap, topic, *(b"%d" % number for number in range(1000)))
    with ThreadPoolExecutor(1) as pool, connect(broker, group) as other:
        connector = connect(broker, group, rebalance_wait_ms=20_000)
        stream = connector.stream(topic)
        given = list(islice(stream, 300))
        assert stream.unread()
        joining = pool.submit(other.stream, topic)
        wait_until(lambda: not connector.assignment)
        connector.shutdown()
        assert list(stream) == []
        rest = [message.offset for message in islice(joining.result(200), 1000 - len(given))]
        assert rest == list(range(len(given), 1000))


def test_seeking(broker: Broker, topic: str, group: str) -> None:
    write(broker.bootstrap, topic, *(b"%d" % number for number in range(500)))
    with connect(broker, group) as connector:
        stream = connector.stream(topic)
        assert len(stream.get_many(400, timeout=120)) == 400
        connector.seek(topic, 0, 7)
        assert [message.offset for message in islice(stream, 493)] == list(range(7, 500))


def test_pausing(broker: Broker, topic: str, group: str) -> None:
    write(broker.bootstrap, topic, *(b"%d" % number for number in range(500)))
    with connect(broker, group) as connector:
        stream = connector.stream(topic)
        assert [message.offset for message in islice(stream, 200)] == list(range(200))
        connector.pause(topic, 0)
        assert connector.paused == {(topic, 0)}
        assert stream.get(timeout=0.3) is None
        assert connector.position(topic, 0) == 200
        connector.resume(topic, 0)
        assert [message.offset for message in islice(stream, 300)] == list(range(200, 500))


def test_shutdown_ends_the_iteration_of_other_threads(broker: Broker, topic: str, group: str) -> None:
    write(broker.bootstrap, topic, b"one")
    connector = connect(broker, group, consumer_timeout_ms=-1)
    stream = connector.stream(topic)
    assert next(stream).value == b"one"
    with ThreadPoolExecutor(2) as pool:
        rest = [pool.submit(list, stream) for _ in range(2)]
        connector.shutdown()
        assert [each.result(200) for each in rest] == [[], []]


# -- the simple consumer -----------------------------------------------------------------------------------------------


@pytest.fixture
def simple(broker: Broker) -> Iterator[SimpleConsumer]:
    host, _, port = broker.bootstrap.rpartition(":")
    with SimpleConsumer(host, int(port), timeout=200) as consumer:
        yield consumer


def test_fetching(broker: Broker, topic: str, simple: SimpleConsumer) -> None:
    write(broker.bootstrap, topic, b"zero", b"one", b"two")
    found = simple.fetch(topic, 0, 1, 10_000)
    assert [message.value for message in found] == [b"one", b"two"]
    assert found.next_offset == 3
    both = simple.multifetch([(topic, 0, 2), (topic, 0, 0)])
    assert [[message.value for message in each] for each in both] == [[b"two"], [b"zero", b"one", b"two"]]
    with pytest.raises(OutOfRange) as caught:
        simple.fetch(topic, 0, 99)
    assert (caught.value.first, caught.value.end) == (0, 3)


def test_a_fetch_that_waits(broker: Broker, topic: str, simple: SimpleConsumer) -> None:
    write(broker.bootstrap, topic, b"zero")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(simple.fetch, topic, 0, 1, max_wait_ms=20_000)
        write(broker.bootstrap, topic, b"one")
        assert [message.value for message in waiting.result(200)] == [b"one"]


def test_a_fetch_that_is_abandoned(broker: Broker, topic: str, simple: SimpleConsumer) -> None:
    write(broker.bootstrap, topic, b"zero")
    with pytest.raises(TimedOut, match=f"fetch from {topic}/0"):
        simple.fetch(topic, 0, 1, max_wait_ms=1000, timeout=0.05)
    assert [message.value for message in simple.fetch(topic, 0, 0)] == [b"zero"]


def test_offsets(broker: Broker, topic: str, group: str, simple: SimpleConsumer) -> None:
    write(broker.bootstrap, topic, b"zero", b"one")
    assert simple.get_offsets_before(topic, 0, EARLIEST) == [0]
    assert simple.get_offsets_before(topic, 0, LATEST) == [2]
    assert simple.fetch_offsets(group, [(topic, 0)]) == {(topic, 0): None}
    simple.commit_offsets(group, {(topic, 0): 1}, "so far")
    assert simple.fetch_offsets(group, [(topic, 0)]) == {(topic, 0): 1}
    with connect(broker, group) as connector:
        assert next(connector.stream(topic)).value == b"one"


# -- a broker that goes away -------------------------------------------------------------------------------------------


def test_a_broker_that_stops_and_comes_back(new_broker: Callable[..., Broker], topic: str, group: str) -> None:
    broker = new_broker()
    broker.start()
    with Producer(broker.bootstrap) as producer, connect(broker, group, consumer_timeout_ms=120_000) as connector:
        producer.send(topic, b"0")
        stream = connector.stream(topic)
        assert next(stream).value == b"0"
        assert broker.stop() == 0
        futures = [producer.submit(topic, b"%d" % number) for number in range(1, 101)]
        with pytest.raises(TimedOut):
            producer.flush(timeout=0.2)
        broker.start()
        assert [future.result(200).offset for future in futures] == list(range(1, 101))
        assert [message.value for message in islice(stream, 100)] == [b"%d" % number for number in range(1, 101)]
        connector.commit_offsets()
        assert connector.committed() == {(topic, 0): 101}


# -- forks and ends of programs ----------------------------------------------------------------------------------------


def test_a_child_must_make_its_own(broker: Broker, topic: str, group: str) -> None:
    write(broker.bootstrap, topic, b"zero")
    producer, connector = Producer(broker.bootstrap, timeout=200), connect(broker, group)
    stream = connector.stream(topic)
    producer.send(topic, b"parent")
    assert len(stream.get_many(timeout=120)) > 0
    child = os.fork()
    if child == 0:
        os._exit(in_the_child(producer, stream, broker.bootstrap, topic))
    assert os.waitpid(child, 0)[1] == 0
    assert producer.send(topic, b"parent again").offset == 3
    connector.close()
    producer.close()
    assert read(broker.bootstrap, topic, 4) == [b"zero", b"parent", b"child", b"parent again"]


def in_the_child(producer: Producer, stream: Any, bootstrap: str, topic: str) -> int:
    """Return the number of errors."""
    uses: list[Callable[[], object]] = [
        lambda: producer.send(topic, b"wrong"),
        lambda: producer.submit(topic, b"wrong"),
        lambda: producer.send_many([(topic, b"wrong")]),
        producer.close,
        lambda: stream.get_many(10, 1),
    ]
    wrong = len(uses)
    for use in uses:
        try:
            use()
        except OtherProcess:
            wrong -= 1
    with Producer(bootstrap, timeout=200) as own:
        wrong += own.send(topic, b"child").offset != 2
    return wrong


PROGRAM = """
import sys
from pylogbroker.client.sync import Producer
producer = Producer(sys.argv[1], linger_ms=60_000)
for number in range(100):
    producer.submit(sys.argv[2], b"%d" % number)
"""


def test_a_program_that_forgets_to_close(broker: Broker, topic: str) -> None:
    command = [sys.executable, "-c", PROGRAM, broker.bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert read(broker.bootstrap, topic, 100) == [b"%d" % number for number in range(100)]


def test_no_timeout_at_all(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap, timeout=math.inf) as producer:
        assert producer.send(topic, b"value").offset == 0
