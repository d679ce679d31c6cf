"""Tests that run against this project's broker and against Apache Kafka 3.9, for the conftest of a package.

    from tests.support.both_brokers import broker, broker_name, broker_names  # fixtures, and their parameters

`--against kafka` leaves one of them; `--against kafka4` and `--against HOST:PORT` replace both. Each is started once in
the session, when it is first asked for, ours being the one of tests/conftest.py that others use too.
"""

from __future__ import annotations

import pytest

from tests.peers import available as java_available
from tests.support.brokers import KAFKA_RELEASES, Broker

#: as `--against` calls them
BROKER_NAMES = {"pylogbroker": "", "kafka": "kafka", "kafka4": "kafka4"}


def broker_names(config: pytest.Config) -> list[str]:
    """Names of the brokers that tests run against."""
    against = str(config.getoption("--against"))
    return [against] if against else ["pylogbroker", "kafka"]


@pytest.fixture
def broker_name(request: pytest.FixtureRequest) -> str:
    """Which broker the test is run against: a key of BROKER_NAMES, or an address."""
    kind = str(request.param)
    if kind in KAFKA_RELEASES and not java_available():
        pytest.skip("Java and Maven are not installed")
    return kind


@pytest.fixture
def broker(broker_name: str, request: pytest.FixtureRequest) -> Broker:
    """A running broker, shared by all tests. Ours, or the one of `--against`, is that of tests/conftest.py."""
    is_second = broker_name == "kafka" and not request.config.getoption("--against")
    found: Broker = request.getfixturevalue("second_broker" if is_second else "broker")
    return found
