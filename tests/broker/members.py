"""Brokers of one cluster in the test's own process, without sockets, ZooKeeper and controller.

    with opened_members(directories) as cluster:
        cluster.create("t", [1, 2])                 # partition 0 is led by broker 1, partition 1 by broker 2
        cluster.lead("t", 0, 2)                     # the controller elects broker 2
        cluster.down.add(1)                         # requests to broker 1 get no answer

A partition has one replica, or those of `replicas`. Requests between brokers go through the wire's codecs, and take no
time. `requests` has them, by client id.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from math import inf
from typing import Any
from unittest.mock import patch

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from pylogbroker.broker.apis import APIS
from pylogbroker.broker.assembly import assemble
from pylogbroker.broker.membership.admin import ClusterAdmin
from pylogbroker.broker.membership.cluster_role import ClusterRole
from pylogbroker.broker.replication.channels import BrokerChannels
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.metadata.zk_schema import ProducerIdBlock, new_id
from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.rpc.errors import Closed, ConnectionLost
from pylogbroker.storage import LogManager, load_logs
from pylogbroker.tap import plugins
from pylogbroker.wire import Request, UnsupportedVersion
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pylogbroker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.broker.nodes import CLUSTER_ID, PORT, START, Node, Threads
from tests.broker.prepared_requests import decoded
from tests.broker.trees import now, opened_tree

HANDLERS = {api.key: api for api in APIS}


@attrs.define(eq=False)
class DirectChannel:
    """Channel to a broker of the same process."""

    cluster: Members
    broker_id: int
    client_id: str
    versions: Mapping[int, int]
    closed: bool = False

    def request(self, request: Request | PreparedRequest, version: int | None = None) -> Deferred[Any]:
        """Ask the handler; a broker that is down does not answer before the channel is closed."""
        request = decoded(request)
        api = HANDLERS[request.api_key]
        version = self.versions.get(api.key, version)
        if version is not None and version > self.cluster.newest.get(api.key, version):
            return fail(UnsupportedVersion(f"version {version} is too new"))
        self.cluster.requests.append((self.client_id, self.broker_id, request))
        if self.broker_id in self.cluster.down:
            return fail(ConnectionLost("it is down"))
        answer: Deferred[Any] = Deferred()
        self.cluster.clock.callLater(0, self._deliver, api.handle, request, version, answer)
        return answer

    def request_undecoded(self, request: Request, version: int | None = None) -> Deferred[Callable[[], Any]]:
        return self.request(request, version).addCallback(lambda response: lambda: response)

    def _deliver(
        self, handle: Callable[..., Any], request: Request, version: int | None, answer: Deferred[Any]
    ) -> None:
        def answered(response: Any) -> None:
            if (lie := self.cluster.lies.get(self.broker_id)) is not None:
                response = lie(response)
            if request.api_key in self.cluster.held:
                self.cluster.held[request.api_key].append(partial(answered, response))
            elif not answer.called:
                answer.errback(Closed("closed")) if self.closed else answer.callback(response)

        self.cluster.nodes[self.broker_id].send(handle, request, version).addBoth(answered)

    def close(self) -> None:
        """Fail what is not answered yet, when its answer comes."""
        self.closed = True


@attrs.define(eq=False)
class MemberNode(Node):
    """A node whose answers may wait for other brokers."""

    cluster: Members

    def ask(self, handle: Callable[..., Any], request: Request, version: int | None = None) -> Any:
        """Return the answer, after some time."""
        return self.cluster.result(self.send(handle, request, version))


@attrs.define(eq=False)
class Members:
    """The brokers by id, and the controller's part."""

    clock: Clock
    nodes: dict[int, Node] = attrs.field(factory=dict)
    down: set[int] = attrs.field(factory=set)
    requests: list[tuple[str, int, Request]] = attrs.field(factory=list)
    newest: dict[int, int] = attrs.field(factory=dict)  # by API key: older than ours, as if all were of an old release
    held: dict[int, list[Callable[[], None]]] = attrs.field(factory=dict)  # responses that are on their way
    lies: dict[int, Callable[[Any], Any]] = attrs.field(factory=dict)  # by the broker that answers
    producer_ids: Iterator[int] = attrs.field(factory=count)
    _ids: dict[str, uuid.UUID] = attrs.field(factory=dict)
    _states: dict[tuple[str, int], LeaderAndIsrPartitionState] = attrs.field(factory=dict)

    def __getitem__(self, broker_id: int) -> Node:
        return self.nodes[broker_id]

    def sent(self, request: type[Request]) -> list[tuple[str, int, Any]]:
        """Return the requests of a type that brokers sent: client id, receiver, request."""
        return [each for each in self.requests if isinstance(each[2], request)]

    def run(self, seconds: float = 1.0) -> None:
        """Let time pass, in steps."""
        for _ in range(round(seconds / 0.01)):
            self.clock.advance(0.01)

    async def allocate_producer_ids(self, *_: object) -> ProducerIdBlock:
        """Do the controller's part."""
        first = next(self.producer_ids) * 1000
        return ProducerIdBlock(-1, first, first + 999)

    def hold(self, api_key: int) -> None:
        """Hold back the responses of an API between brokers."""
        self.held[api_key] = []

    def release(self) -> None:
        """Deliver them."""
        held, self.held = self.held, {}
        for responses in held.values():
            for deliver in responses:
                deliver()

    def result(self, waiting: Deferred[Any], seconds: float = 5.0) -> Any:
        """Let time pass until there is a result."""
        results: list[Any] = []
        waiting.addBoth(results.append)
        for _ in range(round(seconds / 0.01)):
            if results:
                break
            self.clock.advance(0.01)
        [result] = results
        return result

    def create(self, topic: str, leaders: Sequence[int], replicas: Sequence[int] = ()) -> None:
        """Create a topic whose partitions have these leaders."""
        self._ids[topic] = new_id()
        for index, leader in enumerate(leaders):
            members = [leader, *(each for each in replicas if each != leader)]
            self._states[topic, index] = LeaderAndIsrPartitionState(
                partition_index=index,
                controller_epoch=1,
                leader=leader,
                isr=members,
                replicas=members,
                is_new=True,
            )
        self._publish(topic, range(len(leaders)))

    def delete(self, topic: str) -> None:
        """Delete a topic, in the metadata."""
        indexes = [index for name, index in self._states if name == topic]
        states = [UpdateMetadataPartitionState(partition_index=index, leader=-2) for index in indexes]
        self.update([UpdateMetadataTopicState(topic, self._ids[topic], states)])

    def lead(self, topic: str, index: int, leader: int, orders: bool = True) -> None:
        """Elect a leader; without `orders` the brokers read of it in the metadata only."""
        before = self._states[topic, index]
        self._states[topic, index] = attrs.evolve(
            before,
            leader=leader,
            leader_epoch=before.leader_epoch + 1,
            partition_epoch=before.partition_epoch + 1,
            is_new=False,
        )
        self._publish(topic, [index], orders)

    def _publish(self, topic: str, indexes: Sequence[int], orders: bool = True) -> None:
        states = [self._states[topic, index] for index in indexes]
        for number, node in self.nodes.items():
            mine = [each for each in states if number in each.replicas]
            if mine and orders and number not in self.down:
                named = LeaderAndIsrTopicState(topic, self._ids[topic], mine)
                now(
                    _role(node).orders.lead_and_follow(LeaderAndIsrRequest(topic_states=[named], controller_epoch=1), 7)
                )
        announced = [
            UpdateMetadataPartitionState(
                partition_index=each.partition_index,
                controller_epoch=each.controller_epoch,
                leader=each.leader,
                leader_epoch=each.leader_epoch,
                isr=each.isr,
                zk_version=each.partition_epoch,
                replicas=each.replicas,
            )
            for each in states
        ]
        self.update([UpdateMetadataTopicState(topic, self._ids[topic], announced)])

    def update(self, topics: Sequence[UpdateMetadataTopicState] = ()) -> None:
        """Announce the brokers that are up, and states of partitions."""
        brokers = [
            UpdateMetadataBroker(number, endpoints=[UpdateMetadataEndpoint(PORT, f"host-{number}", "PLAINTEXT")])
            for number in self.nodes
            if number not in self.down
        ]
        request = UpdateMetadataRequest(
            controller_id=-1, controller_epoch=1, topic_states=list(topics), live_brokers=brokers
        )
        for number, node in self.nodes.items():
            if number not in self.down:
                now(_role(node).orders.update_metadata(request))


