"""`__consumer_offsets` is deleted while a group consumes: its member joins again at once and reads on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.adapters.confluent import Confluent
from tests.clients.admin import admin_client, create_topic
from tests.clients.model import Rec
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

#: librdkafka pauses for 2 s before it joins again when JoinGroup rejects the member id that it has kept
PAUSE_SECONDS = 1.5
WAIT_SECONDS_MAX = 120
#: A machine may stand still as long as that pause, but not each time.
ATTEMPTS = 5


class Member:
    """A consumer that commits only when asked to, and notes when it lost its partitions and when it was given some."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        self.consumer = Consumer({**settings, "enable.auto.commit": False})
        self.events: list[tuple[str, float]] = []
        self.values: list[bytes | None] = []
        note = self._note
        self.consumer.subscribe([topic], on_assign=note("assigned"), on_revoke=note("revoked"), on_lost=note("lost"))

    def close(self) -> None:
        self.consumer.close()

    def _note(self, what: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        return lambda consumer, partitions: self.events.append((what, time.monotonic()))

    def read_until(self, condition: Callable[[], bool]) -> None:
        """Poll until the condition holds."""
        wait_until(condition, WAIT_SECONDS_MAX, lambda: (self.events, self.values), meanwhile=self._poll)

    def _poll(self) -> None:
        message = self.consumer.poll(0.1)
        if message is not None and message.error() is None:
            self.values.append(message.value())

    def commit(self) -> int:
        """Commit what was read, also again; returns the error's code, or 0."""
        try:
            self.consumer.commit(offsets=self.consumer.position(self.consumer.assignment()), asynchronous=False)
        except KafkaException as failure:
            return int(failure.args[0].code())
        return 0


@pytest.fixture
def broker(new_broker: Callable[..., Broker], against: str) -> Broker:
    if against:
        pytest.skip("Apache Kafka answers ILLEGAL_GENERATION, and librdkafka pauses before it joins again")
    one = new_broker()
    one.start()
    return one


@pytest.fixture
def member(broker: Broker) -> Iterator[Member]:
    create_topic(broker.bootstrap, "t")
    with closing(Member(broker.bootstrap, "t")) as one:
        yield one


def test_a_member_joins_again_at_once(broker: Broker, member: Member) -> None:
    Confluent().write(broker.bootstrap, "t", [Rec(b"before")])
    member.read_until(lambda: member.values == [b"before"])
    assert member.commit() == 0
    pauses = [PAUSE_SECONDS]
    while min(pauses) >= PAUSE_SECONDS and len(pauses) <= ATTEMPTS:
        pauses.append(pause_after_deletion(broker, member, b"after %d" % len(pauses)))
    assert min(pauses) < PAUSE_SECONDS, pauses


def pause_after_deletion(broker: Broker, member: Member, value: bytes) -> float:
    """Delete the topic and let the member read on; return for how many seconds it had no partitions."""
    with admin_client(broker.bootstrap) as admin:
        admin.delete_topics(["__consumer_offsets"])
    assert member.commit() == KafkaError.UNKNOWN_MEMBER_ID
    Confluent().write(broker.bootstrap, "t", [Rec(value)])
    member.read_until(lambda: value in member.values)
    (lost, lost_at), (assigned, assigned_at) = member.events[-2:]
    assert (lost, assigned) == ("lost", "assigned")
    assert member.commit() == 0
    return assigned_at - lost_at
