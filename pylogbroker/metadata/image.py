"""Metadata of the cluster as an immutable value.

    ClusterImage
        brokers         by id      BrokerRegistration: epoch, listeners, rack
        controller_id              broker that is the controller
        topics          by name    TopicImage: id, and a PartitionState for each partition
        configs         by ConfigResource: own settings of a topic or broker, as texts

`pylogbroker.metadata.delta` makes the next image. Both share unchanged parts: a change costs the same with ten and with
10,000 partitions.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS

NO_LEADER: Final = -1
NO_CONTROLLER: Final = -1
_NO_PARTITION_EPOCH: Final = -1
NO_TOPIC_ID: Final = uuid.UUID(int=0)
"""Id of topics without one."""


def is_another_topic(topic_id: uuid.UUID, other_id: uuid.UUID) -> bool:
    """Return whether two ids are of different topics; before protocol version 2.8 one may be missing."""
    return topic_id != other_id and NO_TOPIC_ID not in (topic_id, other_id)


@attrs.frozen
class BrokerListener:
    host: str
    port: int
    protocol: str


@attrs.frozen
class BrokerRegistration:
    """Each registration has a larger epoch."""

    id: int
    epoch: int = -1
    listeners: Mapping[str, BrokerListener] = attrs.field(factory=dict)
    """By listener name."""
    rack: str | None = None
    shutting_down: bool = False
    """The broker asked for a controlled shutdown: it gets no leadership and joins no ISR."""
    has_archive: bool = False
    """True if it has a remote storage for archived topics. Only nodes in the coordination tree say so."""


class LeaderRecovery(IntEnum):
    """RECOVERING after an unclean election, until the new leader has changed the ISR (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


@attrs.frozen
class PartitionState:
    """The first replica is the preferred leader.

    During a reassignment `replicas` has the former ones, with `removing`, and the wanted ones, with `adding`.
    """

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int = 0
    """Grows with each election."""
    partition_epoch: int = 0
    """Grows with each change: the node's version."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovery: LeaderRecovery = LeaderRecovery.RECOVERED
    controller_epoch: int = 0
    """Epoch of the controller that wrote this state."""
    offline: tuple[int, ...] = ()
    """Replicas that the controller takes for offline, because of failed log directories too."""

    @property
    def target(self) -> tuple[int, ...]:
        """Replicas after the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """Replicas before the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def is_stored(self) -> bool:
        """False while the controller has not created the new partition's node."""
        return self.partition_epoch != _NO_PARTITION_EPOCH


PartitionKey = tuple[str, int]
"""Topic name and partition number."""


def unstored_partition(
    replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()
) -> PartitionState:
    """Return an assigned partition without leader, ISR and epochs."""
    return PartitionState(
        leader=NO_LEADER,
        replicas=tuple(replicas),
        isr=(),
        leader_epoch=-1,
        partition_epoch=_NO_PARTITION_EPOCH,
        adding=tuple(adding),
        removing=tuple(removing),
    )


@attrs.frozen
class TopicImage:
    name: str
    id: uuid.UUID
    partitions: PersistentMap[int, PartitionState]

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        """Replicas of partition 0, Kafka's value for the topic."""
        return len(self.partitions[0].replicas)


class ConfigResourceType(StrEnum):
    TOPICS = "topics"
    BROKERS = "brokers"
    GROUPS = "groups"
    CLIENT_METRICS = "client-metrics"
    """Subscriptions to metrics of clients (KIP-714) in the metadata of KRaft; brokers here do what plugins ask for."""


TYPES_IN_TREE: Final = (ConfigResourceType.TOPICS, ConfigResourceType.BROKERS, ConfigResourceType.GROUPS)


class ConfigResource(NamedTuple):
    """DEFAULT_BROKER stands for all brokers."""

    type: ConfigResourceType
    name: str


DEFAULT_BROKER: Final = "<default>"
ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Maps a resource's settings to new ones."""


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPICS, name)


def group_resource(group_id: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.GROUPS, group_id)


def client_metrics_resource(subscription: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.CLIENT_METRICS, subscription)


def broker_resource(broker_id: int | None) -> ConfigResource:
    """Return the config resource of a broker; None stands for all brokers."""
    return ConfigResource(ConfigResourceType.BROKERS, DEFAULT_BROKER if broker_id is None else str(broker_id))


@attrs.frozen
class ClusterImage:
    brokers: PersistentMap[int, BrokerRegistration] = attrs.field(factory=PersistentMap)
    controller_id: int = NO_CONTROLLER
    topics: PersistentMap[str, TopicImage] = attrs.field(factory=PersistentMap)
    topic_names: PersistentMap[int, str] = attrs.field(factory=PersistentMap)
    """Names by topic id as a number."""
    partition_count: int = 0
    configs: PersistentMap[ConfigResource, Mapping[str, str]] = attrs.field(factory=PersistentMap)

    def topic_by_id(self, topic_id: uuid.UUID) -> TopicImage | None:
        name = self.topic_names.get(topic_id.int)
        return None if name is None else self.topics[name]

    def require_topic(self, name: str) -> TopicImage:
        """Raise UNKNOWN_TOPIC_OR_PARTITION without this topic."""
        topic = self.topics.get(name)
        if topic is None:
            raise KafkaError(f"There is no topic {name!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def require_topic_id(self, topic_id: uuid.UUID) -> TopicImage:
        """Raise UNKNOWN_TOPIC_ID without this topic."""
        topic = self.topic_by_id(topic_id)
        if topic is None:
            raise KafkaError(f"There is no topic of the id {topic_id}", ErrorCode.UNKNOWN_TOPIC_ID)
        return topic

    def settings(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.configs.get(resource, {})
