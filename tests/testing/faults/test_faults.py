"""Faults of a broker in the test's process, as clients meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from twisted.internet.task import Clock

from pylogbroker.tap.service import BrokerService
from pylogbroker.testing import Broker
from pylogbroker.testing.faults import FaultNotFired, Faults
from pylogbroker.testing.faults.requests import RequestLog
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.heartbeat import HeartbeatResponse
from tests.broker.log_lines import logged_lines
from tests.testing.faults.raw import RawClient


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    """A broker for all tests of the module."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Iterator[Broker]:
    """The broker, without faults before and after."""
    shared.faults.clear()
    yield shared
    shared.faults.clear()


@pytest.fixture
def raw(broker: Broker) -> Iterator[RawClient]:
    """A connection that sends requests by hand."""
    with RawClient(broker.bootstrap) as client:
        yield client


@pytest.fixture
def topic(raw: RawClient, request: pytest.FixtureRequest) -> str:
    """A new topic."""
    name = str(request.node.name)
    raw.create_topic(name)
    return name


@pytest.mark.parametrize(("given", "meant"), [("eror", "error"), ("delai", "delay"), ("topc", "topic")])
def test_a_misspelt_argument_of_a_fault_is_suggested(broker: Broker, given: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"^there is no criterion '{given}': did you mean '{meant}'"):
        broker.faults.add("Produce", **{given: "topic"})


def test_an_error_comes_so_many_times(broker: Broker, raw: RawClient, topic: str) -> None:
    fault = broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    codes = [raw.produce(topic).error_code for _ in range(3)]
    assert codes == [6, 6, 0]
    assert fault.hits == 2
    assert raw.end_offset(topic) == 1


