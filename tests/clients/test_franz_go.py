"""Groups of KIP-848, share groups and transactions v2 with franz-go.

Kafka 4.4 passes the same tests: `--against kafka4`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer

from pylogbroker.client.admin.configs import ConfigResource
from pylogbroker.client.sync import AdminClient
from pylogbroker.config import ConfigOperation, SettingChange
from tests.clients.admin import create_topic
from tests.peers import go
from tests.support.brokers import Broker

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not go.available(), reason="needs Go, which fetches franz-go"),
]
PARTITIONS = 3
RECORDS = 30
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@pytest.fixture
def server(new_broker: Callable[..., Broker]) -> Broker:
    broker = new_broker(SETTINGS)
    broker.start()
    create_topic(broker.bootstrap, "t", PARTITIONS)
    return broker


def produce(server: Broker, *values: str) -> list[tuple[int, int]]:
    """Write records to all partitions in turn; return their partitions and offsets."""
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number, value in enumerate(values):
        producer.produce("t", value, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return [(number % PARTITIONS, number // PARTITIONS) for number in range(len(values))]


def test_member_of_a_group_whose_broker_assigns(server: Broker) -> None:
    written = produce(server, *map(str, range(RECORDS)))
    read = [tuple(map(int, line.split(":"))) for line in go.run("group", server.bootstrap, "t", "g", str(RECORDS))]
    assert sorted(read) == sorted(written)
    with AdminClient(server.bootstrap) as admin:
        [group] = [group for group in admin.groups.list() if group.group == "g"]
        committed = admin.groups.offsets("g")
    assert group.type.lower() == "consumer"
    assert {partition: offset.offset for partition, offset in committed.items()} == {
        ("t", index): RECORDS // PARTITIONS for index in range(PARTITIONS)
    }


def test_member_of_a_share_group(server: Broker) -> None:
    """The first record of each partition is released once, and one record is rejected."""
    reset = SettingChange("share.auto.offset.reset", ConfigOperation.SET, "earliest")
    with AdminClient(server.bootstrap) as admin:
        admin.configs.alter({ConfigResource.group("s"): [reset]})
        written = produce(server, *("bad" if number == 7 else str(number) for number in range(RECORDS)))
        lines = go.run("share", server.bootstrap, "t", "s", str(RECORDS - 1))
        offsets = admin.share_groups.offsets(["s"])["s"]
    rejected = written.pop(7)
    assert rejected == (1, 2)
    accepted = [tuple(map(int, line.split(":"))) for line in lines]
    assert sorted(accepted) == sorted((index, offset, 1 if offset else 2) for index, offset in written)
    assert {partition: offset.lag for partition, offset in offsets.items()} == {
        ("t", index): 0 for index in range(PARTITIONS)
    }


def test_each_transaction_has_an_epoch_of_its_own(server: Broker) -> None:
    epochs = list(map(int, go.run("transact", server.bootstrap, "t", "x", "4")))
    assert epochs == list(range(epochs[0], epochs[0] + 8, 2))
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "r", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    values: list[str] = []
    while len(values) < 4:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        values.append(message.value().decode())
    consumer.close()
    assert sorted(values) == [f"committed {number}" for number in range(4)]
