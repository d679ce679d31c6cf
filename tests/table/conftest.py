"""Fixtures of tests of tables: a broker with a schema registry in the test's process, and topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pylogbroker.testing import Broker
from tests.spark.topics import Topics


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(schema_registry=True) as started:
        yield started


@pytest.fixture
def topics(broker: Broker, fresh_name: Callable[[], str]) -> Iterator[Topics]:
    with Topics(broker.bootstrap, fresh_name) as made:
        yield made


@pytest.fixture
def place(broker: Broker) -> dict[str, Any]:
    """Return the arguments of a read that say where the topic is."""
    return {"bootstrap_servers": broker.bootstrap}
