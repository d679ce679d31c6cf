"""Controllers of Apache Kafka for a test's brokers: one that is started from an installation, or others that run.

    engine="kraft"                                                  KAFKA_HOME, or kafka_home=, names the installation
    engine="kraft", controller_quorum_bootstrap_servers="host:port" controllers that run already

A test's brokers register with ids that no other broker has. At the end, running controllers forget them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from pylogbroker.blocking.connection import dial
from pylogbroker.broker.kraft.addresses import QuorumAddresses
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError, PylogbrokerError, StartupError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.testing.controller_process import ControllerProcess
from pylogbroker.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from pylogbroker.wire.messages.unregister_broker import UnregisterBrokerRequest

_LISTENER: Final = "CONTROLLER"
_BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
_HOME: Final = "KAFKA_HOME"
_OF_CONTROLLERS: Final = 2
_CONNECTION: Final = ConnectionSettings(client_id="pylogbroker-testing", request_timeout=10.0, setup_timeout=5.0)
_FIRST_IDS: Final = range(100_000, 1_000_000_000, 1_000)


@attrs.frozen
class UsedControllers:
    """Settings of brokers with these controllers; `first_id` is that of the first broker."""

    cluster_id: str
    first_id: int
    settings: Mapping[str, str]


@contextmanager
def controllers_of(
    settings: Mapping[str, str], kafka_home: str | None, directory: str, brokers: int
) -> Iterator[UsedControllers]:
    """Start a controller, or reach those of the settings; raise ConfigError or StartupError."""
    common = {
        "process.roles": "broker",
        "broker.heartbeat.interval.ms": settings.get("broker.heartbeat.interval.ms", "500"),
        "controller.listener.names": settings.get("controller.listener.names", _LISTENER),
        "listener.security.protocol.map": _protocols(settings),
    }
    if settings.get(_BOOTSTRAP):
        with _running(settings, common, brokers) as used:
            yield used
        return
    home = kafka_home or os.environ.get(_HOME, "")
    if not home:
        raise ConfigError(
            "engine: kraft needs a controller of Apache Kafka: unpack a release of https://kafka.apache.org/downloads, "
            f"and name its directory by kafka_home, --kafka-home or {_HOME}; {_BOOTSTRAP} names one that runs"
        )
    with ControllerProcess.started(Path(home), Path(directory), settings) as process:
        yield UsedControllers(process.cluster_id, 0, {**common, _BOOTSTRAP: process.address})


def _protocols(settings: Mapping[str, str]) -> str:
    """Return the map of the settings, with the controllers' listener."""
    given = settings.get("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT")
    name = settings.get("controller.listener.names", _LISTENER).partition(",")[0].strip()
    is_mapped = any(pair.partition(":")[0].strip().upper() == name.upper() for pair in given.split(","))
    return given if is_mapped else f"{given},{name}:PLAINTEXT"


@contextmanager
def _running(settings: Mapping[str, str], common: Mapping[str, str], brokers: int) -> Iterator[UsedControllers]:
    config = BrokerConfig({**settings, **common, "node.id": "0"})
    if config.controller_listener.security.has_setup:
        raise ConfigError(f"{_BOOTSTRAP}: a test's brokers connect to controllers without TLS and SASL only")
    addresses = QuorumAddresses.of(config)
    described = _described(addresses)
    given = settings.get("node.id")
    first = random.choice(_FIRST_IDS) if given is None else int(given)
    yield UsedControllers(described.cluster_id, first, common)
    if given is None:
        _forget(addresses, range(first, first + brokers))


def _described(addresses: QuorumAddresses) -> DescribeClusterResponse:
    """Return what the first controller that answers says of its cluster; raise StartupError."""
    failures = []
    for address in addresses.first:
        try:
            connection = dial(address, _CONNECTION)
            try:
                answer: DescribeClusterResponse = connection.ask(DescribeClusterRequest(endpoint_type=_OF_CONTROLLERS))
                raise_for(answer.error_code, answer.error_message)
            finally:
                connection.close()
        except PylogbrokerError as error:
            failures.append(f"{address}: {error}")
        else:
            return answer
    raise StartupError(f"no controller of {_BOOTSTRAP} can be used: {'; '.join(failures)}")


def _forget(addresses: QuorumAddresses, brokers: range) -> None:
    """Let the active controller remove brokers that are gone; without it they stay fenced."""
    try:
        described = _described(addresses)
        nodes = {node.broker_id: Address(node.host, node.port) for node in described.brokers}
        connection = dial(nodes[described.controller_id], _CONNECTION)
    except (PylogbrokerError, KeyError):
        return
    try:
        for broker in brokers:
            connection.ask(UnregisterBrokerRequest(broker))
    except PylogbrokerError:
        return
    finally:
        connection.close()
