"""Clusters under measurement: three brokers of one kind, in processes of their own.

All get the same settings. Apache Kafka gets the heap and the collector of its own start script. One ZooKeeper is for
all clusters, or each has a controller of Apache Kafka 4.4 (KRaft).
"""

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol, Self

import attrs

from benchmarks.brokers import process_cpu_seconds, process_resident_bytes
from benchmarks.driver import call
from benchmarks.errors import BenchmarkError
from benchmarks.requests import leaders, metadata_request
from benchmarks.session import WAIT_SECONDS_MAX, Session
from pylogbroker.wire.metadata_records import BrokerRegistrationChangeRecord, decode_record
from tests.cluster.cluster import Cluster
from tests.cluster.members import Maker, apache, own
from tests.cluster.replica_logs import records_in
from tests.crash.content import whole_entries
from tests.kraft.cluster import KraftMaker, QuorumCluster, kraft_apache, kraft_own
from tests.peers.kafka import COLLECTOR, HEAP
from tests.peers.zookeeper import ZooKeeper

BROKERS = 3
EXPIRY_SECONDS_MAX = 60.0
START_SECONDS_MAX = 300.0  # after a kill, Kafka looks at thousands of logs
POLL_SECONDS = 0.02  # metadata of 100 partitions cost a broker half a millisecond
SETTINGS: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": "6000",
    "min.insync.replicas": "2",
    "log.segment.delete.delay.ms": "100",
}
#: Kafka's defaults, in place of the settings of tests.
DEFAULTS: Mapping[str, str] = {
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.backoff.ms": "1000",
    "replica.socket.timeout.ms": "30000",
    "controller.socket.timeout.ms": "30000",
    "request.timeout.ms": "30000",
    "log.cleaner.dedupe.buffer.size": str(128 << 20),
    "log.retention.check.interval.ms": "300000",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "background.threads": "10",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
}
SETTINGS_ON_CONTROLLER: Mapping[str, str] = {
    **{name: text for name, text in SETTINGS.items() if not name.startswith("zookeeper.")},
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "2000",
    "group.min.session.timeout.ms": "6000",
}
KRAFT_RELEASE = "kafka-4.4"
FENCED = 1
METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"
CONTROLLER_OPTIONS = ("-XX:+UseSerialGC", "-Xshare:auto", "-Xmx1G")
ZOOKEEPER_OPTIONS = ("-XX:+UseSerialGC", "-Xshare:auto", "-Xmx1G", "-Dzookeeper.preAllocSize=4")


