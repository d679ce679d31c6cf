"""Requests to brokers, collected while an event is handled and sent at its end. Source: ControllerRequestBatch.

| request        | to                                 | says                                             |
|----------------|------------------------------------|--------------------------------------------------|
| LeaderAndIsr   | replicas of changed partitions     | lead or follow; `is_new`: the log may be created |
| UpdateMetadata | all brokers                        | changed partitions, and always all live brokers  |
| StopReplica    | brokers that have to stop replicas | stop, or stop and delete                         |

Each broker gets them in this order. Requests name partitions; their states are read when the batch is sent, so that
several changes of one event become one. All carry the controller's epoch and the epoch of the broker they are for.

The metadata of a batch are encoded once for all brokers.

A request names at most PARTITIONS_MAX partitions: encoding it keeps the reactor from other work. For the same reason,
events that touch more partitions send the batch after each so many (`ControlledCluster.steps`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, TypeVar

import attrs

from pylogbroker.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    PartitionKey,
    PartitionState,
    TopicImage,
)

PARTITIONS_MAX: Final = 250
_LEADER_OF_DELETED: Final = -2
"""Leader in UpdateMetadata that removes a partition."""
EPOCH_OF_DELETED: Final = -2
"""Leader epoch in StopReplica that passes with every broker."""


@attrs.frozen
class LeaderAndIsrPartition:
    topic: str
    topic_id: uuid.UUID
    number: int
    state: PartitionState
    is_new: bool


@attrs.frozen
class LeaderAndIsr:
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[LeaderAndIsrPartition, ...]
    live_leaders: tuple[BrokerRegistration, ...]


@attrs.frozen
class MetadataPartition:
    topic: str
    topic_id: uuid.UUID
    number: int
    state: PartitionState
    offline_replicas: tuple[int, ...]


@attrs.frozen
class UpdateMetadata:
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[MetadataPartition, ...]
    live_brokers: tuple[BrokerRegistration, ...]
    bodies: dict[int, bytes] = attrs.field(factory=dict, eq=False, repr=False)
    """Encoded once by version: requests with the same partitions share it, and differ in the broker epoch."""


@attrs.frozen
class StoppedReplica:
    topic: str
    number: int
    leader_epoch: int
    delete: bool


@attrs.frozen
class StopReplica:
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    replicas: tuple[StoppedReplica, ...]


P = TypeVar("P")
BrokerRequest = LeaderAndIsr | UpdateMetadata | StopReplica
_LiveReplicas = Callable[[PartitionKey], Collection[int]]


@attrs.define
class RequestBatch:
    """Methods note what to send. `rendered` returns the requests and starts an empty batch."""

    _controller_id: int
    _controller_epoch: int
    _leader_and_isr: dict[int, dict[PartitionKey, bool]] = attrs.field(factory=dict)
    _metadata: dict[PartitionKey, None] = attrs.field(factory=dict)
    _metadata_to: dict[int, dict[PartitionKey, None]] = attrs.field(factory=dict)
    _all_brokers: bool = False
    _deleted: dict[PartitionKey, MetadataPartition] = attrs.field(factory=dict)
    _stops: dict[int, dict[PartitionKey, StoppedReplica]] = attrs.field(factory=dict)

    def lead_and_follow(self, key: PartitionKey, brokers: Iterable[int], *, new: Collection[int] = ()) -> None:
        """Send a changed partition to replicas, and to all brokers as metadata."""
        for broker in brokers:
            partitions = self._leader_and_isr.setdefault(broker, {})
            partitions[key] = partitions.get(key, False) or broker in new
        self.update_metadata([key])

    def update_metadata(self, keys: Iterable[PartitionKey] = ()) -> None:
        """Send partitions, and the live brokers, to all brokers."""
        self._all_brokers = True
        self._metadata.update(dict.fromkeys(keys))

    def update_metadata_of(self, broker: int, keys: Iterable[PartitionKey]) -> None:
        """Send partitions, and the live brokers, to one broker."""
        self._metadata_to.setdefault(broker, {}).update(dict.fromkeys(keys))

    def remove_metadata(self, topic: TopicImage, numbers: Iterable[int]) -> None:
        """Remove partitions of a topic under deletion from all brokers' metadata."""
        self._all_brokers = True
        for number in numbers:
            marked = attrs.evolve(topic.partitions[number], leader=_LEADER_OF_DELETED)
            self._deleted[topic.name, number] = MetadataPartition(topic.name, topic.id, number, marked, ())

    def stop(self, broker: int, key: PartitionKey, leader_epoch: int, *, delete: bool) -> None:
        self._stops.setdefault(broker, {})[key] = StoppedReplica(*key, leader_epoch, delete)
        self._leader_and_isr.get(broker, {}).pop(key, None)

    def rendered(self, image: ClusterImage, live: _LiveReplicas) -> list[tuple[int, BrokerRequest]]:
        """Return requests for registered brokers, in the order to send them; the batch is empty afterwards."""
        requests = [
            *self._leader_and_isr_requests(image),
            *self._metadata_requests(image, live),
            *self._stop_requests(image),
        ]
        self._leader_and_isr, self._metadata, self._metadata_to, self._stops = {}, {}, {}, {}
        self._all_brokers, self._deleted = False, {}
        return requests

    def _leader_and_isr_requests(self, image: ClusterImage) -> Iterator[tuple[int, BrokerRequest]]:
        rendered: dict[tuple[PartitionKey, bool], LeaderAndIsrPartition] = {}
        for broker, keys in sorted(self._leader_and_isr.items()):
            roles = [(key, keys[key]) for key in _known(keys, image)]
            if broker not in image.brokers or not roles:
                continue
            for role in roles:
                if role not in rendered:
                    rendered[role] = _leader_and_isr(*role, image)
            partitions = tuple(rendered[role] for role in roles)
            for some in _parts(partitions):
                leaders = sorted({partition.state.leader for partition in some})
                live_leaders = tuple(image.brokers[leader] for leader in leaders if leader in image.brokers)
                yield broker, LeaderAndIsr(*self._head(image, broker), some, live_leaders)

    def _metadata_requests(self, image: ClusterImage, live: _LiveReplicas) -> Iterator[tuple[int, BrokerRequest]]:
        if not self._all_brokers and not self._metadata_to:
            return
        live_brokers = tuple(image.brokers.values())
        changed = {key: _metadata(key, image, live) for key in _known(self._metadata, image)}
        common = (*changed.values(), *self._deleted.values())
        shared = _with_bodies(common)
        for broker in image.brokers:
            if self._all_brokers or broker in self._metadata_to:
                own = [key for key in self._metadata_to.get(broker, {}) if key not in changed]
                present = tuple(_metadata(key, image, live) for key in _known(own, image))
                for some, bodies in _with_bodies(present + common) if present else shared:
                    yield broker, UpdateMetadata(*self._head(image, broker), some, live_brokers, bodies)

    def _stop_requests(self, image: ClusterImage) -> Iterator[tuple[int, BrokerRequest]]:
        for broker, replicas in sorted(self._stops.items()):
            if broker in image.brokers:
                for some in _parts(tuple(replicas.values())):
                    yield broker, StopReplica(*self._head(image, broker), some)

    def _head(self, image: ClusterImage, broker: int) -> tuple[int, int, int]:
        return self._controller_id, self._controller_epoch, image.brokers[broker].epoch


