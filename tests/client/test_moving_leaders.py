"""Leaders and coordinators that die, come back, or move while we send and read: on three nodes of Apache Kafka.

Nothing acknowledged is lost, nothing is doubled, each partition keeps its order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from twisted.internet.threads import deferToThread

from pylogbroker.client import ConsumerConnector
from pylogbroker.client.errors import ConnectionLost
from pylogbroker.client.producer import Producer
from pylogbroker.client.simple_consumer import EARLIEST, SimpleConsumer
from pylogbroker.client.sync import ConsumerConnector as SyncConnector
from pylogbroker.client.sync import Producer as SyncProducer
from pylogbroker.client.sync import SimpleConsumer as SyncSimpleConsumer
from pylogbroker.errors import ErrorCode, KafkaError
from tests.client.consumer_harness import Collector, committed, connector, write
from tests.client.moving_leaders import GROUPS, TRANSACTIONS, MovableCluster, Traffic, by_partition
from tests.clients.adapters.confluent import Confluent
from tests.peers import available
from tests.peers.kafka import KafkaCluster
from tests.support.reactor_run import sleep, wait_for

pytestmark = [pytest.mark.skipif(not available(), reason="needs a JDK and Maven")]

QUICK: dict[str, Any] = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovableCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield MovableCluster(cluster)


@pytest.fixture
def brokers(running: MovableCluster) -> MovableCluster:
    """The cluster, whole."""
    running.heal()
    return running


def read_by_others(brokers: MovableCluster, topic: str, partitions: int = 1) -> dict[int, list[Any]]:
    return by_partition(Confluent().read(brokers.bootstrap, topic, range(partitions)))


async def begin_reading(
    brokers: MovableCluster, topic: str, group: str, **settings: Any
) -> tuple[ConsumerConnector, Collector]:
    consumer = connector(brokers.bootstrap, group, settings={**QUICK, **settings})
    streams = await consumer.create_message_streams({topic: 1})
    return consumer, Collector(*streams[topic], many=100)


async def everything_read(collector: Collector, traffic: Traffic) -> None:
    """Wait for as many messages as were sent; one that did not come is missed by who compares."""
    with suppress(TimeoutError):
        await wait_for(lambda: len(collector.messages) >= len(traffic.results) or collector.done[0].called, 120)


async def test_a_leader_that_dies_and_comes_back(brokers: MovableCluster, topic: str, group: str) -> None:
    brokers.create(topic, 3)
    consumer, collector = await begin_reading(brokers, topic, group)
    producer = Producer(brokers.bootstrap, settings=QUICK, batch_num_messages=7)
    traffic = Traffic(producer, topic, 3)
    await traffic.during(partial(brokers.kill, 2), brokers.heal)
    sent = await traffic.acknowledged()
    await everything_read(collector, traffic)
    await consumer.shutdown()
    await producer.close()
    assert by_partition(collector.messages) == sent
    assert read_by_others(brokers, topic, 3) == sent
    assert producer.counts.retries > 0


async def test_a_leader_that_moves(brokers: MovableCluster, topic: str, group: str) -> None:
    brokers.create(topic)
    consumer, collector = await begin_reading(brokers, topic, group)
    producer = Producer(brokers.bootstrap, settings=QUICK, batch_num_messages=7)
    traffic = Traffic(producer, topic)
    await traffic.during(*(partial(brokers.move, topic, 0, node) for node in (2, 3, 1, 2)))
    sent = await traffic.acknowledged()
    await everything_read(collector, traffic)
    await consumer.shutdown()
    await producer.close()
    assert by_partition(collector.messages) == sent
    assert read_by_others(brokers, topic) == sent
    assert producer.counts.retries > 0


@pytest.mark.parametrize("way", ["killed", "moved"])
async def test_transactions(brokers: MovableCluster, topic: str, group: str, way: str) -> None:
    """The coordinator, and with it the leader of a partition, go away in the middle of transactions."""
    brokers.create(topic, 2)
    consumer, collector = await begin_reading(brokers, topic, group, **{"isolation.level": "read_committed"})
    producer = Producer(brokers.bootstrap, settings=QUICK, transactional_id=topic, batch_num_messages=7)
    traffic = Traffic(producer, topic, 2)
    await producer.begin()
    traffic.send()
    await producer.commit()  # from here on there is a coordinator
    where = await deferToThread(brokers.coordinate, TRANSACTIONS, topic, 2)

    def disturb() -> None:
        if way == "killed":
            brokers.kill(2)
            brokers.heal()
        else:
            for partition in (0, 1):
                brokers.move(topic, partition, 3)
            brokers.move(*where, 3)

    disturbed = deferToThread(disturb)
    rounds = 0
    while not disturbed.called or rounds < 6 or rounds % 3:
        await producer.begin()
        for _ in range(10):
            traffic.send()
        await sleep(0.005)
        if rounds % 3 == 1:
            await abort(traffic, 10)
        else:
            await producer.commit()
        rounds += 1
    await disturbed
    sent = await traffic.acknowledged()
    await everything_read(collector, traffic)
    await consumer.shutdown()
    await producer.close()
    assert by_partition(collector.messages) == sent
    assert read_by_others(brokers, topic, 2) == sent


async def abort(traffic: Traffic, count: int) -> None:
    """Abort, and forget the last records of each partition."""
    aborted = traffic.results[-count * traffic.partitions :]
    del traffic.results[-count * traffic.partitions :]
    for each in aborted:
        each.addErrback(lambda _: None)
    await traffic.producer.abort()
    for values in traffic.sent.values():
        del values[-count:]


@pytest.mark.parametrize("way", ["killed", "moved"])
async def test_a_group_survives_the_loss_of_its_coordinator(
    brokers: MovableCluster, topic: str, group: str, way: str
) -> None:
    brokers.create(topic, 3)
    consumer, collector = await begin_reading(brokers, topic, group, **{"auto.commit.interval.ms": 100})
    where = await deferToThread(brokers.coordinate, GROUPS, group, 2)
    producer = Producer(brokers.bootstrap, settings=QUICK)
    traffic = Traffic(producer, topic, 3)
    if way == "killed":
        await traffic.during(partial(brokers.kill, 2), brokers.heal)
    else:
        await traffic.during(partial(brokers.move, *where, 3))
    sent = await traffic.acknowledged()
    await everything_read(collector, traffic)
    await consumer.commit_offsets()
    assert await consumer.committed() == {(topic, number): len(values) for number, values in sent.items()}
    await consumer.shutdown()
    await producer.close()
    assert by_partition(collector.messages) == sent
    ends = await deferToThread(committed, brokers.bootstrap, group, topic, 3)
    assert ends == [len(sent[number]) for number in range(3)]


async def test_a_simple_consumer_is_notified(brokers: MovableCluster, topic: str) -> None:
    """The simple consumer finds no leaders and does not retry; its error says so."""
    brokers.create(topic)
    host, port = brokers.address(1)
    consumer = SimpleConsumer(host, port)
    assert not list(await consumer.fetch(topic, 0, 0))
    await deferToThread(brokers.move, topic, 0, 2, 3)
    for ask in (partial(consumer.fetch, topic, 0, 0), partial(consumer.get_offsets_before, topic, 0, EARLIEST)):
        with pytest.raises(KafkaError, match=f"{topic}/0: .*lead") as rejected:
            await ask()
        assert rejected.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await consumer.close()
    other = SimpleConsumer(*brokers.address(2))
    assert await other.get_offsets_before(topic, 0, EARLIEST) == [0]
    await other.close()


async def test_a_simple_consumer_survives_the_death_of_its_broker(brokers: MovableCluster, topic: str) -> None:
    brokers.create(topic, 2)
    consumer = SimpleConsumer(*brokers.address(2))
    waiting = consumer.fetch(topic, 1, 0, max_wait_ms=20_000)
    await sleep(0.1)
    await deferToThread(brokers.cluster.nodes[2].kill)
    with pytest.raises(ConnectionLost, match=str(consumer.address)):
        await waiting
    await deferToThread(brokers.heal)
    await deferToThread(brokers.move, topic, 1, 2)
    assert not list(await consumer.fetch(topic, 1, 0))
    await consumer.close()


def test_scripts_follow_the_leader(brokers: MovableCluster, topic: str, group: str) -> None:
    brokers.create(topic)
    values = [b"%d" % number for number in range(30)]
    settings = {**QUICK, "auto.offset.reset": "earliest"}
    with (
        SyncProducer(brokers.bootstrap, settings=QUICK, timeout=200) as producer,
        SyncConnector(brokers.bootstrap, group=group, settings=settings, timeout=200) as consumer,
    ):
        stream = consumer.stream(topic)
        read = []
        for number, value in enumerate(values):
            if number % 10 == 0:
                brokers.move(topic, 0, 1 + (number // 10 + 1) % 3)
            assert producer.send(topic, value).offset == number
            message = stream.get(120)
            read.append(None if message is None else message.value)
    assert read == values
    with (
        SyncSimpleConsumer(*brokers.address(2)) as simple,
        pytest.raises(KafkaError, match="does not lead") as rejected,
    ):
        simple.get_offsets_before(topic, 0, EARLIEST)
    assert rejected.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_new_leader_that_has_not_everything(brokers: MovableCluster, topic: str, group: str) -> None:
    """Records at offsets that were read before are read too, and nothing twice."""
    brokers.create(topic, unclean_leader_election_enable="true", min_insync_replicas="1")
    await deferToThread(brokers.move, topic, 0, 2, 3)
    consumer, collector = await begin_reading(brokers, topic, group)
    values = [f"value-{number}" for number in range(45)]
    await deferToThread(write, brokers.bootstrap, topic, values[:10])
    await deferToThread(brokers.cluster.nodes[3].kill)
    await deferToThread(write, brokers.bootstrap, topic, values[10:20])
    await wait_for(lambda: len(collector.messages) == 20)
    await deferToThread(brokers.cluster.nodes[2].kill)
    await deferToThread(brokers.cluster.nodes[3].start)
    await deferToThread(write, brokers.bootstrap, topic, values[20:])
    with suppress(TimeoutError):
        await wait_for(lambda: len(collector.messages) >= len(values), 120)
    await consumer.shutdown()
    assert collector.values == values
    assert [message.offset for message in collector.messages] == [*range(20), *range(10, 35)]
