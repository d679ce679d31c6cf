"""A broker whose machine's clock is set back: timers go on, and timestamps follow the clock."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer
from twisted.internet.task import Clock

from pylogbroker.tap.steady_clock import SteadySeconds, make_steady, time_of_day
from pylogbroker.wire import request_codec
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.security.answers import asking
from tests.clients.admin import create_topic
from tests.support.broker_process import BrokerProcess

MOVED_TIME = Path(__file__).parent / "moved_time"
HOUR = 3600.0
SECONDS_MAX = 30.0


@pytest.mark.process
def test_a_clock_that_is_set_back_stops_no_timer(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, environment={**os.environ, "PYTHONPATH": str(MOVED_TIME)})
    try:
        broker.start()
        create_topic(broker.bootstrap, "orders", configs={"message.timestamp.type": "LogAppendTime"})
        port = int(broker.bootstrap.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as waiting, asking(port) as ask:
            at_the_end = FetchTopic("orders", partitions=[FetchPartition(0)])
            fetch = FetchRequest(max_wait_ms=1000, min_bytes=1, topics=[at_the_end])
            waiting.sendall(b"".join(map(bytes, request_codec(fetch.api_key, 4).frame(1, "c", fetch))))
            ask("127.0.0.1", ApiVersionsRequest(), 0)  # so that the fetch has come
            os.kill(broker.pid, signal.SIGUSR2)
            assert waiting.recv(1), "no answer within the timeout"
        assert stored_at(broker) == pytest.approx(time.time() - HOUR, abs=HOUR / 2)
    finally:
        broker.kill()


def stored_at(broker: BrokerProcess) -> float:
    """Append a record, and return its time."""
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        return float(producer.send("orders", b"tea").get(60).timestamp) / 1000


def test_seconds_begin_with_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = SteadySeconds()
    assert seconds() == pytest.approx(time.time(), abs=HOUR)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    before = seconds()
    assert before <= seconds() < before + HOUR


def test_the_time_of_day_is_that_of_a_tests_clock() -> None:
    clock = Clock()
    assert time_of_day(clock) == clock.seconds
    make_steady(clock)
    assert time_of_day(clock) is time.time
