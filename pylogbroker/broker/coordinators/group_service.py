"""The group coordinator in its broker; `__consumer_offsets` keeps its records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.assignors.group import BUILT_IN
from pylogbroker.background import run_in_background
from pylogbroker.broker.coordinators.consumer_group_port import ConsumerGroupPort
from pylogbroker.broker.coordinators.driver import CoordinatorDriver
from pylogbroker.broker.coordinators.internal_topic import InternalTopic, replication_factor
from pylogbroker.broker.coordinators.partition_writer import PartitionWriter
from pylogbroker.broker.coordinators.share_group_port import ShareGroupPort, StatePersister
from pylogbroker.broker.services import LogServices
from pylogbroker.config import BrokerConfig
from pylogbroker.coordinators import Call
from pylogbroker.features import on_first_use
from pylogbroker.groups import GroupCoordinator, GroupSettings, NewGeneration, ReplayedGroups
from pylogbroker.groups.kinds import is_streams
from pylogbroker.groups.shard import GroupShard
from pylogbroker.interfaces import IGroupAssignor
from pylogbroker.metadata.delta import Change, Delta, PartitionsChanged, TopicCreated, TopicDeleted
from pylogbroker.metadata.image import ClusterImage, TopicImage
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC
from pylogbroker.records import Codec

if TYPE_CHECKING:
    from pylogbroker.broker.coordinators import streams_group_port
    from pylogbroker.groups.streams.port import StreamsPort
else:
    streams_group_port = on_first_use("pylogbroker.broker.coordinators.streams_group_port")

log = Logger()


@attrs.define(eq=False, repr=False)
class GroupService:
    _services: LogServices
    _persister: StatePersister
    _assignors: Mapping[str, IGroupAssignor] = BUILT_IN  # of consumer groups, the default one first
    _port: ConsumerGroupPort = attrs.field(init=False)
    coordinator: GroupCoordinator = attrs.field(init=False)
    _topic: InternalTopic = attrs.field(init=False)
    driver: CoordinatorDriver[ReplayedGroups, GroupShard] = attrs.field(init=False)
    _observers: list[Callable[[NewGeneration], object]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        services = self._services
        self._topic = _offsets_topic(services)
        settings = GroupSettings.of(services.config)
        self._port = ConsumerGroupPort(services)
        self.coordinator = GroupCoordinator(
            settings,
            self._topic,
            on_generation=self._on_generation,
            deliver=self._deliver,
            port=self._port,
            share_port=ShareGroupPort(services, self._port, self._persister),
            assignors=self._assignors,
            make_streams_port=self._streams_port,
        )
        self.driver = CoordinatorDriver(services.runtime, self._topic, self.coordinator.runtime, "groups")

    def _streams_port(self) -> StreamsPort:
        return streams_group_port.StreamsGroupPort(self._services, self._port)

    def open(self) -> Deferred[None]:
        return self.driver.open()

    def close(self) -> None:
        self.driver.close()
        self._resume()

    def observe(self, observer: Callable[[NewGeneration], object]) -> None:
        self._observers.append(observer)

    def _on_generation(self, new: NewGeneration) -> None:
        for observer in self._observers:
            observer(new)

    def _deliver(self, replies: Iterable[Call]) -> None:
        run_in_background(log, self._deliver_in_slices(replies), "members of groups were not answered")

    async def _deliver_in_slices(self, replies: Iterable[Call]) -> None:
        """Answer the members of a large group in slices: encoding and sending take longer than the rebalance."""
        async for reply in self._services.runtime.slices.over(replies):
            try:
                reply()
            except Exception:  # other members must be answered
                log.failure("a member's request was not answered")

    async def ensure_topic(self) -> None:
        await self._topic.ensure()

    async def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for change in delta:
            self.driver.on_change(change)
            if isinstance(change, TopicDeleted):
                await self._on_topic_deleted(change.topic)
        changed = {name for change in delta if (name := _changed_topic(change)) is not None}
        if changed:
            self._port.topics_version += 1
            deleted = {change.topic.id for change in delta if isinstance(change, TopicDeleted)}
            await self._assign_again(changed, deleted)

    def unload_topic(self, topic: TopicImage) -> None:
        if topic.name == OFFSETS_TOPIC and self.coordinator.has_members:
            self.coordinator.await_topic()
        self.driver.unload_topic(topic)

    async def _on_topic_deleted(self, topic: TopicImage) -> None:
        """Delete the offsets of a topic's partitions; create `__consumer_offsets` again if groups had members."""
        if topic.name != OFFSETS_TOPIC:
            deleted = [(topic.name, index) for index in topic.partitions]
            runtime = self._services.runtime
            await runtime.slices.run(self.coordinator.delete_partitions(deleted, runtime.now_ms()))
        elif self.coordinator.awaits_topic:
            created = ensureDeferred(self.ensure_topic())  # later: the deletion waits for this method
            created.addErrback(
                lambda failure: log.error("{topic} was not created again: {why}", topic=topic.name, why=failure.value)
            )
            created.addBoth(lambda _: self._resume())

    async def _assign_again(self, topics: Collection[str], deleted: Collection[UUID]) -> None:
        """Let groups that subscribe to changed topics be assigned again."""
        runtime, groups = self._services.runtime, tuple(self.coordinator.groups())
        await runtime.slices.run(self.coordinator.consumers.on_topics_changed(topics, groups, runtime.now_ms()))
        await runtime.slices.run(self.coordinator.shares.on_topics_changed(topics, deleted, groups, runtime.now_ms()))
        if any(map(is_streams, groups)):
            streams = self.coordinator.streams
            await runtime.slices.run(streams.on_topics_changed(topics, groups, runtime.now_ms()))

    def _resume(self) -> None:
        self.coordinator.resume(self._services.runtime.now_ms())


def _changed_topic(change: Change) -> str | None:
    """Return the name of a topic that has come, gone or grown."""
    match change:
        case TopicCreated(topic) | TopicDeleted(topic):
            return topic.name
        case PartitionsChanged(topic=name):
            return name
    return None


def offsets_topic_settings(config: BrokerConfig) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }


def _offsets_topic(services: LogServices) -> InternalTopic:
    config = services.config
    return InternalTopic(
        services,
        PartitionWriter(services, config.offsets_commit_timeout_ms),
        OFFSETS_TOPIC,
        config.offsets_topic_num_partitions,
        replication_factor(config, "offsets.topic.replication.factor"),
        offsets_topic_settings(config),
        config.offsets_load_buffer_size,
        Codec(config.offsets_topic_compression_codec),
    )
