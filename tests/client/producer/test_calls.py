"""Calls of a producer besides `send`, with a running broker, ours and Apache Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from twisted.internet.defer import Deferred

from pylogbroker.client.errors import Closed, PluginFailed
from pylogbroker.client.producer import NeedsAbort, Producer, ProducerRecord, RecordMetadata, TransactionAborted
from pylogbroker.interfaces import CallbackHandler, Event
from tests.client.producer.other_clients import committed_values, create, read, values
from tests.client.producer.test_transactions import committed_offsets
from tests.support.brokers import Broker
from tests.support.reactor_run import sleep

QUICK: dict[str, Any] = {"retry.backoff.ms": 20, "retry.backoff.max.ms": 100, "reconnect.backoff.max.ms": 100}


async def test_space_and_counts(broker: Broker, topic: str) -> None:
    create(broker, topic)
    producer = Producer(broker.bootstrap, queue_size=10)
    sent: list[Deferred[RecordMetadata]] = []
    for number in range(100):
        await producer.room()
        sent.append(producer.send(topic, b"%d" % number))
        assert producer.counts.queued <= 10
        assert producer.counts.waiting == 0
    await producer.flush()
    assert [(await each).offset for each in sent] == list(range(100))
    counts = producer.counts
    assert (counts.sent, counts.acknowledged, counts.failed, counts.queued, counts.queued_bytes) == (100, 100, 0, 0, 0)
    assert counts.batches == counts.requests >= 10
    await producer.close()


async def test_flush_does_not_linger(broker: Broker, topic: str) -> None:
    create(broker, topic)
    producer = Producer(broker.bootstrap, linger_ms=60_000)
    sent = [producer.send(topic, b"%d" % number) for number in range(3)]
    assert not any(each.called for each in sent)
    await producer.flush()
    assert [(await each).offset for each in sent] == [0, 1, 2]
    await producer.flush()
    await producer.close()


async def test_many_of_all_kinds(broker: Broker, topic: str) -> None:
    create(broker, topic, 2)
    producer = Producer(broker.bootstrap)
    headers = [("name", b"data"), ("name", None)]
    metadata = await producer.send_many(
        [
            ProducerRecord(topic, b"0", b"key", partition=1, timestamp=1234, headers=headers),
            (topic, b"1", b"key"),
            ProducerRecord(topic, None, b"key", partition=1),
        ]
    )
    assert await producer.send_many([]) == []
    await producer.close()
    assert [each.offset for each in metadata if each.partition == 1][:1] == [0]
    assert metadata[0].timestamp == 1234
    first, *_, last = read(broker, topic, (1,))
    assert (first.value, first.key, first.timestamp) == (b"0", b"key", 1234)
    assert list(first.headers) == headers
    assert (last.value, last.key) == (None, b"key")


class Noting(CallbackHandler):
    """Notes values at each step, with everything that a full queue causes."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = 0

    def before_send(self, events: Sequence[Event]) -> Sequence[Event]:
        self.sent += [event.value for event in events]
        return events

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("linger", [0, 5])
async def test_handlers_and_a_full_queue_keep_the_order(broker: Broker, topic: str, linger: int) -> None:
    create(broker, topic)
    handler = Noting()
    producer = Producer(broker.bootstrap, queue_size=7, linger_ms=linger, callback_handlers=[handler])
    assert producer.callback_handlers == (handler,)
    expected = [b"%d" % number for number in range(100)]
    sent = [producer.send(topic, value) for value in expected]
    ends = [producer.close(), producer.close()]
    with pytest.raises(Closed):
        await producer.send(topic, b"late")
    for end in ends:
        await end
    assert [(await each).offset for each in sent] == list(range(100))
    assert handler.sent == values(broker, topic) == expected
    assert handler.closed == 1


def recreate(broker: Broker, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    for attempt in range(50):
        try:
            create(broker, topic, partitions)
        except Exception:
            if attempt == 49:
                raise
        else:
            return


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_topic_that_is_recreated(broker: Broker, topic: str, partitions: int) -> None:
    create(broker, topic, 2)
    producer = Producer(broker.bootstrap, settings=QUICK, metadata_max_age_ms=200)
    for number in range(10):
        await producer.send(topic, b"before", partition=number % 2)
    recreate(broker, topic, partitions)
    await sleep(0.5)
    after = [await producer.send(topic, b"%d" % number, partition=0) for number in range(5)]
    free = [await producer.send(topic, b"free") for _ in range(20)]
    await producer.close()
    assert [each.offset for each in after] == list(range(5))
    assert all(each.partition < partitions for each in free)
    assert values(broker, topic)[:5] == [b"%d" % number for number in range(5)]


async def test_a_record_that_fails_in_this_process_fails_the_transaction(broker: Broker, topic: str) -> None:
    create(broker, topic)
    producer = Producer(broker.bootstrap, settings=QUICK, transactional_id=topic)
    await producer.begin()
    good, bad = producer.send(topic, b"good"), producer.send(topic, object())
    with pytest.raises(PluginFailed):
        await bad
    with pytest.raises(NeedsAbort):
        await producer.commit()
    await producer.abort()
    with pytest.raises((PluginFailed, TransactionAborted)):
        await good
    await producer.begin()
    await producer.send(topic, b"again")
    ends = producer.commit(), producer.commit(), producer.close()
    for end in ends:
        await end
    assert committed_values(broker, topic, b"again") == [b"again"]


async def test_a_fenced_producer_fails_at_once(broker: Broker, topic: str) -> None:
    create(broker, topic)
    first = Producer(broker.bootstrap, settings=QUICK, transactional_id=topic)
    second = Producer(broker.bootstrap, settings=QUICK, transactional_id=topic)
    await first.begin()
    await second.begin()
    late = [first.send(topic, b"late") for _ in range(3)]
    for each in late:
        with pytest.raises(Exception) as raised:  # noqa: PT011
            await each
        assert getattr(raised.value, "code", None) is not None
    aborts = first.abort(), first.abort(), first.close()
    for each in aborts:
        each.addErrback(lambda _: None)
    await aborts[-1]
    await second.send(topic, b"second")
    await second.commit()
    await second.close()
    assert committed_values(broker, topic, b"second") == [b"second"]


async def test_offsets_that_nobody_waited_for_are_committed(broker: Broker, topic: str, group: str) -> None:
    create(broker, topic, 2)
    producer = Producer(broker.bootstrap, settings=QUICK, transactional_id=topic)
    await producer.begin()
    producer.send(topic, b"value")
    producer.send_offsets({(topic, 0): 5}, group)
    await producer.commit()
    await producer.close()
    assert committed_offsets(broker, topic, group)[0] == (5, "")
