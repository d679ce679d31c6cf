"""The movable time of test brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import attrs
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from twisted.internet.task import Clock

from pylogbroker.client.sync import SimpleConsumer
from pylogbroker.testing import Broker
from pylogbroker.testing.clock import STEPS_MAX, MovableClock, NotSettled, seconds_of
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("1.5d", 129600),
        ("1w", 604800),
        (timedelta(hours=1), 3600),
        (2, 2),
    ],
)
def test_durations(duration: str | float | timedelta, seconds: float) -> None:
    assert seconds_of(duration) == seconds


@pytest.mark.parametrize(
    "duration", ["", "1", "h", "1 hour", "-1s", -1, timedelta(seconds=-1), float("inf"), float("nan")]
)
def test_bad_durations(duration: str | float | timedelta) -> None:
    with pytest.raises(ValueError, match=r"duration|negative"):
        seconds_of(duration)


class TestMovableClock:
    def setup_method(self) -> None:
        self.reactor = Clock()
        self.clock = MovableClock(self.reactor, 100.0)
        self.ran: list[tuple[str, float]] = []

    def note(self, name: str) -> None:
        self.ran.append((name, self.clock.seconds()))

    def test_real_time_goes_on(self) -> None:
        self.clock.callLater(5, self.note, "five")
        self.reactor.advance(4)
        assert (self.ran, self.clock.seconds()) == ([], 104.0)
        self.reactor.advance(1)
        assert self.ran == [("five", 105.0)]

    def test_calls_run_in_order_each_at_its_time(self) -> None:
        self.clock.callLater(30, self.note, "thirty")
        self.clock.callLater(10, lambda: self.clock.callLater(5, self.note, "fifteen"))
        late = self.clock.callLater(20, self.note, "delayed")
        late.delay(40)
        self.clock.callLater(25, self.note, "cancelled").cancel()
        self.clock.advance(59)
        assert self.ran == [("fifteen", 115.0), ("thirty", 130.0)]
        assert self.clock.seconds() == 159.0
        self.reactor.advance(1)
        assert self.ran[2:] == [("delayed", 160.0)]
        assert self.reactor.getDelayedCalls() == self.clock.getDelayedCalls() == []

    def test_a_call_that_is_moved_forward(self) -> None:
        self.clock.callLater(3600, self.note, "reset").reset(1)
        self.reactor.advance(1)
        assert self.ran == [("reset", 101.0)]

    def test_a_call_that_an_earlier_one_puts_off(self) -> None:
        """Heartbeats do so with the end of a session, when the thread comes late to both."""
        self.clock.callLater(1, lambda: late.reset(10))
        late = self.clock.callLater(2, self.note, "late")
        self.reactor.advance(3)
        assert self.ran == []
        self.reactor.advance(10)
        assert self.ran == [("late", 113.0)]

    def test_a_periodic_call_does_not_run_for_ever(self) -> None:
        def again() -> None:
            self.note("again")
            self.clock.callLater(1, again)

        self.clock.callLater(1, again)
        self.clock.advance(10 * STEPS_MAX)
        assert len(self.ran) == STEPS_MAX + 1
        assert self.ran[-1][1] == self.clock.seconds() == 100.0 + 10 * STEPS_MAX

    def test_a_call_that_fails(self) -> None:
        self.clock.callLater(1, lambda: 1 // 0)
        self.clock.callLater(2, self.note, "next")
        self.clock.advance(3)
        assert self.ran == [("next", 102.0)]


def test_brokers_that_are_not_done_are_an_error(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylogbroker.testing.clock._SETTLE_SECONDS_MAX", 0.05)
    before = broker.clock.time()
    with monkeypatch.context() as patch:
        running = broker.clock._brokers
        assert running is not None
        patch.setattr(broker.clock, "_brokers", attrs.evolve(running, is_busy=lambda: True))
        with pytest.raises(NotSettled, match=r"not done 0\.05 s after the clock moved: worker threads are busy"):
            broker.clock.advance("1h")
    assert broker.clock.time() - before >= 3600
    with monkeypatch.context() as patch:
        patch.setattr(MovableClock, "is_due", True)
        with pytest.raises(NotSettled, match=r": .+ is due again and again"):
            broker.clock.advance("1h")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(offsets_retention_minutes=60) as broker:
        yield broker


def test_retention_and_records_of_last_week(broker: Broker) -> None:
    kept, deleted = (
        broker.create_topic("kept", retention_ms=-1),
        broker.create_topic("deleted", retention_ms=86_400_000),
    )
    for topic in (kept, deleted):
        broker.produce(topic, "old")
    broker.clock.advance("1w")
    for topic in (kept, deleted):
        broker.produce(topic, "new")
    assert [each.value for each in broker.records(deleted)] == [b"new"]
    old, new = broker.records(kept)
    assert 604_800_000 <= new.timestamp - old.timestamp < 604_800_000 + 60_000
    assert abs(new.timestamp - broker.clock.time() * 1000) < 60_000


def test_a_transaction_times_out(broker: Broker) -> None:
    topic = broker.create_topic("transactions")
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "late", "transaction.timeout.ms": 600_000}
    producer = Producer(settings)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.flush()
    broker.clock.advance("5m")
    assert broker.open_transactions == ["late"]
    broker.clock.advance("6m")
    assert broker.open_transactions == []
    assert broker.records(topic, isolation_level="read_committed") == []


def test_a_session_expires(broker: Broker) -> None:
    topic = broker.create_topic("sessions")
    broker.produce(topic, "value")
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "sleepers", "auto.offset.reset": "earliest"}
    revoked = threading.Event()
    consumer = Consumer({**settings, "session.timeout.ms": 45_000, "heartbeat.interval.ms": 1000})
    consumer.subscribe([topic], on_lost=lambda *_: revoked.set(), on_revoke=lambda *_: revoked.set())
    assert consumer.poll(120).value() == b"value"
    broker.clock.advance("1m")
    wait_until(lambda: consumer.poll(0.1) is None and revoked.is_set())
    consumer.close()


def test_offsets_expire(broker: Broker) -> None:
    topic = broker.create_topic("offsets")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "forgotten"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    consumer.close()
    assert "forgotten" in broker.groups
    broker.clock.advance("2h")
    assert "forgotten" not in broker.groups


def test_a_delayed_fetch(broker: Broker) -> None:
    topic = broker.create_topic("fetches")
    consumer = SimpleConsumer("127.0.0.1", broker.port)
    found: list[object] = []
    with broker.faults.watch(api="Fetch") as watch:
        fetch = threading.Thread(
            target=lambda: found.append(consumer.fetch(topic, 0, 0, max_wait_ms=600_000, min_bytes=1))
        )
        fetch.start()
        watch.wait(1, timeout=120)
    broker.clock.advance("11m")
    fetch.join(120)
    assert (fetch.is_alive(), len(found)) == (False, 1)
    consumer.close()


def test_the_time_stays_moved() -> None:
    broker = Broker()
    broker.clock.advance("1d")
    with broker:
        broker.clock.advance("1d")
        moved = broker.now_ms()
    with broker:
        assert moved <= broker.now_ms() < moved + 60_000
        topic = broker.create_topic("append-time", message_timestamp_type="LogAppendTime")
        broker.produce(topic, "value", timestamp_ms=1)
        assert moved <= broker.records(topic)[0].timestamp < moved + 60_000
