"""Consumer groups of KIP-848 with librdkafka: members come and go, regular expressions, restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.clients.admin import create_topic
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
}
PARTITIONS = 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, SETTINGS)
    broker.start()
    create_topic(broker.bootstrap, "t", PARTITIONS)
    yield broker
    broker.kill()


class Members:
    """Consumers of one group; `poll` asks each for a record and collects them."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._bootstrap = broker.bootstrap
        self.consumers: list[Any] = []
        self.values: list[bytes] = []

    def start(self, *topics: str, protocol: str = "consumer") -> Any:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "g",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
        if protocol == "classic":
            quick = {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000}
            settings |= {**quick, "partition.assignment.strategy": "cooperative-sticky"}
        consumer = Consumer(settings)
        consumer.subscribe(list(topics or ("t",)))
        self.consumers.append(consumer)
        return consumer

    def poll(self) -> None:
        for consumer in self.consumers:
            message = consumer.poll(0.02)
            if message is not None and not message.error():
                self.values.append(message.value())

    def have(self, *counts: int) -> bool:
        self.poll()
        assigned = [{(key.topic, key.partition) for key in consumer.assignment()} for consumer in self.consumers]
        assert len(set().union(*assigned)) == sum(map(len, assigned)), "a partition has two consumers"
        return [len(some) for some in assigned] == list(counts)

    def stop(self, consumer: Any) -> None:
        self.consumers.remove(consumer)
        consumer.close()


def produce(broker: BrokerProcess, values: range, topic: str = "t") -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, str(value), partition=value % PARTITIONS)
    assert producer.flush(60) == 0


def test_members_come_and_go(broker: BrokerProcess) -> None:
    produce(broker, range(100))
    members = Members(broker)
    first = members.start()
    wait_until(lambda: members.have(4))
    wait_until(lambda: members.poll() or len(members.values) == 100)
    members.start()
    wait_until(lambda: members.have(2, 2))
    produce(broker, range(100, 200))
    wait_until(lambda: members.poll() or len(members.values) == 200)
    members.stop(first)
    wait_until(lambda: members.have(4))
    members.stop(members.consumers[0])
    assert sorted(map(int, members.values)) == list(range(200))


def test_group_goes_on_after_a_restart(broker: BrokerProcess) -> None:
    members = Members(broker)
    consumers = [members.start(), members.start()]
    wait_until(lambda: members.have(2, 2))
    broker.kill()
    broker.start()
    produce(broker, range(100))
    wait_until(lambda: members.poll() or len(members.values) == 100)
    wait_until(lambda: members.have(2, 2))
    for consumer in consumers:
        members.stop(consumer)


def test_regular_expression_matches_topics(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "tea", 1)
    create_topic(broker.bootstrap, "coffee", 1)
    members = Members(broker)
    consumer = members.start("^t.*")
    wait_until(lambda: members.have(PARTITIONS + 1))
    assert {key.topic for key in consumer.assignment()} == {"t", "tea"}
    members.stop(consumer)


def test_classic_and_new_members_share_a_group(broker: BrokerProcess) -> None:
    """Upgrade and downgrade a group that reads on: each value once, never two owners of a partition."""
    members = Members(broker)
    old = members.start(protocol="classic")
    wait_until(lambda: members.have(4))
    produce(broker, range(100))
    wait_until(lambda: members.poll() or len(members.values) == 100)
    new = members.start()
    wait_until(lambda: members.have(2, 2))
    produce(broker, range(100, 200))
    wait_until(lambda: members.poll() or len(members.values) == 200)
    members.stop(new)
    wait_until(lambda: members.have(4))
    produce(broker, range(200, 300))
    wait_until(lambda: members.poll() or len(members.values) == 300)
    members.start()
    wait_until(lambda: members.have(2, 2))
    members.stop(old)
    wait_until(lambda: members.have(4))
    produce(broker, range(300, 400))
    wait_until(lambda: members.poll() or len(members.values) == 400)
    members.stop(members.consumers[0])
    assert sorted(map(int, members.values)) == list(range(400))


def test_a_member_commits_in_a_transaction(broker: BrokerProcess) -> None:
    """Commit in a transaction at the member's epoch; a member that was removed is fenced."""
    produce(broker, range(PARTITIONS))
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "copier"})
    producer.init_transactions(60)
    members = Members(broker)
    consumer = members.start()
    wait_until(lambda: members.poll() or len(members.values) == PARTITIONS)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(offsets_of(consumer), consumer.consumer_group_metadata(), 60)
    producer.commit_transaction(60)
    assert [offset.offset for offset in consumer.committed(partitions(), 60)] == [1] * PARTITIONS
    former = consumer.consumer_group_metadata()
    members.stop(consumer)
    producer.begin_transaction()
    with pytest.raises(KafkaException) as raised:
        producer.send_offsets_to_transaction([TopicPartition("t", 0, 9)], former, 60)
    assert raised.value.args[0].code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError._FENCED)
    producer.abort_transaction(60)
    other = members.start()
    wait_until(lambda: members.have(PARTITIONS))
    assert [offset.offset for offset in other.committed(partitions(), 60)] == [1] * PARTITIONS
    members.stop(other)


def partitions() -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in range(PARTITIONS)]


def offsets_of(consumer: Any) -> list[TopicPartition]:
    return [position for position in consumer.position(partitions()) if position.offset >= 0]
