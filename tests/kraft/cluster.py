"""A cluster on Apache Kafka's controllers, for the harness of `tests.cluster`: brokers of this project and of Kafka.

makers = [kraft_apache, kraft_apache, kraft_own]
with QuorumCluster.on_controllers(tmp_path, makers, "kafka-4.4", controllers=3) as cluster:
    cluster.create("orders", partitions=2)
    cluster.quorum.kill(cluster.quorum.wait_for_active())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, Self

import attrs
from click.testing import CliRunner

from pylogbroker.cli import main
from tests.cluster.cluster import Cluster, internal_topics
from tests.cluster.members import ApacheMember, ClusterBroker
from tests.cluster.network import Network
from tests.kraft.answers import BrokerAnswers
from tests.kraft.quorum import START_SECONDS_MAX, ApacheQuorum
from tests.peers.kafka import CLUSTER_ID, KafkaBroker
from tests.peers.processes import SHORT_LIVED, free_ports
from tests.peers.zookeeper_mode import QUICK_FAILURES
from tests.support.broker_process import BrokerProcess

#: Of brokers and controllers.
QUICK: Final[Mapping[str, str]] = {
    **{name: value for name, value in QUICK_FAILURES.items() if not name.startswith("zookeeper.")},
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
}
SEGMENT_BYTES_MIN: Final = 1 << 20
_OF_CONTROLLERS: Final = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}


@attrs.frozen
class KraftPlace:
    """Place of a broker in a cluster: its number there, the controllers, its directory and its port."""

    broker_id: int
    quorum: ApacheQuorum
    directory: Path
    settings: Mapping[str, str]
    port: int
    release: str  # of the controllers

    def behind(self, network: Network) -> KraftPlace:
        """Return the same place, to which all connections of brokers lead through a network."""
        advertised = f"PLAINTEXT://127.0.0.1:{network.proxy(self.broker_id, self.port).port}"
        return attrs.evolve(self, settings={**self.settings, "advertised.listeners": advertised})


class KraftMaker(Protocol):
    """Makes a broker for a place; it is not started yet."""

    def __call__(self, place: KraftPlace) -> ClusterBroker: ...


def identity(number: int) -> dict[str, str]:
    return {"process.roles": "broker", "node.id": str(number), **_OF_CONTROLLERS}


def own_settings(number: int, quorum: ApacheQuorum) -> dict[str, str]:
    """Return the settings by which a broker of this project joins a cluster."""
    return {**identity(number), "controller.quorum.bootstrap.servers": quorum.bootstrap}


def kraft_own(place: KraftPlace) -> BrokerProcess:
    """Make a broker of this project, with a formatted log directory."""
    settings = {**own_settings(place.broker_id, place.quorum), **place.settings}
    broker = BrokerProcess(place.directory, settings, port=place.port)
    format_directory(broker.data_dir, settings)
    return broker


def kraft_apache(
    place: KraftPlace, java_options: tuple[str, ...] = SHORT_LIVED, start_timeout: float = START_SECONDS_MAX
) -> ApacheMember:
    """Make a broker of Apache Kafka, of the controllers' release."""
    addresses = {"listeners": f"PLAINTEXT://127.0.0.1:{place.port}", "controller.quorum.voters": place.quorum.voters}
    return ApacheMember(
        KafkaBroker(
            place.directory,
            {**identity(place.broker_id), **addresses, **place.settings},
            port=place.port,
            java_options=java_options,
            start_timeout=start_timeout,
            kafka_release=place.release,
        )
    )


def format_directory(data: Path, settings: Mapping[str, str], cluster_id: str = CLUSTER_ID) -> None:
    """Format a log directory as a user does."""
    file = data.with_name(f"{data.name}.properties")
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = {**settings, "log.dirs": str(data)}
    file.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
    done = CliRunner().invoke(main, ["storage", "format", "-t", cluster_id, "-c", str(file)])
    assert done.exit_code == 0, done.output


@attrs.define
class QuorumCluster(Cluster):
    """Brokers and controllers; a context manager that starts all, and kills them in the end."""

    quorum: ApacheQuorum = attrs.field(kw_only=True)

    @classmethod
    def on_controllers(
        cls,
        directory: Path,
        makers: Sequence[KraftMaker],
        release: str,
        controllers: int = 1,
        settings: Mapping[str, str] | None = None,
        network: Network | None = None,
        java_options: tuple[str, ...] = SHORT_LIVED,
        formatted: tuple[str, ...] = (),
    ) -> Self:
        """Make a cluster of brokers 1, 2, ..., which do not run yet.

        `settings` are those of all, controllers too; the last two are the controllers'.
        """
        common = {**QUICK, **internal_topics(len(makers)), **(settings or {})}
        quorum = ApacheQuorum.make(directory, release, controllers, common, network, java_options, formatted)
        members: dict[int, ClusterBroker] = {}
        for number, (maker, port) in enumerate(zip(makers, free_ports(len(makers)), strict=True), 1):
            place = KraftPlace(number, quorum, directory / f"broker-{number}", common, port, release)
            members[number] = maker(place if network is None else place.behind(network))

        def able() -> dict[int, str]:
            return {number: members[number].bootstrap for number in cluster.running if number not in cluster.paused}

        cluster = cls(directory, members, BrokerAnswers(able), quorum=quorum)
        return cluster

    def __enter__(self) -> Self:
        try:
            self.quorum.start_all()
            return self.start_all()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc_info: object) -> None:
        Cluster.__exit__(self, *exc_info)
        self.quorum.kill_all()

    def start(self, number: int, *, wait_for_expiry: bool = False) -> None:
        """Start a broker, which itself waits until the registration of its last life has expired."""
        Cluster.start(self, number, wait_for_expiry=wait_for_expiry)

    def create(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replicas: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic; Kafka 4 takes no segments of less than a MiB."""
        given = dict(configs or {})
        if "segment.bytes" in given:
            given["segment.bytes"] = str(max(int(given["segment.bytes"]), SEGMENT_BYTES_MIN))
        Cluster.create(self, topic, partitions, given, replicas)
