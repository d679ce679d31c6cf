"""The cluster as its controller sees it: the image, what only the controller knows, and the ways to change it.

Partition states change by `update`: a rule decides on the present state, and the write names its version. A state that
somebody else has changed is read again, and decided again. The image has what was written, never what is intended.

Changes of many partitions are made in steps. Brokers get the requests of a step while the next one is written.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

import attrs

from pylogbroker.controller import elections, partition_changes
from pylogbroker.controller.fenced_tree import ControllerResigned, FencedTree
from pylogbroker.controller.ports import ControllerSettings, RequestQueues
from pylogbroker.controller.requests import PARTITIONS_MAX, RequestBatch
from pylogbroker.controller.term import ControllerTerm
from pylogbroker.interfaces import BadVersion, CoordinationError, Create, NodeExists, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import Change, Delta, PartitionsChanged
from pylogbroker.metadata.image import NO_LEADER, NO_TOPIC_ID, ClusterImage, PartitionKey, PartitionState, TopicImage
from pylogbroker.metadata.zk_image import TimeSlices, encode_state, with_stored_state

T = TypeVar("T")
Decision = Callable[[PartitionKey, PartitionState], PartitionState | None]
"""Returns the next state, or None to leave the partition as it is."""


@attrs.frozen
class TopicDeletion:
    """Topic under deletion, and its replicas (partition, broker) that are deleted."""

    topic: TopicImage
    deleted: frozenset[tuple[int, int]] = frozenset()

    def remaining(self) -> Iterator[tuple[int, int]]:
        for number, state in self.topic.partitions.items():
            for broker in state.replicas:
                if (number, broker) not in self.deleted:
                    yield number, broker

    @property
    def is_complete(self) -> bool:
        count = sum(len(state.replicas) for state in self.topic.partitions.values())
        return len(self.deleted) >= count and next(self.remaining(), None) is None


@attrs.define(eq=False, repr=False)
class ControlledCluster:
    term: ControllerTerm
    tree: FencedTree
    channels: RequestQueues
    settings: ControllerSettings
    slices: TimeSlices
    image: ClusterImage = attrs.field(factory=ClusterImage)
    """Without topics under deletion."""
    deletions: dict[str, TopicDeletion] = attrs.field(factory=dict)
    offline_replicas: dict[int, frozenset[PartitionKey]] = attrs.field(factory=dict)
    """Replicas in failed log directories, by broker."""
    listed_reassignments: frozenset[PartitionKey] = frozenset()
    """Partitions named in /admin/reassign_partitions."""
    has_just_read: bool = False
    """States were read since the election, and nothing has happened yet that the controller is to act on."""
    requests: RequestBatch = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.requests = RequestBatch(self.term.broker_id, self.term.epoch)

    def state(self, key: PartitionKey) -> PartitionState | None:
        topic = self.image.topics.get(key[0])
        return None if topic is None else topic.partitions.get(key[1])

    async def partitions(self) -> AsyncIterator[tuple[PartitionKey, PartitionState]]:
        """Yield all partitions of the present image; let the reactor serve others between topics."""
        async for topic in self.slices.over(self.image.topics.values()):
            for number, state in topic.partitions.items():
                yield (topic.name, number), state

    async def stored_partitions(self) -> list[PartitionKey]:
        return [key async for key, state in self.partitions() if state.is_stored]

    async def partitions_on(self, brokers: Collection[int]) -> dict[int, list[PartitionKey]]:
        """Return the stored partitions with a replica on some brokers, by broker."""
        on: dict[int, list[PartitionKey]] = {broker: [] for broker in brokers}
        async for key, state in self.partitions():
            for broker in state.replicas if state.is_stored else ():
                if broker in on:
                    on[broker].append(key)
        return on

    def live_brokers(self) -> list[int]:
        """Return brokers that can lead and be in sync."""
        return [broker.id for broker in self.image.brokers.values() if not broker.shutting_down]

    def is_dead(self, key: PartitionKey, broker_id: int) -> bool:
        """Return whether the broker cannot serve the partition. A broker that shuts down still can."""
        return broker_id not in self.image.brokers or key in self.offline_replicas.get(broker_id, ())

    def is_live(self, key: PartitionKey, broker_id: int) -> bool:
        """Return whether the broker can lead the partition."""
        return not self.is_dead(key, broker_id) and not self.image.brokers[broker_id].shutting_down

    def live(self, key: PartitionKey) -> tuple[int, ...]:
        """Return the partition's replicas that can lead."""
        state = self.state(key)
        return tuple(broker for broker in state.replicas if self.is_live(key, broker)) if state else ()

    def apply(self, *changes: Change) -> None:
        self.image = Delta(changes).apply(self.image)

    async def send(self) -> None:
        """Send the collected requests with the present states; let the reactor serve others between brokers."""
        async for broker, request in self.slices.over(self.requests.rendered(self.image, self.live)):
            self.channels.send(broker, request)

    def send_at_once(self) -> None:
        """Send the collected requests, of which there are few: those of the last step of an event."""
        for broker, request in self.requests.rendered(self.image, self.live):
            self.channels.send(broker, request)

    async def steps(self, items: Iterable[T]) -> AsyncIterator[list[T]]:
        """Yield some partitions at a time; send what was collected for them, and let the reactor serve others."""
        partitions = list(items)
        async for start in self.slices.over(range(0, len(partitions), PARTITIONS_MAX)):
            end = start + PARTITIONS_MAX
            yield partitions[start:end]
            if end < len(partitions):
                await self.send()

    async def update(
        self, keys: Iterable[PartitionKey], decide: Decision, *, without: int | None = None, new: Collection[int] = ()
    ) -> list[PartitionKey]:
        """Change states and collect LeaderAndIsr for their replicas, except `without`; return what changed.

        Unless the states were just read, they are read first: leaders below release 2.7 write ISRs, and a decision
        against a change writes nothing that could fail.
        """
        changed: list[PartitionKey] = []
        async for some in self.steps(keys):
            if not self.has_just_read:
                await self.read_states(some)
            written, _ = await self.write_states(some, decide)
            for key in written:
                state = self.state(key)
                if state is not None:
                    recipients = [broker for broker in state.replicas if broker != without]
                    self.requests.lead_and_follow(key, recipients, new=new)
            changed += written
        return changed

    async def resend(self, brokers: Collection[int], *, informs_of_all: bool = False) -> None:
        """Collect LeaderAndIsr of all replicas on some brokers, and metadata of these partitions, or of all."""
        async for some in self.steps(await self.stored_partitions()):
            for key in some:
                state = self.state(key)
                if state is not None:
                    recipients = [broker for broker in state.replicas if broker in brokers]
                    if recipients or informs_of_all:
                        self.requests.lead_and_follow(key, recipients)

    async def write_states(
        self, keys: Iterable[PartitionKey], decide: Decision
    ) -> tuple[list[PartitionKey], dict[PartitionKey, CoordinationError]]:
        """Return the partitions whose states were written, and why others could not be: their nodes are gone, say."""
        changed: list[PartitionKey] = []
        failed: dict[PartitionKey, CoordinationError] = {}
        pending = list(keys)
        while pending:
            states: dict[PartitionKey, PartitionState] = {}
            for key in pending:
                present = self.state(key)
                decided = decide(key, present) if present is not None and present.is_stored else None
                if decided is not None:
                    states[key] = attrs.evolve(decided, controller_epoch=self.term.epoch)
            errors = await self.tree.write(
                [
                    SetData(zk_paths.partition_state(*key), encode_state(state), state.partition_epoch)
                    for key, state in states.items()
                ]
            )
            outcomes = dict(zip(states, errors, strict=True))
            written = [key for key, error in outcomes.items() if error is None]
            self._note_unclean_elections({key: states[key].leader for key in written})
            self.set_states(
                {key: attrs.evolve(states[key], partition_epoch=states[key].partition_epoch + 1) for key in written}
            )
            changed += written
            pending = [key for key, error in outcomes.items() if isinstance(error, BadVersion)]
            failed |= {key: error for key, error in outcomes.items() if error and not isinstance(error, BadVersion)}
            await self.read_states(pending)
        return changed, failed

    def _note_unclean_elections(self, leaders: Mapping[PartitionKey, int]) -> None:
        """Compare new leaders with the ISRs before."""
        for key, leader in leaders.items():
            before = self.state(key)
            if before is not None and leader not in (NO_LEADER, before.leader, *before.isr):
                self.settings.unclean_election_held(key, leader)

    def set_states(self, states: Mapping[PartitionKey, PartitionState]) -> None:
        by_topic: dict[str, dict[int, PartitionState]] = {}
        for (name, number), state in states.items():
            if name in self.image.topics:
                by_topic.setdefault(name, {})[number] = state
        self.apply(*(PartitionsChanged(name, partitions) for name, partitions in by_topic.items()))

    async def read_states(self, keys: Collection[PartitionKey]) -> None:
        """Read states that others have written; raise ControllerResigned if a later controller did."""
        states = {key: state for key in keys if (state := self.state(key)) is not None}
        if not states:
            return
        nodes = await self.tree.get_many([zk_paths.partition_state(*key) for key in states])
        read = {
            key: with_stored_state(state, node)
            for (key, state), node in zip(states.items(), nodes, strict=True)
            if node
        }
        if any(state.controller_epoch > self.term.epoch for state in read.values()):
            raise ControllerResigned("Another controller has written a partition's state")
        self.set_states(read)

    async def create_partitions(self, keys: Iterable[PartitionKey]) -> None:
        """Create the nodes of new partitions that have a live replica, and collect LeaderAndIsr for their replicas.

        Somebody else may have created some of the nodes.
        """
        parents: dict[str, None] = {}
        async for some in self.steps(keys):
            first = self._first_states(some)
            new_parents = [name for name in dict.fromkeys(name for name, _ in first) if name not in parents]
            parents.update(dict.fromkeys(new_parents))
            await self.tree.write([Create(zk_paths.partitions(name)) for name in new_parents])
            await self.tree.write([Create(zk_paths.partition(*key)) for key in first])
            errors = await self.tree.write(
                [Create(zk_paths.partition_state(*key), encode_state(state)) for key, state in first.items()]
            )
            outcomes = dict(zip(first, errors, strict=True))
            self.set_states({key: first[key] for key, error in outcomes.items() if error is None})
            await self.read_states([key for key, error in outcomes.items() if isinstance(error, NodeExists)])
            for key in some:
                state = self.state(key)
                if state is not None and state.is_stored:
                    self.requests.lead_and_follow(key, state.replicas, new=state.replicas)

    def _first_states(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, PartitionState]:
        """Return the first states of partitions that have none yet, but a live replica."""
        first: dict[PartitionKey, PartitionState] = {}
        for key in keys:
            assigned = self.state(key)
            if assigned is not None and not assigned.is_stored:
                state = partition_changes.first_state(assigned, self.live(key))
                if state is not None:
                    first[key] = attrs.evolve(state, controller_epoch=self.term.epoch)
        return first

    async def remove_metadata(self, topic: TopicImage) -> None:
        """Collect requests that remove a topic under deletion from all brokers' metadata."""
        self.requests.update_metadata()
        async for numbers in self.steps(topic.partitions):
            self.requests.remove_metadata(topic, numbers)

    async def elect_offline(self) -> None:
        """Elect leaders of all partitions without a live one, and create those that had no live replica before."""
        leaderless, missing = [], []
        async for key, state in self.partitions():
            if not state.is_stored:
                missing.append(key)
            elif not self.is_live(key, state.leader):
                leaderless.append(key)
        await self.create_partitions(missing)
        await self.update(leaderless, self.offline_election)

    def offline_election(self, key: PartitionKey, state: PartitionState) -> PartitionState | None:
        live = self.live(key)
        if self.is_dead(key, state.leader) and self.settings.allows_unclean_election(key[0]):
            return elections.unclean(state, live, marks_recovery=self.settings.protocol.has_leader_recovery_state)
        return elections.offline(state, live)

    async def take_offline(self, broker: int, keys: Collection[PartitionKey]) -> None:
        """Take a broker's replicas out of the ISRs, and stop them if the broker lives. All brokers get metadata."""
        for key in keys:
            state = self.state(key)
            if state is not None:
                self.requests.stop(broker, key, state.leader_epoch, delete=False)
        await self.update(keys, lambda _, state: partition_changes.without_replica(state, broker), without=broker)
        self.requests.update_metadata()
        async for some in self.steps(keys):
            self.requests.update_metadata(some)

    async def assign(
        self, name: str, assignments: Mapping[int, PartitionState], topic_id: uuid.UUID | None = None
    ) -> bool:
        """Write replicas of some partitions of a topic; return False if the topic's node is gone.

        The node keeps its id. Without one it gets the image's, or `topic_id`.
        """
        path = zk_paths.topic(name)
        known_id = self.image.topics[name].id if topic_id is None else topic_id
        while True:
            [node] = await self.tree.get_many([path])
            if node is None:
                return False
            stored = zk_schema.decode_topic(node.data)
            replicas = {**stored.replicas, **{number: state.replicas for number, state in assignments.items()}}
            adding = {**stored.adding, **{number: state.adding for number, state in assignments.items()}}
            removing = {**stored.removing, **{number: state.removing for number, state in assignments.items()}}
            topic = zk_schema.TopicNode(
                topic_id=known_id if stored.topic_id == NO_TOPIC_ID else stored.topic_id,
                replicas=replicas,
                adding={number: brokers for number, brokers in adding.items() if brokers},
                removing={number: brokers for number, brokers in removing.items() if brokers},
            )
            data = zk_schema.encode_topic(topic)
            [error] = await self.tree.write([SetData(path, data, node.stat.version)])
            if error is None:
                return True

    def set_assignment(self, key: PartitionKey, assigned: PartitionState) -> None:
        """Give the partition the replicas of `assigned`, and leave its state."""
        present = self.state(key)
        if present is not None:
            after = attrs.evolve(
                present, replicas=assigned.replicas, adding=assigned.adding, removing=assigned.removing
            )
            self.set_states({key: after})
