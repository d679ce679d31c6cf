"""Brokers of a cluster in one process: a test is their controller, and their fetchers ask the others' handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from math import inf
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.apis import (
    fetch,
    leader_and_isr,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    update_metadata,
)
from pylogbroker.broker.assembly import RemoteStorage, assemble
from pylogbroker.broker.membership.cluster_role import ClusterRole
from pylogbroker.broker.partitions.log_config import opening_configs
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.replication.leadership import Leadership
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import PartitionState
from pylogbroker.replication import IsrChange
from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.rpc.errors import Closed, ConnectionLost, NotConnected
from pylogbroker.storage import LogManager, load_logs
from pylogbroker.tap import plugins
from pylogbroker.wire import Request
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pylogbroker.wire.messages.list_offsets import ListOffsetsRequest
from pylogbroker.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from pylogbroker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.broker.nodes import CLUSTER_ID, START, Node, Threads, release
from tests.broker.prepared_requests import decoded
from tests.broker.trees import now, opened_tree
from tests.storage.support import NOW, batch, records_in

TOPIC = "t"
TOPIC_ID = UUID(int=7)
CONTROLLER = 9
KEY = (TOPIC, 0)
SETTINGS = {
    "zookeeper.connect": "unused",
    "replica.lag.time.max.ms": "10000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.backoff.ms": "1000",
    "auto.create.topics.enable": "false",
}
HANDLERS: Mapping[type[Request], Callable[..., Any]] = {
    FetchRequest: fetch.handle,
    ListOffsetsRequest: list_offsets.handle,
    OffsetForLeaderEpochRequest: offset_for_leader_epoch.handle,
}


@attrs.define(eq=False, repr=False)
class Channel:
    """Channel to another node's handlers; each way takes one call of the clock."""

    cluster: Cluster
    sender: int
    receiver: int
    in_flight: dict[Deferred[Any], None] = attrs.field(factory=dict)
    is_closed: bool = False

    def request(self, request: Request | PreparedRequest, version: int | None = None) -> Deferred[Any]:
        response: Deferred[Any] = Deferred()
        self.in_flight[response] = None
        self.cluster.clock.callLater(0, self._deliver, decoded(request), version, response)
        return response

    def close(self) -> None:
        self.is_closed = True
        for response in tuple(self.in_flight):
            self._answer(Failure(Closed("the channel was closed")), response)

    def _deliver(self, request: Request, version: int | None, response: Deferred[Any]) -> None:
        if (self.sender, self.receiver) in self.cluster.cut:
            self._answer(None, response)
            return
        self.cluster.requests.append(request)
        answer = self.cluster.nodes[self.receiver].send(HANDLERS[type(request)], request, version)
        answer.addBoth(self.cluster.altered).addBoth(self._answer_later, response)

    def _answer_later(self, answer: Any, response: Deferred[Any]) -> None:
        self.cluster.clock.callLater(0, self._answer, answer, response)

    def _answer(self, answer: Any, response: Deferred[Any]) -> None:
        if response not in self.in_flight:
            return
        del self.in_flight[response]
        if (self.sender, self.receiver) in self.cluster.cut:
            answer = Failure(ConnectionLost("the connection was cut"))
        response.callback(answer)  # of a Failure: fails