def test_errors_follow_each_other(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.add("Produce", ["REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS"])
    assert [raw.produce(topic).error_code for _ in range(3)] == [7, 19, 0]


def test_an_error_after_the_work(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.add("Produce", "REQUEST_TIMED_OUT", after=True)
    answer = raw.produce(topic)
    assert (answer.error_code, answer.base_offset) == (7, -1)
    assert raw.end_offset(topic) == 1


def test_a_fault_for_one_topic_leaves_the_others(broker: Broker, raw: RawClient, topic: str) -> None:
    raw.create_topic("other")
    before = raw.end_offset("other")
    broker.faults.add("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=0)
    answers = raw.produce_to(topic, "other")
    assert {name: each.error_code for name, each in answers.items()} == {topic: 6, "other": 0}
    assert (raw.end_offset(topic), raw.end_offset("other") - before) == (0, 1)


def test_a_fetch_with_an_error_is_answered_at_once(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.add("Fetch", "OFFSET_OUT_OF_RANGE", topic=topic)
    answer = raw.fetch(topic, wait_ms=600_000)
    assert answer.responses[0].partitions[0].error_code == 1


def test_a_session_of_fetches_has_its_partitions(broker: Broker, raw: RawClient, topic: str) -> None:
    first = raw.fetch(topic, session=(0, 0))
    broker.faults.add("Fetch", "NOT_LEADER_OR_FOLLOWER", topic=topic)
    answer = raw.fetch(None, wait_ms=600_000, session=(first.session_id, 1))
    assert answer.responses[0].partitions[0].error_code == 6
    assert answer.session_id == first.session_id


def test_the_memory_of_watches_is_bounded(broker: Broker, raw: RawClient, topic: str) -> None:
    watch = broker.faults.watch("Produce")
    for _ in range(3):
        raw.produce(topic)
    (seen, *_), size = watch.seen, len(watch.seen[0].request.topic_data[0].partition_data[0].records)
    few, small = RequestLog(requests_max=2), RequestLog(records_bytes_max=2 * size)
    for kept in (few, small):
        for each in watch.seen:
            kept.add(each)
        assert (list(kept), kept.count) == (list(watch.seen)[1:], 3)
        assert [kept.number(number) for number in (1, 2, 3)] == [kept[0], kept[0], kept[1]]
    watch.seen.requests_max = 1
    raw.produce(topic)
    assert (watch.hits, len(watch.seen)) == (4, 1)
    assert watch.wait(1) is watch.wait(4) is not seen


def test_criteria_of_clients(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.add("Produce", "REQUEST_TIMED_OUT", client_id="another", times=None)
    broker.faults.add("Produce", "REQUEST_TIMED_OUT", principal="User:bob", times=None)
    broker.faults.add("Produce", "REQUEST_TIMED_OUT", when=lambda context, request: request.acks == 1, times=None)
    assert raw.produce(topic).error_code == 0
    assert raw.produce(topic, acks=1).error_code == 7


def test_criteria_of_clients_that_match(broker: Broker, raw: RawClient, topic: str) -> None:
    of_client = broker.faults.add("Produce", "REQUEST_TIMED_OUT", client_id="raw")
    of_principal = broker.faults.add("Produce", "NOT_ENOUGH_REPLICAS", principal="User:ANONYMOUS")
    assert [raw.produce(topic).error_code for _ in range(3)] == [7, 19, 0]
    assert (of_client.hits, of_principal.hits) == (1, 1)


def test_a_fault_for_one_transactional_id(broker: Broker) -> None:
    fault = broker.faults.add("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", transactional_id="a", times=2)
    for transactional_id, hits in (("b", 0), ("a", 2)):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id})
        producer.init_transactions(60)
        assert fault.hits == hits
    assert {each.request.transactional_id for each in fault.seen} == {"a"}


def test_a_connection_is_closed_before_and_after_the_work(broker: Broker, topic: str) -> None:
    for close, appended in (("before", 0), ("after", 1), ("mid-frame", 2)):
        with broker.faults.add("Produce", close=close), RawClient(broker.bootstrap) as client:
            with pytest.raises(ConnectionError) as failure:
                client.produce(topic)
            assert ("within a frame" in str(failure.value)) is (close == "mid-frame"), close
        with RawClient(broker.bootstrap) as client:
            assert client.end_offset(topic) == appended


def test_a_held_request_delays_later_ones(broker: Broker, raw: RawClient, topic: str) -> None:
    fault = broker.faults.add("Produce", hold=True)
    watch = broker.faults.watch("Produce")
    raw.send_produce(topic)
    raw.send_produce(topic)
    fault.wait(1, timeout=120)
    with RawClient(broker.bootstrap) as other:
        assert other.end_offset(topic) == 0
    assert watch.hits == 1
    fault.release()
    assert [raw.receive_produced().base_offset for _ in range(2)] == [0, 1]


def test_a_request_that_is_released_before_it_is_held(broker: Broker, raw: RawClient, topic: str) -> None:
    """A test may release it as soon as it has come."""
    for delay, after in ((0.2, False), (0.0, True)):
        fault = broker.faults.add("Fetch", hold=True, delay=delay, after=after)
        raw.send(FetchRequest(max_wait_ms=200, min_bytes=1, topics=[FetchTopic(topic, partitions=[FetchPartition(0)])]))
        fault.wait(timeout=120)
        fault.release()
        assert raw.receive().error_code == 0


def test_a_fault_for_one_broker_of_a_cluster() -> None:
    with Broker(brokers=2) as cluster:
        address = cluster.bootstrap.split(",")[1]
        fault = cluster.faults.add("Heartbeat", "REBALANCE_IN_PROGRESS", broker=1, times=None)
        with RawClient(cluster.bootstrap.split(",")[0]) as first, RawClient(address) as second:
            codes = [first.heartbeat("g").error_code, second.heartbeat("g").error_code]
        assert codes.count(27) == fault.hits == 1


def test_a_delayed_request_keeps_its_place(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.add("Produce", delay=0.05)
    raw.send_produce(topic)
    raw.send_produce(topic)
    assert [raw.receive_produced().base_offset for _ in range(2)] == [0, 1]


def test_scripted_answers(broker: Broker, raw: RawClient) -> None:
    broker.faults.add("Heartbeat", answer=HeartbeatResponse(throttle_time_ms=5))
    assert raw.heartbeat("g").throttle_time_ms == 5
    broker.faults.control(
        "Heartbeat", lambda context, request: None if request.group_id == "g" else HeartbeatResponse()
    )
    assert (raw.heartbeat("g").error_code, raw.heartbeat("h").error_code) == (16, 0)  # there is no coordinator yet
    broker.faults.clear()
    broker.faults.add("Heartbeat", throttle_ms=7)
    assert raw.heartbeat("g").throttle_time_ms == 7


def test_new_connections_are_closed(broker: Broker) -> None:
    broker.faults.reject_connections()
    with pytest.raises(ConnectionError), RawClient(broker.bootstrap) as client:
        client.heartbeat("g")
    broker.faults.accept_connections()
    with RawClient(broker.bootstrap) as client:
        client.heartbeat("g")


def test_requests_are_seen(broker: Broker, raw: RawClient, topic: str) -> None:
    watch = broker.faults.watch("Produce", topic=topic)
    raw.produce(topic)
    seen = watch.wait(1, timeout=120)
    assert (seen.api, seen.client_id, seen.request.topic_data[0].name) == ("Produce", "raw", topic)
    assert [each.api for each in broker.requests][-1] == "Produce"
    assert broker.requests.of("Produce")[-1] is seen
    with pytest.raises(FaultNotFired, match=f"the watch of Produce topic={topic} saw 1 of 2 in 0.01 s"):
        watch.wait(2, timeout=0.01)


def test_a_fault_that_never_fired_fails(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.add("Fetch", "REQUEST_TIMED_OUT", topic=topic, must_fire=True)
    raw.produce(topic)
    text = f"the fault REQUEST_TIMED_OUT for Fetch topic={topic} never fired; since then came: 1 Produce"
    with pytest.raises(FaultNotFired, match=text):
        broker.faults.check()
    with pytest.raises(FaultNotFired, match=text):
        broker.faults.clear()
    broker.faults.check()


def test_the_end_of_a_block_checks_its_fault(broker: Broker, raw: RawClient, topic: str) -> None:
    with pytest.raises(FaultNotFired, match="Fetch never fired"), broker.faults.add("Fetch", delay=1, must_fire=True):
        raw.produce(topic)
    with broker.faults.add("Produce", delay=0.01, must_fire=True):
        raw.produce(topic)
    with pytest.raises(ZeroDivisionError), broker.faults.add("Fetch", delay=1, must_fire=True):
        _ = 1 // 0
    with broker.faults.add("Fetch", delay=1, must_fire=True), pytest.raises(FaultNotFired):
        broker.faults.clear()
    broker.faults.check()


def test_a_removed_fault_is_still_checked(broker: Broker, raw: RawClient, topic: str) -> None:
    broker.faults.add("Fetch", delay=1, must_fire=True).remove()
    fired = broker.faults.add("Produce", delay=0.01, must_fire=True)
    raw.produce(topic)
    fired.remove()
    with pytest.raises(FaultNotFired, match="Fetch never fired"):
        broker.faults.check()
    with pytest.raises(FaultNotFired, match="Fetch never fired") as failure:
        broker.faults.clear()
    assert "Produce never" not in str(failure.value)
    broker.faults.clear()


def test_unknown_names_raise_at_once(broker: Broker, topic: str) -> None:
    faults = broker.faults
    cases: list[tuple[Callable[[], Any], str]] = [
        (
            lambda: faults.add("Produce", "NOT_LEADER_FOR_PARTITION"),
            "no error 'NOT_LEADER_FOR_PARTITION': did you mean",
        ),
        (lambda: faults.add("Produce", "REQUEST_TIMED_OUT", topic=topic + "x"), f"did you mean '{topic}'"),
        (lambda: faults.watch("Fetsh"), "did you mean 'Fetch'"),
        (lambda: faults.add("Fetch", close="befor"), "did you mean 'before'"),
        (lambda: faults.add("Fetch"), "a fault needs an error"),
    ]
    for add, text in cases:
        with pytest.raises(ValueError, match=text):
            add()


def test_librdkafka_retries_retriable_errors(broker: Broker, topic: str) -> None:
    produce = broker.faults.add("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, times=2, must_fire=True)
    fetch = broker.faults.add("Fetch", "NOT_LEADER_OR_FOLLOWER", topic=topic, must_fire=True)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "retry.backoff.ms": 10})
    for number in range(5):
        producer.produce(topic, str(number))
    assert producer.flush(120) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = [consumer.consume(1, 120)[0].value() for _ in range(5)]
    consumer.close()
    assert values == [b"0", b"1", b"2", b"3", b"4"]
    assert (produce.hits, fetch.hits) == (2, 1)


def test_librdkafka_reports_fatal_errors(broker: Broker) -> None:
    broker.faults.add("CreateTopics", "POLICY_VIOLATION", topic="new", must_fire=True)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (created,) = admin.create_topics([NewTopic("new", 1)]).values()
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        created.result(60)


def test_only_a_setting_makes_faults_possible(tmp_path: Path) -> None:
    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    assert BrokerService(Clock(), settings).faults is None
    assert isinstance(BrokerService(Clock(), {**settings, "testing.faults": "true"}).faults, Faults)


def test_the_log_says_that_there_may_be_faults() -> None:
    with logged_lines() as lines, Broker():
        pass
    assert any("testing.faults=true: requests may fail on purpose" in line for line in lines)
