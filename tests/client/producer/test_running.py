"""The producer with a running broker, ours and Apache Kafka: what it is given is what others read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer

from pylogbroker.client.errors import Closed, PluginFailed, RecordTooLarge
from pylogbroker.client.producer import Producer, ProducerRecord, RecordMetadata, SomeFailed
from pylogbroker.errors import ErrorCode, InvalidRecords, KafkaError, PylogbrokerError
from pylogbroker.interfaces import Create
from pylogbroker.metadata import zk_paths
from pylogbroker.metadata.zk_schema import BrokerNode, encode_broker
from tests.broker.trees import opened_tree
from tests.client.producer.other_clients import create, read, values
from tests.clients.adapters.base import CODECS, Client
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.java import Java
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.model import CANONICAL, START, Rec
from tests.peers import available as java_available
from tests.support.brokers import Broker
from tests.support.reactor_run import sleep, wait_for
from tests.support.waiting import wait_until

READERS: dict[str, Callable[[], Client]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "java": lambda: Java("3.9"),
}


async def test_a_record_and_where_it_went(broker: Broker, topic: str) -> None:
    producer = Producer(broker.bootstrap)
    before = int(time.time() * 1000)
    first = await producer.send(topic, b"value", b"key", headers=[("name", b"data"), ("none", None)])
    second = await producer.send(topic, None, timestamp=START)
    await producer.close()
    assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
    assert before <= first.timestamp <= time.time() * 1000
    assert second == RecordMetadata(topic, 0, 1, START)
    assert read(broker, topic) == [
        Rec(b"value", b"key", (("name", b"data"), ("none", None)), first.timestamp, 0, 0),
        Rec(None, None, (), START, 0, 1),
    ]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("codec", CODECS)
async def test_clients_read_every_codec(broker: Broker, topic: str, codec: str, reader: str) -> None:
    if reader == "java" and not java_available():
        pytest.skip("Java and Maven are not installed")
    producer = Producer(broker.bootstrap, compression_type=codec)
    for number, record in enumerate(CANONICAL):
        producer.send(topic, record.value, record.key, timestamp=START + number, headers=record.headers)
    await producer.close()
    expected = [
        Rec(record.value, record.key, record.headers, START + number, 0, number)
        for number, record in enumerate(CANONICAL)
    ]
    client = READERS[reader]()
    try:
        assert client.read(broker.bootstrap, topic, [0]) == expected
    finally:
        if isinstance(client, Java):
            client.close()


async def test_many_and_where_they_went(broker: Broker, topic: str) -> None:
    create(broker, topic, 3)
    producer = Producer(broker.bootstrap, batch_num_messages=10)
    await producer.send(topic, b"first", partition=0)
    keyed = [(topic, b"%d" % number, b"%d" % (number % 7)) for number in range(100)]
    bare = [(topic, b"%d" % number) for number in range(100, 200)]
    records = [ProducerRecord(topic, b"%d" % number, partition=2, timestamp=START) for number in range(200, 210)]
    results = [await producer.send_many(each) for each in (keyed, bare, records)]
    assert await producer.send_many([]) == []
    await producer.close()
    found = {(record.partition, record.offset): record for record in read(broker, topic, (0, 1, 2))}
    everything = [result for many in results for result in many]
    assert [found[result.partition, result.offset].value for result in everything] == [b"%d" % n for n in range(210)]
    assert [found[result.partition, result.offset].timestamp for result in everything] == [
        result.timestamp for result in everything
    ]
    assert {result[:2] for result in results[2]} == {(topic, 2)}
    assert len(found) == 211


async def test_keys_go_where_java_puts_them(broker: Broker, topic: str) -> None:
    create(broker, topic, 5)
    keys = [b"key %d" % number for number in range(20)]
    java_like = KafkaProducer(bootstrap_servers=broker.bootstrap)
    theirs = [java_like.send(topic, b"theirs", key).get(120).partition for key in keys]
    java_like.close()
    producer = Producer(broker.bootstrap)
    ours = [(await producer.send(topic, b"ours", key)).partition for key in keys]
    await producer.close()
    assert ours == theirs
    assert len(set(ours)) > 1


@pytest.mark.parametrize("acks", ["0", "1", "all"])
async def test_acks(broker: Broker, topic: str, acks: str) -> None:
    producer = Producer(broker.bootstrap, request_required_acks=acks)
    results = [await producer.send(topic, b"%d" % number) for number in range(3)]
    await producer.close()
    assert [result.offset for result in results] == ([-1, -1, -1] if acks == "0" else [0, 1, 2])
    await arrived(broker, topic, 3)
    assert values(broker, topic) == [b"0", b"1", b"2"]


async def arrived(broker: Broker, topic: str, count: int) -> None:
    """Nobody says when records without an acknowledgement are in the log: look until they are."""
    wait_until(lambda: len(values(broker, topic)) >= count)


async def test_sync_sends_each_record_by_itself(broker: Broker, topic: str) -> None:
    producer = Producer(broker.bootstrap, settings={"producer.type": "sync", "queue.time": "60000"})
    sent = [producer.send(topic, b"%d" % number) for number in range(10)]
    assert [(await each).offset for each in sent] == list(range(10))
    assert producer.counts.batches == 10
    await producer.close()
    assert values(broker, topic) == [b"%d" % number for number in range(10)]


async def test_async_producer_sends_full_batches(broker: Broker, topic: str) -> None:
    producer = Producer(broker.bootstrap, queue_time=60_000, batch_num_messages=4)
    await producer.send_many([(topic, b"%d" % number) for number in range(4)])
    sent = [producer.send(topic, b"%d" % number) for number in range(4, 9)]
    assert (await sent[3]).offset == 7
    assert not sent[4].called
    await producer.flush()
    assert sent[4].called
    assert producer.counts.batches == 3
    await producer.close()


async def test_a_topic_appears_later(broker: Broker, topic: str) -> None:
    producer = Producer(broker.bootstrap, allow_auto_create_topics=False, retry_backoff_ms=20)
    sent = [producer.send(topic, b"%d" % number) for number in range(3)]
    await wait_for(lambda: producer.counts.queued == 3)
    await sleep(0.1)
    create(broker, topic)
    assert [(await each).offset for each in sent] == [0, 1, 2]
    await producer.close()


async def test_a_topic_never_appears(broker: Broker, topic: str) -> None:
    for limit_ms in (100, 3000, 60_000):  # no broker may have answered before the first one
        producer = Producer(
            broker.bootstrap, allow_auto_create_topics=False, retry_backoff_ms=20, max_block_ms=limit_ms
        )
        with pytest.raises(PylogbrokerError) as raised:
            await producer.send(topic, b"value")
        assert producer.counts.failed == 1
        assert producer.counts.queued == producer.counts.queued_bytes == 0
        await producer.close()
        if isinstance(raised.value, KafkaError):
            break
    assert isinstance(raised.value, KafkaError)
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_that_cannot_be(broker: Broker, topic: str) -> None:
    producer = Producer(broker.bootstrap)
    with pytest.raises(KafkaError) as raised:
        await producer.send("no/such", b"value")
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (await producer.send(topic, b"value")).offset == 0
    await producer.close()


async def test_a_partition_that_is_not_there(broker: Broker, topic: str) -> None:
    create(broker, topic, 2)
    producer = Producer(broker.bootstrap)
    with pytest.raises(KafkaError) as raised:
        await producer.send(topic, b"value", partition=2)
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await producer.send(topic, b"value", partition=1)).partition == 1
    await producer.close()


async def test_records_that_cannot_be_sent_fail_alone(broker: Broker, topic: str) -> None:
    producer = Producer(broker.bootstrap, max_request_size=1000)
    good, bad = producer.send(topic, b"good"), producer.send(topic, "a text")
    large, odd = producer.send(topic, b"x" * 1000), producer.send(topic, b"", headers=[("h", 5)])  # type: ignore[list-item]
    with pytest.raises(PluginFailed, match="bytes"):
        await bad
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
        await large
    with pytest.raises(InvalidRecords, match="header"):
        await odd
    assert (await good).offset == 0
    with pytest.raises(SomeFailed, match="1 of 3") as raised:
        await producer.send_many([(topic, b"1"), (topic, "two"), (topic, b"3")])
    first, second, third = raised.value.results
    assert isinstance(second, PluginFailed)
    assert [result.offset for result in (first, third) if isinstance(result, RecordMetadata)] == [1, 2]
    await producer.close()
    assert values(broker, topic) == [b"good", b"1", b"3"]


async def test_a_batch_that_the_broker_finds_too_large_is_split(broker: Broker, topic: str) -> None:
    create(broker, topic, max_message_bytes="1000")
    producer = Producer(broker.bootstrap, batch_size=100_000)
    sent = [producer.send(topic, b"%03d" % number * 30) for number in range(40)]
    too_large = producer.send(topic, b"x" * 1500)
    last = producer.send(topic, b"last")
    assert [(await each).offset for each in sent] == list(range(40))
    with pytest.raises(KafkaError) as raised:
        await too_large
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert (await last).offset == 40
    assert values(broker, topic) == [*(b"%03d" % number * 30 for number in range(40)), b"last"]
    await producer.close()


async def test_log_append_time_is_answered(broker: Broker, topic: str) -> None:
    create(broker, topic, message_timestamp_type="LogAppendTime")
    producer = Producer(broker.bootstrap)
    result = await producer.send(topic, b"value", timestamp=START)
    await producer.close()
    assert [record.timestamp for record in read(broker, topic)] == [result.timestamp]
    assert result.timestamp > START


async def test_a_closed_producer_sends_nothing(broker: Broker, topic: str) -> None:
    producer = Producer(broker.bootstrap, linger_ms=60_000)
    lingering = producer.send(topic, b"value")
    await producer.close()
    assert (await lingering).offset == 0
    with pytest.raises(Closed):
        await producer.send(topic, b"value")
    with pytest.raises(SomeFailed):
        await producer.send_many([(topic, b"value")])
    await producer.close()


async def test_new_partitions_are_used(broker: Broker, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    create(broker, topic, 1)
    producer = Producer(broker.bootstrap, metadata_max_age_ms=100, partitioner_class="round-robin")
    assert (await producer.send(topic, b"value")).partition == 0
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(120)
    used: set[int] = set()
    while used != {0, 1, 2}:
        used.add((await producer.send(topic, b"value")).partition)
    await producer.close()


async def test_brokers_are_found_in_the_coordination_tree(broker: Broker, topic: str, tmp_path: Path) -> None:
    def living(number: int, address: str) -> Create:
        node = BrokerNode([f"PLAINTEXT://{address}"], {"PLAINTEXT": "PLAINTEXT"})
        return Create(zk_paths.broker(number), encode_broker(node, START))

    with opened_tree(str(tmp_path / "tree")) as tree:
        await tree.commit([living(7, "127.0.0.1:1")])  # there is nobody any more
        producer = Producer(coordination=tree)
        waiting = producer.send(topic, b"value")
        await sleep(0.2)
        assert not waiting.called
        await tree.commit([living(8, broker.bootstrap)])
        assert (await waiting).offset == 0
        await producer.close()
    assert values(broker, topic) == [b"value"]
