"""Brokers on either side of a mirror whose processes are killed: this project's, Apache Kafka, one with Kafka 0.7.

    source = own_side(directory)
    source.start()
    source.kill()
    source.start()         # on the same port and data
    source.close()

All of them keep transactions short that nobody ends, so that the last stable offset moves on soon after a kill.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from tests.cluster.members import Place, apache
from tests.legacy07.conftest import SimpleBroker
from tests.peers.processes import free_ports
from tests.peers.zookeeper import ZooKeeper
from tests.support.broker_process import BrokerProcess
from tests.support.brokers import Broker, KafkaProcess

OWN: Final = "own"
LEGACY07: Final = "0.7"
OLD: Final = "kafka-2.7"
TARGETS: Final = (OWN, OLD, "kafka-3.9", "kafka-4.4")
SOURCES: Final = (*TARGETS, LEGACY07)
_SETTINGS: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
}
_ALONE: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class KilledSide(Protocol):
    """A broker with all that it needs; `close` ends it for good."""

    broker: Broker

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


class _Alone:
    """A broker that needs no other process."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def start(self) -> None:
        self.broker.start()

    def kill(self) -> None:
        self.broker.kill()

    def close(self) -> None:
        self.broker.kill()


class _WithZooKeeper(_Alone):
    """Apache Kafka 2.7, and a ZooKeeper that lives on when the broker is killed."""

    def __init__(self, directory: Path) -> None:
        self._zookeeper = ZooKeeper(directory / "zookeeper").start()
        place = Place(1, f"{self._zookeeper.address}/mirror", directory, {**_SETTINGS, **_ALONE}, free_ports(1)[0])
        super().__init__(apache(place, release=OLD))

    def close(self) -> None:
        super().close()
        self._zookeeper.kill()


def own_side(directory: Path) -> KilledSide:
    return _Alone(BrokerProcess(directory, _SETTINGS))


def legacy07_side(directory: Path) -> KilledSide:
    return _Alone(SimpleBroker(directory, _SETTINGS))


def apache_side(release: str, directory: Path) -> KilledSide:
    if release == OLD:
        return _WithZooKeeper(directory)
    return _Alone(KafkaProcess(directory, _SETTINGS, release=release))


def new_side(name: str, directory: Path) -> KilledSide:
    """Return a side that is not started yet; `name` is one of SOURCES."""
    if name == OWN:
        return own_side(directory)
    return legacy07_side(directory) if name == LEGACY07 else apache_side(name, directory)
