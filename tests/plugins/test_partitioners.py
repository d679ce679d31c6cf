"""The built-in partitioners, against those of Kafka's Java producer, librdkafka and kafka-python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python
from zope.interface.verify import verifyObject

from pylogbroker.interfaces import IPartitioner, IPartitionerFactory, IStickyPartitioner
from pylogbroker.partition_hash import murmur2, partition_of_key
from pylogbroker.plugins import partitioners as built_in
from pylogbroker.plugins.partitioners import (
    HashPartitioner,
    RandomPartitioner,
    RoundRobinPartitioner,
    StickyHashPartitioner,
)
from tests.peers.java import CLIENTS, Program
from tests.support.oracle_answers import OracleAnswers

# of each length up to some words, around where hashes are kept no more, and long ones; each byte occurs
KEYS = [bytes(range(length)) for length in (*range(13), 99, 100, 101, 102, 103, 256)]
KEYS += [random.Random(length).randbytes(length) for length in (*range(1, 40), 1000, 100_001)]


@given(st.binary(max_size=300))
def test_the_hash_is_that_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF


@pytest.mark.parametrize("clients", CLIENTS)
def test_keys_go_where_kafkas_producer_puts_them(clients: str, oracle: OracleAnswers) -> None:
    program = Program(Path(__file__).parent / "Partitions.java", clients)
    keys = "".join(f"{key.hex()}\n" for key in KEYS)
    said = oracle.answer(f"partitions-{clients}", keys, lambda: program.run("7", input=keys).stdout.splitlines())
    found = [tuple(map(int, line.split())) for line in said]
    assert [(murmur2(key), StickyHashPartitioner().partition(key, 7)) for key in KEYS] == found


def test_keys_go_where_librdkafka_puts_them() -> None:
    producer = Producer({"test.mock.num.brokers": 1, "partitioner": "murmur2", "log_level": 0})  # makes its own broker
    partitions = len(producer.list_topics("t", timeout=60).topics["t"].partitions)
    theirs: dict[bytes, int] = {}
    for key in KEYS:
        producer.produce(
            "t", b"", key, on_delivery=lambda error, record: theirs.update({record.key() or b"": record.partition()})
        )
    assert (producer.flush(120), partitions > 1) == (0, True)
    assert {key: partition_of_key(key, partitions) for key in KEYS} == theirs


def in_order(*numbers: int) -> Callable[[int], int]:
    """Chooses these, and fails if one is too large for what was asked."""
    left: Iterator[int] = iter(numbers)

    def choose(bound: int) -> int:
        number = next(left)
        assert 0 <= number < bound
        return number

    return choose


def test_without_keys_one_partition_fills_a_batch() -> None:
    partitioner = StickyHashPartitioner(in_order(2, 0, 2, 1))
    assert [partitioner.partition(None, 4) for _ in range(3)] == [2, 2, 2]
    partitioner.batch_full("t")
    assert [partitioner.partition(None, 4) for _ in range(2)] == [3, 3]  # the first that is not the one before
    partitioner.batch_full("t")
    assert partitioner.partition(None, 4) == 2  # the third
    assert partitioner.partition(None, 2) == 1  # there are fewer now


def test_a_full_batch_moves_on_to_any_other_partition() -> None:
    partitioner = StickyHashPartitioner()
    moves = Counter()
    for _ in range(3000):
        before = partitioner.partition(None, 4)
        partitioner.batch_full("t")
        moves[before, partitioner.partition(None, 4)] += 1
    assert len(moves) == 12
    assert all(before != after and count > 100 for (before, after), count in moves.items())


def test_one_partition_is_enough() -> None:
    partitioner = StickyHashPartitioner()
    partitioner.batch_full("t")
    assert partitioner.partition(None, 1) == 0
    partitioner.batch_full("t")
    assert partitioner.partition(None, 1) == 0


def test_at_random() -> None:
    partitioner = RandomPartitioner()
    assert Counter(partitioner.partition(b"k", 3) for _ in range(3000)).keys() == {0, 1, 2}
    partitioner = HashPartitioner()
    assert Counter(partitioner.partition(None, 3) for _ in range(3000)).keys() == {0, 1, 2}
    assert {partitioner.partition(b"k", 3) for _ in range(100)} == {partition_of_key(b"k", 3)}


def test_round_robin() -> None:
    partitioner = RoundRobinPartitioner(in_order(1))
    assert [partitioner.partition(key, 3) for key in (None, b"k", b"k", None, b"l")] == [1, 2, 0, 1, 2]
    assert [partitioner.partition(None, 4) for _ in range(3)] == [3, 0, 1]  # there are more now
    assert partitioner.partition(None, 1) == 0
    assert {RoundRobinPartitioner().partition(None, 3) for _ in range(200)} == {0, 1, 2}


@pytest.mark.parametrize(
    ("factory", "argument", "kind"),
    [
        (built_in.by_hash, "", StickyHashPartitioner),
        (built_in.by_hash, "random", HashPartitioner),
        (built_in.at_random, "", RandomPartitioner),
        (built_in.round_robin, "", RoundRobinPartitioner),
    ],
)
def test_factories_provide_their_interfaces(factory: IPartitionerFactory, argument: str, kind: type) -> None:
    verifyObject(IPartitionerFactory, factory)
    made = factory.make(argument, {})
    assert type(made) is kind
    verifyObject(IStickyPartitioner if kind is StickyHashPartitioner else IPartitioner, made)
    with pytest.raises(ValueError, match=factory.name):
        factory.make("what", {})
