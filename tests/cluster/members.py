"""Brokers that a cluster of the tests is made of.

    new_cluster(apache, apache, own)                                      # brokers 1, 2 and 3
    new_cluster(partial(apache, release="kafka-2.7", protocol="2.7"), own)

A test that names `apache` is a test that starts Apache Kafka, for `make oracle`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs

from tests.cluster.network import ZOOKEEPER, Network
from tests.peers.kafka import KafkaServer
from tests.peers.processes import SHORT_LIVED
from tests.peers.zookeeper_mode import QUICK_FAILURES, ZooKeeperModeBroker
from tests.support.broker_process import BrokerProcess
from tests.support.brokers import Broker, KafkaProcess

#: For tests that kill, pause and cut nothing: a machine that stands still ends no session and drops no replica.
CALM: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "120000",
    "replica.socket.timeout.ms": "120000",
    "controller.socket.timeout.ms": "120000",
    "request.timeout.ms": "30000",
}


@attrs.frozen
class Place:
    """Place of a broker: its cluster, its number there, its directory and its port."""

    broker_id: int
    zookeeper: str  # with the chroot
    directory: Path
    settings: Mapping[str, str]
    port: int

    def behind(self, network: Network) -> Place:
        """Return the same place, from which and to which all connections of brokers lead through a network."""
        server, _, chroot = self.zookeeper.partition("/")
        zookeeper = network.proxy(ZOOKEEPER, int(server.rpartition(":")[2]), source=self.broker_id)
        advertised = f"PLAINTEXT://127.0.0.1:{network.proxy(self.broker_id, self.port).port}"
        return attrs.evolve(
            self,
            zookeeper=f"127.0.0.1:{zookeeper.port}/{chroot}",
            settings={**self.settings, "advertised.listeners": advertised},
        )


class ClusterBroker(Broker, Protocol):
    """A broker that can also be paused, and whose files can be read."""

    @property
    def data_dir(self) -> Path:
        """The directory with one directory per partition."""

    @property
    def pid(self) -> int:
        """Its process."""

    def log_lines(self) -> list[str]:
        """Return the lines of its log since its last start."""

    def pause(self) -> None:
        """SIGSTOP."""

    def resume(self) -> None:
        """SIGCONT."""


class Maker(Protocol):
    """Makes a broker for a place; it is not started yet."""

    def __call__(self, place: Place) -> ClusterBroker: ...


class ApacheMember(KafkaProcess):
    """Apache Kafka in either mode."""

    def __init__(self, kafka: KafkaServer) -> None:
        self._kafka = kafka

    @property
    def pid(self) -> int:
        return self._kafka.pid

    def log_lines(self) -> list[str]:
        return self._kafka.log.read_text(errors="replace").splitlines()

    def pause(self) -> None:
        self._kafka.pause()

    def resume(self) -> None:
        self._kafka.resume()


def apache(
    place: Place,
    release: str = "kafka-3.9",
    protocol: str | None = None,
    java_options: tuple[str, ...] = SHORT_LIVED,
    start_timeout: float = 120.0,
) -> ApacheMember:
    """Make a broker of Apache Kafka; its inter-broker protocol is that of its release, or an older one."""
    return ApacheMember(
        ZooKeeperModeBroker(
            place.directory,
            place.settings,
            place.port,
            broker_id=place.broker_id,
            zookeeper=place.zookeeper,
            protocol=protocol,
            kafka_release=release,
            java_options=java_options,
            start_timeout=start_timeout,
        )
    )


def own(place: Place) -> BrokerProcess:
    """Make a broker of this project."""
    identity = {"broker.id": str(place.broker_id), "zookeeper.connect": place.zookeeper}
    return BrokerProcess(place.directory, {**QUICK_FAILURES, **identity, **place.settings}, port=place.port)
