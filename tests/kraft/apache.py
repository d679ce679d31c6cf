"""A cluster of Apache Kafka's controller, in a process of its own, and brokers of this project and of Kafka.

with KraftCluster(tmp_path, "kafka-4.4", apaches=2) as cluster:     # brokers 1 and 2 are Kafka's, 3 is ours
    cluster.kill(3)
    cluster.start(3)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import attrs
from click.testing import CliRunner
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pylogbroker.cli import main
from tests.peers.kafka import CLUSTER_ID, KafkaBroker
from tests.peers.processes import SHORT_LIVED, free_ports
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

CONTROLLER_ID: Final = 100
QUICK: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}
REPLICATED: Final[Mapping[str, str]] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class Controller(KafkaBroker):
    """Apache Kafka as a controller alone."""

    def all_settings(self) -> Mapping[str, str]:
        settings = {**super().all_settings(), "listeners": f"CONTROLLER://127.0.0.1:{self.port}"}
        del settings["advertised.listeners"]
        return settings


@attrs.define
class KraftCluster:
    directory: Path
    release: str = "kafka-3.9"
    apaches: int = 0
    brokers: int = 3
    controller: Controller = attrs.field(init=False)
    admin: AdminClient = attrs.field(init=False)
    ports: dict[int, int] = attrs.field(factory=dict)
    own: dict[int, BrokerProcess] = attrs.field(factory=dict)
    theirs: dict[int, KafkaBroker] = attrs.field(factory=dict)
    settings: Mapping[str, str] = attrs.field(factory=lambda: {**QUICK, **REPLICATED})
    own_settings: Mapping[str, str] = attrs.field(factory=dict)
    """More settings of this project's brokers."""
    controller_settings: Mapping[str, str] = attrs.field(factory=dict)

    def __enter__(self) -> Self:
        controller, *ports = free_ports(self.brokers + 1)
        self.ports = dict(enumerate(ports, 1))
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self.controller = Controller(
            self.directory / "controller",
            {
                "process.roles": "controller",
                "node.id": str(CONTROLLER_ID),
                "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{controller}",
                **QUICK,
                **self.controller_settings,
            },
            port=controller,
            java_options=SHORT_LIVED,
            kafka_release=self.release,
        )
        self.controller.start()
        for number in self.ports:
            self.start(number)
        wait_until(lambda: len(self.registered()) == self.brokers, 60, self.registered)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in (*self.own.values(), *self.theirs.values(), self.controller):
            broker.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def address(self, number: int) -> str:
        return f"127.0.0.1:{self.ports[number]}"

    def start(self, number: int) -> None:
        if number <= self.apaches:
            self._their(number).start()
        else:
            self._our(number).start()

    def _their(self, number: int) -> KafkaBroker:
        if number not in self.theirs:
            self.theirs[number] = KafkaBroker(
                self.directory / f"kafka-{number}",
                {
                    "process.roles": "broker",
                    "node.id": str(number),
                    "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{self.controller.port}",
                    "listeners": f"PLAINTEXT://{self.address(number)}",
                    **self.settings,
                },
                port=self.ports[number],
                java_options=SHORT_LIVED,
                kafka_release=self.release,
            )
        return self.theirs[number]

    def our_settings(self, number: int) -> dict[str, str]:
        return {
            "process.roles": "broker",
            "node.id": str(number),
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            **self.settings,
            **self.own_settings,
        }

    def _our(self, number: int) -> BrokerProcess:
        if number not in self.own:
            broker = BrokerProcess(
                self.directory / f"broker-{number}", self.our_settings(number), port=self.ports[number]
            )
            self.format(number, broker.data_dir)
            self.own[number] = broker
        return self.own[number]

    def format(self, number: int, data: Path, cluster_id: str = CLUSTER_ID) -> None:
        """Format a log directory as a user does."""
        file = data.with_name(f"{data.name}.properties")
        file.parent.mkdir(parents=True, exist_ok=True)
        settings = {**self.our_settings(number), "log.dirs": str(data)}
        file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        done = CliRunner().invoke(main, ["storage", "format", "-t", cluster_id, "-c", str(file)])
        assert done.exit_code == 0, done.output

    def registered(self) -> set[int]:
        """Return the brokers that clients see."""
        try:
            return set(self.admin.list_topics(timeout=10).brokers)
        except KafkaException:
            return set()

    def is_in_sync(self, topic: str) -> bool:
        """Return whether each partition has a leader, and all replicas in sync."""
        try:
            partitions = self.admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        except KafkaException:
            return False
        return all(part.leader >= 0 and set(part.isrs) == set(part.replicas) for part in partitions)
