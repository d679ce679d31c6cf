"""One broker of each kind for all tests of a run, on any worker: tests keep apart by the names of topics and groups."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from tests.support import run_services
from tests.support.broker_process import BrokerProcess
from tests.support.brokers import KafkaProcess
from tests.support.run_services import DIES_WITH_PARENT, Facts

QUICK_GROUPS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "5000",
}
"""Settings of brokers for groups whose coordinator assigns: members notice changes at once."""


@attrs.frozen
class BrokerService:
    """A broker that runs for the whole test run."""

    broker: BrokerProcess | KafkaProcess

    @property
    def facts(self) -> Facts:
        """Return the address for clients, and the directory of its files."""
        return {"address": self.broker.bootstrap, "data": str(self.broker.data_dir)}

    def stop(self) -> list[str]:
        """Kill the broker; returns the errors that it logged."""
        self.broker.kill()
        return self.broker.unexpected_errors()


def start_broker(directory: Path) -> BrokerService:
    """Start this project's broker."""
    return _started(BrokerProcess(directory, prefix=DIES_WITH_PARENT))


def start_kafka(directory: Path) -> BrokerService:
    """Start Apache Kafka 3.9."""
    return _started(KafkaProcess(directory, prefix=DIES_WITH_PARENT))


def start_kafka4(directory: Path) -> BrokerService:
    """Start Apache Kafka 4.4."""
    return _started(KafkaProcess(directory, prefix=DIES_WITH_PARENT, release="kafka-4.4"))


def start_group_broker(directory: Path) -> BrokerService:
    """Start this project's broker with groups of KIP-848 that are quick."""
    return _started(BrokerProcess(directory, QUICK_GROUPS, prefix=DIES_WITH_PARENT))


def start_group_kafka4(directory: Path) -> BrokerService:
    """Start Apache Kafka 4.4 with groups of KIP-848 that are quick."""
    return _started(KafkaProcess(directory, QUICK_GROUPS, prefix=DIES_WITH_PARENT, release="kafka-4.4"))


def _started(broker: BrokerProcess | KafkaProcess) -> BrokerService:
    broker.start()
    return BrokerService(broker)


@attrs.frozen
class SharedBroker:
    """A broker that other tests use too: it is not stopped, and its log is checked at the end of the run."""

    bootstrap: str
    segment_suffix: str
    _partition: str  # a path with {topic} and {number}

    def start(self) -> None:
        """Do nothing: it runs."""

    def stop(self) -> int:
        """Raise an error: a test that stops brokers makes its own with `new_broker`."""
        raise NotImplementedError("other tests use this broker: make one with new_broker")

    def kill(self) -> None:
        """Do nothing: it runs until the end of the run."""

    def partition_dir(self, topic: str, partition: int) -> Path:
        """Directory of a partition."""
        return Path(self._partition.format(topic=topic, number=partition))

    def unexpected_errors(self) -> list[str]:
        """Nothing: the run looks at the end."""
        return []


def shared_broker(config: pytest.Config) -> SharedBroker:
    """Return this project's broker."""
    facts = run_services.of(config).get(f"{__name__}:start_broker")
    return SharedBroker(facts["address"], BrokerProcess.segment_suffix, facts["data"] + "/{topic}_{number}")


def shared_group_broker(config: pytest.Config) -> SharedBroker:
    """Return a broker with quick groups of KIP-848: Apache Kafka 4.4 with `--against kafka4`, else this project's."""
    if config.getoption("--against") == "kafka4":
        return shared_kafka(config, "group_kafka4")
    facts = run_services.of(config).get(f"{__name__}:start_group_broker")
    return SharedBroker(facts["address"], BrokerProcess.segment_suffix, facts["data"] + "/{topic}_{number}")


def shared_kafka(config: pytest.Config, name: str = "kafka") -> SharedBroker:
    """Return Apache Kafka, of the release that `--against` calls by this name."""
    facts = run_services.of(config).get(f"{__name__}:start_{name}")
    return SharedBroker(facts["address"], KafkaProcess.segment_suffix, facts["data"] + "/{topic}-{number}")
