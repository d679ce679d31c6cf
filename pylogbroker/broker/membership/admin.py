"""Changes of the metadata that clients ask of a broker in a cluster.

    change                    who may be asked   how
    ------------------------  -----------------  ---------------------------------------------------------------
    topics, their partitions  the controller     nodes in the tree; the controller acts on them
    internal topics, topics   any broker         likewise
    created automatically
    settings                  any broker         settings, with a notification (see `config_watch`)
    producer ids              any broker         AllocateProducerIds to the controller

Each change is awaited until this broker's image shows it, or a later one of the same settings.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import attrs
from twisted.logger import Logger

from pylogbroker.broker.membership import topic_administration
from pylogbroker.broker.membership.config_watch import ConfigWatch
from pylogbroker.broker.membership.image_waits import ImageWaits, has_leaders
from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.metadata.plans import MetadataPlans
from pylogbroker.broker.metadata.tree_errors import kafka_error
from pylogbroker.broker.replication.controller_channel import ControllerChannel
from pylogbroker.broker.requests.limits import PartitionAllowance
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import (
    BadVersion,
    CoordinationError,
    Create,
    ITree,
    Node,
    NodeExists,
    NoNode,
    SetData,
    Unavailable,
)
from pylogbroker.metadata import archive_hosts, zk_paths, zk_schema
from pylogbroker.metadata.config_changes import notification
from pylogbroker.metadata.delta import NewTopic, PartitionsChanged, PlannedTopic
from pylogbroker.metadata.image import (
    NO_TOPIC_ID,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    TopicImage,
)
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.metadata.zk_image import read_brokers
from pylogbroker.metadata.zk_schema import ProducerIdBlock
from pylogbroker.rpc.errors import raise_for
from pylogbroker.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

log = Logger()
T = TypeVar("T")
_LATE: Final = "the change is stored, but the controller has not acted on it yet"
_ATTEMPTS_MAX: Final = 5


class ControllerRole(Protocol):
    @property
    def is_elected(self) -> bool:
        """This broker is the cluster's controller, or is taking over."""


