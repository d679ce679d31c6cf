"""What the tests of the Spark part share: one Spark session, brokers of both kinds, and topics to be filled.

`spark` is a session of two threads that knows both sources, `pylogbroker` and Spark's own `kafka`: one for all tests,
since its start takes seconds.  A test that asks for `broker` runs against this project's broker and against Apache
Kafka 3.9, as in tests/client; who ends brokers takes `new_broker` of tests/conftest.py.  `topics` makes and fills
topics there with librdkafka, which knows nothing of this project.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.peers import available as java_available
from tests.peers.spark import java_options
from tests.spark.topics import Topics
from tests.support.both_kinds import broker, broker_kind, kinds
from tests.support.brokers import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.driven import Driven

__all__ = ["broker", "broker_kind"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_broker: it is slow, and no matter which broker there is")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"broker", "topics"} & set(metafunc.fixturenames):
        found = kinds(metafunc.config)
        one = metafunc.definition.get_closest_marker("one_broker")
        metafunc.parametrize("broker_kind", found[:1] if one else found, indirect=True)


@pytest.fixture
def topics(broker: Broker, fresh_name: Callable[[], str]) -> Iterator[Topics]:
    """Makes and fills topics of the broker."""
    with Topics(broker.bootstrap, fresh_name) as made:
        yield made


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session; its processes for Python are of this interpreter."""
    if not java_available():
        pytest.skip("Java and Maven are not installed")
    from pyspark.sql import SparkSession

    from tests.peers.maven import jars

    directory = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(map(str, jars("spark-kafka"))),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(java_options()),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.metricsEnabled": "false",
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def stream(broker: Broker) -> Iterator[Callable[..., Driven]]:
    """Starts queries that read from the broker, driven as Spark does it."""
    from tests.spark.driven import QUICK, Driven

    made: list[Driven] = []

    def make(**options: Any) -> Driven:
        made.append(Driven({"kafka.bootstrap.servers": broker.bootstrap, **QUICK, **options}))
        return made[-1]

    yield make
    for each in made:
        each.reader.stop()