@attrs.frozen
class ReplicaSession(Session):
    """Session with one broker of a cluster, which is the preferred leader of the topics that the session creates."""

    controller: Callable[[], Session] = attrs.field(kw_only=True)

    @property
    def administrator(self) -> Session:
        return self.controller()

    def create(self, sock: socket.socket, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Wait for the broker's metadata as well: Kafka's controller sends it after the order to lead."""
        super().create(sock, name, partitions, settings)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        with self.connection() as own:
            while len(leaders(call(own, metadata_request([name])))) < partitions:
                if time.monotonic() > deadline:
                    raise BenchmarkError(f"the metadata of {self.host}:{self.port} has no topic {name}")
                time.sleep(POLL_SECONDS)


class Death(Protocol):
    """Moment at which a cluster takes a broker as dead."""

    def wait(self) -> float:
        """Return the time, of `time.perf_counter`."""


@attrs.frozen
class Expiry:
    """Moment at which ZooKeeper has deleted a node."""

    times: list[float] = attrs.field(factory=list)
    over: threading.Event = attrs.field(factory=threading.Event)

    def note(self, event: object) -> None:
        """Keep the time; kazoo calls this in a thread of its own."""
        self.times.append(time.perf_counter())
        self.over.set()

    def wait(self) -> float:
        """Return the time, of `time.perf_counter`."""
        if not self.over.wait(EXPIRY_SECONDS_MAX):
            raise BenchmarkError(f"ZooKeeper does not delete a dead broker's node within {EXPIRY_SECONDS_MAX:g} s")
        return self.times[0]


@attrs.frozen
class Fencing:
    """Moment at which the controller fences a broker: the time of a record in its log."""

    log: Path
    broker_id: int
    position: int
    """End of the log before."""

    @classmethod
    def after_now(cls, log: Path, broker_id: int) -> Self:
        return cls(log, broker_id, sum(map(len, whole_entries(log.read_bytes()))))

    def wait(self) -> float:
        deadline = time.monotonic() + EXPIRY_SECONDS_MAX
        while (time_ms := self._time_ms()) is None:
            if time.monotonic() > deadline:
                raise BenchmarkError(f"the controller does not fence a dead broker within {EXPIRY_SECONDS_MAX:g} s")
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - (time.time() - time_ms / 1000)

    def _time_ms(self) -> int | None:
        with self.log.open("rb") as file:
            file.seek(self.position)
            data = file.read()
        for record in records_in(data):
            change = None if record.is_control or record.value is None else decode_record(record.value)
            is_change = isinstance(change, BrokerRegistrationChangeRecord)
            if is_change and (change.broker_id, change.fenced) == (self.broker_id, FENCED):
                return record.timestamp
        return None


@attrs.frozen
class MeasuredCluster:
    """Running cluster, and its name in the table."""

    name: str
    cluster: Cluster

    @property
    def ids(self) -> list[int]:
        return list(self.cluster.members)

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, for clients."""
        return ",".join(each.bootstrap for each in self.cluster.members.values())

    def session(self, leader: int) -> Session:
        """Return a session with a broker, which leads all partitions of the topics that the session creates."""
        replicas = [leader, *(each for each in self.ids if each != leader)]
        return ReplicaSession("127.0.0.1", self._port(leader), replicas, controller=self.controller)

    def controller(self) -> Session:
        return Session("127.0.0.1", self._port(self.cluster.wait_for_controller()))

    def death(self, number: int) -> Death:
        """Watch for the end of a broker that runs."""
        if isinstance(self.cluster, QuorumCluster):
            [controller] = self.cluster.quorum.controllers.values()
            return Fencing.after_now(controller.data / METADATA_LOG, number)
        expiry, node = Expiry(), f"/brokers/ids/{number}"
        if self.cluster.tree.client.exists(node, watch=expiry.note) is None:
            raise BenchmarkError(f"ZooKeeper has no node {node}")
        return expiry

    def wait_for_leaders(
        self, topics: Sequence[str], brokers: Sequence[int], in_sync: int, seconds: float = math.inf
    ) -> None:
        """Wait until each of `brokers` knows that one of them leads each partition, with `in_sync` in-sync replicas."""
        deadline = time.perf_counter() + seconds
        for number in brokers:
            with self.session(number).connection() as sock:
                for topic in topics:
                    request = metadata_request([topic])
                    while not _are_led(leaders(call(sock, request)), brokers, in_sync):
                        if time.perf_counter() > deadline:
                            raise BenchmarkError(f"{self.name}: topic {topic} has no leaders within {seconds:g} s")
                        time.sleep(POLL_SECONDS)

    def resident_bytes(self) -> int:
        """Return the resident memory of all brokers."""
        return sum(map(process_resident_bytes, self._pids()))

    def cpu_seconds(self) -> float:
        """Return the processor time of all brokers that run."""
        return sum(map(process_cpu_seconds, self._pids()))

    def _pids(self) -> list[int]:
        return [self.cluster.members[number].pid for number in self.cluster.running]

    def _port(self, number: int) -> int:
        return int(self.cluster.members[number].bootstrap.rpartition(":")[2])


def _are_led(found: Sequence[tuple[int, Sequence[int]]], brokers: Sequence[int], in_sync: int) -> bool:
    return bool(found) and all(leader in brokers and len(isr) >= in_sync for leader, isr in found)


KINDS: Mapping[str, Maker] = {
    "pylogbroker": own,
    "Apache Kafka": partial(apache, java_options=(*HEAP, *COLLECTOR), start_timeout=START_SECONDS_MAX),
}


KRAFT_KINDS: Mapping[str, KraftMaker] = {
    "pylogbroker": kraft_own,
    "Apache Kafka": partial(kraft_apache, java_options=(*HEAP, *COLLECTOR), start_timeout=START_SECONDS_MAX),
}


@contextmanager
def running(name: str, zookeeper: str, directory: Path) -> Iterator[MeasuredCluster]:
    """Run three brokers of one kind, of a new cluster, for the length of a `with` block."""
    chroot = f"{zookeeper}/{directory.name}"
    with Cluster.make(directory, chroot, [KINDS[name]] * BROKERS, {**DEFAULTS, **SETTINGS}) as cluster:
        yield MeasuredCluster(name, cluster)


@contextmanager
def running_on_controller(name: str, directory: Path) -> Iterator[MeasuredCluster]:
    """Run three brokers of one kind and a controller of Apache Kafka 4.4 for the length of a `with` block."""
    settings = {**DEFAULTS, **SETTINGS_ON_CONTROLLER}
    makers, options = [KRAFT_KINDS[name]] * BROKERS, CONTROLLER_OPTIONS
    with QuorumCluster.on_controllers(directory, makers, KRAFT_RELEASE, 1, settings, java_options=options) as cluster:
        yield MeasuredCluster(name, cluster)


@contextmanager
def zookeeper(directory: Path) -> Iterator[str]:
    """Run ZooKeeper for the length of a `with` block; its address."""
    with ZooKeeper(directory, java_options=ZOOKEEPER_OPTIONS) as server:
        yield server.address
