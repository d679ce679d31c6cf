"""Errors of the sync client that cannot do its work: after a timeout, a block, and a program."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from twisted.logger import capturedLogs

from pylogbroker.client.consumer.positions import NoOffset
from pylogbroker.client.errors import Closed, NotConnected
from pylogbroker.client.producer import NotAllSent
from pylogbroker.client.sync import ConsumerConnector, Producer, SimpleConsumer, TimedOut, blocking_client
from pylogbroker.errors import ConfigError
from tests.client.consumer_harness import create
from tests.support.brokers import Broker

#: a port that nobody listens on
NOWHERE = "127.0.0.1:9"
WHY = r"cannot connect to 127\.0\.0\.1:9: Connection was refused"
"""How the failure of such a connection is told."""


def test_a_send_that_times_out_names_the_cause() -> None:
    producer = Producer(NOWHERE)
    with pytest.raises(TimedOut, match=rf"send to 't': not done within 0\.5 s; it goes on; {WHY}"):
        producer.send("t", b"x", timeout=0.5)
    with pytest.raises(TimedOut, match=WHY):
        producer.send_many([("t", b"x")], timeout=0.2)
    with pytest.raises(NotAllSent):
        producer.close(0)


def test_a_consumer_that_times_out_names_the_cause() -> None:
    with ConsumerConnector(NOWHERE, group="g", timeout=0.5) as connector, pytest.raises(TimedOut, match=WHY):
        connector.stream("t")


def test_a_block_that_could_not_send_everything_says_so() -> None:
    with (
        pytest.raises(NotAllSent, match=rf"\b2\b.*not done within 0\.5 s; {WHY}") as caught,
        Producer(NOWHERE, timeout=0.5) as producer,
    ):
        futures = [producer.submit("t", value) for value in (b"one", b"two")]
    assert caught.value.count == 2
    assert [type(future.exception(0)) for future in futures] == [Closed] * 2
    producer.close()  # again is no error


def test_a_block_that_is_left_by_an_exception_does_not_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_client, "CLOSE_AFTER_ERROR_SECONDS", 0.2)
    begun, futures = time.monotonic(), []

    def leave() -> None:
        with Producer(NOWHERE) as producer:
            futures.append(producer.submit("t", b"x"))
            raise KeyboardInterrupt

    with capturedLogs() as events, pytest.raises(KeyboardInterrupt) as caught:
        leave()
    assert time.monotonic() - begun < 10
    assert isinstance(futures[0].exception(0), Closed)
    assert any("not acknowledged" in note for note in caught.value.__notes__)
    assert any(isinstance(event.get("error"), NotAllSent) for event in events)


def test_a_block_left_by_an_exception_sends_pending_records(broker: Broker, topic: str) -> None:
    create(broker.bootstrap, topic, 1)
    futures = []

    def leave() -> None:
        with Producer(broker.bootstrap, linger_ms=500) as producer:
            futures.append(producer.submit(topic, b"x"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leave()
    assert futures[0].result(0).offset == 0


def test_errors_come_without_others_that_say_nothing() -> None:
    with pytest.raises(ConfigError) as rejected:
        Producer(NOWHERE, linger_ms="x")
    with pytest.raises(NotConnected) as missed, SimpleConsumer("127.0.0.1", 9) as simple:
        simple.fetch("t", 0, 0)
    for error in (rejected.value, missed.value):
        assert error.__cause__ is None
        assert error.__suppress_context__


def test_errors_of_a_stream_have_no_context(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic, 1)
    with ConsumerConnector(broker.bootstrap, group=group, auto_offset_reset="none") as connector:
        with pytest.raises(NoOffset) as caught:
            next(connector.stream(topic))
        assert caught.value.__context__ is None


def test_a_closed_producer_is_not_flushed() -> None:
    producer = Producer(NOWHERE)
    producer.flush()
    producer.close()
    with pytest.raises(Closed):
        producer.flush()


def test_how_objects_are_shown() -> None:
    with Producer(NOWHERE) as producer, Producer(settings={"bootstrap.servers": "one:1,two:2"}) as named:
        assert repr(producer) == "<Producer of 127.0.0.1:9>"
        assert repr(named) == "<Producer of one:1,two:2>"
    assert repr(producer) == "<Producer of 127.0.0.1:9, closed>"
    with ConsumerConnector([NOWHERE, "two:2"], group="readers") as connector:
        assert repr(connector) == "<ConsumerConnector of 127.0.0.1:9,two:2, group readers>"
    with SimpleConsumer("somewhere", 99) as simple:
        assert repr(simple) == "<SimpleConsumer of somewhere:99>"


PROGRAM = """
from pylogbroker.client.sync import Producer, blocking_client
blocking_client.EXIT_TIMEOUT_SECONDS = 0.5
Producer("127.0.0.1:9").submit("t", b"x")
"""


def test_a_program_reports_unsent_records_when_it_ends() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    [line] = done.stderr.splitlines()
    assert line.startswith("pylogbroker: ")
    assert "Connection was refused" in line
    assert done.returncode == 0