@attrs.define(eq=False, repr=False)
class ClusterAdmin:
    """Implements `Controller` of the handlers' services; its waits follow the metadata."""

    _broker_id: int
    _tree: ITree
    _metadata: ClusterMetadata
    plans: MetadataPlans
    _runtime: Runtime
    _protocol: InterBrokerProtocol
    _controller: ControllerChannel
    _role: ControllerRole
    _config_watch: ConfigWatch
    _broker_epoch: Callable[[], int]
    waits: ImageWaits = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.waits = ImageWaits(self._metadata, self._runtime)

    def check_is_controller(self) -> None:
        """Raise NOT_CONTROLLER, unless this broker is the controller.

        It is from its election on, as in Kafka: metadata names it before it has taken over.
        """
        if not self._role.is_elected:
            raise KafkaError(
                f"broker {self._broker_id} is not the controller; it is broker {self._metadata.image.controller_id}",
                ErrorCode.NOT_CONTROLLER,
            )

    async def plan_topic(self, new: NewTopic, allowance: PartitionAllowance | None = None) -> PlannedTopic:
        return self.plans.plan_topic(new, allowance, await self._archive_hosts(new.settings))

    async def plan_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> PartitionsChanged:
        hosts = await self._archive_hosts(self._metadata.topic_settings(name))
        return self.plans.plan_partitions(name, count, assignments, allowance, hosts)

    async def plan_config(self, resource: ConfigResource, change: ConfigChange) -> dict[str, str]:
        _, settings = await self._change(lambda: self._read_and_plan(resource, change))
        return settings

    async def create_topic(self, new: NewTopic, allowance: PartitionAllowance | None = None) -> TopicImage:
        planned = await self.plan_topic(new, allowance)
        topic = planned.topic
        if not self._protocol.has_topic_ids:
            topic = attrs.evolve(topic, id=NO_TOPIC_ID)
        await self._change(lambda: topic_administration.create(self._tree, topic, planned.settings))
        await self.waits.until(lambda image: has_leaders(image, topic.name, len(topic.partitions)), _LATE)
        return self._metadata.topics.get(topic.name, topic)

    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> TopicImage:
        added = await self.plan_partitions(name, count, assignments, allowance)
        await self._change(lambda: topic_administration.enlarge(self._tree, added))
        await self.waits.until(lambda image: has_leaders(image, name, count), _LATE)
        return self._metadata.topics[name]

    async def alter_config(self, resource: ConfigResource, change: ConfigChange) -> None:
        before = self._metadata.image.settings(resource)
        settings = await self._change(lambda: self._alter(resource, change))
        if resource.type is ConfigResourceType.TOPICS:
            self.plans.log_without_effect(resource.name, settings, before)

    async def _alter(self, resource: ConfigResource, change: ConfigChange) -> dict[str, str]:
        """Change the stored settings; another broker may do so at the same time.

        The notification is in the same transaction: the others must not miss a change if ZooKeeper is lost now.
        """
        path = zk_paths.config(resource.type, resource.name)
        while True:
            node, settings = await self._read_and_plan(resource, change)
            data = zk_schema.encode_config(settings)
            written = Create(path, data) if node is None else SetData(path, data, node.stat.version)
            try:
                await self._tree.commit([written, notification(f"{resource.type}/{resource.name}")])
            except (NodeExists, NoNode, BadVersion):
                continue
            await self._config_watch.read(resource)
            return settings

    async def _read_and_plan(
        self, resource: ConfigResource, change: ConfigChange
    ) -> tuple[Node | None, dict[str, str]]:
        """Return the node of the stored settings, and the changed settings."""
        [node] = await self._tree.get_many([zk_paths.config(resource.type, resource.name)])
        stored = {} if node is None else zk_schema.decode_config(node.data)
        settings = self.plans.plan_stored_config(resource, stored, change)
        if resource.type is ConfigResourceType.TOPICS:
            await self._check_archive(resource.name, stored, settings)
        return node, settings

    async def _archive_hosts(self, settings: Mapping[str, str]) -> frozenset[int] | None:
        """Return the brokers with a remote storage, if a topic with these settings is archived."""
        if not self.plans.is_archived(settings):
            return None
        brokers = await self._change(lambda: read_brokers(self._tree))
        return archive_hosts.archive_hosts(brokers.values())

    async def _check_archive(self, name: str, before: Mapping[str, str], settings: Mapping[str, str]) -> None:
        """Raise INVALID_CONFIG if a topic becomes archived that has replicas on brokers without remote storage."""
        if not self.plans.is_archived(settings) or self.plans.is_archived(before):
            return
        states = self._metadata.image.require_topic(name).partitions.values()
        replicas = {broker for state in states for broker in state.replicas}
        others = archive_hosts.misplaced(replicas, await read_brokers(self._tree))
        if others:
            raise KafkaError(
                f"remote.storage.enable: true is not accepted; topic {name!r} has replicas on broker(s) "
                f"{', '.join(map(str, others))}, which have no remote storage: move them with pylogbroker reassign, or "
                "give these brokers the same remote.log.storage, and restart them",
                ErrorCode.INVALID_CONFIG,
            )

    async def delete_topic(self, name_or_id: str | uuid.UUID) -> TopicImage:
        topic = self._metadata.require_topic(name_or_id)
        await self._change(lambda: topic_administration.mark_deleted(self._tree, topic.name))
        await self.waits.until(
            lambda image: topic.name not in image.topics or image.topics[topic.name].id != topic.id, _LATE
        )
        return topic

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        if not self._protocol.allocates_producer_ids:
            return await self._change(self._take_producer_ids)
        request = AllocateProducerIdsRequest(self._broker_id, self._broker_epoch())
        try:
            response = await self._controller.request(lambda _: request, (0,))
        except KafkaError:
            raise
        except Exception as error:
            raise KafkaError(f"the controller gives no producer ids: {error}", ErrorCode.REQUEST_TIMED_OUT) from error
        raise_for(response.error_code)
        first = response.producer_id_start
        return ProducerIdBlock(self._broker_id, first, first + response.producer_id_len - 1)

    async def _take_producer_ids(self) -> ProducerIdBlock:
        for _ in range(_ATTEMPTS_MAX):
            node = await self._tree.get(zk_paths.PRODUCER_ID_BLOCK)
            last = zk_schema.decode_producer_ids(node.data)
            first = last.last + 1 if last else 0
            block = ProducerIdBlock(self._broker_id, first, first + zk_schema.PRODUCER_ID_BLOCK_SIZE - 1)
            data = zk_schema.encode_producer_ids(block)
            try:
                await self._tree.commit([SetData(zk_paths.PRODUCER_ID_BLOCK, data, node.stat.version)])
            except BadVersion:
                continue  # another broker took them
            return block
        raise KafkaError("other brokers take all producer ids now; try again", ErrorCode.REQUEST_TIMED_OUT)

    async def _change(self, change: Callable[[], Awaitable[T]]) -> T:
        try:
            return await change()
        except CoordinationError as error:
            if self._runtime.may_log(f"changes of metadata: {type(error).__name__}"):
                report = log.warn if isinstance(error, Unavailable) else log.error  # ZooKeeper will be reached again
                report("a change of topics or settings failed: {why}", why=error)
            raise kafka_error(error) from error
