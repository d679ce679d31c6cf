"""Share groups with librdkafka: members that come, go and are killed, and a broker that is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer

from tests.clients.admin import create_topic
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.delivery.count.limit": "10",  # few records are released so often
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
PARTITIONS = 2
RECORDS = 1_000


@pytest.fixture
def server(new_broker: Callable[..., Broker]) -> Broker:
    broker = new_broker(SETTINGS)
    broker.start()
    create_topic(broker.bootstrap, "t", PARTITIONS)
    return broker


class Members:
    """Share consumers of one group; `accepted` has the records whose acknowledgements were confirmed."""

    def __init__(self, bootstrap: str, random: Random) -> None:
        self._bootstrap = bootstrap
        self._random = random
        self.consumers: list[Any] = []
        self.accepted: set[bytes] = set()
        self.probed: set[int] = set()  # partitions in which the group has begun

    def start(self) -> None:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "g",
                "share.acknowledgement.mode": "explicit",
                "reconnect.backoff.max.ms": 200,
            }
        )
        consumer.subscribe(["t"])
        self.consumers.append(consumer)

    def stop(self) -> None:
        """Let a member leave, which releases what it has."""
        self.consumers.pop(0).close()

    def work(self) -> None:
        """Let each member acknowledge what it gets: most of it is accepted."""
        for consumer in self.consumers:
            messages = [message for message in consumer.poll(0.1) if not message.error()]
            accepted: dict[int, set[bytes]] = {}
            for message in messages:
                assert message.value() not in self.accepted, "an accepted record was delivered again"
                is_accepted = self._random.random() < 0.9
                consumer.acknowledge(message, AcknowledgeType.ACCEPT if is_accepted else AcknowledgeType.RELEASE)
                if message.value() == b"probe":
                    self.probed.add(message.partition())
                elif is_accepted:
                    accepted.setdefault(message.partition(), set()).add(message.value())
            if messages:
                for partition, error in consumer.commit_sync(10).items():
                    if error is None:
                        self.accepted |= accepted.get(partition.partition, set())


@pytest.fixture
def members(server: Broker) -> Iterator[Members]:
    members = Members(server.bootstrap, Random(7))
    yield members
    for consumer in members.consumers:
        consumer.close()


def test_each_record_is_accepted_once(server: Broker, members: Members) -> None:
    for _ in range(4):
        members.start()
    producer = Producer({"bootstrap.servers": server.bootstrap})

    def has_begun() -> bool:
        for partition in set(range(PARTITIONS)) - members.probed:
            producer.produce("t", b"probe", partition=partition)
        producer.flush()
        members.work()
        return len(members.probed) == PARTITIONS

    wait_until(has_begun, 60)
    values = [b"%d" % number for number in range(RECORDS)]
    for number, value in enumerate(values):
        producer.produce("t", value, partition=number % PARTITIONS)
    producer.flush()
    for progress in (RECORDS // 4, RECORDS // 2):
        wait_until(lambda least=progress: members.work() or len(members.accepted) >= least, 60)
        members.stop()
        members.start()
    server.kill()
    server.start()
    wait_until(
        lambda: members.work() or members.accepted == set(values), 120, lambda: f"{len(members.accepted)} records"
    )
