"""Producing, by every client: acknowledgements, idempotence, sizes up to the greatest and one above, new topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import pytest

from tests.clients.adapters.base import ACKS, Acks, Client, Rejected
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import create_topic
from tests.clients.conftest import CLIENTS
from tests.clients.model import Rec, placed
from tests.clients.stored_batches import batches

MESSAGE_TOO_LARGE = 10
INVALID_TOPIC_EXCEPTION = 17
INVALID_RECORD = 87
#: a batch of one record without key and headers: 61 bytes of header; length (3), attributes, timestamp delta, offset
#: delta, key length, value length (3) and number of headers are 11 more
AROUND_ONE_VALUE = 72
DEFAULT_MAX_BYTES = 1_048_588


@pytest.fixture(params=[name for name in CLIENTS if name != "afkak"])
def idempotent_client(request: pytest.FixtureRequest, client_named: Callable[[str], Client]) -> Client:
    return client_named(request.param)


def simple(count: int, word: str = "value") -> list[Rec]:
    return [Rec(f"{word} {number}".encode(), key=f"key {number % 3}".encode()) for number in range(count)]


def read_again(bootstrap: str, topic: str) -> list[Rec]:
    """Return the records that another client finds, without the timestamps."""
    return [attrs.evolve(record, timestamp=None) for record in KafkaPython().read(bootstrap, topic, [0])]


@pytest.mark.parametrize("acks", ACKS)
def test_acknowledgements(bootstrap: str, topic: str, client: Client, acks: Acks) -> None:
    create_topic(bootstrap, topic)
    client.write(bootstrap, topic, simple(50), acks=acks)
    # nobody says when a record that needs no acknowledgement is in the log, but one sent after it comes after it
    until_written(bootstrap, topic, 50)
    assert read_again(bootstrap, topic) == placed(simple(50))


def until_written(bootstrap: str, topic: str, count: int) -> None:
    assert len(KafkaPython().read_from(bootstrap, topic, 0, 0, count)) == count


def test_topic_is_created_by_the_first_record(bootstrap: str, topic: str, client: Client) -> None:
    client.write(bootstrap, topic, simple(3))
    assert read_again(bootstrap, topic) == placed(simple(3))


def test_idempotent_producer(bootstrap: str, topic: str, idempotent_client: Client) -> None:
    create_topic(bootstrap, topic)
    idempotent_client.write(bootstrap, topic, simple(20), idempotent=True)
    idempotent_client.write(bootstrap, topic, simple(20, "more"), idempotent=True)
    assert read_again(bootstrap, topic) == placed(simple(20) + simple(20, "more"))
    producers = {batch.producer_id for batch in batches(bootstrap, topic)}
    assert len(producers) == 2
    assert min(producers) >= 0
    assert next(_sequences(bootstrap, topic)) == 0


def _sequences(bootstrap: str, topic: str) -> Iterator[int]:
    return (batch.base_sequence for batch in batches(bootstrap, topic))


def test_greatest_record_and_one_above(bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic, configs={"max.message.bytes": "20000"})
    fits = Rec(b"f" * (20000 - AROUND_ONE_VALUE))
    client.write(bootstrap, topic, [fits])
    with pytest.raises(Rejected) as rejected:
        client.write(bootstrap, topic, [Rec(b"t" * (20000 - AROUND_ONE_VALUE + 1))])
    assert rejected.value.code == MESSAGE_TOO_LARGE
    assert read_again(bootstrap, topic) == placed([fits])


def test_greatest_record_of_the_default(bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic)
    greatest = Rec(bytes(range(256)) * 4095 + b"x" * (DEFAULT_MAX_BYTES - AROUND_ONE_VALUE - 4095 * 256))
    client.write(bootstrap, topic, [greatest])
    (found,) = client.read(bootstrap, topic, [0])
    assert found.value == greatest.value


def test_empty_records(bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic)
    empty = [Rec(b"", key=b""), Rec(b"", key=b"k"), Rec(b"v", key=b"")]
    client.write(bootstrap, topic, empty)
    assert read_again(bootstrap, topic) == placed(empty)


def test_keyless_record_is_rejected_by_a_compacted_topic(bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic, configs={"cleanup.policy": "compact"})
    keyed = Rec(b"v", key=b"k")
    client.write(bootstrap, topic, [keyed])
    with pytest.raises(Rejected) as rejected:
        client.write(bootstrap, topic, [Rec(b"no key")])
    assert rejected.value.code == (-1 if client.name == "aiokafka" else INVALID_RECORD)  # it does not know this error
    assert read_again(bootstrap, topic) == placed([keyed])


def test_log_append_time(bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic, configs={"message.timestamp.type": "LogAppendTime"})
    client.write(bootstrap, topic, [attrs.evolve(record, timestamp=1000) for record in simple(3)] if (
        client.can.sets_timestamps
    ) else simple(3))  # fmt: skip
    assert all(batch.log_append_time for batch in batches(bootstrap, topic))
    first = KafkaPython().read(bootstrap, topic, [0])[0]
    assert (first.timestamp or 0) > 1_600_000_000_000


def test_broker_compresses_as_the_topic_says(bootstrap: str, topic: str, client: Client) -> None:
    create_topic(bootstrap, topic, configs={"compression.type": "zstd"})
    repeated = [Rec(b"again and " * 100) for _ in range(5)]
    client.write(bootstrap, topic, repeated, codec="gzip")
    assert {batch.codec for batch in batches(bootstrap, topic)} == {"zstd"}
    assert read_again(bootstrap, topic) == placed(repeated)


@pytest.mark.parametrize("name", ["confluent", "kcat", "java-3.9", "java-4"])
def test_name_that_no_topic_can_have(bootstrap: str, name: str, client_named: Callable[[str], Client]) -> None:
    with pytest.raises(Rejected) as rejected:
        client_named(name).write(bootstrap, "no/such name", simple(1))
    assert rejected.value.code == INVALID_TOPIC_EXCEPTION
