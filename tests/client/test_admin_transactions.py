"""The admin client on transactions and replicas of running brokers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer as OtherProducer

from pylogbroker.client import Producer
from pylogbroker.client.admin import AdminClient, NewTopic
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.testing import MemoryBroker
from tests.support.brokers import Broker


async def test_transactions(broker: Broker, topic: str, fresh_name: Callable[[], str]) -> None:
    admin = AdminClient(broker.bootstrap)
    await admin.topics.create([NewTopic(topic, 1, 1)])
    name = fresh_name()
    producer = OtherProducer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(120) == 0
    found = (await admin.transactions.describe([name]))[name]
    assert (found.state, found.partitions, found.timeout_ms) == ("Ongoing", ((topic, 0),), 60_000)
    assert found.start_ms is not None
    [listed] = [each for each in await admin.transactions.list(states=["Ongoing"]) if each.transactional_id == name]
    assert (listed.producer_id, listed.state) == (found.producer_id, "Ongoing")
    assert await admin.transactions.list(states=["Empty"], producer_ids=[found.producer_id]) == []
    [writer] = (await admin.transactions.producers([(topic, 0)]))[topic, 0]
    assert (writer.producer_id, writer.transaction_start) == (found.producer_id, 0)
    fenced = await admin.transactions.fence([name])
    assert fenced[name][0] == found.producer_id
    assert fenced[name][1] > found.producer_epoch
    [writer] = (await admin.transactions.producers([(topic, 0)]))[topic, 0]
    assert writer.transaction_start is None
    with pytest.raises(KafkaError) as caught:
        await admin.transactions.describe([f"{name}-other"])
    assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    with pytest.raises(KafkaError):
        await admin.transactions.list(states=["Nonsense"])
    await admin.close()


def test_a_producer_is_fenced_where_transactions_must_be_short() -> None:
    with MemoryBroker(transaction_max_timeout_ms=10_000) as broker:
        producer = Producer(broker.bootstrap, reactor=broker.clock, transactional_id="p", transaction_timeout_ms=5000)
        broker.run(producer.begin())
        admin = AdminClient(broker.bootstrap, reactor=broker.clock)
        assert broker.run(admin.transactions.fence(["p"]))["p"][1] > 0
        assert broker.run(admin.transactions.describe(["p"]))["p"].timeout_ms == 5000
        with pytest.raises(KafkaError) as caught:
            broker.run(admin.transactions.fence(["unknown"]))
        assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        for client in (admin, producer):
            broker.run(client.close())


async def test_a_transaction_is_aborted_without_its_coordinator(
    broker: Broker, topic: str, fresh_name: Callable[[], str]
) -> None:
    admin = AdminClient(broker.bootstrap)
    await admin.topics.create([NewTopic(topic, 1, 1)])
    producer = OtherProducer({"bootstrap.servers": broker.bootstrap, "transactional.id": fresh_name()})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(120) == 0
    [writer] = (await admin.transactions.producers([(topic, 0)]))[topic, 0]
    await admin.transactions.abort((topic, 0), writer.producer_id, writer.producer_epoch)
    [writer] = (await admin.transactions.producers([(topic, 0)]))[topic, 0]
    assert writer.transaction_start is None
    await admin.close()


async def test_replicas(broker: Broker, topic: str) -> None:
    admin = AdminClient(broker.bootstrap)
    await admin.topics.create([NewTopic(topic, 2, 1)])
    [node] = (await admin.cluster.describe()).brokers
    mine = node.broker_id
    directories = []
    while not directories:  # Kafka makes the replicas after it has answered
        found = await admin.replicas.log_dirs()
        directories = [each for each in found[mine] if {(topic, 0), (topic, 1)} <= each.replicas.keys()]
    [directory] = directories
    assert (directory.error, directory.replicas[topic, 1].is_future, directory.replicas[topic, 1].lag) == (
        None,
        False,
        0,
    )
    assert directory.total_bytes is None or directory.total_bytes >= (directory.usable_bytes or 0) > 0
    assert set(await admin.replicas.log_dirs([mine])) == {mine}
    with pytest.raises(KafkaError, match="no live broker 77"):
        await admin.replicas.log_dirs([77])
    await admin.replicas.alter_log_dirs({(mine, topic, 0): directory.path})
    with pytest.raises(KafkaError) as caught:
        await admin.replicas.alter_log_dirs({(mine, topic, 0): "/no/such/directory"})
    assert caught.value.code is ErrorCode.LOG_DIR_NOT_FOUND
    await admin.close()
