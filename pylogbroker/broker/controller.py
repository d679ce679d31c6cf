"""Controller of a cluster of one broker: decides metadata changes and writes them to the coordination tree.

    request ──> check against the image ──> one transaction of the tree ──> ClusterMetadata.publish ──> result

Changes run one after the other. A result follows when this broker has acted on the change.

A deletion has three steps: the topic is marked in the tree, its logs are deleted, and its nodes are removed.
Interrupted ones are finished before the next change of topics, or at the next start.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import attrs
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from pylogbroker.broker.cluster_metadata import ClusterMetadata
from pylogbroker.broker.coordination_errors import kafka_error
from pylogbroker.broker.limits import PartitionAllowance
from pylogbroker.broker.runtime import InThread
from pylogbroker.broker.slices import Slices
from pylogbroker.config import TOPIC, BrokerConfig, ConfigSource, notes_without_effect
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.interfaces import CoordinationError, ITree, Operation, SetData
from pylogbroker.metadata import placement, registration, topic_names, zk_paths, zk_schema
from pylogbroker.metadata.delta import (
    BrokerRegistered,
    ConfigChanged,
    ControllerElected,
    Delta,
    NewTopic,
    PartitionsChanged,
    PlannedTopic,
    TopicDeleted,
)
from pylogbroker.metadata.image import (
    DEFAULT_BROKER,
    BrokerRegistration,
    ClusterImage,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    TopicImage,
)
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.zk_image import broker_registration, deletion, new_partitions, operations, read_image
from pylogbroker.metadata.zk_schema import PRODUCER_ID_BLOCK_SIZE, BrokerNode, ProducerIdBlock
from pylogbroker.storage.formatting import listed

T = TypeVar("T")
_PARTITIONS_INLINE_MAX: Final = 500
log = Logger()


@attrs.define(eq=False)
class LocalController:
    """Methods named `plan_` only check. `is_due` limits log lines."""

    _tree: ITree
    _config: BrokerConfig
    _broker_id: int
    _metadata: ClusterMetadata = attrs.field(factory=ClusterMetadata)
    _in_thread: InThread | None = None
    _is_due: Callable[[str], bool] = lambda about: True
    _collisions: Counter[str] = attrs.field(factory=Counter, init=False)
    _interrupted: list[TopicImage] = attrs.field(factory=list, init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    async def open(self, slices: Slices) -> None:
        """Read the image from the tree, without topics under deletion. Followers are not called."""
        contents = await read_image(self._tree, slices)
        self._interrupted += contents.deleted
        self._collisions.update(map(topic_names.collision_key, contents.image.topics))
        image = await self._without_bad_settings(contents.image, slices)
        this_broker = BrokerRegistered(image.brokers.get(self._broker_id, BrokerRegistration(self._broker_id)))
        self._metadata.image = Delta.of(this_broker, ControllerElected(self._broker_id)).apply(image)

    @property
    def interrupted_deletions(self) -> Sequence[TopicImage]:
        return self._interrupted

    async def register(self, node: BrokerNode, now_ms: int) -> None:
        epoch = await registration.register(self._tree, self._broker_id, node, now_ms)
        described = broker_registration(self._broker_id, epoch, node)
        await self._metadata.publish(Delta.of(BrokerRegistered(described)))

    def plan_topic(self, wanted: NewTopic, allowance: PartitionAllowance | None = None) -> PlannedTopic:
        """Return the topic that `create_topic` would create; `allowance` defaults to a whole request's."""
        topic_names.check_name(wanted.name)
        self._check_is_new(wanted.name)
        settings = dict(wanted.settings)
        self._check_settings(settings)
        states = PersistentMap(new_partitions(self._place(wanted, allowance)))
        return PlannedTopic(TopicImage(wanted.name, topic_names.new_topic_id(), states), settings)

    def plan_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> PartitionsChanged:
        """Return the partitions that a topic lacks to `count`; `allowance` as in `plan_topic`."""
        image = self._metadata.image
        topic = image.require_topic(name)
        if topic.internal:
            raise KafkaError(
                f"Topic {name!r} keeps its {len(topic.partitions)} partitions: their number decides which one has the "
                "records of a group or transactional id, and with another number these would not be found",
                ErrorCode.INVALID_PARTITIONS,
            )
        self._allow(name, count - len(topic.partitions), allowance)
        added = placement.of_more_partitions(topic, count, tuple(image.brokers), assignments)
        return PartitionsChanged(name, new_partitions(added))

    def plan_config(self, resource: ConfigResource, change: ConfigChange) -> dict[str, str]:
        if resource.type is ConfigResourceType.TOPICS:
            self._metadata.image.require_topic(resource.name)
            before = self._metadata.image.settings(resource)
            settings = dict(change(before))
            self._check_settings(settings, before)
            return settings
        layer = dynamic_layer(resource)
        try:
            return self._config.check_dynamic(layer, change(self._config.explicit(layer)))
        except ConfigError as error:
            raise KafkaError(str(error), ErrorCode.INVALID_REQUEST) from error

    async def create_topic(self, wanted: NewTopic, allowance: PartitionAllowance | None = None) -> TopicImage:
        async def create() -> TopicImage:
            planned = self.plan_topic(wanted, allowance)
            await self._create(planned)
            self._log_without_effect(wanted.name, planned.settings, {})
            return planned.topic

        return await self._one_at_a_time(create)

    async def create_planned(self, planned: PlannedTopic, *others: Operation) -> None:
        """Create a planned topic, with other operations in the same transaction."""

        async def create() -> None:
            self._check_is_new(planned.topic.name)
            await self._create(planned, *others)

        await self._one_at_a_time(create)

    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> TopicImage:
        async def create() -> TopicImage:
            planned = self.plan_partitions(name, count, assignments, allowance)
            await self._commit(Delta.of(planned), count)
            return self._metadata.topics[name]

        return await self._one_at_a_time(create)

    async def alter_config(self, resource: ConfigResource, change: ConfigChange) -> None:
        async def alter() -> None:
            settings, before = self.plan_config(resource, change), self._metadata.image.settings(resource)
            await self._commit(Delta.of(ConfigChanged(resource, settings)))
            if resource.type is ConfigResourceType.TOPICS:
                self._log_without_effect(resource.name, settings, before)

        await self._one_at_a_time(alter, of_topics=resource.type is ConfigResourceType.TOPICS)

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """Return a block of ids that no other broker gets."""
        try:
            node = await self._tree.get(zk_paths.PRODUCER_ID_BLOCK)
            last = zk_schema.decode_producer_ids(node.data)
            first = last.last + 1 if last else 0
            block = ProducerIdBlock(self._broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
            data = zk_schema.encode_producer_ids(block)
            await self._tree.commit([SetData(zk_paths.PRODUCER_ID_BLOCK, data, node.stat.version)])
        except CoordinationError as error:
            raise kafka_error(error) from error
        return block

    async def delete_topic(self, wanted: str | uuid.UUID) -> TopicImage:
        async def delete() -> TopicImage:
            topic = self._metadata.require_topic(wanted)
            delta = Delta.of(TopicDeleted(topic))
            await self._write(lambda: list(operations(delta, self._metadata.image)))
            self._interrupted.append(topic)
            self._forget_name(topic.name)
            await self._metadata.publish(delta)
            await self._remove_nodes(topic)
            return topic

        return await self._one_at_a_time(delete)

    async def finish_deletions(self) -> None:
        while self._interrupted:
            topic, image = self._interrupted[-1], self._metadata.image
            await self._metadata.notify(Delta.of(TopicDeleted(topic)), image, image)
            await self._remove_nodes(topic)

    async def _one_at_a_time(self, change: Callable[[], Awaitable[T]], *, of_topics: bool = True) -> T:
        await self._lock.acquire()
        try:
            if of_topics:
                await self.finish_deletions()
            return await change()
        except CoordinationError as error:
            if self._is_due(f"changes of metadata: {type(error).__name__}"):  # clients retry many times a second
                log.error("a change of topics or settings failed: {why}", why=error)
            raise kafka_error(error) from error
        finally:
            self._lock.release()

    async def _create(self, planned: PlannedTopic, *others: Operation) -> None:
        name = planned.topic.name
        await self._commit(planned.delta, len(planned.topic.partitions), *others)
        self._collisions[topic_names.collision_key(name)] += 1

    async def _commit(self, delta: Delta, partitions: int = 0, *others: Operation) -> None:
        await self._write(lambda: [*operations(delta, self._metadata.image), *others], partitions)
        await self._metadata.publish(delta)

    async def _remove_nodes(self, topic: TopicImage) -> None:
        await self._write(lambda: list(deletion(topic)), len(topic.partitions))
        self._interrupted.remove(topic)

    async def _write(self, make: Callable[[], Sequence[Operation]], partitions: int = 0) -> None:
        """Commit operations; a worker thread makes those of many partitions."""
        in_thread = self._in_thread if partitions > _PARTITIONS_INLINE_MAX else None
        await self._tree.commit(make() if in_thread is None else await in_thread(make))

    def _place(self, wanted: NewTopic, allowance: PartitionAllowance | None) -> placement.Assignment:
        brokers = tuple(self._metadata.image.brokers)
        if wanted.assignment:
            self._allow(wanted.name, len(wanted.assignment), allowance)
            return placement.by_hand(wanted.partitions, wanted.replication_factor, brokers, wanted.assignment)
        count = self._config.integer("num.partitions") if wanted.partitions == -1 else wanted.partitions
        self._allow(wanted.name, count, allowance)
        default = self._config.integer("default.replication.factor")
        width = default if wanted.replication_factor == -1 else wanted.replication_factor
        return placement.of_new_topic(count, width, brokers)

    def _check_is_new(self, name: str) -> None:
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

    def _forget_name(self, name: str) -> None:
        key = topic_names.collision_key(name)
        self._collisions[key] -= 1
        if not self._collisions[key]:
            del self._collisions[key]

    def _check_settings(self, settings: Mapping[str, str], before: Mapping[str, str] | None = None) -> None:
        try:
            self._config.check_topic(settings, before)
        except ConfigError as error:
            raise KafkaError(str(error), ErrorCode.INVALID_CONFIG) from error

    def _allow(self, name: str, count: int, allowance: PartitionAllowance | None) -> None:
        """Raise POLICY_VIOLATION if a request creates, or this broker holds, too many partitions."""
        (allowance or PartitionAllowance()).take(count)
        present, most = self._metadata.image.partition_count, self._config.integer("max.partitions")
        if present + count > most and name not in topic_names.INTERNAL_TOPICS:
            raise KafkaError(
                f"{count} more partitions would exceed max.partitions={most}: there are {present}; "
                "delete topics, or raise the setting",
                ErrorCode.POLICY_VIOLATION,
            )

    def _log_without_effect(self, topic: str, settings: Mapping[str, str], before: Mapping[str, str]) -> None:
        notes = notes_without_effect(settings, before, TOPIC.get)
        due = [note for note in notes if self._is_due(f"no effect: {note}")]
        if due:
            log.warn(
                "settings of topic {topic} are kept and have no effect: {settings}", topic=topic, settings=listed(due)
            )

    async def _without_bad_settings(self, image: ClusterImage, slices: Slices) -> ClusterImage:
        """Leave out stored settings that this release rejects: they must not prevent the start."""
        good: dict[ConfigResource, Mapping[str, str] | None] = {}
        async for resource, settings in slices.over(image.configs.items()):
            if resource.type is ConfigResourceType.TOPICS and settings:
                good[resource] = self._good_settings(resource.name, settings)
        return attrs.evolve(image, configs=image.configs.changed(good))

    def _good_settings(self, topic: str, settings: Mapping[str, str]) -> dict[str, str]:
        good: dict[str, str] = {}
        for name, text in settings.items():
            try:
                self._config.topic({**good, name: text})
            except ConfigError as error:
                log.warn("topic {topic} does without a setting: {error}", topic=topic, error=error)
            else:
                good[name] = text
        return good


def dynamic_layer(resource: ConfigResource) -> ConfigSource:
    return (
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        if resource.name == DEFAULT_BROKER
        else ConfigSource.DYNAMIC_BROKER_CONFIG
    )
