"""Brokers that are down for a while: ports are closed, and everything else is kept."""

from __future__ import annotations

import gc
import socket

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import KafkaError as KafkaErrors

from pylogbroker.errors import KafkaError, StartupError
from pylogbroker.testing import Broker, admin
from tests.broker.log_lines import logged_lines
from tests.support.waiting import wait_until


def is_closed(port: int) -> bool:
    with socket.socket() as connection:
        try:
            connection.connect(("127.0.0.1", port))
        except ConnectionRefusedError:
            return True
        return False


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [each.value for each in broker.records(topic)]


def test_the_port_is_closed_while_it_is_down() -> None:
    with Broker() as broker:
        port = broker.port
        broker.produce(broker.create_topic("kept"), "before")
        broker.clock.advance("1d")
        moved = broker.now_ms()
        broker.down()
        broker.down()
        assert (broker.is_down, is_closed(port)) == (True, True)
        with pytest.raises(RuntimeError, match=r"records of kept: the broker is down; up\(\) starts it again"):
            broker.records("kept")
        broker.up()
        broker.up()
        assert (broker.is_down, is_closed(port), broker.port) == (False, False, port)
        broker.produce("kept", "after")
        assert values(broker, "kept") == [b"before", b"after"]
        assert broker.records("kept")[1].timestamp >= moved


def test_a_client_continues_after_the_downtime() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        producer.produce("orders", b"one")
        assert producer.flush(120) == 0
        broker.down()
        producer.produce("orders", b"two")
        assert producer.flush(0.1) == 1
        broker.up()
        assert producer.flush(120) == 0
        del producer
        assert values(broker, "orders") == [b"one", b"two"]


def test_faults_and_users_are_kept() -> None:
    with Broker(users={"alice": "secret"}, schema_registry=True) as broker:
        broker.create_topic("faulty")
        listeners = broker.listeners
        fault = broker.faults.add("Produce", "NOT_LEADER_OR_FOLLOWER", topic="faulty", times=1)
        broker.restart()
        broker.produce("faulty", "value")
        assert (fault.hits, broker.listeners) == (1, listeners)
        producer = Producer(broker.client_settings("alice"))
        producer.produce("faulty", b"of alice")
        assert producer.flush(120) == 0
        del producer


def test_one_broker_of_a_cluster() -> None:
    with Broker(brokers=3) as cluster:
        assert cluster.ids == [0, 1, 2]
        topic = cluster.create_topic("replicated", 3, replication_factor=3)
        ports = [int(next(iter(addresses.values())).rpartition(":")[2]) for addresses in cluster.listeners]
        cluster.down(0)
        assert [is_closed(port) for port in ports] == [True, False, False]
        assert not cluster.is_down
        for partition in range(3):
            cluster.produce(topic, "value", partition=partition)
        cluster.up()
        assert not any(map(is_closed, ports))
        cluster.restart()
        assert values(cluster, topic) == [b"value"] * 3
        with pytest.raises(ValueError, match="there is no broker 3; expected one of 0, 1, 2"):
            cluster.down(3)


def test_questions_while_one_broker_of_a_cluster_is_down() -> None:
    """Right after it has gone, the others still name it as a broker and as a leader."""
    with Broker(brokers=3, offsets_topic_num_partitions=6) as cluster:
        topic = cluster.create_topic("replicated", 3, replication_factor=3)
        for partition in range(3):
            cluster.produce(topic, "value", partition=partition)
        assert cluster.groups == cluster.open_transactions == []
        for broker in cluster.ids:
            cluster.down(broker)
            assert values(cluster, topic) == [b"value"] * 3
            cluster.up(broker)
            cluster.down(broker)
            assert cluster.groups == cluster.open_transactions == []
            cluster.up(broker)
            cluster.down(broker)
            cluster.create_topic(f"without-{broker}", replication_factor=2)
            cluster.up(broker)


def test_new_topics_while_one_broker_of_a_cluster_is_down() -> None:
    """Partitions with one replica, of which one on the broker that is down would have no leader until it is up."""
    with Broker(brokers=3) as cluster:
        for down in cluster.ids:
            cluster.down(down)
            topics = [cluster.create_topic(f"created-{down}-{number}", 2) for number in range(2)]
            cluster.produce(f"automatic-{down}", "value")
            topics.append(f"automatic-{down}")
            cluster.produce(topics[0], "value")
            assert [len(cluster.records(topic)) for topic in topics] == [1, 0, 1]
            cluster.up(down)


def test_brokers_that_do_not_learn_who_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_RETRIES_MS", "300")
    with Broker(brokers=2) as cluster:
        [down] = set(cluster.ids) - {cluster.faults.broker.metadata.image.controller_id}
        held = cluster.faults.add("UpdateMetadata", sender="brokers", hold=True, times=None)
        cluster.down(down)
        with pytest.raises(KafkaError, match=rf"does not know yet that \[{down}\] are down"):
            cluster.create_topic("new")
        held.release()


def test_a_new_leader_is_asked_until_it_shows_all_records() -> None:
    """Until then the leader rejects the question for the last offset, but not in version 0."""
    with Broker() as broker:
        broker.produce(broker.create_topic("orders"), "tea")
        fault = broker.faults.add("ListOffsets", "OFFSET_NOT_AVAILABLE", times=3)
        assert values(broker, "orders") == [b"tea"]
        assert fault.hits == 3
        assert min(each.version for each in broker.requests.of("ListOffsets")) > 0


def test_a_port_that_is_taken_meanwhile() -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match="does not run"):
        broker.down()
    with broker:
        broker.down()
        with logged_lines() as lines:
            with socket.create_server(("127.0.0.1", broker.port)), pytest.raises(StartupError, match="in use"):
                broker.up()
            gc.collect()
        assert "Unhandled error" not in "".join(lines), "it was raised"
        broker.up()
        assert broker.topics == {}
        broker.down()
    with broker:  # stopped while it was down
        assert broker.topics == {}


def test_a_group_goes_on_without_the_broker_of_its_coordinator() -> None:
    with Broker(brokers=3) as cluster:
        topic = cluster.create_topic("orders", 1, replication_factor=3)
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "reconnect.backoff.max.ms": 100})
        consumer.subscribe([topic])
        for broker in cluster.ids:
            cluster.produce(topic, str(broker))
            wait_until(lambda: (found := consumer.poll(1)) is not None and found.value() is not None)
            cluster.down(broker)
            wait_until(lambda: committed(consumer))
            cluster.up(broker)
        consumer.close()


def committed(consumer: Consumer) -> bool:
    """Commit; return False if the group's coordinator is moving."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if not error.args[0].retriable() and error.args[0].code() != KafkaErrors._WAIT_COORD:
            raise
        return False
    return True


def test_a_group_begins_while_one_broker_of_a_cluster_is_down() -> None:
    with Broker(brokers=3) as cluster:
        topic = cluster.create_topic("orders", 1, replication_factor=3)
        cluster.down(0)
        cluster.produce(topic, "tea")
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        wait_until(lambda: (found := consumer.poll(1)) is not None and found.value() == b"tea")
        consumer.close()


def test_a_broker_hands_over_what_it_leads_if_others_go_on() -> None:
    """So records with acks=1 are not lost."""
    with Broker(brokers=3) as cluster, cluster.faults.watch(api="ControlledShutdown", sender="brokers") as watch:
        cluster.down(1)
        assert watch.hits == 1
        cluster.up(1)
        cluster.down()
        assert watch.hits == 1, "nobody is left"
        cluster.up()
        cluster.down(2)
        assert watch.hits == 2, "it hands over again after its start"
