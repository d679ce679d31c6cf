"""A cluster of brokers of any kind, whose members a test starts, ends and pauses.

    cluster = new_cluster(apache, apache, own)          # brokers 1, 2 and 3 run
    cluster.create("orders", partitions=2)              # on all brokers; partition 0 is led by broker 1, and so on
    cluster.kill(cluster.leader("orders", 0))
    cluster.wait_for_leader("orders", 0)
    cluster.start(1)
    cluster.wait_until_in_sync("orders")
    cluster.replicas("orders", 0)                       # the records in each replica's files

States come from the coordination tree, which has more of them (`tree`), or from KRaft controllers.  The logs of all
lives of a broker are in files such as `broker-1.log`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Self

import attrs
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from tests.clients.stored_batches import ask
from tests.cluster.members import ClusterBroker, Maker, Place
from tests.cluster.network import Network
from tests.cluster.replica_logs import LogRecord, partition_directories, read_directory
from tests.cluster.states import NONE, States, StoredState
from tests.cluster.tree import Tree
from tests.crash.history import Partition
from tests.peers.processes import free_ports
from tests.peers.tools import tool
from tests.support.waiting import wait_until

WAIT_SECONDS_MAX = 120.0
METADATA_VERSION = 4
PASSING = (
    KafkaError.NOT_CONTROLLER,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._DESTROY_BROKER,  # the broker that was asked has left the metadata
)


@attrs.define
class Cluster:
    """Brokers on one chroot, by their ids; a context manager that kills them in the end."""

    directory: Path
    members: Mapping[int, ClusterBroker]
    states: States
    running: list[int] = attrs.field(factory=list)
    paused: list[int] = attrs.field(factory=list)
    errors: dict[int, list[str]] = attrs.field(factory=dict)  # in the logs of lives that are over
    _admin: AdminClient | None = None
    _may_exist: bool = False  # the topic that is being created

    @classmethod
    def make(
        cls,
        directory: Path,
        zookeeper: str,
        makers: Sequence[Maker],
        settings: Mapping[str, str] | None = None,
        network: Network | None = None,
    ) -> Self:
        """Make a cluster of brokers 1, 2, ..., which do not run yet; `settings` are those of all."""
        common = {**internal_topics(len(makers)), **(settings or {})}
        members = {}
        for number, (maker, port) in enumerate(zip(makers, free_ports(len(makers)), strict=True), 1):
            place = Place(number, zookeeper, directory / f"broker-{number}", common, port)
            members[number] = maker(place if network is None else place.behind(network))
        return cls(directory, members, Tree.open(zookeeper))

    def __enter__(self) -> Self:
        try:
            return self.start_all()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc_info: object) -> None:
        for number in list(self.running):
            self.kill(number)
        self.states.close()

    @property
    def tree(self) -> Tree:
        """The coordination tree of a cluster that has one."""
        assert isinstance(self.states, Tree), "the cluster has no coordination tree"
        return self.states

    @property
    def bootstrap(self) -> str:
        """All brokers' addresses, as clients' `bootstrap.servers` takes them."""
        return ",".join(member.bootstrap for member in self.members.values())

    @property
    def admin(self) -> AdminClient:
        """Client for administration, in this process."""
        if self._admin is None:
            self._admin = AdminClient(
                {"bootstrap.servers": self.bootstrap, "topic.metadata.refresh.interval.ms": 500, "log_level": 0}
            )
        return self._admin

    def tool(self, name: str, *arguments: str, input: str | None = None) -> str:
        """Run one of Kafka's tools on the cluster; its output."""
        return tool(name, "--bootstrap-server", self.bootstrap, *arguments, input=input).stdout

    def start_all(self) -> Self:
        """Start the brokers that do not run, together."""
        resting = [number for number in self.members if number not in self.running]
        with ThreadPoolExecutor(len(self.members)) as threads:
            list(threads.map(self.start, resting))
        return self

    def start(self, number: int, *, wait_for_expiry: bool = True) -> None:
        """Start a broker, once the registration of its last life has expired, and wait until it knows the cluster.

        Apache Kafka does not start before that expiry.  It accepts clients before its controller has sent it the
        metadata, and answers with what it has: nothing.
        """
        if wait_for_expiry:
            wait_until(lambda: number not in self.states.brokers(), WAIT_SECONDS_MAX, self.states.brokers)
        self.running.append(number)
        member = self.members[number]
        member.start()
        wait_until(lambda: number in known_brokers(member.bootstrap), WAIT_SECONDS_MAX)

    def stop(self, number: int) -> int:
        """Stop a broker, by a controlled shutdown; the exit status, 0 when it went well."""
        self.resume(number)
        status = self.members[number].stop()
        self._note_end(number)
        return status

    def kill(self, number: int) -> None:
        """SIGKILL; the coordination tree notices it after the session timeout."""
        self.members[number].kill()
        self._note_end(number)

    def pause(self, number: int) -> None:
        """SIGSTOP: the broker keeps its connections and its locks, and does nothing."""
        self.members[number].pause()
        self.paused.append(number)

    def resume(self, number: int) -> None:
        """SIGCONT, if the broker is paused."""
        if number in self.paused:
            self.members[number].resume()
            self.paused.remove(number)

    def _note_end(self, number: int) -> None:
        self.running = [each for each in self.running if each != number]
        self.paused = [each for each in self.paused if each != number]
        self.errors.setdefault(number, []).extend(self.members[number].unexpected_errors())
        with (self.directory / f"broker-{number}.log").open("a") as log:
            log.writelines(f"{line}\n" for line in self.members[number].log_lines())

    def create(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replicas: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic on all brokers, or as `replicas` say for each partition.

        Returns when it is in sync, and all brokers that are not paused know its leaders.
        """
        numbers = list(self.members)
        rotated = [[*numbers[first:], *numbers[:first]] for first in range(len(numbers))]
        assigned = [list(each) for each in replicas] or [rotated[each % len(numbers)] for each in range(partitions)]
        new = NewTopic(topic, len(assigned), replica_assignment=assigned, config=dict(configs or {}))
        self._may_exist = False
        wait_until(partial(self._is_created, new), WAIT_SECONDS_MAX)
        self.wait_until_in_sync(topic)
        for member in [self.members[each] for each in self.running if each not in self.paused]:
            wait_until(partial(knows_leaders, member.bootstrap, topic), WAIT_SECONDS_MAX)

    def _is_created(self, new: NewTopic) -> bool:
        """Create a topic, unless librdkafka asks a broker that is no longer the controller, or gets no answer in time.

        A controller that answered too late may have created it.
        """
        try:
            self.admin.create_topics([new])[new.topic].result(WAIT_SECONDS_MAX)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS and self._may_exist:
                return True
            if error.args[0].code() not in PASSING:
                raise
            self._may_exist = True
            return False
        return True

    def produce(self, topic: str, *values: bytes, partition: int = 0, idempotent: bool = False) -> None:
        """Write records with acks=all, each in a batch of its own, and wait until they are acknowledged.

        An idempotent producer needs any broker, which needs the controller, for its producer id.
        """
        settings = {"bootstrap.servers": self.bootstrap, "acks": "all", "log_level": 0}
        producer = Producer({**settings, "enable.idempotence": idempotent})
        for number, value in enumerate(values):
            producer.produce(topic, value, b"key %d" % number, partition, headers={"number": b"%d" % number})
            if producer.flush(WAIT_SECONDS_MAX):
                raise TimeoutError(f"{value!r} is not acknowledged within {WAIT_SECONDS_MAX:g} s")

    def controller(self) -> int:
        """Return the id of the controller; NONE (-1) while there is none."""
        return self.states.controller()

    def state(self, topic: str, partition: int) -> StoredState:
        """Return the state of a partition that there is."""
        found = self.states.state(topic, partition)
        if found is None:
            raise LookupError(f"{topic}-{partition} has no state in the tree")
        return found

    def leader(self, topic: str, partition: int) -> int:
        """Return the leader of a partition; NONE (-1) while it has none."""
        return self.state(topic, partition).leader

    def isr(self, topic: str, partition: int) -> list[int]:
        """Return the in-sync replicas, sorted."""
        return sorted(self.state(topic, partition).isr)

    def wait_for_leader(
        self, topic: str, partition: int, other_than: int = NONE, seconds: float = WAIT_SECONDS_MAX
    ) -> int:
        """Wait until a registered broker that runs and is not paused leads the partition; its id."""
        leader = NONE

        def is_led() -> bool:
            nonlocal leader
            state = self.states.state(topic, partition)
            leader = NONE if state is None else state.leader  # the controller may not have made it yet
            able = leader in self.running and leader not in self.paused and leader != other_than
            return able and leader in self.states.brokers()

        wait_until(is_led, seconds, lambda: self.states.state(topic, partition))
        return leader

    def wait_for_controller(self, seconds: float = WAIT_SECONDS_MAX) -> int:
        """Wait until a running broker that is not paused is the controller; its id."""
        able = [each for each in self.running if each not in self.paused]
        controller = NONE

        def is_able() -> bool:
            nonlocal controller
            controller = self.controller()
            return controller in able

        wait_until(is_able, seconds, self.controller)
        return controller

    def wait_until_in_isr(self, topic: str, partition: int, *numbers: int, seconds: float = WAIT_SECONDS_MAX) -> None:
        """Wait until these brokers, and perhaps others, are in sync."""
        wait_until(lambda: {*numbers} <= {*self.isr(topic, partition)}, seconds, lambda: self.state(topic, partition))

    def wait_until_in_sync(self, topic: str, seconds: float = WAIT_SECONDS_MAX) -> None:
        """Wait until every partition of the topic has all its replicas in sync, and a leader."""

        def states() -> list[tuple[tuple[int, ...], StoredState | None]]:
            assignment = self.states.assignment(topic)
            return [(replicas, self.states.state(topic, each)) for each, replicas in assignment.items()]

        def is_in_sync() -> bool:
            found = states()
            return bool(found) and all(
                state is not None and state.leader != NONE and sorted(state.isr) == sorted(replicas)
                for replicas, state in found
            )

        wait_until(is_in_sync, seconds, states)

    def wait_until_reassigned(self, topic: str, partition: int, *replicas: int) -> None:
        """Wait until a move of a partition, by `tree.reassign`, is over."""
        wait_until(
            lambda: not self.states.reassigned() and self.states.assignment(topic)[partition] == replicas,
            WAIT_SECONDS_MAX,
            lambda: (self.states.reassigned(), self.states.assignment(topic), self.state(topic, partition)),
        )

    def dump_logs(self, number: int) -> dict[Partition, list[LogRecord]]:
        """Return all records in the files of a broker, which may run or not."""
        member = self.members[number]
        return {
            partition: read_directory(path, member.segment_suffix)
            for partition, path in partition_directories(member.data_dir).items()
        }

    def replicas(self, topic: str, partition: int) -> dict[int, list[LogRecord]]:
        """Return the records in the files of each replica of a partition."""
        numbers = self.states.assignment(topic)[partition]
        return {number: self._read(self.members[number], topic, partition) for number in numbers}

    @staticmethod
    def _read(member: ClusterBroker, topic: str, partition: int) -> list[LogRecord]:
        return read_directory(member.partition_dir(topic, partition), member.segment_suffix)


def known_brokers(bootstrap: str) -> list[int]:
    """Return the brokers of the metadata that one broker answers with; none if it knows of no controller."""
    answer = ask(bootstrap, MetadataRequest(topics=[]), MetadataResponse, METADATA_VERSION)
    return [] if answer.controller_id == NONE else [each.node_id for each in answer.brokers]


def knows_leaders(bootstrap: str, topic: str) -> bool:
    """True if one broker's metadata has the topic, with a leader for each partition."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    [answer] = ask(bootstrap, request, MetadataResponse, METADATA_VERSION).topics
    return not answer.error_code and not any(each.error_code for each in answer.partitions)


def internal_topics(brokers: int) -> dict[str, str]:
    """Return settings with which the internal topics work while one of several brokers is dead."""
    factor, least = str(min(brokers, 3)), str(max(1, min(brokers, 3) - 1))
    return {
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": least,
    }
