"""A real Apache Kafka broker of release 3.9 or 4.4: one node, controller and broker at once (KRaft), on free ports.

    with KafkaBroker(tmp_path) as kafka:
        client(bootstrap_servers=kafka.address)

`kafka_release="kafka-4.4"` starts the newest release, which knows no ZooKeeper. Where a context manager does not fit,
`kafka = KafkaBroker(directory).start(); ...; kafka.stop()`. As a pytest fixture:

    @pytest.fixture(scope="session")
    def kafka(tmp_path_factory):
        with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker

Settings beyond Kafka's defaults are those of a single node (`SINGLE_NODE`), and `settings` overrides any of
them. The heap and the collector are those of Kafka's own start script. Start-up takes about 4 seconds.
Everything lies in the directory given: `data/`, `server.properties`, and `kafka.log` with its warnings.

For what needs leaders that move there is a cluster, each node of which can be ended and started by itself:

    with KafkaCluster(tmp_path) as cluster:
        client(bootstrap_servers=cluster.address)
        cluster.nodes[2].kill()
        cluster.nodes[2].start()

Its nodes are small, and do not move leaders by themselves. Node 1 is also the controller, and notices the end of
another node within 2 seconds. Start-up takes about 6 seconds on two cores.
"""

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs

from tests.peers.java_server import JavaServer, logging_options
from tests.peers.maven import PeerError, classpath
from tests.peers.processes import SHORT_LIVED, free_ports

SINGLE_NODE: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
CLUSTER_OF_THREE: Mapping[str, str] = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
}
HEAP = ("-Xmx1G", "-Xms1G")
COLLECTOR = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
LOGGING = """\
log4j.rootLogger=WARN, file
log4j.logger.kafka.server.KafkaRaftServer=INFO
log4j.logger.kafka.server.KafkaServer=INFO
log4j.logger.kafka.log.LogCleaner=INFO
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d %p %m (%c)%n
"""
LOGGING_IN_4 = """\
status=error
rootLogger.level=warn
rootLogger.appenderRef.file.ref=file
logger.server.name=kafka.server
logger.server.level=info
logger.cleaner.name=org.apache.kafka.storage.internals.log.LogCleaner
logger.cleaner.level=info
appender.file.type=File
appender.file.name=file
appender.file.fileName={log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %m (%c)%n
"""
CLUSTER_ID = "cHlsb2dicm9rZXJwZWVyMQ"


@attrs.define
class KafkaServer(JavaServer):
    """Apache Kafka on one node, in either mode."""

    main = "kafka.Kafka"

    kafka_release: str = attrs.field(default="kafka-3.9", kw_only=True)

    @property
    def release(self) -> str:
        """The peer whose jars are run."""
        return self.kafka_release

    @property
    def logging(self) -> str:
        """Return the properties of the release's log4j."""
        return LOGGING_IN_4 if self.kafka_release == "kafka-4.4" else LOGGING

    @property
    def data(self) -> Path:
        """The log directory: one directory `<topic>-<partition>` for each partition."""
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """The broker's own log: warnings, errors, start and stop."""
        return self.directory / "kafka.log"


@attrs.define
class KafkaBroker(KafkaServer):
    """Apache Kafka on one node that is its own controller (KRaft), unless `settings` say otherwise."""

    started = r"Kafka Server started"

    java_options: tuple[str, ...] = (*HEAP, *COLLECTOR)
    format_options: tuple[str, ...] = ()
    """Further options of `kafka-storage format`."""

    def all_settings(self) -> Mapping[str, str]:
        """Return SINGLE_NODE, addresses, directory, and `settings`; the controller has a new port at each start."""
        [controller] = free_ports(1)
        return {
            **SINGLE_NODE,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.data),
            **self.settings,
        }

    def _prepare(self, properties: Path, logging: Path) -> None:
        """Format the data directory unless that is done."""
        if (self.data / "meta.properties").exists():
            return
        arguments = ["format", "--cluster-id", CLUSTER_ID, "--config", str(properties), *self.format_options]
        java = ["java", *logging_options(logging), *SHORT_LIVED, "-cp", classpath(self.release)]
        done = subprocess.run([*java, "kafka.tools.StorageTool", *arguments], capture_output=True, text=True)
        if done.returncode:
            raise PeerError(f"Kafka could not format {self.data}:\n{done.stdout}{done.stderr}")


@attrs.define
class KafkaCluster:
    """Apache Kafka on three nodes, numbered from 1, the first of which is the controller; below `directory`."""

    directory: Path
    settings: Mapping[str, str] = attrs.field(factory=dict)
    nodes: dict[int, KafkaBroker] = attrs.field(factory=dict)

    @property
    def address(self) -> str:
        """All nodes' hosts and ports, as clients' `bootstrap.servers` takes them."""
        return ",".join(node.address for node in self.nodes.values())

    def start(self) -> Self:
        """Start those nodes that do not run, together."""
        self.nodes = self.nodes or self._make_nodes()
        resting = [node for node in self.nodes.values() if node.process is None]
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            try:
                list(threads.map(KafkaBroker.start, resting))
            except PeerError:
                self.kill()
                raise
        return self

    def kill(self) -> None:
        """End all nodes at once."""
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _make_nodes(self) -> dict[int, KafkaBroker]:
        controller, *ports = free_ports(4)
        return {number: self._make_node(number, port, controller) for number, port in enumerate(ports, 1)}

    def _make_node(self, number: int, port: int, controller: int) -> KafkaBroker:
        listeners = [f"PLAINTEXT://127.0.0.1:{port}"]
        if number == 1:
            listeners.append(f"CONTROLLER://127.0.0.1:{controller}")
        settings = {
            **CLUSTER_OF_THREE,
            "process.roles": "broker,controller" if number == 1 else "broker",
            "node.id": str(number),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": ",".join(listeners),
            **self.settings,
        }
        return KafkaBroker(self.directory / f"node-{number}", settings, port=port, java_options=SHORT_LIVED)
