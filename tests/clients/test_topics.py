"""Topics as clients meet them: created by asking or not, unknown, of many partitions, aging, waited on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import attrs
import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec

from tests.clients.adapters.base import TIMEOUT, Client, Rejected
from tests.clients.adapters.confluent import Confluent, consumer, messages
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import admin_client, create_topic, eventually
from tests.clients.model import START, Rec, in_log_order, placed
from tests.clients.stored_batches import batches
from tests.conftest import make_broker
from tests.support.brokers import KAFKA_RELEASES, Broker

UNKNOWN_TOPIC_OR_PARTITION = 3
PARTITIONS = 100
#: Kafka looks for what is too old for the first time half a minute after its start
WAIT_SECONDS_MAX = 180


@pytest.fixture(scope="module")
def strict_broker(against: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that creates no topics of itself."""
    if against not in ("", *KAFKA_RELEASES):
        pytest.skip("a broker that runs already has the settings that it has")
    broker = make_broker(against, tmp_path_factory.mktemp("strict"), {"auto.create.topics.enable": "false"})
    broker.start()
    yield broker
    broker.kill()


def names_of(bootstrap: str) -> list[str]:
    with admin_client(bootstrap) as admin:
        return list(admin.list_topics())


def test_no_topic_is_created_where_that_is_forbidden(strict_broker: Broker, topic: str) -> None:
    failed: list[KafkaError | None] = []
    producer = Producer(
        {
            "bootstrap.servers": strict_broker.bootstrap,
            "message.timeout.ms": 120_000,
            "topic.metadata.propagation.max.ms": 500,
        }
    )
    producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error))
    producer.flush(TIMEOUT)
    assert failed[0] is not None
    assert failed[0].code() in (KafkaError._UNKNOWN_TOPIC, UNKNOWN_TOPIC_OR_PARTITION)
    create_topic(strict_broker.bootstrap, f"{topic}-asked-for")
    Confluent().write(strict_broker.bootstrap, f"{topic}-asked-for", [Rec(b"x")])
    assert topic not in names_of(strict_broker.bootstrap)


def test_readers_question_creates_no_topic(bootstrap: str, topic: str) -> None:
    """librdkafka's consumers ask not to create it, whatever the broker allows."""
    with consumer(bootstrap, **{"group.id": topic, "auto.offset.reset": "earliest"}) as reader:
        reader.subscribe([topic])
        error = next(messages(reader)).error()
    assert error is not None
    assert error.code() == UNKNOWN_TOPIC_OR_PARTITION
    assert topic not in names_of(bootstrap)


def test_unknown_partition(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    with pytest.raises(Rejected) as rejected:
        Confluent().write(bootstrap, topic, [Rec(b"x", partition=7)])
    assert rejected.value.code == KafkaError._UNKNOWN_PARTITION


@pytest.mark.parametrize("reader", ["confluent", "kafka-python", "aiokafka", "java-4"])
def test_many_partitions_are_read_in_sessions(
    bootstrap: str, topic: str, reader: str, client_named: Callable[[str], Client]
) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    written = [Rec(f"{step} of {each}".encode(), partition=each) for step in range(5) for each in range(PARTITIONS)]
    Confluent().write(bootstrap, topic, written)
    found = in_log_order(client_named(reader).read(bootstrap, topic, range(PARTITIONS)))
    assert [attrs.evolve(record, timestamp=None) for record in found] == placed(written)


def test_waiting_reader_gets_a_record_as_soon_as_it_is_there(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    with consumer(
        bootstrap,
        **{"fetch.wait.max.ms": 120_000, "socket.timeout.ms": 240_000, "fetch.min.bytes": 1},
        **{"auto.offset.reset": "earliest"},
    ) as one:
        one.assign([_at_end(topic)])
        assert one.poll(1) is None  # its request waits at the broker now
        started = time.monotonic()
        Confluent().write(bootstrap, topic, [Rec(b"now")])
        message = next(messages(one))
        assert message.value() == b"now"
        assert time.monotonic() - started < 60


def _at_end(topic: str) -> confluent_kafka.TopicPartition:
    return confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_END)


def test_many_producers_at_once(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)

    def write(producer: int) -> None:
        records = [Rec(f"{producer}:{number}".encode()) for number in range(50)]
        Confluent().write(bootstrap, topic, records, idempotent=producer % 2 == 0)

    threads = [threading.Thread(target=write, args=(each,)) for each in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    found = [(record.value or b"").decode().split(":") for record in KafkaPython().read(bootstrap, topic, [0])]
    for producer in range(10):
        assert [number for name, number in found if name == str(producer)] == [str(each) for each in range(50)]


def _start(admin: KafkaAdminClient, partition: TopicPartition) -> int:
    return int(admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})[partition].offset)


def test_old_records_are_deleted_in_time(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, configs={"retention.ms": "1800000", "segment.bytes": "1000"})
    old = [Rec(b"x" * 300, timestamp=START + each) for each in range(10)]
    for each in old:
        Confluent().write(bootstrap, topic, [each])
    Confluent().write(bootstrap, topic, [Rec(b"young", timestamp=int(time.time() * 1000))])
    partition = TopicPartition(topic, 0)
    with admin_client(bootstrap) as admin:
        eventually(lambda: _start(admin, partition) > 7, True, WAIT_SECONDS_MAX)
    assert KafkaPython().read(bootstrap, topic, [0])[-1].value == b"young"


def test_too_much_is_deleted(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, configs={"retention.bytes": "3000", "segment.bytes": "1000"})
    for each in range(20):
        Confluent().write(bootstrap, topic, [Rec(str(each).encode() * 150)])
    partition = TopicPartition(topic, 0)
    with admin_client(bootstrap) as admin:
        eventually(lambda: _start(admin, partition) > 8, True, WAIT_SECONDS_MAX)
    assert 3000 <= sum(len(record.value or b"") + 68 for record in KafkaPython().read(bootstrap, topic, [0])) <= 4500


def test_reader_of_deleted_records_goes_on_at_the_beginning(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    KafkaPython().write(bootstrap, topic, [Rec(str(each).encode()) for each in range(10)])
    partition = TopicPartition(topic, 0)
    with admin_client(bootstrap) as admin:
        admin.delete_records({partition: 6})
    reader = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=int(TIMEOUT * 1000)
    )
    try:
        reader.assign([partition])
        reader.seek(partition, 2)
        assert next(reader).offset == 6
    finally:
        reader.close()


def test_settings_take_effect_at_once(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    with admin_client(bootstrap) as admin:
        settings = {"compression.type": "gzip", "max.message.bytes": "500"}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, settings)])
        eventually(
            lambda: admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic].keys(),
            settings.keys(),
        )
    Confluent().write(bootstrap, topic, [Rec(b"x" * 400)])
    assert {batch.codec for batch in batches(bootstrap, topic)} == {"gzip"}
    with pytest.raises(Rejected):
        Confluent().write(bootstrap, topic, [Rec(bytes(range(256)) * 4)])
