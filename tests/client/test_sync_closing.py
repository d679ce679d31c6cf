"""Errors of the sync client that cannot do its work: after a timeout, a block, and a program."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable

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
LIMITS = (0.5, 5.0, 60.0)
WHY = r"cannot connect to 127\.0\.0\.1:9: Connection was refused"
"""How the failure of such a connection is told."""


def error_of(call: Callable[[float], object], kind: type[Exception] = TimedOut) -> Exception:
    """Return the error of a call that has so many seconds, which are enough to try a connection."""
    for seconds in LIMITS:
        with pytest.raises(kind) as caught:
            call(seconds)
        if re.search(WHY, str(caught.value)):
            break
    return caught.value


def test_a_send_that_times_out_names_the_cause() -> None:
    producer = Producer(NOWHERE)
    sent = error_of(lambda seconds: producer.send("t", b"x", timeout=seconds))
    assert re.search(rf"send to 't': not done within [\d.]+ s; it goes on; {WHY}", str(sent))
    many = error_of(lambda seconds: producer.send_many([("t", b"x")], timeout=seconds))
    assert re.search(WHY, str(many))
    with pytest.raises(NotAllSent):
        producer.close(0)


def test_a_consumer_that_times_out_names_the_cause() -> None:
    def connect(seconds: float) -> None:
        with ConsumerConnector(NOWHERE, group="g", timeout=seconds) as connector:
            connector.stream("t")

    assert re.search(WHY, str(error_of(connect)))


def test_a_block_that_could_not_send_everything_says_so() -> None:
    made = []

    def send(seconds: float) -> None:
        with Producer(NOWHERE, timeout=seconds) as producer:
            made.append((producer, [producer.submit("t", value) for value in (b"one", b"two")]))

    error = error_of(send, NotAllSent)
    assert re.search(rf"\b2\b.*not done within [\d.]+ s; {WHY}", str(error))
    assert isinstance(error, NotAllSent)
    assert error.count == 2
    producer, futures = made[-1]
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
    assert time.monotonic() - begun < 60  # as long as other blocks may wait
    assert isinstance(futures[0].exception(0), Closed)
    assert any("not acknowledged" in note for note in caught.value.__notes__)
    assert any(isinstance(event.get("error"), NotAllSent) for event in events)


def test_a_block_left_by_an_exception_sends_pending_records(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_client, "CLOSE_AFTER_ERROR_SECONDS", 120.0)
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
import sys
from pylogbroker.client.sync import Producer, blocking_client
blocking_client.EXIT_TIMEOUT_SECONDS = float(sys.argv[1])
Producer("127.0.0.1:9").submit("t", b"x")
"""


def test_a_program_reports_unsent_records_when_it_ends() -> None:
    for seconds in LIMITS:
        command = [sys.executable, "-c", PROGRAM, str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        [line] = done.stderr.splitlines()
        assert line.startswith("pylogbroker: ")
        assert done.returncode == 0
        if "Connection was refused" in line:
            break
    assert "Connection was refused" in line
