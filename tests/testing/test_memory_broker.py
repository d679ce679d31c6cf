"""A broker and clients in memory, on a clock that the test moves."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.task import deferLater

from pylogbroker.client import ConsumerConnector, Producer
from pylogbroker.client.sync.background import TimedOut
from pylogbroker.errors import ConfigError, KafkaError, PylogbrokerError
from pylogbroker.testing import MemoryBroker
from pylogbroker.testing.faults import FaultNotFired
from pylogbroker.testing.memory_network import MemoryReactor

HOUR = 3600.0


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker(now=1_000_000.0) as broker:
        yield broker


def make_producer(broker: MemoryBroker, **settings: Any) -> Producer:
    return Producer(broker.bootstrap, reactor=broker.clock, **settings)


def make_consumer(broker: MemoryBroker, **settings: Any) -> ConsumerConnector:
    return ConsumerConnector(
        broker.bootstrap, group="readers", auto_offset_reset="earliest", reactor=broker.clock, **settings
    )


def test_a_round_trip_without_sockets_threads_and_waiting() -> None:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("a socket")

    threads = threading.active_count()
    with patch.object(socket, "socket", fail), patch.object(time, "sleep", fail):
        with MemoryBroker(num_partitions=2) as broker:
            producer = make_producer(broker)
            assert broker.run(producer.send("orders", b"tea", partition=1)).offset == 0
            broker.run(producer.close())
            assert broker.topics == {"orders": 2}
            assert [(each.partition, each.value) for each in broker.records("orders")] == [(1, b"tea")]
            assert threading.active_count() <= threads  # those of other tests may end
            before = broker.clock.seconds()
        with pytest.raises(RuntimeError, match="does not run"):
            broker.records("orders")
    assert before >= broker.clock.seconds() - 60


def test_a_group_reads_and_commits(broker: MemoryBroker) -> None:
    broker.produce(broker.create_topic("orders"), "tea", "milk")

    async def read(count: int) -> list[Any]:
        consumer = make_consumer(broker)
        streams = await consumer.create_message_streams({"orders": 1})
        messages = []
        async for message in streams["orders"][0]:
            messages.append(message.value)
            if len(messages) == count:
                break
        await consumer.shutdown()
        return messages

    assert broker.run(read(2)) == [b"tea", b"milk"]
    broker.produce("orders", "rice")
    assert broker.run(read(1)) == [b"rice"]
    assert broker.groups == ["readers"]


def test_a_silent_member_loses_its_session(broker: MemoryBroker) -> None:
    broker.create_topic("orders")
    consumer = make_consumer(broker, session_timeout_ms=10_000)
    broker.run(consumer.create_message_streams({"orders": 1}))
    broker.clock.advance(60)
    assert [len(each) for each in members(broker)] == [1]  # its heartbeats arrive
    heartbeats = broker.faults.add(api="Heartbeat", hold=True, times=None)
    broker.clock.advance(11)
    assert heartbeats.hits
    assert members(broker) == [[]]
    heartbeats.remove()
    broker.run(consumer.shutdown())


def members(broker: MemoryBroker) -> list[list[str]]:
    return [broker.faults.groups.members(group) for group in broker.groups]


def test_records_of_last_week_are_deleted(broker: MemoryBroker) -> None:
    broker.create_topic("short", retention_ms=int(HOUR * 1000))
    broker.produce("short", "old")
    broker.clock.advance(2 * HOUR)
    broker.produce("short", "new")
    assert [each.value for each in broker.records("short")] == [b"new"]
    assert broker.clock.seconds() >= 1_000_000 + 2 * HOUR


def test_a_fault_is_survived_in_the_brokers_time(broker: MemoryBroker) -> None:
    broker.create_topic("orders")
    fault = broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2, must_fire=True)
    producer = make_producer(broker, retry_backoff_ms=20_000)
    before = broker.clock.seconds()
    assert broker.run(producer.send("orders", b"tea"), 110).offset == 0
    assert broker.clock.seconds() - before >= 2 * 20 * 0.8
    assert fault.hits == 2
    assert [each.api for each in broker.requests][-1] == "Produce"
    broker.run(producer.close())


def test_each_run_is_the_same() -> None:
    def run() -> list[Any]:
        random.seed(1)  # clients pause for random times
        with MemoryBroker(latency=0.01, now=0.0) as broker:
            producer = make_producer(broker, linger_ms=5)
            for number in range(20):
                broker.run(producer.send("orders", b"%d" % number))
            broker.run(producer.close())
            seen = [(each.api, round(each.seconds, 6)) for each in broker.requests]
            return [*seen, broker.clock.seconds(), [each.timestamp for each in broker.records("orders")]]

    first = run()
    assert first == run()
    assert len([each for each in first if isinstance(each, tuple) and each[0] == "Produce"]) == 20


def test_data_that_is_kept(tmp_path: Any) -> None:
    with MemoryBroker(data_dir=str(tmp_path)) as broker:
        broker.produce(broker.create_topic("orders"), "tea")
    with MemoryBroker(data_dir=str(tmp_path)) as broker:
        assert [each.value for each in broker.records("orders")] == [b"tea"]


def test_a_broker_that_is_gone() -> None:
    with MemoryBroker() as broker:
        producer = make_producer(broker, delivery_timeout_ms=5_000, request_timeout_ms=1_000)
        broker.run(producer.send("orders", b"tea"))
    lost = producer.send("orders", b"milk")
    with pytest.raises(PylogbrokerError, match="orders"):
        broker.run(lost)
    broker.run(producer.close())


def test_timeouts_and_invalid_arguments_are_errors(broker: MemoryBroker) -> None:
    never: Deferred[None] = Deferred()
    before = broker.clock.seconds()
    with pytest.raises(TimedOut, match="within 5 s"):
        broker.run(never, 5)
    assert broker.clock.seconds() <= before + 5
    with pytest.raises(RuntimeError, match="runs already"):
        broker.start()
    with pytest.raises(ConfigError, match="listeners"):
        MemoryBroker(listeners="PLAINTEXT://:9092")
    with pytest.raises(ConfigError, match=r"num\.partition"):
        MemoryBroker(num_partition=1)


def test_the_error_of_a_missing_topic_names_it() -> None:
    with MemoryBroker(auto_create_topics_enable=False) as broker:
        with pytest.raises(KafkaError, match="topic odrers"):
            broker.records("odrers")
        with pytest.raises(KafkaError, match="topic odrers"):
            broker.produce("odrers", "value")


def test_calls_run_in_the_order_of_their_times() -> None:
    reactor = MemoryReactor()
    ran: list[tuple[str, float]] = []
    reactor.callLater(2, lambda: ran.append(("late", reactor.seconds())))
    reactor.callLater(1, lambda: reactor.callLater(0.5, lambda: ran.append(("added", reactor.seconds()))))
    reactor.callLater(1, lambda: 1 / 0)  # is logged
    reactor.advance(10)
    assert ran == [("added", 1.5), ("late", 2.0)]
    assert reactor.seconds() == 10
    reactor.listen("127.0.0.1", 9092, None)
    with pytest.raises(CannotListenError):
        reactor.listen("127.0.0.1", 9092, None)


@pytest.mark.parametrize(("after", "appended"), [(False, []), (True, [b"late"])])
def test_a_delay_before_and_after_the_work(after: bool, appended: list[bytes]) -> None:
    with MemoryBroker() as broker:
        broker.create_topic("orders")
        producer = Producer(broker.bootstrap, reactor=broker.clock)
        broker.run(producer.send("orders", b"first"))
        fault = broker.faults.add("Produce", delay=20, after=after)
        sent = producer.send("orders", b"late")
        broker.clock.advance(10)
        assert fault.hits == 1
        assert not sent.called
        assert [each.value for each in broker.records("orders")] == [b"first", *appended]
        broker.clock.advance(11)
        assert broker.run(sent).offset == 1
        broker.run(producer.close())


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"tls": True}, "tls: a broker in memory does not have this; use pylogbroker.testing.Broker"),
        ({"brokers": 3}, "brokers: a broker in memory does not have this"),
        ({"users": {"alice": "secret"}}, "users: a broker in memory does not have this"),
        ({"schema_registry": True}, "schema.registry: a broker in memory does not have this"),
        ({"http_listeners": "http://:0"}, "http.listeners: leave it out; a broker in memory has no sockets"),
        ({"zookeeper_connect": "host:1"}, "zookeeper.connect: leave it out; a broker in memory has no sockets"),
        ({"log_cleaner_enable": True}, "log.cleaner.enable: leave it out; a broker in memory does not compact"),
    ],
)
def test_missing_features_raise_errors(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        MemoryBroker(**given)


def values(broker: MemoryBroker, topic: str) -> list[bytes | None]:
    return [each.value for each in broker.records(topic)]


def test_faults_of_logs(broker: MemoryBroker) -> None:
    broker.create_topic("compacted", cleanup_policy="compact")
    with pytest.raises(ValueError, match="a broker in memory does not compact"):
        broker.faults.logs.compact("compacted")
    broker.create_topic("cut")
    for value in ("a", "b", "c"):  # each in a batch of its own
        broker.produce("cut", value)
    broker.faults.logs.delete_records("cut", before=1)
    broker.faults.logs.truncate("cut", to=2)
    assert values(broker, "cut") == [b"b"]
    full = broker.faults.logs.fail_appends("cut")
    broker.produce("cut", "d")  # again after the error
    assert (full.hits, values(broker, "cut")) == (1, [b"b", b"d"])


def test_faults_of_the_cluster(broker: MemoryBroker) -> None:
    broker.create_topic("orders", 2)
    broker.faults.cluster.add_broker(7)
    broker.faults.cluster.move_leader("orders", 0, to=7)
    producer = make_producer(broker, retry_backoff_ms=10)
    broker.run(producer.send("orders", b"tea", partition=0))
    assert [each.broker for each in broker.requests.of("Produce")] == [7]
    broker.faults.cluster.remove_leader("orders", 1)
    waiting = producer.send("orders", b"milk", partition=1)
    broker.clock.advance(1)
    assert not waiting.called
    broker.faults.cluster.move_leader("orders", 1, to=7)
    broker.run(waiting)
    broker.run(producer.close())


def test_waiting_for_a_fault_lets_time_pass(broker: MemoryBroker) -> None:
    broker.create_topic("orders")
    producer = make_producer(broker, linger_ms=3_000)
    fault = broker.faults.add("Produce", hold=True)
    sent = producer.send("orders", b"tea")
    before = broker.clock.seconds()
    assert fault.wait().api == "Produce"
    assert 3 <= broker.clock.seconds() - before < 4
    assert not sent.called
    watch = broker.faults.watch("Produce")
    fault.release()
    broker.run(sent)
    broker.run(producer.send("orders", b"milk"))
    assert (watch.wait().api, watch.hits) == ("Produce", 1)
    broker.run(producer.close())


def test_a_wait_without_a_request_ends_in_the_brokers_time(broker: MemoryBroker) -> None:
    watch, before = broker.faults.watch("EndTxn"), broker.clock.seconds()
    with (
        patch.object(threading.Condition, "wait_for", never_called),
        pytest.raises(FaultNotFired, match="0 of 2 in 90"),
    ):
        watch.wait(2, timeout=90)
    assert broker.clock.seconds() <= before + 90


def never_called(*arguments: Any) -> Any:
    raise AssertionError("a thread waits")


def test_a_fault_of_the_cluster_acts_at_once(broker: MemoryBroker) -> None:
    broker.create_topic("orders")
    metadata, epochs = broker.faults.broker.metadata, []
    for leader in (7, 8):
        broker.faults.cluster.move_leader("orders", to=leader)
        epochs.append(metadata.topics["orders"].partitions[0].leader_epoch)
    assert epochs == [1, 2]
    with pytest.raises(ValueError, match="no partition 5"):
        broker.faults.cluster.move_leader("orders", 5, to=7)


def test_changes_of_the_broker_let_time_pass_but_within_its_own_calls(broker: MemoryBroker) -> None:
    async def change() -> str:
        await deferLater(broker.clock, 5)
        return "done"

    assert broker.faults.run(change) == "done"
    begun: list[Any] = []
    broker.clock.callLater(0, lambda: begun.append(broker.faults.run(change)))
    broker.clock.advance(1)
    [waiting] = begun
    assert not waiting.called
    assert broker.run(waiting) == "done"


def test_faults_of_the_network(broker: MemoryBroker) -> None:
    broker.create_topic("orders")
    producer = make_producer(broker)
    broker.run(producer.send("orders", b"tea"))
    broker.faults.network.shape(latency=2.0)
    before = broker.clock.seconds()
    broker.run(producer.send("orders", b"milk"))
    assert broker.clock.seconds() - before >= 4
    broker.faults.network.stall("down")
    waiting = producer.send("orders", b"rice")
    broker.clock.advance(5)
    assert not waiting.called
    broker.faults.network.heal()
    broker.run(waiting)
    broker.faults.network.reset()
    broker.run(producer.send("orders", b"corn"))
    assert values(broker, "orders") == [b"tea", b"milk", b"rice", b"corn"]
    broker.run(producer.close())
