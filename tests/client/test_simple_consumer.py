"""The simple consumer against running brokers, ours and Apache Kafka, with records that another client wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient, NewTopic
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from pylogbroker.client.adapters import FetchedMessages, Wait, kafka
from pylogbroker.client.errors import Closed, ConnectionLost, NotConnected, OutOfRange, PluginFailed, RecordTooLarge
from pylogbroker.client.fetch_requests import FetchTarget
from pylogbroker.client.messages import MessageSet
from pylogbroker.client.simple_consumer import EARLIEST, LATEST, SimpleConsumer
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.records import Record, TimestampType, build
from tests.support.brokers import Broker


def connect(broker: Broker, **settings: object) -> SimpleConsumer:
    host, port = broker.bootstrap.rsplit(":", 1)
    return SimpleConsumer(host, int(port), **settings)  # type: ignore[arg-type]


def create(broker: Broker, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    given = {name.replace("_", "."): value for name, value in config.items()}
    new = NewTopic(topic, partitions, 1, config={"retention.ms": "-1", **given})  # the records are of 1970
    [made] = admin.create_topics([new]).values()
    made.result(60)
    for partition in range(partitions):
        _wait_for_leader(broker, topic, partition)


def _wait_for_leader(broker: Broker, topic: str, partition: int) -> None:
    """Kafka says that a topic is made before its partitions can be read."""
    deadline = time.monotonic() + 120
    reader = ConfluentConsumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    while True:
        try:
            reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=5)
            break
        except KafkaException:
            if time.monotonic() > deadline:
                raise
    reader.close()


def write(broker: Broker, topic: str, *values: bytes, partition: int = 0, **settings: object) -> None:
    """Each value in a batch of its own."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **named})
    for number, value in enumerate(values):
        producer.produce(topic, value, b"k%d" % number, partition, timestamp=1000 + number, headers=[("h", b"x")])
        assert producer.flush(120) == 0


async def test_fetch(broker: Broker, topic: str) -> None:
    create(broker, topic)
    write(broker, topic, b"a", b"b", b"c")
    consumer = connect(broker)
    found = await consumer.fetch(topic, 0, 1)
    second, third = found
    assert second[:5] == (topic, 0, 1, 1001, TimestampType.CREATE_TIME)
    assert second[5:] == (b"k1", b"b", (("h", b"x"),), 2)
    assert (third.offset, third.value, found.next_offset) == (2, b"c", 3)
    assert list(await consumer.fetch(topic, 0, found.next_offset)) == []
    await consumer.close()


async def test_fetch_so_many_bytes(broker: Broker, topic: str) -> None:
    create(broker, topic)
    write(broker, topic, *[bytes(1000)] * 5)
    consumer = connect(broker)
    found = await consumer.fetch(topic, 0, 0, 2500)
    assert [each.offset for each in found] == [0, 1]
    assert found.next_offset == 2
    await consumer.close()


async def test_fetch_that_waits(broker: Broker, topic: str) -> None:
    create(broker, topic)
    consumer, other = connect(broker), connect(broker)
    await other.fetch(topic, 0, 0)
    waiting = consumer.fetch(topic, 0, 0, max_wait_ms=20_000)
    await other.fetch(topic, 0, 0)
    write(broker, topic, b"came")
    assert [each.value for each in await waiting] == [b"came"]
    await consumer.close()
    await other.close()


@pytest.mark.parametrize("version", [0, 2, 3, 12])
async def test_a_message_larger_than_asked_for(
    broker: Broker, topic: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "NAMES_VERSION_MAX", version)
    create(broker, topic)
    write(broker, topic, b"x" * 30_000, b"y", b"z" * 30_000)
    consumer = connect(broker)
    first = next(iter(await consumer.fetch(topic, 0, 0, 100)))
    assert first.value == b"x" * 30_000
    assert first.timestamp == (-1 if version < 2 else 1000)
    assert [each.value for each in await consumer.fetch(topic, 0, 1, 300)] == [b"y"]
    several = await consumer.multifetch([(topic, 0, 1, 300), (topic, 0, 0, 100), (topic, 0, 2, 100)])
    assert [next(iter(each)).value[:1] for each in several] == [b"y", b"x", b"z"]
    await consumer.close()


async def test_a_message_larger_than_allowed(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "NAMES_VERSION_MAX", 2)
    create(broker, topic)
    write(broker, topic, b"x" * 30_000, b"y")
    consumer = connect(broker, fetch_max_bytes=20_000)
    with pytest.raises(RecordTooLarge, match=r"fetch\.max\.bytes"):
        await consumer.fetch(topic, 0, 0, 100)
    assert [each.value for each in await consumer.fetch(topic, 0, 1, 100)] == [b"y"]
    await consumer.close()


