"""Brokers in a process of their own: the same handle, by the control."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from unittest.mock import patch

import pytest

from pylogbroker.errors import ErrorCode, KafkaError, StartupError
from pylogbroker.testing import Broker
from pylogbroker.testing.child_process import ControlledProcess
from pylogbroker.testing.faults import FaultNotFired
from pylogbroker.wire.messages.produce import ProduceRequest


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with patch.object(ControlledProcess, "start", wraps=ControlledProcess.start) as start:
        with Broker(process=True, users={"alice": "secret"}, broker_id=3, schema_registry=True) as broker:
            yield broker
        assert start.called


@pytest.fixture
def broker(running: Broker) -> Iterator[Broker]:
    yield running
    running.faults.clear()


def test_records_users_and_schemas(broker: Broker) -> None:
    assert broker.produce(broker.create_topic("orders", 2), "tea", partition=1) == [0]
    assert [each.value for each in broker.records("orders")] == [b"tea"]
    assert broker.client_settings("alice")["sasl.username"] == "alice"
    assert broker.schema_registry.url.startswith("http://127.0.0.1:")
    assert len({address for broker in broker.listeners for address in broker.values()}) == 2


def test_faults_and_requests(broker: Broker) -> None:
    broker.create_topic("faulty")
    fault = broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="faulty", times=2, must_fire=True)
    with broker.faults.watch("Produce", topic="faulty") as watch:
        broker.produce("faulty", "tea")
        assert (fault.hits, watch.hits) == (2, 3)
        seen = watch.wait(3)
    assert isinstance(seen.request, ProduceRequest)
    assert (seen.api, seen.principal, seen.broker) == ("Produce", "User:pylogbroker-testing", 3)
    assert [each.request.topic_data[0].name for each in broker.requests.of("Produce")][-3:] == ["faulty"] * 3
    assert str(fault) == "the fault NOT_LEADER_OR_FOLLOWER for Produce topic=faulty"
    broker.faults.check()


def test_parts_of_the_faults(broker: Broker) -> None:
    broker.create_topic("parts")
    for value in ("one", "two", "three"):
        broker.produce("parts", value)
    broker.faults.logs.delete_records("parts", before=1)
    broker.faults.logs.truncate("parts", 0, to=2)
    broker.faults.cluster.move_leader("parts", to=3)
    broker.faults.network.shape("down", latency=0.001)
    assert [each.value for each in broker.records("parts")] == [b"two"]
    failing = broker.faults.logs.fail_appends("parts", times=1)
    assert broker.produce("parts", "four") == [2]
    assert failing.hits == 1


def test_records_of_a_missing_topic(broker: Broker) -> None:
    broker.requests.clear()  # of other tests, and of the wait until the broker is up
    with pytest.raises(KafkaError, match="there is no topic nosuch"):
        broker.records("nosuch")
    assert len(broker.requests.of("Metadata")) <= 8


def test_errors_match_a_threaded_brokers(broker: Broker) -> None:
    with pytest.raises(ValueError, match="did you mean 'Produce'"):
        broker.faults.add("Prduce", delay=1)
    with pytest.raises(ValueError, match="when: a function"):
        broker.faults.add("Produce", delay=1, when=lambda context, request: True)
    with pytest.raises(ValueError, match="no criterion 'errors'"):
        broker.faults.add("Produce", errors="NONE")
    with pytest.raises(KafkaError) as raised:
        broker.faults.logs.delete_records(broker.create_topic("short"), before=1)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    broker.faults.add("Heartbeat", delay=1, must_fire=True)
    with pytest.raises(FaultNotFired, match="never fired"):
        broker.faults.clear()


def test_faults_that_end_are_checked(broker: Broker) -> None:
    with pytest.raises(FaultNotFired, match="never fired"), broker.faults.add("Heartbeat", delay=1, must_fire=True):
        pass
    with pytest.raises(ZeroDivisionError), broker.faults.add("Heartbeat", delay=1, must_fire=True):
        _ = 1 // 0
    broker.faults.check()
    broker.faults.add("Heartbeat", delay=1, must_fire=True).remove()
    for check in (broker.faults.check, broker.faults.clear):
        with pytest.raises(FaultNotFired, match="never fired"):
            check()
    broker.faults.check()


def test_down_for_a_while(broker: Broker) -> None:
    broker.produce(broker.create_topic("kept"), "value")
    broker.down(3)
    assert (broker.ids, broker.is_down) == ([3], True)
    with socket.socket() as connection, pytest.raises(ConnectionRefusedError):
        connection.connect(("127.0.0.1", broker.port))
    broker.up()
    broker.restart()
    assert [each.value for each in broker.records("kept")] == [b"value"]


def test_chaos_ends(broker: Broker) -> None:
    chaos = broker.faults.chaos(seed=1)
    chaos.remove()
    with pytest.raises(LookupError, match="there is no chaos"):
        chaos.remove()


def test_the_time_moves(broker: Broker) -> None:
    before = broker.clock.time()
    broker.clock.advance("1h")
    broker.clock.advance(timedelta(hours=1))
    assert 7200 <= broker.clock.time() - before < 7260
    assert broker.now_ms() >= (before + 7200) * 1000


def test_a_failed_start_and_a_stop() -> None:
    stopped = Broker(process=True)
    with pytest.raises(RuntimeError, match="does not run"):
        stopped.faults.add("Produce", delay=1)
    with pytest.raises(StartupError, match="cannot"):
        ControlledProcess.start({"log.dirs": "/dev/null/logs"}, 1, 60)
