"""Clients that are held to the protocol, and the message format, of an old release; and what they cannot be given."""

from __future__ import annotations

import attrs
import crc32c
import pytest
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.clients.adapters.base import TIMEOUT, Codec
from tests.clients.adapters.confluent import Confluent, consumer, messages, record_of
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import create_topic
from tests.clients.model import Rec, placed
from tests.clients.stored_batches import ask, batches, settled

#: releases of which each has another set of versions, and the codecs that they had
RELEASES: dict[tuple[int, ...], tuple[Codec, ...]] = {
    (0, 8, 2): ("none", "gzip", "snappy"),
    (0, 9): ("none", "gzip", "snappy"),  # kafka-python's lz4 of this format never gets as far as the socket
    (0, 10, 0): ("none", "gzip", "snappy", "lz4"),
    (0, 10, 2): ("none", "gzip", "snappy", "lz4"),
    (0, 11): ("none", "gzip", "snappy", "lz4"),
    (1, 1): ("none", "gzip", "snappy", "lz4"),
    (2, 1): ("none", "gzip", "snappy", "lz4", "zstd"),
    (2, 6): ("none", "gzip", "snappy", "lz4", "zstd"),
}
FALLBACKS = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2")
UNSUPPORTED_COMPRESSION_TYPE = 76
ZSTD = 4


def keyed(count: int) -> list[Rec]:
    return [Rec(f"value {number}".encode() * 20, key=f"key {number}".encode()) for number in range(count)]


def without_times(records: list[Rec]) -> list[Rec]:
    return [attrs.evolve(record, timestamp=None) for record in records]


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: ".".join(map(str, release)))
def test_kafka_python_of_an_old_release(bootstrap: str, topic: str, release: tuple[int, ...]) -> None:
    old = KafkaPython(api_version=release)
    codecs = RELEASES[release]
    create_topic(bootstrap, topic, len(codecs))
    records = [attrs.evolve(record, partition=index) for index in range(len(codecs)) for record in keyed(10)]
    for index, codec in enumerate(codecs):
        old.write(bootstrap, topic, [each for each in records if each.partition == index], codec=codec, acks="1")
        assert {batch.magic for batch in batches(bootstrap, topic, index)} == {2}
    everywhere = list(range(len(codecs)))
    found = sorted(old.read(bootstrap, topic, everywhere), key=lambda record: (record.partition, record.offset))
    assert without_times(found) == placed(records)
    found = sorted(
        KafkaPython().read(bootstrap, topic, everywhere), key=lambda record: (record.partition, record.offset)
    )
    assert without_times(found) == placed(records)


def test_timestamps_and_headers_are_lost_to_an_old_reader_only(bootstrap: str, topic: str) -> None:
    record = Rec(b"value", key=b"key", headers=(("a", b"1"),))
    KafkaPython().write(bootstrap, topic, [record])
    (modern,) = KafkaPython().read(bootstrap, topic, [0])
    (of_0_10,) = KafkaPython(api_version=(0, 10, 0)).read(bootstrap, topic, [0])
    (of_0_9,) = KafkaPython(api_version=(0, 9)).read(bootstrap, topic, [0])
    assert modern.headers == record.headers
    assert (of_0_10.headers, of_0_10.timestamp) == ((), modern.timestamp)
    assert (of_0_9.headers, of_0_9.timestamp or -1) == ((), -1)


@pytest.mark.parametrize("fallback", FALLBACKS)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_librdkafka_that_does_not_ask_for_versions(bootstrap: str, topic: str, fallback: str, codec: str) -> None:
    create_topic(bootstrap, topic)
    old = {"api.version.request": False, "broker.version.fallback": fallback}
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20, **old})
    for record in keyed(10):
        producer.produce(topic, record.value, record.key)
    assert producer.flush(TIMEOUT) == 0
    assert {batch.codec for batch in batches(bootstrap, topic)} == {codec}
    found = []
    with consumer(bootstrap, **old) as reader:
        reader.list_topics(topic, TIMEOUT)
        reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        for message in messages(reader):
            found.append(record_of(message))
            if len(found) == 10:
                break
    assert [(each.key, each.value) for each in found] == [(each.key, each.value) for each in keyed(10)]


@pytest.mark.parametrize(
    ("version", "compression_type", "expected"),
    [
        (2, "producer", UNSUPPORTED_COMPRESSION_TYPE),
        (4, "producer", 0),  # the broker does not look, and the bytes go out as they are
        (2, "zstd", UNSUPPORTED_COMPRESSION_TYPE),
        (4, "zstd", UNSUPPORTED_COMPRESSION_TYPE),
        (9, "zstd", UNSUPPORTED_COMPRESSION_TYPE),
        (10, "zstd", 0),
    ],
)
def test_zstd_needs_a_fetch_of_its_time(
    bootstrap: str, topic: str, version: int, compression_type: str, expected: int
) -> None:
    create_topic(bootstrap, topic, configs={"compression.type": compression_type})
    Confluent().write(bootstrap, topic, keyed(3), codec="zstd")
    one = FetchRequest.FetchTopic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    request = FetchRequest(
        replica_id=-1, max_wait_ms=100, min_bytes=1, topics=[FetchRequest.FetchTopic(topic=topic, partitions=[one])]
    )
    answer = settled(lambda: ask(bootstrap, request, FetchResponse, version).responses[0].partitions[0])
    assert (answer.error_code, bool(answer.records)) == (expected, expected == 0)


def batch(codec: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=100_000,
    )  # fmt: skip
    builder.append(0, 1_700_000_000_000, b"key", b"value " * 100, [])
    return bytes(builder.build())


def produce(bootstrap: str, topic: str, records: bytes, version: int) -> int:
    """The error code that a broker answers with."""
    data = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=records)
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=5000, topic_data=topics)
    answer = settled(lambda: ask(bootstrap, request, ProduceResponse, version).responses[0].partition_responses[0])
    return int(answer.error_code)


@pytest.mark.parametrize(("version", "expected"), [(3, UNSUPPORTED_COMPRESSION_TYPE), (7, 0)])
def test_zstd_needs_a_produce_of_its_time(bootstrap: str, topic: str, version: int, expected: int) -> None:
    create_topic(bootstrap, topic)
    assert produce(bootstrap, topic, batch(ZSTD), version) == expected
    assert len(batches(bootstrap, topic)) == (expected == 0)


def test_codec_that_does_not_exist(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    unknown = bytearray(batch(0))
    unknown[22] |= 6  # the low byte of the attributes
    unknown[17:21] = crc32c.crc32c(bytes(unknown[21:])).to_bytes(4, "big")
    assert produce(bootstrap, topic, bytes(unknown), 9) != 0
    assert batches(bootstrap, topic) == []
