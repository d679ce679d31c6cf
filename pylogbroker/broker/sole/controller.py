"""Controller of a cluster of one broker: decides metadata changes and writes them to the coordination tree.

    request ──> check against the image ──> one transaction of the tree ──> ClusterMetadata.publish ──> result

Changes run one after the other. A result follows when this broker has acted on the change.

A deletion has three steps: the topic is marked in the tree, its logs are deleted, and its nodes are removed.
Interrupted ones are finished before the next change of topics, or at the next start.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import attrs
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.metadata.plans import MetadataPlans
from pylogbroker.broker.metadata.stored_settings import StoredSettings
from pylogbroker.broker.metadata.tree_errors import kafka_error
from pylogbroker.broker.requests.limits import PartitionAllowance
from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.config import BrokerConfig
from pylogbroker.interfaces import CoordinationError, ITree, Operation, SetData
from pylogbroker.metadata import registration, zk_paths, zk_schema
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
    BrokerRegistration,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    TopicImage,
)
from pylogbroker.metadata.zk_image import broker_registration, deletion, operations, read_image
from pylogbroker.metadata.zk_schema import PRODUCER_ID_BLOCK_SIZE, BrokerNode, ProducerIdBlock

T = TypeVar("T")
_PARTITIONS_INLINE_MAX: Final = 500
log = Logger()


@attrs.define(eq=False, repr=False)
class LocalController:
    """`is_due` limits log lines."""

    _tree: ITree
    _config: BrokerConfig
    _broker_id: int
    _metadata: ClusterMetadata = attrs.field(factory=ClusterMetadata)
    _in_thread: InThread | None = None
    _is_due: Callable[[str], bool] = lambda about: True
    plans: MetadataPlans = attrs.field(init=False)
    _interrupted: list[TopicImage] = attrs.field(factory=list, init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    def __attrs_post_init__(self) -> None:
        self.plans = MetadataPlans(self._config, self._metadata, self._is_due)

    async def open(self, slices: Slices) -> None:
        """Read the image from the tree, without topics under deletion. Followers are not called."""
        contents = await read_image(self._tree, slices)
        self._interrupted += contents.deleted
        self.plans.open(contents.image)
        image = await StoredSettings(self._config).accepted_image(contents.image, slices)
        this_broker = BrokerRegistered(image.brokers.get(self._broker_id, BrokerRegistration(self._broker_id)))
        self._metadata.image = Delta.of(this_broker, ControllerElected(self._broker_id)).apply(image)

    @property
    def interrupted_deletions(self) -> Sequence[TopicImage]:
        return self._interrupted

    async def register(self, node: BrokerNode, now_ms: int) -> None:
        epoch = await registration.register(self._tree, self._broker_id, node, now_ms)
        described = broker_registration(self._broker_id, epoch, node)
        await self._metadata.publish(Delta.of(BrokerRegistered(described)))

    async def plan_topic(self, new: NewTopic, allowance: PartitionAllowance | None = None) -> PlannedTopic:
        return self.plans.plan_topic(new, allowance)

    async def plan_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> PartitionsChanged:
        return self.plans.plan_partitions(name, count, assignments, allowance)

    async def plan_config(self, resource: ConfigResource, change: ConfigChange) -> dict[str, str]:
        return self.plans.plan_config(resource, change)

    async def create_topic(self, new: NewTopic, allowance: PartitionAllowance | None = None) -> TopicImage:
        async def create() -> TopicImage:
            planned = self.plans.plan_topic(new, allowance)
            await self._create(planned)
            self.plans.log_without_effect(new.name, planned.settings, {})
            return planned.topic

        return await self._one_at_a_time(create)

    async def create_planned(self, planned: PlannedTopic, *others: Operation) -> None:
        """Create a planned topic, with other operations in the same transaction."""

        async def create() -> None:
            self.plans.check_is_new(planned.topic.name)
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
            planned = self.plans.plan_partitions(name, count, assignments, allowance)
            await self._commit(Delta.of(planned), count)
            return self._metadata.topics[name]

        return await self._one_at_a_time(create)

    async def alter_config(self, resource: ConfigResource, change: ConfigChange) -> None:
        async def alter() -> None:
            settings, before = self.plans.plan_config(resource, change), self._metadata.image.settings(resource)
            await self._commit(Delta.of(ConfigChanged(resource, settings)))
            if resource.type is ConfigResourceType.TOPICS:
                self.plans.log_without_effect(resource.name, settings, before)

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

    async def delete_topic(self, name_or_id: str | uuid.UUID) -> TopicImage:
        async def delete() -> TopicImage:
            topic = self._metadata.require_topic(name_or_id)
            delta = Delta.of(TopicDeleted(topic))
            await self._write(lambda: list(operations(delta, self._metadata.image)))
            self._interrupted.append(topic)
            self.plans.topic_deleted(topic.name)
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
        self.plans.topic_created(name)

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

    def check_is_controller(self) -> None:
        """Pass: the only broker is the controller."""
