"""Fixtures of the client's tests: both running brokers, and async tests on the real reactor.

A test that asks for `broker` runs twice: against this project's broker, in a process, and against Apache Kafka 3.9
(skipped where there is no Java). `--against kafka` or `--against HOST:PORT` leaves one of them. Each is started once in
the session, when it is first asked for, ours being the one that `tests/clients` uses too; tests keep apart by the names
of topics and groups (fixtures `topic`, `group`, `fresh_name`). Who stops and restarts brokers takes `new_broker`, which
is of the same two kinds, and makes brokers of the test's own.

    async def test_round_trip(broker: Broker, topic: str) -> None:
        producer = Producer(broker.bootstrap)
        ...
        await producer.close()

An `async def` is run on Twisted's global reactor (`tests.support.reactor_run`): it may await Deferreds, has LIMIT
seconds, and must leave neither timers nor sockets behind. Plain functions call `run(...)` of the same module, or have
no reactor at all. trial's TestCases have nothing of this, and go on working.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import make_broker
from tests.support.both_brokers import BROKER_NAMES, broker, broker_name, broker_names
from tests.support.brokers import Broker
from tests.support.reactor_run import run

__all__ = ["broker", "broker_name"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"broker", "new_broker"} & set(metafunc.fixturenames):
        metafunc.parametrize("broker_name", broker_names(metafunc.config), indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in wanted}
    run(partial(pyfuncitem.obj, **arguments))
    return True


@pytest.fixture
def new_broker(broker_name: str, tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Makes brokers of the test's own, `new_broker({setting: value})`, not yet started."""
    if broker_name not in BROKER_NAMES:
        pytest.skip("a broker that runs already cannot be started and ended by a test")
    made: list[Broker] = []

    def make(settings: dict[str, str] | None = None) -> Broker:
        made.append(make_broker(BROKER_NAMES[broker_name], tmp_path / f"broker-{len(made)}", settings or {}))
        return made[-1]

    yield make
    for each in made:
        each.kill()
    assert [each.unexpected_errors() for each in made] == [[] for _ in made]
