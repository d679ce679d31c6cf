"""Brokers that end and begin again in the middle: nothing is lost, nothing is doubled, the order is kept."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from pylogbroker.client.errors import Closed
from pylogbroker.client.producer import DeliveryTimedOut, NotAllSent, Producer, RecordMetadata
from tests.client.producer.other_clients import create, values
from tests.support.brokers import Broker
from tests.support.reactor_run import sleep, wait_for

NewBroker = Callable[..., Broker]
#: A broker may end while no request is on its way, but not each time.
RESTARTS_MAX = 10
#: Long enough for a broker that is there, on a machine that stands still for some seconds.
DELIVERY_MS = 8000
QUICK: dict[str, Any] = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}


async def again(broker: Broker, end: Callable[[], object]) -> None:
    """End the broker, and start it again."""
    await deferToThread(end)
    await deferToThread(broker.start)


async def send_while(
    producer: Producer, topic: str, busy: Deferred[None], sent: list[Deferred[RecordMetadata]]
) -> None:
    """Send numbered records until `busy` is done, a few in each iteration."""
    dice = random.Random(1)
    busy.addErrback(lambda failure: failure)
    while not busy.called:
        for _ in range(dice.randrange(40)):
            sent.append(producer.send(topic, b"%d" % len(sent)))
        await producer.room()
        await sleep(dice.choice((0, 0, 0.001, 0.005)))
    await busy


@pytest.mark.parametrize("way", ["kill", "stop"])
async def test_a_broker_that_comes_back(new_broker: NewBroker, topic: str, way: str, broker_name: str) -> None:
    broker = new_broker()
    broker.start()
    create(broker, topic)
    producer = Producer(broker.bootstrap, settings=QUICK, batch_num_messages=7, buffer_memory=100_000)
    sent: list[Deferred[RecordMetadata]] = []
    restarts = 0
    while restarts < (1 if broker_name == "kafka" else 4) or (not producer.counts.retries and restarts < RESTARTS_MAX):
        await send_while(producer, topic, sleep(0.3), sent)
        await send_while(producer, topic, Deferred.fromCoroutine(again(broker, getattr(broker, way))), sent)
        restarts += 1
    await producer.flush()
    results = [await each for each in sent]
    await producer.close()
    assert values(broker, topic) == [b"%d" % number for number in range(len(sent))]
    assert all(result.offset in (number, -1) for number, result in enumerate(results))
    assert producer.counts.retries > 0


async def test_a_broker_that_stays_away(new_broker: NewBroker, topic: str) -> None:
    broker = new_broker()
    broker.start()
    create(broker, topic)
    producer = Producer(broker.bootstrap, settings=QUICK, delivery_timeout_ms=DELIVERY_MS)
    assert (await producer.send(topic, b"before")).offset == 0
    await deferToThread(broker.kill)
    lost = [producer.send(topic, b"lost %d" % number) for number in range(3)]
    for each in lost:
        with pytest.raises(DeliveryTimedOut, match="delivery"):
            await each
    await deferToThread(broker.start)
    assert (await producer.send(topic, b"after")).offset == 1
    await producer.close()
    assert values(broker, topic) == [b"before", b"after"]


async def test_a_broker_that_is_not_there_yet(new_broker: NewBroker, topic: str) -> None:
    broker = new_broker()
    broker.start()
    create(broker, topic)
    await deferToThread(broker.kill)
    producer = Producer(broker.bootstrap, settings=QUICK)
    sent = [producer.send(topic, b"%d" % number) for number in range(3)]
    await sleep(0.2)
    await deferToThread(broker.start)
    assert [(await each).offset for each in sent] == [0, 1, 2]
    await producer.close()


async def test_the_end_does_not_wait_longer_than_its_timeout(new_broker: NewBroker, topic: str) -> None:
    broker = new_broker()
    broker.start()
    create(broker, topic)
    producer = Producer(broker.bootstrap, settings=QUICK)
    await producer.send(topic, b"before")
    await deferToThread(broker.kill)
    lost = producer.send(topic, b"lost")
    unknown = producer.send(topic + "-other", b"lost")
    with pytest.raises(NotAllSent, match=r": 2 "):
        await producer.close(timeout=0.2)
    for each in (lost, unknown):
        with pytest.raises(Closed):
            await each
    assert producer.counts.queued == 0


async def test_without_idempotence_one_request_at_a_time_keeps_the_order(new_broker: NewBroker, topic: str) -> None:
    broker = new_broker()
    broker.start()
    create(broker, topic)
    producer = Producer(broker.bootstrap, settings=QUICK, acks=1, batch_num_messages=5)
    sent: list[Deferred[RecordMetadata]] = []
    await send_while(producer, topic, sleep(0.1), sent)
    await send_while(producer, topic, Deferred.fromCoroutine(again(broker, broker.kill)), sent)
    await producer.flush()
    await producer.close()
    found = values(broker, topic)
    first_seen = list(dict.fromkeys(found))
    assert first_seen == [b"%d" % number for number in range(len(sent))]
    await wait_for(lambda: all(each.called for each in sent))