class CuttingAdapter:
    """Stands in for a broker that cuts off what exceeds the size asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sizes: list[int] = []

    def fetch(self, targets: Sequence[FetchTarget], wait: Wait) -> Deferred[list[FetchedMessages]]:
        self.sizes += [each.max_bytes for each in targets]
        sets = [MessageSet(each.topic, each.partition, self.data[: each.max_bytes], each.offset) for each in targets]
        return succeed([FetchedMessages(each, not each.valid_bytes) for each in sets])

    def is_open(self) -> bool:
        return True


def test_sizes_are_doubled() -> None:
    data = build([Record(0, 5, None, bytes(1000))])
    consumer = SimpleConsumer("127.0.0.1", 1, reactor=Clock(), fetch_max_bytes=1500)
    consumer._adapter = adapter = CuttingAdapter(data)  # type: ignore[assignment]
    found = extract(consumer.fetch("t", 0, 0, 100))
    assert [len(each.value) for each in found] == [1000]
    assert adapter.sizes == [100, 200, 400, 800, 1500]
    consumer._adapter = adapter = CuttingAdapter(data)  # type: ignore[assignment]
    whole, cut = extract(consumer.multifetch([("t", 0, 0, 2000), ("t", 0, 0, 400)]))
    assert len(list(whole)) == len(list(cut)) == 1
    assert adapter.sizes == [2000, 400, 800, 1500]


def test_sizes_are_doubled_up_to_a_maximum() -> None:
    consumer = SimpleConsumer("127.0.0.1", 1, reactor=Clock(), fetch_max_bytes=1000)
    consumer._adapter = adapter = CuttingAdapter(build([Record(0, 5, None, bytes(1000))]))  # type: ignore[assignment]
    with pytest.raises(RecordTooLarge, match=r"fetch\.max\.bytes=1000"):
        extract(consumer.fetch("t", 0, 0, 0))
    assert adapter.sizes == [0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]


def extract(deferred: Deferred[Any]) -> Any:
    """Return the result of a fired Deferred."""
    found: list[Any] = []
    deferred.addBoth(found.append)
    if isinstance(found[0], Failure):
        found[0].raiseException()
    return found[0]


async def test_multifetch(broker: Broker, topic: str, fresh_name: Callable[[], str]) -> None:
    other = fresh_name()
    create(broker, topic, 2)
    create(broker, other)
    write(broker, topic, b"a", b"b")
    write(broker, topic, b"c", partition=1)
    write(broker, other, b"d" * 9000)
    consumer = connect(broker)
    wanted = [
        (topic, 0, 0),
        (other, 0, 0, 100),
        (topic, 1, 0),
        (topic, 0, 1),
        (topic, 0, 2),
        (topic, 1, 9),
        (topic, 7, 0),
    ]
    *found, beyond, missing = await consumer.multifetch(wanted)
    assert [[each.value for each in messages] for messages in found] == [
        [b"a", b"b"],
        [b"d" * 9000],
        [b"c"],
        [b"b"],
        [],
    ]
    assert [messages.next_offset for messages in found] == [2, 1, 1, 2, 2]
    with pytest.raises(OutOfRange):
        list(beyond)
    with pytest.raises(KafkaError) as caught:
        list(missing)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await consumer.multifetch([]) == []
    await consumer.close()


@pytest.mark.parametrize("offset", [-5, 4, 99])
async def test_out_of_range(broker: Broker, topic: str, offset: int) -> None:
    create(broker, topic)
    write(broker, topic, b"a", b"b", b"c")
    consumer = connect(broker)
    with pytest.raises(OutOfRange) as caught:
        await consumer.fetch(topic, 0, offset)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.first, error.end) == (topic, 0, offset, 0, 3)
    await consumer.close()


async def test_no_such_topic(broker: Broker, topic: str) -> None:
    consumer = connect(broker)
    for call in (consumer.fetch(topic, 0, 0), consumer.get_offsets_before(topic, 0, LATEST)):
        with pytest.raises(KafkaError) as caught:
            await call
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert str(caught.value) == f"{topic}/0: {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.meaning}"
    await consumer.close()


async def test_offsets_before(broker: Broker, topic: str) -> None:
    create(broker, topic, segment_bytes="2000")
    write(broker, topic, *[bytes(900)] * 6)  # two to a segment
    consumer = connect(broker)
    assert await consumer.get_offsets_before(topic, 0, EARLIEST, 9) == [0]
    assert await consumer.get_offsets_before(topic, 0, LATEST) == [6]
    assert await consumer.get_offsets_before(topic, 0, LATEST, 9) == [6, 4, 2, 0]
    assert await consumer.get_offsets_before(topic, 0, LATEST, 2) == [6, 4]
    soon = int(time.time() * 1000) + 60_000
    assert await consumer.get_offsets_before(topic, 0, soon, 9) == [6, 4, 2, 0]
    assert await consumer.get_offsets_before(topic, 0, 5, 9) == []
    await consumer.close()


async def test_offsets_of_committed_messages(broker: Broker, topic: str) -> None:
    create(broker, topic)
    write(broker, topic, b"a", b"b", b"c")
    consumer = connect(broker, isolation_level="read_committed")
    assert await consumer.get_offsets_before(topic, 0, LATEST, 9) == [3]
    assert await consumer.get_offsets_before(topic, 0, 1001, 9) == [1]
    assert await consumer.get_offsets_before(topic, 0, 99_000, 9) == []
    await consumer.close()


async def test_transactions(broker: Broker, topic: str, fresh_name: Callable[[], str]) -> None:
    create(broker, topic)
    producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap, "transactional.id": fresh_name()})
    producer.init_transactions(120)
    for value in (b"aborted", b"committed", b"open"):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(120) == 0
        if value == b"aborted":
            producer.abort_transaction(120)
        elif value == b"committed":
            producer.commit_transaction(120)
    everything, committed = connect(broker), connect(broker, isolation_level="read_committed")
    assert [each.value for each in await everything.fetch(topic, 0, 0)] == [b"aborted", b"committed", b"open"]
    found = await committed.fetch(topic, 0, 0)
    assert [each.value for each in found] == [b"committed"]
    assert found.next_offset == 4
    assert list(await committed.fetch(topic, 0, 4)) == []
    with pytest.raises(OutOfRange) as caught:
        await committed.fetch(topic, 0, 50)
    assert (caught.value.first, caught.value.end) == (0, 4)
    producer.abort_transaction(120)
    await everything.close()
    await committed.close()


async def test_offsets_of_a_group(broker: Broker, topic: str, group: str) -> None:
    create(broker, topic, 2)
    consumer = connect(broker)
    places = [(topic, 0), (topic, 1)]
    assert await consumer.fetch_offsets(group, places) == {(topic, 0): None, (topic, 1): None}
    await consumer.commit_offsets(group, {(topic, 0): 7}, "note")
    assert await consumer.fetch_offsets(group, places) == {(topic, 0): 7, (topic, 1): None}
    await consumer.commit_offsets(group, {(topic, 0): 3, (topic, 1): 1})
    assert await consumer.fetch_offsets(group, places) == {(topic, 0): 3, (topic, 1): 1}
    with pytest.raises(KafkaError) as caught:
        await consumer.commit_offsets(group, {(topic, 9): 3})
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await consumer.close()


async def test_the_first_offsets_of_a_broker(new_broker: Callable[..., Broker], topic: str, group: str) -> None:
    """There is no topic for them yet; who commits first has it made."""
    fresh = new_broker()
    fresh.start()
    create(fresh, topic)
    consumer = connect(fresh)
    await consumer.commit_offsets(group, {(topic, 0): 7})
    assert await consumer.fetch_offsets(group, [(topic, 0)]) == {(topic, 0): 7}
    await consumer.close()


async def test_a_restarted_broker(new_broker: Callable[..., Broker], topic: str) -> None:
    restarted = new_broker()
    restarted.start()
    create(restarted, topic)
    write(restarted, topic, b"a", b"b")
    consumer = connect(restarted)
    assert len(list(await consumer.fetch(topic, 0, 0))) == 2
    restarted.stop()
    with pytest.raises(ConnectionLost):  # found out by sending, or before
        await consumer.fetch(topic, 0, 0)
    restarted.start()
    _wait_for_leader(restarted, topic, 0)
    assert [each.value for each in await consumer.fetch(topic, 0, 1)] == [b"b"]
    await consumer.close()


async def test_decoders(broker: Broker, topic: str) -> None:
    create(broker, topic)
    write(broker, topic, b'{"n": 1}', b"?", b"3", compression_type="gzip")
    consumer = connect(broker, decoder="json", key_decoder="utf-8")
    coming = iter(await consumer.fetch(topic, 0, 0))
    first = next(coming)
    assert (first.key, first.value) == ("k0", {"n": 1})
    with pytest.raises(PluginFailed, match="json"):
        next(coming)
    assert next(coming).value == 3
    await consumer.close()


async def test_overlapping_calls(broker: Broker, topic: str) -> None:
    create(broker, topic)
    write(broker, topic, b"a", b"b", b"c")
    consumer = connect(broker)
    calls = [consumer.fetch(topic, 0, offset % 3) for offset in range(30)]
    assert [next(iter(await call)).value for call in calls] == [b"a", b"b", b"c"] * 10
    await consumer.close()


async def test_a_closed_consumer(broker: Broker, topic: str) -> None:
    create(broker, topic)
    consumer = connect(broker)
    await consumer.fetch(topic, 0, 0)
    waiting = consumer.fetch(topic, 0, 0, max_wait_ms=20_000)
    await consumer.close()
    with pytest.raises(Closed):
        await waiting
    with pytest.raises(Closed):
        await consumer.fetch(topic, 0, 0)
    await consumer.close()
    await connect(broker).close()


async def test_nobody_there() -> None:
    consumer = SimpleConsumer("127.0.0.1", 1)
    with pytest.raises(NotConnected):
        await consumer.fetch("t", 0, 0)
    await consumer.close()


def test_an_unknown_protocol() -> None:
    with pytest.raises(ConfigError, match="kafka or simple"):
        SimpleConsumer("127.0.0.1", 1, protocol="carrier pigeon")
