"""Committed metadata records become the image, nodes of the tree, and what this broker's replicas do.

    records --> fold, entities --> delta, nodes

    order   what happens
    -----   ------------------------------------------------------------------------------------------
    1       deleted topics leave the image, and their logs are deleted
    2       settings and brokers are published; nodes of users, quotas, ACLs, tokens, features are set
    3       this broker's replicas lead or follow
    4       new topics and changed partitions are published
    5       replicas that have moved to other brokers are deleted

A snapshot comes in parts, which make an image beside the present one; at its end, what differs is published. The
changes of a large batch, or of a snapshot, are published in portions: each is followed by other work. Replicas come
before the image, so that no client is sent to one that is not ready. Nothing leads or follows before the image has this
broker's registration: an earlier one may name it a leader by its former life, and its log may lack records since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
from twisted.internet.defer import CancelledError, DeferredLock
from twisted.logger import Logger

from pylogbroker.broker.kraft.published_offset import PublishedOffset
from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.metadata.plans import MetadataPlans
from pylogbroker.broker.metadata.stored_settings import StoredSettings
from pylogbroker.broker.replication.replicas import Replicas
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.coordinators import TopicPartition
from pylogbroker.interfaces import Create, Delete, ITree, Operation, SetData
from pylogbroker.kraft.entities import ChangedNode, Entities
from pylogbroker.kraft.fold import MetadataFold
from pylogbroker.kraft.metadata_log import CommittedMetadata, SnapshotPart
from pylogbroker.metadata.delta import (
    Change,
    ConfigChanged,
    ControllerElected,
    Delta,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
    portions,
)
from pylogbroker.metadata.image import ClusterImage, PartitionState, TopicImage, is_another_topic
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.storage import Log
from pylogbroker.wire.metadata_records import MetadataRecord, UnknownMetadataRecord

log = Logger()
_ANY_EPOCH: Final = -1
_COMMITTED_OPERATIONS: Final = 100
"""Operations on nodes in one transaction: nobody needs more together, and a long transaction stops other work."""


@attrs.frozen
class LoadedSnapshot:
    """State of the cluster by the parts of a snapshot that have come so far."""

    fold: MetadataFold
    entities: Entities = attrs.field(factory=Entities)


@attrs.define(eq=False, repr=False)
class MetadataPublisher:
    _broker_id: int
    _metadata: ClusterMetadata
    _tree: ITree
    _runtime: Runtime
    _plans: MetadataPlans
    _stored_settings: StoredSettings
    _published: PublishedOffset
    fold: MetadataFold = attrs.field(init=False)
    entities: Entities = attrs.field(factory=Entities, init=False)
    _loading: list[LoadedSnapshot] = attrs.field(factory=list, init=False)
    """One whose end has not come yet."""
    _led: list[Replicas] = attrs.field(factory=list, init=False)
    """This broker's replicas, once they may take their roles."""
    _alone: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    def __attrs_post_init__(self) -> None:
        self.fold = MetadataFold(self._broker_id)

    @property
    def has_begun(self) -> bool:
        """This broker's replicas have taken the roles that the image gives them."""
        return bool(self._led)

    async def publish(self, committed: CommittedMetadata | SnapshotPart) -> None:
        """Apply records that belong together; raise CorruptRecords, of which UnknownMetadataRecord is one."""
        await self._alone.acquire()
        try:
            if isinstance(committed, SnapshotPart):
                await self._load(committed)
            else:
                await self._publish(committed)
        finally:
            self._alone.release()

    async def _load(self, part: SnapshotPart) -> None:
        """Apply a part of a snapshot beside the present image."""
        if part.is_first:
            self._loading = [LoadedSnapshot(MetadataFold(self._broker_id))]
        [loading] = self._loading
        await self._fold(part.records, loading.fold, loading.entities)

    async def _publish(self, committed: CommittedMetadata) -> None:
        loading, self._loading = self._loading, []
        if committed.is_snapshot:
            [loaded] = loading
            changes = await self._replace(loaded)
        else:
            changes = await self._fold(committed.records, self.fold, self.entities)
        await self._apply(changes)
        self._published.advance(committed.end_offset - 1, committed.timestamp_ms)

    async def _replace(self, loaded: LoadedSnapshot) -> list[Change]:
        """Let a snapshot replace all before; return what changes."""
        loaded.entities.replace(self.entities)
        changes = await self._runtime.slices.run(loaded.fold.follow_on(self.fold.image))
        self.fold, self.entities = loaded.fold, loaded.entities
        self._published.snapshots += 1
        return changes

    async def _fold(self, records: Iterable[MetadataRecord], fold: MetadataFold, entities: Entities) -> list[Change]:
        """Apply records; return what they change."""
        edits = fold.begin()
        async for record in self._runtime.slices.over(records):
            try:
                edits.apply(record)
                entities.apply(record)
            except (KeyError, ValueError) as error:
                raise UnknownMetadataRecord(f"a value of a {type(record).__name__} is not known: {error}") from error
        return await self._runtime.slices.run(fold.commit(edits))

    async def begin(self, replicas: Replicas, logs: Mapping[TopicPartition, Log], offset: int) -> None:
        """Let this broker's replicas take their roles, once the image has the record at an offset: its registration.

        Logs of replicas that the image does not give this broker are quarantined.
        """
        try:
            await self._published.reached(offset)
        except CancelledError:  # the broker stops
            return
        await self._alone.acquire()
        try:
            image = self._metadata.image
            present = self._runtime.slices.over(tuple(logs.items()))
            others = [key async for key, present_log in present if not self._is_here(image, key, present_log)]
            await replicas.quarantine(others)
            await replicas.brokers_changed(dict(image.brokers.items()))
            async for topic in self._runtime.slices.over(image.topics.values()):
                await self._lead_and_follow(replicas, topic, frozenset())
            self._led.append(replicas)
        finally:
            self._alone.release()

    def _is_here(self, image: ClusterImage, key: TopicPartition, present: Log) -> bool:
        """Return whether a log is of a replica that the image gives this broker."""
        topic = image.topics.get(key[0])
        if topic is None or (present.topic_id is not None and is_another_topic(topic.id, present.topic_id)):
            return False
        state = topic.partitions.get(key[1])
        return state is not None and self._broker_id in state.replicas

    async def _apply(self, changes: Sequence[Change]) -> None:
        deleted: list[Change] = []
        topics: list[Change] = []
        others: list[Change] = []
        async for change in self._runtime.slices.over(changes):
            if isinstance(change, TopicDeleted):
                deleted.append(change)
            elif isinstance(change, TopicCreated | PartitionsChanged):
                topics.append(change)
            else:
                others.append(self._accepted(change))
        for delta in portions(deleted):
            await self._delete(delta)
        before = self._metadata.image
        if before.controller_id != self._broker_id:
            others.append(ControllerElected(self._broker_id))  # it passes requests on to the active controller
        async for delta in self._runtime.slices.over(portions(others)):
            await self._metadata.publish(delta)
        await self._write_nodes()
        brokers = self._metadata.image.brokers
        if self._led and brokers is not before.brokers:
            await self._led[0].brokers_changed(dict(brokers.items()))
        async for delta in self._runtime.slices.over(portions(topics)):
            await self._change_topics(delta)

    def _accepted(self, change: Change) -> Change:
        if isinstance(change, ConfigChanged):
            return ConfigChanged(change.resource, self._stored_settings.accepted(change.resource, change.settings))
        return change

    async def _delete(self, deleted: Delta) -> None:
        await self._metadata.publish(deleted)
        for change in deleted:
            if isinstance(change, TopicDeleted):
                self._plans.topic_deleted(change.topic.name)
                await self._stop(self._here(change.topic.name, change.topic.partitions))

    async def _change_topics(self, delta: Delta) -> None:
        before = self._metadata.image
        after = delta.apply(before)
        moved: dict[TopicPartition, PartitionState] = {}
        for change in delta:
            if isinstance(change, TopicCreated):
                self._plans.topic_created(change.topic.name)
                name, states = change.topic.name, change.topic.partitions
                changed = change.topic
            elif isinstance(change, PartitionsChanged):
                name, states = change.topic, PersistentMap(change.partitions)
                changed = attrs.evolve(after.topics[name], partitions=states)
            if self._led:
                former = before.topics.get(name)
                new = frozenset(number for number in states if former is None or number not in former.partitions)
                await self._lead_and_follow(self._led[0], changed, new)
            moved |= self._left(before, name, states)
        await self._metadata.publish(delta)
        await self._stop(moved)

    def _left(
        self, before: ClusterImage, name: str, states: Mapping[int, PartitionState]
    ) -> dict[TopicPartition, PartitionState]:
        """Return the partitions of which this broker had a replica, and has none any more."""
        topic = before.topics.get(name)
        if topic is None:
            return {}
        had = self._here(name, topic.partitions)
        return {
            (name, number): state
            for number, state in states.items()
            if (name, number) in had and self._broker_id not in state.replicas
        }

    def _here(self, name: str, states: Mapping[int, PartitionState]) -> dict[TopicPartition, PartitionState]:
        return {(name, number): state for number, state in states.items() if self._broker_id in state.replicas}

    async def _lead_and_follow(self, replicas: Replicas, topic: TopicImage, new: frozenset[int]) -> None:
        here = {number: state for number, state in topic.partitions.items() if self._broker_id in state.replicas}
        if not here:
            return
        ours = attrs.evolve(topic, partitions=PersistentMap(here))
        errors = await replicas.apply(ours, new, self._metadata.topic_settings(topic.name))
        self._published.apply_errors += len(errors)
        for number, code in errors.items():
            log.error("{topic}-{number} is not served here: {code}", topic=topic.name, number=number, code=code.name)

    async def _stop(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
        if self._led and partitions:
            await self._led[0].stop(dict.fromkeys(partitions, (_ANY_EPOCH, True)))

    # nodes

    async def _write_nodes(self) -> None:
        operations: list[Operation] = []
        made: set[str] = set()
        async for node in self._runtime.slices.over(self.entities.changed_nodes()):
            operations += await self._operations(node, made)
            if len(operations) >= _COMMITTED_OPERATIONS:
                await self._tree.commit(operations)
                operations, made = [], set()
        if operations:
            await self._tree.commit(operations)

    async def _operations(self, node: ChangedNode, made: set[str]) -> list[Operation]:
        """Return what sets or deletes a node; `made` has the paths that earlier operations create."""
        paths = [node.path] if node.data is not None else []
        if node.notification is not None:
            paths.append(node.notification.path)
        operations: list[Operation] = []
        for parent in dict.fromkeys(parent for path in paths for parent in _parents(path)):
            if parent not in made and await self._tree.exists(parent) is None:
                made.add(parent)
                operations.append(Create(parent))
        exists = node.path in made or await self._tree.exists(node.path) is not None
        if node.data is not None:
            made.add(node.path)
            operations.append(SetData(node.path, node.data) if exists else Create(node.path, node.data))
        elif exists and await self._tree.children(node.path):
            operations.append(SetData(node.path, None))  # quotas of a user's clients are below
        elif exists:
            operations.append(Delete(node.path))
        if node.notification is not None:
            operations.append(node.notification)
        return operations


def _parents(path: str) -> Iterable[str]:
    """Yield the paths of the nodes above, from the root on."""
    parts = path.split("/")[1:-1]
    return ("/" + "/".join(parts[: count + 1]) for count in range(len(parts)))