@attrs.define(eq=False, repr=False)
class Cluster:
    """Nodes by broker id. Nobody but the test is the controller."""

    clock: Clock
    nodes: dict[int, Node] = attrs.field(factory=dict)
    cut: set[tuple[int, int]] = attrs.field(factory=set)
    """Pairs of sender and receiver whose connection is lost."""
    requests: list[Request] = attrs.field(factory=list)
    channels: list[Channel] = attrs.field(factory=list)
    proposals: list[tuple[Leadership, IsrChange]] = attrs.field(factory=list)
    state: PartitionState = attrs.field(factory=lambda: PartitionState(-1, (), (), -1, -1))
    topic_id: UUID = TOPIC_ID
    alter: Callable[[Any], Any] = lambda answer: answer
    """Changes answers on their way."""

    def altered(self, answer: Any) -> Any:
        return self.alter(answer)

    def propose(self, leadership: Leadership, change: IsrChange, delay_ms: int) -> None:
        self.proposals.append((leadership, change))

    def commit_isr(self) -> tuple[int, ...]:
        """Store the only proposed ISR; return it."""
        [(leadership, change)] = self.proposals
        self.proposals.clear()
        self.state = attrs.evolve(self.state, isr=change.isr, partition_epoch=self.state.partition_epoch + 1)
        leadership.isr_altered(change.isr, self.state.partition_epoch)
        return change.isr

    def channel(self, sender: int, receiver: int) -> Channel:
        if receiver not in self.nodes[sender].broker.metadata.image.brokers:
            raise NotConnected(f"broker {receiver} is not registered")
        self.channels.append(Channel(self, sender, receiver))
        return self.channels[-1]

    def replicas(self, broker: int) -> Any:
        role = self.nodes[broker].broker.role
        assert isinstance(role, ClusterRole)
        return role.replicas

    # Orders

    def announce(
        self,
        *brokers: int,
        port: int = 9092,
        to: tuple[int, ...] = (),
        topics: bool = True,
        offline: tuple[int, ...] = (),
    ) -> None:
        """Send UpdateMetadata with the live brokers and the topic."""
        live = [
            UpdateMetadataBroker(broker, endpoints=[UpdateMetadataEndpoint(port, f"host{broker}", "PLAINTEXT", 0)])
            for broker in brokers
        ]
        states = []
        if topics and self.state.replicas:
            state = self.state
            partition = UpdateMetadataPartitionState(
                partition_index=0,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                zk_version=state.partition_epoch,
                replicas=list(state.replicas),
                offline_replicas=list(offline),
            )
            states = [UpdateMetadataTopicState(TOPIC, self.topic_id, [partition])]
        for broker in to or tuple(self.nodes):
            request = UpdateMetadataRequest(CONTROLLER, controller_epoch=1, topic_states=states, live_brokers=live)
            response = self.nodes[broker].ask(update_metadata.handle, request)
            assert response.error_code == 0

    def elect(
        self, leader: int, isr: tuple[int, ...] = (), to: tuple[int, ...] = (), is_new: bool = False, **fields: Any
    ) -> None:
        """Begin a leader epoch, and send LeaderAndIsr to all replicas, or some."""
        epoch, partition_epoch = self.state.leader_epoch + 1, self.state.partition_epoch + 1
        self.state = attrs.evolve(
            self.state,
            leader=leader,
            leader_epoch=epoch,
            partition_epoch=partition_epoch,
            isr=isr or self.state.isr,
            **fields,
        )
        self.order(*to, is_new=is_new)

    def order(self, *to: int, is_new: bool = False, controller_epoch: int = 1) -> dict[int, ErrorCode]:
        """Send LeaderAndIsr; return the errors by broker."""
        found = {}
        for broker in to or self.state.replicas:
            response = self.nodes[broker].ask(leader_and_isr.handle, self.leader_and_isr(is_new, controller_epoch))
            assert response.error_code == 0
            [[error]] = [topic.partition_errors for topic in response.topics]
            found[broker] = ErrorCode(error.error_code)
        return found

    def leader_and_isr(self, is_new: bool = False, controller_epoch: int = 1) -> LeaderAndIsrRequest:
        state = self.state
        partition = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=1,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=list(state.replicas),
            is_new=is_new,
        )
        topics = [LeaderAndIsrTopicState(TOPIC, self.topic_id, [partition])]
        return LeaderAndIsrRequest(CONTROLLER, controller_epoch=controller_epoch, topic_states=topics)

    def stop(self, broker: int, epoch: int, delete: bool = False) -> ErrorCode:
        """Send StopReplica."""
        states = [StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, epoch, delete)])]
        request = StopReplicaRequest(CONTROLLER, controller_epoch=1, topic_states=states)
        response = self.nodes[broker].ask(stop_replica.handle, request)
        assert response.error_code == 0
        return ErrorCode(response.partition_errors[0].error_code)

    # Records

    def settle(self, seconds: float = 0) -> None:
        """Let requests and answers arrive; let time pass in steps."""
        while seconds > 0:
            self.clock.advance(min(seconds, 0.1))
            seconds -= 0.1
        self.clock.advance(0)

    def partition(self, broker: int) -> Partition:
        return self.nodes[broker].broker.partitions.hosted[KEY]

    def append(self, broker: int, *values: bytes) -> None:
        self.partition(broker).append(batch(list(values)), NOW)

    def produce(self, broker: int, *values: bytes, acks: int = -1, timeout_ms: int = 5000) -> Deferred[Any]:
        """Send a Produce request; its Deferred has the error code."""
        data = [TopicProduceData(TOPIC, [PartitionProduceData(0, batch(list(values)))])]
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data)
        answer = self.nodes[broker].send(produce.handle, request, 9)
        return answer.addCallback(lambda response: response.responses[0].partition_responses[0].error_code)

    def values(self, broker: int) -> list[bytes]:
        """Return all records' values in a broker's log."""
        log = self.partition(broker).log
        found: list[bytes] = []
        offset = log.log_start_offset
        while (region := log.read(offset, 1 << 20, upto=log.log_end_offset)) is not None:
            found += [value for _, value in records_in(region.read())]
            offset = region.next_offset
        return found

    def ends(self) -> dict[int, int]:
        return {broker: self.partition(broker).log.log_end_offset for broker in self.state.replicas}

    def high_watermarks(self) -> dict[int, int]:
        return {broker: self.partition(broker).log.high_watermark for broker in self.state.replicas}


