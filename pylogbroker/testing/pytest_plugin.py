"""Plugin for pytest: a broker for each worker, and what a test needs of it.

pytest imports this module in every run, so modules of the broker are imported by the fixtures that use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pylogbroker.testing.factories import MARKER, broker_noproc, broker_proc
from pylogbroker.testing.factories import kafka as kafka_factory
from pylogbroker.testing.options import add_options

if TYPE_CHECKING:
    from pylogbroker.testing.handle import Kafka

kafka_broker_proc = broker_proc()
kafka_broker_noproc = broker_noproc()
kafka = kafka_factory()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    line = (
        f"{MARKER}(settings=None, **arguments): give the test a broker of its own (arguments of pylogbroker's Broker)"
    )
    config.addinivalue_line("markers", line)


@pytest.fixture
def kafka_bootstrap(kafka: Kafka) -> str:
    """Address of the broker for clients."""
    return kafka.bootstrap


@pytest.fixture
def kafka_topic(kafka: Kafka) -> str:
    """Name of a new topic with one partition."""
    return kafka.topic()


@pytest.fixture
def kafka_schema_registry(kafka: Kafka) -> str:
    """URL of the broker's schema registry: with `--kafka-schema-registry`, or the marker's `schema_registry=True`."""
    return kafka.schema_registry


@pytest.fixture
def kafka_producer(kafka: Kafka) -> Any:
    """Producer of the library that `--kafka-client` names, or the first that is installed."""
    return kafka.producer()


@pytest.fixture
def kafka_consumer(kafka: Kafka, kafka_topic: str) -> Any:
    """Consumer of `kafka_topic`, from its beginning."""
    return kafka.consumer(kafka_topic)
