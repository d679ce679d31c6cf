"""Transactions with a running broker, ours and Apache Kafka: what a reader of committed records sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.threads import deferToThread

from pylogbroker.client.producer import (
    Fenced,
    NeedsAbort,
    OffsetToCommit,
    Producer,
    TransactionAborted,
    TransactionError,
)
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from tests.client.producer.other_clients import committed_values, create, values
from tests.clients.adapters.kafka_python import KafkaPython
from tests.support.brokers import Broker

QUICK: dict[str, Any] = {"retry.backoff.ms": 20, "retry.backoff.max.ms": 100, "reconnect.backoff.max.ms": 100}


def transactional(broker: Broker, name: str, **settings: Any) -> Producer:
    return Producer(broker.bootstrap, settings=QUICK, transactional_id=name, **settings)


async def end(broker: Broker, topic: str) -> None:
    """A record behind all others, without a transaction."""
    producer = Producer(broker.bootstrap)
    await producer.send(topic, b"end", partition=0)
    await producer.close()


async def test_read_committed_returns_only_committed_records(broker: Broker, topic: str) -> None:
    create(broker, topic)
    producer = transactional(broker, topic)
    for number, how in enumerate((producer.commit, producer.abort, producer.commit)):
        await producer.begin()
        sent = [producer.send(topic, b"%d-%d" % (number, each)) for each in range(3)]
        await producer.flush()
        assert all(each.called for each in sent)
        await how()
    await producer.close()
    await end(broker, topic)
    assert committed_values(broker, topic, b"end") == [b"0-0", b"0-1", b"0-2", b"2-0", b"2-1", b"2-2", b"end"]
    assert len(committed_values(broker, topic, b"end", "read_uncommitted")) == 10


async def test_several_partitions_and_an_empty_one(broker: Broker, topic: str) -> None:
    create(broker, topic, 3)
    producer = transactional(broker, topic)
    await producer.begin()
    await producer.commit()
    await producer.begin()
    await producer.abort()
    await producer.begin()
    sent = [producer.send(topic, b"%d" % number, partition=number % 3) for number in range(9)]
    await producer.commit()
    assert [(await each).partition for each in sent] == [0, 1, 2] * 3
    await producer.close()
    assert [values(broker, topic, partition) for partition in range(3)] == [
        [b"%d" % number for number in range(first, 9, 3)] for first in range(3)
    ]


async def test_an_abort_drops_unsent_records(broker: Broker, topic: str) -> None:
    create(broker, topic)
    producer = transactional(broker, topic, linger_ms=60_000)
    await producer.begin()
    waiting = producer.send(topic, b"waiting")
    await producer.abort()
    with pytest.raises(TransactionAborted):
        await waiting
    await producer.begin()
    done = producer.send(topic, b"done")
    await producer.commit()
    assert (await done).offset == 0
    await producer.close()


async def test_offsets_of_a_group_are_part_of_the_transaction(broker: Broker, topic: str, group: str) -> None:
    create(broker, topic, 2)
    producer = transactional(broker, topic)
    await producer.begin()
    await producer.send_offsets({(topic, 0): 5, (topic, 1): OffsetToCommit(7, "note")}, group)
    assert committed_offsets(broker, topic, group) == [None, None]
    await producer.commit()
    await producer.begin()
    await producer.send_offsets({(topic, 0): 50}, group)
    await producer.abort()
    await producer.close()
    assert committed_offsets(broker, topic, group) == [(5, ""), (7, "note")]


def committed_offsets(broker: Broker, topic: str, group: str) -> list[tuple[int, str] | None]:
    return [KafkaPython().committed(broker.bootstrap, group, topic, partition) for partition in (0, 1)]


async def test_a_later_producer_fences_the_earlier_one(broker: Broker, topic: str) -> None:
    create(broker, topic)
    first, second = transactional(broker, topic), transactional(broker, topic)
    await first.begin()
    await first.send(topic, b"first")
    await second.begin()
    await second.send(topic, b"second")
    late = first.send(topic, b"late")
    with pytest.raises(KafkaError):
        await late
    with pytest.raises((TransactionError, KafkaError)):
        await first.commit()
    with pytest.raises((TransactionError, KafkaError)):
        await first.abort()
    with pytest.raises(Fenced):
        await first.begin()
    await second.commit()
    await second.close()
    await first.close()
    await end(broker, topic)
    assert committed_values(broker, topic, b"end") == [b"second", b"end"]


async def test_a_failure_makes_an_abort_necessary(broker: Broker, topic: str) -> None:
    create(broker, topic, max_message_bytes="1000")
    producer = transactional(broker, topic)
    await producer.begin()
    good = producer.send(topic, b"good")
    await producer.flush()
    with pytest.raises(KafkaError) as raised:
        await producer.send(topic, b"x" * 2000)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(NeedsAbort):
        await producer.send(topic, b"more")
    with pytest.raises(NeedsAbort):
        await producer.commit()
    await producer.abort()
    await producer.begin()
    await producer.send(topic, b"again")
    await producer.commit()
    await producer.close()
    assert (await good).offset == 0
    await end(broker, topic)
    assert committed_values(broker, topic, b"end") == [b"again", b"end"]


async def test_closing_the_producer_aborts_the_transaction(broker: Broker, topic: str) -> None:
    create(broker, topic)
    producer = transactional(broker, topic)
    await producer.begin()
    await producer.send(topic, b"left open")
    await producer.close()
    await end(broker, topic)
    assert committed_values(broker, topic, b"end") == [b"end"]


async def test_calls_in_the_wrong_state_are_errors(broker: Broker, topic: str) -> None:
    producer = transactional(broker, topic)
    with pytest.raises(TransactionError, match="no transaction has begun"):
        await producer.send(topic, b"value")
    for call in (producer.commit, producer.abort):
        with pytest.raises(TransactionError, match="no transaction has begun"):
            await call()
    with pytest.raises(TransactionError, match="no transaction has begun"):
        await producer.send_offsets({(topic, 0): 1}, "group")
    await producer.begin()
    with pytest.raises(TransactionError, match="is open"):
        await producer.begin()
    await producer.close()
    plain = Producer(broker.bootstrap)
    with pytest.raises(ConfigError, match=r"transactional\.id"):
        await plain.begin()
    await plain.close()


async def test_a_broker_that_comes_back_in_the_middle(
    new_broker: Callable[..., Broker], topic: str, broker_name: str
) -> None:
    broker = new_broker()
    broker.start()
    create(broker, topic)
    producer = transactional(broker, topic, batch_num_messages=5)
    for round_ in range(1 if broker_name == "kafka" else 3):
        await producer.begin()
        sent = [producer.send(topic, b"%d-%d" % (round_, each)) for each in range(50)]
        await sent[0]
        more = [producer.send(topic, b"%d-%d" % (round_, each)) for each in range(50, 100)]
        await deferToThread(broker.kill)
        await deferToThread(broker.start)
        await producer.commit()
        assert all(each.called for each in sent + more)
    await producer.close()
    await end(broker, topic)
    rounds = 1 if broker_name == "kafka" else 3
    expected = [b"%d-%d" % (round_, each) for round_ in range(rounds) for each in range(100)]
    assert committed_values(broker, topic, b"end") == [*expected, b"end"]
