"""Plans of metadata changes: requests checked against the image and the settings, as deltas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs
from twisted.logger import Logger

from pylogbroker.broker.requests.limits import PartitionAllowance
from pylogbroker.config import TOPIC, BrokerConfig, ConfigSource, notes_without_effect
from pylogbroker.config.group_config import check_group
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.formatting import counted, listed
from pylogbroker.metadata import archive_hosts, placement, topic_names, zk_schema
from pylogbroker.metadata.delta import NewTopic, PartitionsChanged, PlannedTopic
from pylogbroker.metadata.image import (
    DEFAULT_BROKER,
    ClusterImage,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    TopicImage,
)
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.zk_image import new_partitions

log = Logger()


class ImageHolder(Protocol):
    @property
    def image(self) -> ClusterImage: ...
    @property
    def topics(self) -> PersistentMap[str, TopicImage]: ...


def _first(below: int) -> int:
    return 0


@attrs.define(eq=False, repr=False)
class MetadataPlans:
    """`is_due` limits log lines; `random_below` says where the partitions of a new topic begin."""

    _config: BrokerConfig
    _metadata: ImageHolder
    _is_due: Callable[[str], bool]
    _random_below: placement.RandomBelow = _first
    _collisions: Counter[str] = attrs.field(factory=Counter, init=False)

    def open(self, image: ClusterImage) -> None:
        self._collisions = Counter(map(topic_names.collision_key, image.topics))

    def topic_created(self, name: str) -> None:
        self._collisions[topic_names.collision_key(name)] += 1

    def topic_deleted(self, name: str) -> None:
        key = topic_names.collision_key(name)
        self._collisions[key] -= 1
        if not self._collisions[key]:
            del self._collisions[key]

    def plan_topic(
        self, new: NewTopic, allowance: PartitionAllowance | None = None, hosts: frozenset[int] | None = None
    ) -> PlannedTopic:
        """Return the topic that `create_topic` would create; `allowance` defaults to a whole request's.

        `hosts` are the only brokers for its replicas: those with a remote storage, for an archived topic.
        """
        topic_names.check_name(new.name)
        self.check_is_new(new.name)
        settings = dict(new.settings)
        self._check_settings(settings)
        placed = self._place(new, allowance, hosts)
        if self._config.topic(settings).byte_addressed and any(len(replicas) > 1 for replicas in placed.values()):
            raise KafkaError(
                f"Topic {new.name!r} is of format 0.7, which has one replica: ask for one, or for another "
                "message.format.version",
                ErrorCode.INVALID_REPLICATION_FACTOR,
            )
        states = PersistentMap(new_partitions(placed))
        return PlannedTopic(TopicImage(new.name, zk_schema.new_id(), states), settings)

    def plan_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
        hosts: frozenset[int] | None = None,
    ) -> PartitionsChanged:
        """Return the partitions that a topic lacks to `count`; `allowance` and `hosts` as in `plan_topic`."""
        image = self._metadata.image
        topic = image.require_topic(name)
        if topic.internal:
            raise KafkaError(
                f"Topic {name!r} keeps its {counted(len(topic.partitions), 'partition')}: the number decides which has "
                "the records of a group or transactional id, and with another number these would not be found",
                ErrorCode.INVALID_PARTITIONS,
            )
        self._allow(name, count - len(topic.partitions), allowance)
        if hosts is not None:
            archive_hosts.check_count(name, topic.replication_factor, hosts)
            archive_hosts.check_replicas(name, assignments or (), hosts)
        added = placement.of_more_partitions(topic, count, self._racks(hosts), assignments)
        return PartitionsChanged(name, new_partitions(added))

    def plan_config(self, resource: ConfigResource, change: ConfigChange) -> dict[str, str]:
        if resource.type is ConfigResourceType.TOPICS:
            self._metadata.image.require_topic(resource.name)
            before = self._metadata.image.settings(resource)
            settings = dict(change(before))
            self._check_settings(settings, before)
            return settings
        if resource.type is ConfigResourceType.GROUPS:
            settings = dict(change(self._metadata.image.settings(resource)))
            try:
                check_group(self._config, settings)
            except ConfigError as error:
                raise KafkaError(str(error), ErrorCode.INVALID_CONFIG) from error
            return settings
        layer = _dynamic_layer(resource)
        try:
            return self._config.check_dynamic(layer, change(self._config.explicit(layer)))
        except ConfigError as error:
            raise KafkaError(str(error), ErrorCode.INVALID_REQUEST) from error

    def plan_stored_config(
        self, resource: ConfigResource, stored: Mapping[str, str], change: ConfigChange
    ) -> dict[str, str]:
        """Return the changed settings, as `plan_config` does; keep stored ones that only other releases accept."""
        if resource.type is not ConfigResourceType.BROKERS:
            accepted = self._metadata.image.settings(resource)
        else:
            accepted = self._config.explicit(_dynamic_layer(resource))
        changed = change(stored)
        kept = {name: text for name, text in changed.items() if stored.get(name) == text != accepted.get(name)}
        others = {name: text for name, text in changed.items() if name not in kept}
        return kept | self.plan_config(resource, lambda _: others)

    def is_archived(self, settings: Mapping[str, str]) -> bool:
        """Return whether a topic with these settings is archived; False if they are invalid."""
        try:
            return self._config.topic(settings).remote_storage_enable
        except ConfigError:
            return False

    def _place(
        self, topic: NewTopic, allowance: PartitionAllowance | None, hosts: frozenset[int] | None
    ) -> placement.Assignment:
        racks = self._racks(hosts)
        if topic.assignment:
            if hosts is not None:
                archive_hosts.check_replicas(topic.name, topic.assignment.values(), hosts)
            self._allow(topic.name, len(topic.assignment), allowance)
            brokers = tuple(racks)
            return placement.by_hand(topic.partitions, topic.replication_factor, brokers, topic.assignment)
        count = self._config.num_partitions if topic.partitions == -1 else topic.partitions
        self._allow(topic.name, count, allowance)
        default = self._config.default_replication_factor
        width = default if topic.replication_factor == -1 else topic.replication_factor
        if hosts is not None:
            archive_hosts.check_count(topic.name, width, hosts)
        return placement.of_new_topic(count, width, racks, self._random_below)

    def _racks(self, hosts: frozenset[int] | None = None) -> placement.Racks:
        brokers = self._metadata.image.brokers.values()
        return {broker.id: broker.rack for broker in brokers if hosts is None or broker.id in hosts}

    def check_is_new(self, name: str) -> None:
        topics = self._metadata.topics
        if name in topics:
            raise KafkaError(f"Topic {name!r} already exists", ErrorCode.TOPIC_ALREADY_EXISTS)
        key = topic_names.collision_key(name)
        if self._collisions[key]:
            others = [other for other in topics if topic_names.collision_key(other) == key]
            raise KafkaError(
                f"Topic {name!r} would collide with {', '.join(others)}: "
                "in the names of metrics '.' and '_' are the same; choose another name",
                ErrorCode.INVALID_TOPIC_EXCEPTION,
            )

    def _check_settings(self, settings: Mapping[str, str], before: Mapping[str, str] | None = None) -> None:
        try:
            self._config.check_topic(settings, before)
        except ConfigError as error:
            raise KafkaError(str(error), ErrorCode.INVALID_CONFIG) from error

    def _allow(self, name: str, count: int, allowance: PartitionAllowance | None) -> None:
        """Raise POLICY_VIOLATION if a request creates, or this broker holds, too many partitions."""
        (allowance or PartitionAllowance()).take(count)
        present, most = self._metadata.image.partition_count, self._config.max_partitions
        if present + count > most and name not in topic_names.INTERNAL_TOPICS:
            raise KafkaError(
                f"{count} more partitions would exceed max.partitions={most}: there are {present}; "
                "delete topics, or raise the setting",
                ErrorCode.POLICY_VIOLATION,
            )

    def log_without_effect(self, topic: str, settings: Mapping[str, str], before: Mapping[str, str]) -> None:
        notes = notes_without_effect(settings, before, TOPIC.get)
        due = [note for note in notes if self._is_due(f"no effect: {note}")]
        if due:
            log.warn(
                "settings of topic {topic} are kept and have no effect: {settings}", topic=topic, settings=listed(due)
            )


def _dynamic_layer(resource: ConfigResource) -> ConfigSource:
    return (
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        if resource.name == DEFAULT_BROKER
        else ConfigSource.DYNAMIC_BROKER_CONFIG
    )
