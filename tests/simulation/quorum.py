"""KRaft's controllers in the simulation: three nodes, of which one leads; brokers reach them by the network.

    node       a process with a port; it leads by a `ModelController` of its own, or answers who leads
    quorum     who leads, what is committed; commits come after a time, and are lost when another node leads before

A node that is deposed learns it late: until then it answers brokers, and commits nothing. The model decides alone what
is committed: there is no replication between the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from pylogbroker.broker.kraft.publisher import MetadataPublisher
from pylogbroker.broker.kraft.role import KraftRole
from pylogbroker.kraft.metadata_log import CommittedMetadata, SnapshotPart
from pylogbroker.metadata.image import (
    ConfigResource,
    ConfigResourceType,
    PartitionKey,
    PartitionState,
    broker_resource,
    topic_resource,
)
from pylogbroker.security.acls.bindings import AccessControlEntry, AclOperation, AclPermission, ResourcePattern
from pylogbroker.wire.messages.alter_partition import AlterPartitionRequest
from pylogbroker.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from pylogbroker.wire.messages.fetch import NodeEndpoint
from tests.kraft.controller_connection import Done, connections_to
from tests.kraft.logs import Entry, LeaderLog
from tests.kraft.model_controller import ELR, ModelController, other_leads
from tests.kraft.model_state import TOPIC, Key, ModelState, Replicated
from tests.replication.invariants import Violation
from tests.simulation.applied_metadata import AppliedMetadata, check_leaderships
from tests.simulation.broker import SimulatedBroker
from tests.simulation.network import Network, SimulatedPort
from tests.simulation.setup import Setup

CONTROLLERS: Final = 3
PORT: Final = 9093
SESSION_SECONDS: Final = 1.5
QUORUM_HOSTS: Final = tuple(f"10.0.2.{number}" for number in range(1, CONTROLLERS + 1))
_FIRST_ID: Final = 100
_ELECTION_SECONDS: Final = 0.5
PUBLISH: Final = MetadataPublisher.publish
_HELD_SECONDS: Final = 0.01
_UNAWARE_SECONDS: Final = 1.5
"""Longest time until a node learns that another one leads."""
QUORUM_SETTINGS: Final[Mapping[str, str]] = {
    "process.roles": "broker",
    "controller.quorum.bootstrap.servers": ",".join(f"{host}:{PORT}" for host in QUORUM_HOSTS),
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "broker.heartbeat.interval.ms": "200",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
}


class ControllerNode:
    def __init__(self, quorum: SimulatedQuorum, number: int, host: str) -> None:
        self.id = _FIRST_ID + number
        self.host = host
        self.process = quorum.network.world.start_process(f"controller-{self.id}", host)
        self.controller: ModelController | None = None
        """While it leads, or believes so."""
        self._quorum = quorum
        SimulatedPort(quorum.network, self.process, PORT, connections_to(self._answer)).startListening()

    @property
    def endpoint(self) -> NodeEndpoint:
        return NodeEndpoint(self.id, self.host, PORT)

    def lead(self, epoch: int, log: LeaderLog) -> ModelController:
        quorum = self._quorum
        self.controller = ModelController(
            self.process.reactor,
            PORT,
            holds_commits=True,
            epoch=epoch,
            log=log,
            node_id=self.id,
            host=self.host,
            levels=quorum.levels,
            session_seconds=SESSION_SECONDS,
            in_transaction=lambda: quorum.network.world.rng.random() < quorum.setup.metadata_transactions,
            appended=partial(quorum.appended, self),
        )
        return self.controller

    def deposed(self, controller: ModelController) -> None:
        controller.depose()
        if self.controller is controller:
            self.controller = None

    def _answer(self, request: Any, version: int, done: Done) -> None:
        self._quorum.check_request(request)
        if self.controller is not None:
            if isinstance(request, AlterPartitionRequest):
                self._race(self.controller, request)
                if self._quorum.has_held(self, self.controller, request, version, done):
                    return
            self.controller.answer(request, version, done)
        else:
            leader = self._quorum.leader
            done(other_leads(request, None if leader is None else leader.endpoint, self._quorum.epoch))

    def _race(self, controller: ModelController, request: AlterPartitionRequest) -> None:
        """Fence sometimes a member of an ISR that its leader is about to change."""
        share, rng = self._quorum.setup.raced_isr_changes, self._quorum.network.world.rng
        if not share or rng.random() >= share:
            return
        states = [
            controller.partitions.get((topic.topic_id, part.partition_index))
            for topic in request.topics
            for part in topic.partitions
        ]
        others = [
            member
            for state in states
            for member in (() if state is None else state.isr)
            if member != request.broker_id and controller.state.is_live(member)
        ]
        if others:
            controller.fence(rng.choice(others))


class SimulatedQuorum:
    """Implements StoredMetadata."""

    hosts = QUORUM_HOSTS

    def __init__(self, network: Network, setup: Setup) -> None:
        self.network = network
        self.setup = setup
        self.levels = _levels(setup)
        self.epoch = 1
        self.leader: ControllerNode | None = None
        self.committed = ModelState()
        self.entries: list[Entry] = []
        """All that was committed."""
        self.history: dict[tuple[Key, int], tuple[int, int, list[int]]] = {}
        """Leader, leader epoch and ISR of each committed state, by partition and partition epoch."""
        self.stalled_until = 0.0
        self.on_joining: Callable[[int, int], object] | None = None
        """Called with a leader and the broker that it adds to an ISR, if that is in none: this broker is restarted."""
        self._listeners: list[Callable[[], object]] = []
        self._violations: list[Violation] = []
        """Raised within the product's code."""
        self._on_applied: list[Callable[[int], object]] = []
        self._leaders: dict[tuple[Key, int], int] = {}
        self._applied: dict[MetadataPublisher, AppliedMetadata] = {}
        self._present: dict[int, KraftRole] = {}
        """Roles of the brokers in their present lives."""
        self.nodes = [ControllerNode(self, number, host) for number, host in enumerate(QUORUM_HOSTS)]
        self._elect(self.nodes[0], LeaderLog())

    # commits and elections

    @property
    def end(self) -> int:
        return self.entries[-1].end if self.entries else 0

    def appended(self, node: ControllerNode, controller: ModelController) -> None:
        """Commit what a node has appended, after a time, if it still leads then."""
        self._commit_later(node, controller, controller.log.end)

    def _commit_later(self, node: ControllerNode, controller: ModelController, end: int) -> None:
        world = self.network.world
        seconds = max(self.network.delay(), self.stalled_until - world.now)
        node.process.reactor.callLater(seconds, self._commit, node, controller, end)

    def _commit(self, node: ControllerNode, controller: ModelController, end: int) -> None:
        if node is not self.leader or node.controller is not controller or end <= self.end:
            return
        if self.stalled_until > self.network.world.now:
            self._commit_later(node, controller, end)
            return
        for entry in controller.log.entries:
            if self.end < entry.end <= end:
                self._committed(entry)
        controller.commit(end)

    def _committed(self, entry: Entry) -> None:
        self.entries.append(entry)
        for record in entry.records or ():
            self.committed.apply(record)
        for key, state in self.committed.partitions.items():
            self._note_state(key, state)
        for changed in self._listeners:
            changed()

    def _note_state(self, key: Key, state: Replicated) -> None:
        noted = state.leader, state.leader_epoch, list(state.isr)
        if self.history.setdefault((key, state.partition_epoch), noted) != noted:
            raise Violation(f"5: the model commits two states of {key} with partition epoch {state.partition_epoch}")
        leader = self._leaders.setdefault((key, state.leader_epoch), state.leader)
        if leader != state.leader:
            raise Violation(f"5: the model commits two leaders of {key} in epoch {state.leader_epoch}")

    def fail_over(self) -> None:
        """Let another node lead, with all that is committed, and perhaps some of what is not."""
        former, rng, world = self.leader, self.network.world.rng, self.network.world
        others = [node for node in self.nodes if node.controller is None]
        if former is None or former.controller is None or not others:
            return
        log = former.controller.log
        entries = [entry for entry in log.entries if entry.end <= self.end]
        later = log.entries[len(entries) :]
        kept = entries + later[: rng.randint(0, len(later))]
        self.leader, self.epoch = None, self.epoch + rng.randint(1, 2)
        former.process.reactor.callLater(rng.random() * _UNAWARE_SECONDS, former.deposed, former.controller)
        copy = LeaderLog(kept, log.start, self.end, dict(log.snapshots))
        world.call_later(rng.random() * _ELECTION_SECONDS, self._elect, rng.choice(others), copy)

    def _elect(self, node: ControllerNode, log: LeaderLog) -> None:
        self.leader = node
        node.lead(self.epoch, log)

    @property
    def controller(self) -> ModelController | None:
        """Return the active controller."""
        return None if self.leader is None else self.leader.controller

    def has_held(
        self,
        node: ControllerNode,
        controller: ModelController,
        request: AlterPartitionRequest,
        version: int,
        done: Done,
    ) -> bool:
        """Hold a change that adds a broker to an ISR until that broker has registered again; see `on_joining`."""
        states = list(controller.partitions.values())
        part = request.topics[0].partitions[0]
        state = controller.partitions.get((request.topics[0].topic_id, part.partition_index))
        members = {member.broker_id for member in part.new_isr_with_epochs}
        joining = [number for number in sorted(members) if not any(number in one.isr for one in states)]
        if self.on_joining is None or state is None or len(joining) != 1 or controller.log.end != self.end:
            return False
        [joined] = joining
        on_joining, self.on_joining = self.on_joining, None
        former = controller.members[joined].epoch
        on_joining(request.broker_id, joined)
        controller.fence(joined)

        def answer_once_it_is_back() -> None:
            member = controller.members[joined]
            if node.controller is not controller:
                done(other_leads(request))
            elif member.is_live and member.epoch != former:
                controller.answer(request, version, done)
            else:
                node.process.reactor.callLater(_HELD_SECONDS, answer_once_it_is_back)

        answer_once_it_is_back()
        return True

    # checks

    async def publish(self, publisher: MetadataPublisher, committed: CommittedMetadata | SnapshotPart) -> None:
        """Stand in for the method of the product: check before and after that its broker applies what is committed."""
        applied = self._applied.get(publisher)
        if applied is None:
            applied = self._applied[publisher] = AppliedMetadata(self, publisher._broker_id)
        try:
            applied.check_committed(committed.end_offset)
            await PUBLISH(publisher, committed)
            applied.check(publisher)
            for call in self._on_applied:
                call(publisher._broker_id)
        except Violation as violation:  # the product would log it
            self._violations.append(violation)
            raise

    def check_request(self, request: Any) -> None:
        """Check that a heartbeat names no offset that the broker has not published."""
        if not isinstance(request, BrokerHeartbeatRequest):
            return
        role = self._present.get(request.broker_id)
        if role is None or role._broker_epoch() != request.broker_epoch:
            return
        if request.current_metadata_offset > role._published.offset:
            raise Violation(
                f"23: broker {request.broker_id} tells offset {request.current_metadata_offset}, "
                f"its image has {role._published.offset}"
            )

    def check_broker(self, broker: SimulatedBroker) -> None:
        if self._violations:
            raise self._violations[0]
        role = broker.role
        if isinstance(role, KraftRole):
            self._present[broker.id] = role
            check_leaderships(self, role)

    def leader_in(self, key: Key, leader_epoch: int) -> int | None:
        return self._leaders.get((key, leader_epoch))

    # what is stored

    def watch(self, changed: Callable[[], object], applied: Callable[[int], object]) -> None:
        self._listeners.append(changed)
        self._on_applied.append(applied)

    def topics(self) -> Iterable[str]:
        return self.committed.topics

    def topic_id(self, name: str) -> UUID | None:
        return self.committed.topics.get(name)

    def _replicated(self, key: PartitionKey) -> Replicated:
        return self.committed.partitions[self.committed.topics[key[0]], key[1]]

    def state(self, key: PartitionKey) -> PartitionState:
        return state_of(self._replicated(key))

    def states(self) -> Mapping[PartitionKey, PartitionState]:
        committed = self.committed
        return {
            (committed.names[topic_id], number): state_of(state)
            for (topic_id, number), state in committed.partitions.items()
        }

    def eligible(self, key: PartitionKey) -> Iterable[int]:
        return self._replicated(key).eligible

    def deletions(self) -> Iterable[str]:
        return ()

    def settings(self) -> Iterator[tuple[ConfigResource, Mapping[str, str]]]:
        return settings_of(self.committed)

    def acl_entries(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]:
        return frozenset(
            AccessControlEntry(acl.principal, acl.host, AclOperation(acl.operation), AclPermission(acl.permission_type))
            for acl in self.committed.acls.values()
            if (acl.resource_type, acl.resource_name, acl.pattern_type) == (pattern.type, pattern.name, pattern.pattern)
        )

    def has_all(self, serving: list[SimulatedBroker]) -> bool:
        controller = self.controller
        if controller is None or controller.log.end != self.end or self.stalled_until > self.network.world.now:
            return False
        members = self.committed.members
        return all(
            broker.id in members and members[broker.id].is_live and members[broker.id].epoch == broker.epoch
            for broker in serving
        )

    def has_registered(self, broker: SimulatedBroker) -> bool:
        member = self.committed.members.get(broker.id)
        return member is not None and member.epoch == broker.epoch

    def heal(self) -> None:
        self.stalled_until = 0.0


def _levels(setup: Setup) -> dict[str, int]:
    return {
        "metadata.version": 33,
        "group.version": int(setup.consumer_group_members > 0),
        "transaction.version": 2 if setup.transactions_v2 else 0,
        "share.version": 2 if setup.share_members else 0,
        ELR: int(setup.has_elr),
    }


def state_of(state: Replicated) -> PartitionState:
    return PartitionState(
        state.leader,
        tuple(state.replicas),
        tuple(state.isr),
        state.leader_epoch,
        state.partition_epoch,
        tuple(state.adding),
        tuple(state.removing),
    )


def settings_of(state: ModelState) -> Iterator[tuple[ConfigResource, Mapping[str, str]]]:
    for (kind, name), settings in state.settings.items():
        if kind == TOPIC:
            yield topic_resource(name), settings
        elif kind == _BROKER:
            yield broker_resource(int(name) if name else None), settings
        else:
            yield ConfigResource(ConfigResourceType.GROUPS, name), settings


_BROKER: Final = 4