def _role(node: Node) -> ClusterRole:
    role = node.broker.role
    assert isinstance(role, ClusterRole)
    return role


@contextmanager
def opened_members(directories: Sequence[str], settings: Mapping[str, str]) -> Iterator[Members]:
    """Open brokers 1, 2, ... on these directories."""
    clock = Clock()
    clock.advance(START)
    cluster = Members(clock)

    def open_channel(
        channels: BrokerChannels, broker_id: int, client_id: str, versions: Mapping[int, int] | None = None
    ) -> DirectChannel:
        return DirectChannel(cluster, broker_id, client_id, versions or {})

    with ExitStack() as stack:
        stack.enter_context(patch.object(BrokerChannels, "open", open_channel))
        stack.enter_context(patch.object(ClusterAdmin, "allocate_producer_ids", cluster.allocate_producer_ids))
        for number, directory in enumerate(directories, 1):
            cluster.nodes[number] = stack.enter_context(_opened_member(number, directory, cluster, settings))
        cluster.update()
        yield cluster


@contextmanager
def _opened_member(number: int, directory: str, cluster: Members, settings: Mapping[str, str]) -> Iterator[MemberNode]:
    config = BrokerConfig({"log.dirs": directory, "zookeeper.connect": "localhost:2181", **settings})
    with opened_tree(directory) as tree:
        logs = LogManager((directory,))
        logs.directories.lock()
        logs.directories.claim(number, CLUSTER_ID)
        threads, clock = Threads(), cluster.clock
        runtime = Runtime.on(clock, threads, threads)
        broker = assemble(config, number, CLUSTER_ID, runtime, tree, logs, plugins.delete_policies(), in_cluster=True)
        broker.runtime.slices.seconds = inf
        broker.node.listeners["PLAINTEXT"] = Listener("PLAINTEXT", "", PORT, "PLAINTEXT", f"host-{number}", PORT)
        load_logs(logs, {}, int(START * 1000), print)
        now(broker.open())
        try:
            yield MemberNode(broker, clock, (directory,), threads, tree, cluster)
        finally:
            broker.release()
            logs.close()