@contextmanager
def opened_member(cluster: Cluster, broker_id: int, directory: str, settings: Mapping[str, str]) -> Iterator[Node]:
    """Open a broker with a tree of its own."""
    config = BrokerConfig({"log.dirs": directory} | SETTINGS | settings)
    with opened_tree(directory) as tree:
        logs = LogManager((directory,))
        logs.directories.lock()
        logs.directories.claim(broker_id, CLUSTER_ID)
        threads = Threads()
        runtime = Runtime.on(cluster.clock, threads, threads)
        policies = plugins.delete_policies()
        storage = plugins.remote_storage(config)
        broker = assemble(
            config, broker_id, CLUSTER_ID, runtime, tree, logs, policies, in_cluster=True,
            remote_storage=None if storage is None else RemoteStorage(storage, threads, threads),
        )  # fmt: skip
        role = broker.role
        assert isinstance(role, ClusterRole)
        role.replicas._fetch_channel = lambda leader, number: cluster.channel(broker_id, leader)
        role.replicas._proposals = cluster
        broker.runtime.slices.seconds = inf
        broker.node.listeners["PLAINTEXT"] = Listener("PLAINTEXT", "", 9092, "PLAINTEXT", "", 9092)
        now(role.open())
        load_logs(logs, opening_configs(config, broker.metadata.image), int(START * 1000), print)
        now(broker.open())
        try:
            yield Node(broker, cluster.clock, (directory,), threads, tree)
        finally:
            role.replicas.close()
            release(broker)
            logs.close()


class ClusterTests(SynchronousTestCase):
    """Each test has brokers 1, 2 and 3, which know each other, in `self.cluster`."""

    settings: Mapping[str, str] = {}
    brokers: tuple[int, ...] = (1, 2, 3)

    def setUp(self) -> None:
        clock = Clock()
        clock.advance(START)
        self.cluster = Cluster(clock)
        self._stacks: dict[int, ExitStack] = {}
        self._directories: dict[int, str] = {}
        for broker in self.brokers:
            self._directories[broker] = self.enterContext(TemporaryDirectory())
            self.start(broker)
        self.cluster.announce(*self.brokers)

    def start(self, broker: int) -> None:
        stack = self._stacks[broker] = self.enterContext(ExitStack())
        member = opened_member(self.cluster, broker, self._directories[broker], self.settings)
        self.cluster.nodes[broker] = stack.enter_context(member)

    def restart(self, broker: int) -> None:
        """Stop a broker, and start it again on its directory; it waits for orders."""
        self._stacks[broker].close()
        self.start(broker)

    def create(self, leader: int = 1, replicas: tuple[int, ...] = (), isr: tuple[int, ...] = ()) -> None:
        """Create the topic, with one partition."""
        replicas = replicas or self.brokers
        self.cluster.elect(leader, isr or replicas, replicas=replicas, is_new=True)
        self.cluster.announce(*self.brokers)
        self.cluster.settle()
