"""The support itself: async tests, their limit, what they leave behind; both brokers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient
from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Factory

from pylogbroker.client import Producer
from tests.support.brokers import Broker
from tests.support.reactor_run import LeftBehind, run, sleep, wait_for


def test_run_returns_the_result_of_a_deferred() -> None:
    assert run(lambda: succeed(3)) == 3


def test_run_raises_the_error_of_a_coroutine() -> None:
    async def fail() -> None:
        await sleep(0)
        raise LookupError("so")

    with pytest.raises(LookupError, match="so"):
        run(fail)


def test_run_times_out() -> None:
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        run(Deferred, timeout=0.05)


def test_a_timer_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.reactor_run.LINGER", 0.05)

    async def leave() -> None:
        reactor.callLater(1000, print)

    with pytest.raises(LeftBehind, match="print"):
        run(leave)
    run(lambda: succeed(None))


def test_a_machine_that_stands_still_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, late = reactor.seconds, [0.0]
    monkeypatch.setattr(reactor, "seconds", lambda: seconds() + late[0])

    async def leave() -> None:
        reactor.callLater(0.01, late.__setitem__, 0, 60.0)
        reactor.callLater(0.02, bool)

    run(leave)
    assert late == [60.0]


def test_a_socket_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.reactor_run.LINGER", 0.05)

    async def leave() -> None:
        reactor.listenTCP(0, Factory(), interface="127.0.0.1")

    with pytest.raises(LeftBehind, match="Port"):
        run(leave)
    run(lambda: succeed(None))


def test_a_client_left_behind(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leftover call does not disturb later tests."""
    monkeypatch.setattr("tests.support.reactor_run.LINGER", 0.05)
    left: list[Producer] = []

    async def leave() -> None:
        left.append(Producer(broker.bootstrap))
        await left[0].send(topic, b"x")

    with pytest.raises(LeftBehind, match="PipelinedConnection"):
        run(leave)
    run(lambda: sleep(1))


async def test_async_tests_run_on_the_reactor() -> None:
    seen: list[int] = []
    reactor.callLater(0, seen.append, 1)
    await wait_for(lambda: seen)
    assert seen == [1]


async def test_both_brokers(broker: Broker, broker_name: str, topic: str) -> None:
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60)
    assert metadata.brokers
    assert broker.segment_suffix == {"pylogbroker": ".kafka", "kafka": ".log"}.get(broker_name, "")


async def test_a_broker_of_its_own(new_broker: Callable[..., Broker]) -> None:
    made = new_broker({"num.partitions": "3"})
    made.start()
    assert AdminClient({"bootstrap.servers": made.bootstrap}).list_topics(timeout=60).brokers
    assert made.stop() == 0