def _parts(partitions: tuple[P, ...]) -> Iterator[tuple[P, ...]]:
    """Yield at least one part, which may be empty."""
    for start in range(0, len(partitions) or 1, PARTITIONS_MAX):
        yield partitions[start : start + PARTITIONS_MAX]


def _with_bodies(
    partitions: tuple[MetadataPartition, ...],
) -> list[tuple[tuple[MetadataPartition, ...], dict[int, bytes]]]:
    return [(some, {}) for some in _parts(partitions)]


def _known(keys: Iterable[PartitionKey], image: ClusterImage) -> list[PartitionKey]:
    """Return partitions that exist and have a state."""
    existing = []
    for name, number in keys:
        topic = image.topics.get(name)
        state = None if topic is None else topic.partitions.get(number)
        if state is not None and state.is_stored:
            existing.append((name, number))
    return existing


def _leader_and_isr(key: PartitionKey, is_new: bool, image: ClusterImage) -> LeaderAndIsrPartition:
    topic = image.topics[key[0]]
    return LeaderAndIsrPartition(topic.name, topic.id, key[1], topic.partitions[key[1]], is_new)


def _metadata(key: PartitionKey, image: ClusterImage, live: _LiveReplicas) -> MetadataPartition:
    topic = image.topics[key[0]]
    state = topic.partitions[key[1]]
    alive = live(key)
    offline = tuple(broker for broker in state.replicas if broker not in alive)
    return MetadataPartition(topic.name, topic.id, key[1], state, offline)
