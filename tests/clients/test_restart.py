"""Acknowledged records survive a stop and a crash of the broker; clients continue at their offsets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.clients.adapters.base import Client
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import admin_client, create_topic
from tests.clients.log_lines import generated
from tests.clients.members.member_process import Member, until, until_shared
from tests.clients.model import Rec
from tests.support.brokers import Broker

NewBroker = Callable[..., Broker]
ATTEMPTS = 5
#: Much less than what a broker waits for that does not notice that it is idle.
STOP_SECONDS_MAX = 5.0


@pytest.fixture
def own_broker(new_broker: NewBroker) -> Broker:
    """A broker of the test's own, started."""
    one = new_broker()
    one.start()
    return one


def stop(broker: Broker) -> None:
    assert broker.stop() == 0


def kill(broker: Broker) -> None:
    broker.kill()


@pytest.fixture(params=[stop, kill])
def end(request: pytest.FixtureRequest) -> Callable[[Broker], None]:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize(("writer", "reader"), [("confluent", "kafka-python"), ("aiokafka", "confluent")])
def test_log_file_is_the_same_after_a_restart(
    own_broker: Broker,
    end: Callable[[Broker], None],
    writer: str,
    reader: str,
    client_named: Callable[[str], Client],
) -> None:
    lines = generated(10_000)
    create_topic(own_broker.bootstrap, "access-log", configs={"segment.bytes": "500000"})
    records = [Rec(line) for line in lines]
    client_named(writer).write(own_broker.bootstrap, "access-log", records, codec="lz4", acks="all")

    def read() -> list[bytes | None]:
        return [record.value for record in client_named(reader).read(own_broker.bootstrap, "access-log", [0])]

    assert read() == lines
    end(own_broker)
    own_broker.start()
    assert read() == lines
    client_named(reader).write(own_broker.bootstrap, "access-log", [Rec(b"one more")])
    assert read() == [*lines, b"one more"]


def test_topics_settings_and_commits_are_kept(own_broker: Broker, end: Callable[[Broker], None]) -> None:
    bootstrap = own_broker.bootstrap
    create_topic(bootstrap, "kept", 3, configs={"retention.ms": "123456"})
    create_topic(bootstrap, "deleted")
    for number in range(20):
        KafkaPython().commit(bootstrap, f"group-{number % 4}", "kept", number % 3, number, f"meta {number}")
    with admin_client(bootstrap) as admin:
        admin.delete_topics(["deleted"])
        (before,) = admin.describe_topics(["kept"])
        cluster = admin.describe_cluster()["cluster_id"]
    end(own_broker)
    own_broker.start()
    with admin_client(bootstrap) as admin:
        admin.wait_for_topics(["kept"])
        (after,) = admin.describe_topics(["kept"])
        assert after["topic_id"] == before["topic_id"]
        assert len(after["partitions"]) == 3
        assert "deleted" not in admin.list_topics()
        assert admin.describe_cluster()["cluster_id"] == cluster
    for number in range(8, 20):
        found = KafkaPython().committed(bootstrap, f"group-{number % 4}", "kept", number % 3)
        assert found == (number, f"meta {number}")


def test_idempotent_producer_survives_a_restart(own_broker: Broker, end: Callable[[Broker], None]) -> None:
    """A producer sends while the broker is away: in the end every record is there once, in order."""
    create_topic(own_broker.bootstrap, "once")
    producer = Producer(
        {
            "bootstrap.servers": own_broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
        }
    )
    some, errors, count = threading.Event(), list[KafkaError](), [0]

    def delivered(error: KafkaError | None, _: Message) -> None:
        count[0] += 1
        if error is not None:
            errors.append(error)
        if count[0] == 100:
            some.set()

    def send() -> None:
        for number in range(3000):
            producer.produce("once", str(number).encode(), on_delivery=delivered)
            producer.poll(0.002 if number % 10 == 0 else 0)
        producer.flush(300)

    sender = threading.Thread(target=send)
    sender.start()
    assert some.wait(120)
    end(own_broker)
    own_broker.start()
    sender.join(400)
    assert errors == []
    found = Confluent().read(own_broker.bootstrap, "once", [0])
    assert [record.value for record in found] == [str(number).encode() for number in range(3000)]


@pytest.fixture
def members(own_broker: Broker) -> Iterator[list[Member]]:
    create_topic(own_broker.bootstrap, "shared", 4)
    started = [Member(kind, own_broker.bootstrap, "group", "shared") for kind in ("confluent", "aiokafka")]
    yield started
    for each in started:
        each.process.kill()


def test_group_goes_on_after_a_restart(
    own_broker: Broker, end: Callable[[Broker], None], members: list[Member]
) -> None:
    until_shared(members, 4)
    write = Confluent().write
    write(own_broker.bootstrap, "shared", [Rec(b"before", partition=each) for each in range(4)])
    until(members, lambda: sum(len(each.records) for each in members) >= 4)
    for each in members:
        each.commit()
    end(own_broker)
    own_broker.start()
    write(own_broker.bootstrap, "shared", [Rec(b"after", partition=each) for each in range(4)])
    until(members, lambda: sum(each.values.count("after") for each in members) >= 4)
    until_shared(members, 4)
    assert sum(each.values.count("before") for each in members) == 4


def test_broker_stops_at_once_when_idle(own_broker: Broker) -> None:
    """At least one of several times: the machine may stand still."""
    seconds: list[float] = []
    for _ in range(ATTEMPTS):
        KafkaPython().write(own_broker.bootstrap, "t", [Rec(b"x")])
        started = time.monotonic()
        stop(own_broker)
        seconds.append(time.monotonic() - started)
        if seconds[-1] < STOP_SECONDS_MAX:
            return
        own_broker.start()
    raise AssertionError(seconds)
