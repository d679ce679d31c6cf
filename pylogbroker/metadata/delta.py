"""Changes from one image of the cluster to the next.

    source of metadata ──> Delta ──> Delta.apply(image) ──> next image

A delta is a controller's decision, like Kafka's LeaderAndIsr, UpdateMetadata and KRaft records.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

import attrs

from pylogbroker.metadata.image import (
    NO_TOPIC_ID,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    PartitionState,
    TopicImage,
    topic_resource,
)
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.placement import Assignment

K = TypeVar("K", bound=int | str | ConfigResource)
V = TypeVar("V")


@attrs.frozen
class BrokerRegistered:
    broker: BrokerRegistration


@attrs.frozen
class BrokerUnregistered:
    """The broker has stopped, or its session has expired."""

    broker_id: int


@attrs.frozen
class ControllerElected:
    broker_id: int


@attrs.frozen
class TopicCreated:
    topic: TopicImage


@attrs.frozen
class PartitionsChanged:
    """New partitions of a topic, or new states; an id if the topic had none."""

    topic: str
    partitions: Mapping[int, PartitionState]
    topic_id: uuid.UUID = NO_TOPIC_ID


@attrs.frozen
class TopicDeleted:
    topic: TopicImage


@attrs.frozen
class ConfigChanged:
    resource: ConfigResource
    settings: Mapping[str, str]


Change = (
    BrokerRegistered
    | BrokerUnregistered
    | ControllerElected
    | TopicCreated
    | PartitionsChanged
    | TopicDeleted
    | ConfigChanged
)


@attrs.frozen
class Delta:
    """Changes that become visible together, in order."""

    changes: tuple[Change, ...]

    @classmethod
    def of(cls, *changes: Change) -> Delta:
        return cls(changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def apply(self, image: ClusterImage) -> ClusterImage:
        """Return the changed image; raise KeyError for an unknown topic."""
        editor = _Editor(image)
        for change in self.changes:
            editor.apply(change)
        return editor.result()


_PORTION_PARTITIONS: Final = 500


def portions(changes: Iterable[Change]) -> Iterator[Delta]:
    """Yield deltas that make the same changes one after the other, each in a few milliseconds."""
    some: list[Change] = []
    weight = 0
    for change in changes:
        for part in _parts(change):
            some.append(part)
            weight += _weight(part)
            if weight >= _PORTION_PARTITIONS:
                yield Delta(tuple(some))
                some, weight = [], 0
    if some:
        yield Delta(tuple(some))


def _parts(change: Change) -> Iterator[Change]:
    if not isinstance(change, PartitionsChanged) or len(change.partitions) <= _PORTION_PARTITIONS:
        yield change
        return
    states = list(change.partitions.items())
    for start in range(0, len(states), _PORTION_PARTITIONS):
        yield attrs.evolve(change, partitions=dict(states[start : start + _PORTION_PARTITIONS]))


def _weight(change: Change) -> int:
    match change:
        case TopicCreated(topic) | TopicDeleted(topic):
            return 1 + len(topic.partitions)
        case PartitionsChanged():
            return 1 + len(change.partitions)
    return 1


@attrs.frozen
class NewTopic:
    """-1 stands for num.partitions and default.replication.factor."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Assignment | None = None
    settings: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class PlannedTopic:
    topic: TopicImage
    settings: Mapping[str, str]

    @property
    def delta(self) -> Delta:
        return Delta.of(ConfigChanged(topic_resource(self.topic.name), self.settings), TopicCreated(self.topic))


class _Edits(Generic[K, V]):
    """Changes of one map; None removes an entry."""

    def __init__(self, before: PersistentMap[K, V]) -> None:
        self._before = before
        self._changes: dict[K, V | None] = {}

    def __getitem__(self, key: K) -> V:
        value = self._changes[key] if key in self._changes else self._before.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: K, value: V | None) -> None:
        self._changes[key] = value

    def result(self) -> PersistentMap[K, V]:
        return self._before.changed(self._changes)


class _Editor:
    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._controller_id = image.controller_id
        self._partition_count = image.partition_count
        self._brokers = _Edits(image.brokers)
        self._topics = _Edits(image.topics)
        self._names = _Edits(image.topic_names)
        self._configs = _Edits(image.configs)

    def apply(self, change: Change) -> None:
        match change:
            case BrokerRegistered(broker):
                self._brokers[broker.id] = broker
            case BrokerUnregistered(broker_id):
                self._brokers[broker_id] = None
            case ControllerElected(broker_id):
                self._controller_id = broker_id
            case TopicCreated(topic):
                self._topics[topic.name] = topic
                self._partition_count += len(topic.partitions)
                if topic.id != NO_TOPIC_ID:
                    self._names[topic.id.int] = topic.name
            case PartitionsChanged(name, partitions, topic_id):
                before = self._topics[name]
                after = attrs.evolve(before, partitions=before.partitions.changed(partitions))
                if topic_id != NO_TOPIC_ID:
                    after = attrs.evolve(after, id=topic_id)
                    self._names[topic_id.int] = name
                self._topics[name] = after
                self._partition_count += len(after.partitions) - len(before.partitions)
            case TopicDeleted(topic):
                topic = self._topics[topic.name]
                self._topics[topic.name] = None
                self._names[topic.id.int] = None
                self._configs[topic_resource(topic.name)] = None
                self._partition_count -= len(topic.partitions)
            case ConfigChanged(resource, settings):
                self._configs[resource] = settings

    def result(self) -> ClusterImage:
        return ClusterImage(
            brokers=self._brokers.result(),
            controller_id=self._controller_id,
            topics=self._topics.result(),
            topic_names=self._names.result(),
            partition_count=self._partition_count,
            configs=self._configs.result(),
        )
