"""The clients, each behind the calls of `adapters.base.Client`, kept over the session."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.clients.adapters.afkak import Afkak
from tests.clients.adapters.aiokafka import AioKafka
from tests.clients.adapters.base import Client
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.java import Java
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.adapters.kcat import Kcat
from tests.clients.adapters.kcat import available as kcat_available
from tests.peers import available as java_available
from tests.support.brokers import Broker

LIMIT = 900

#: How each client of the matrix is made, by the name that the tests' ids show.
CLIENTS: dict[str, Callable[[], Client]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
    "afkak": Afkak,
    "kcat": Kcat,
    "java-3.9": lambda: Java("3.9"),
    "java-4": lambda: Java("4"),
}


@pytest.fixture(scope="session")
def client_named() -> Iterator[Callable[[str], Client]]:
    """A client by its name in CLIENTS; the test is skipped where the machine does not have it."""
    made: dict[str, Client] = {}

    @cache
    def get(name: str) -> Client:
        made[name] = CLIENTS[name]()
        return made[name]

    def get_if_there(name: str) -> Client:
        if name == "kcat" and not kcat_available():
            pytest.skip("kcat is not installed")
        if name.startswith("java") and not java_available():
            pytest.skip("Java and Maven are not installed")
        return get(name)

    yield get_if_there
    for client in made.values():
        if isinstance(client, Java | Afkak):
            client.close()


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, client_named: Callable[[str], Client]) -> Client:
    return client_named(request.param)


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """No client waits for ever: each test has LIMIT seconds."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"the test took more than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap
