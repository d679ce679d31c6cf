"""Fixtures of Spark's tests: both brokers, and topics to be filled.

`spark` is the session of tests/support/spark_session.py.  A test that asks for `broker` runs against this project's
broker and against Apache Kafka 3.9, as in tests/client; one that ends brokers takes `new_broker` of tests/conftest.py.
`topics` makes and fills topics there with librdkafka, which knows nothing of this project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.topics import Topics
from tests.support.both_brokers import broker, broker_name, broker_names
from tests.support.brokers import Broker

if TYPE_CHECKING:
    from tests.spark.stream_driver import DrivenStream

__all__ = ["broker", "broker_name"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_broker: it is slow, and no matter which broker there is")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"broker", "topics"} & set(metafunc.fixturenames):
        found = broker_names(metafunc.config)
        one = metafunc.definition.get_closest_marker("one_broker")
        metafunc.parametrize("broker_name", found[:1] if one else found, indirect=True)


@pytest.fixture
def topics(broker: Broker, fresh_name: Callable[[], str]) -> Iterator[Topics]:
    """Makes and fills topics of the broker."""
    with Topics(broker.bootstrap, fresh_name) as made:
        yield made


@pytest.fixture
def stream(broker: Broker) -> Iterator[Callable[..., DrivenStream]]:
    """Starts queries that read from the broker, driven as Spark does it."""
    from tests.spark.stream_driver import QUICK, DrivenStream

    made: list[DrivenStream] = []

    def make(**options: Any) -> DrivenStream:
        made.append(DrivenStream({"kafka.bootstrap.servers": broker.bootstrap, **QUICK, **options}))
        return made[-1]

    yield make
    for each in made:
        each.reader.stop()
