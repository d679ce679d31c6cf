"""Replicas of a cluster of one broker: each partition has its only one here, and is led here.

| delta             | before requests see it (`prepare`) | afterwards (`on_delta`)                |
|-------------------|------------------------------------|----------------------------------------|
| TopicCreated      | logs are made                      | the topic's settings apply             |
| PartitionsChanged | logs of new partitions are made    | partitions are led as the image says   |
| TopicDeleted      |                                    | logs are deleted                       |

Logs that a full disk kept from being created are tried again later (`reopen_offline_partitions`).
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from twisted.logger import Logger

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import KafkaError
from pylogbroker.metadata.delta import Delta, PartitionsChanged, TopicCreated, TopicDeleted
from pylogbroker.metadata.image import ClusterImage, PartitionState, TopicImage, topic_resource
from pylogbroker.storage.checkpoints import TopicPartition

_REOPENED_PER_ROUND_MAX = 100  # logs
log = Logger()


@attrs.frozen(eq=False, repr=False)
class SoleReplicas:
    _runtime: Runtime
    _metadata: ClusterMetadata
    _partitions: Partitions
    _broker_id: int
    _not_reopened: set[TopicPartition] = attrs.field(factory=set, init=False)

    async def open(self) -> None:
        async for topic in self._runtime.slices.over(tuple(self._metadata.topics.values())):
            await self._open(topic, topic.partitions, self._metadata.image, is_new=False)
            await self._partitions.settings.apply(topic)

    async def prepare(self, delta: Delta, after: ClusterImage) -> None:
        for change in delta:
            match change:
                case TopicCreated(topic):
                    await self._open(topic, topic.partitions, after)
                case PartitionsChanged(name, partitions):
                    former = self._metadata.topics[name].partitions
                    added = [index for index in partitions if not self._is_replica(former.get(index))]
                    await self._open(after.topics[name], added, after)

    async def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for change in delta:
            match change:
                case TopicCreated(topic):
                    await self._partitions.settings.apply(topic)
                    self._partitions.settings.changed()
                case PartitionsChanged(name, partitions):
                    topic = after.topics[name]
                    async for index in self._runtime.slices.over(partitions):
                        self._obey(topic, index)
                    await self._partitions.settings.apply(topic)
                case TopicDeleted(topic):
                    await self._partitions.drop(topic)

    async def _open(self, topic: TopicImage, indexes: Iterable[int], image: ClusterImage, is_new: bool = True) -> None:
        hosted = [
            index async for index in self._runtime.slices.over(indexes) if self._is_replica(topic.partitions[index])
        ]
        settings = image.settings(topic_resource(topic.name))
        opened = await self._partitions.open_replicas(topic, hosted, settings, is_new, is_sole=True)
        async for _, index in self._runtime.slices.over(opened):
            self._obey(topic, index)

    def _is_replica(self, state: PartitionState | None) -> bool:
        return state is not None and self._broker_id in state.replicas

    def _obey(self, topic: TopicImage, index: int) -> None:
        """Lead the partition, or not, as the topic's image says."""
        key, state = (topic.name, index), topic.partitions[index]
        if state.leader != self._broker_id:
            self._partitions.resign(key)
        elif key in self._partitions.hosted:
            led = self._partitions.led.get(key)
            if led is None or state.leader_epoch > led.leader_epoch:
                self._lead(key, state.leader_epoch)

    def _lead(self, key: TopicPartition, epoch: int) -> None:
        is_new = key not in self._partitions.led
        partition = self._partitions.lead(key, epoch)
        if is_new:
            partition.lead_alone()

    async def reopen_offline_partitions(self) -> None:
        """Try again to create missing logs until one fails, those that failed before last."""
        tried, slices = self._not_reopened, self._runtime.slices
        missing: list[TopicPartition] = []
        async for name in slices.over(tuple(self._metadata.topics)):
            topic = self._metadata.topics.get(name)
            if topic is not None:
                missing += ((name, index) for index in topic.partitions if self._is_missing(topic, index))
        async for key in slices.over(sorted(missing, key=tried.__contains__)[:_REOPENED_PER_ROUND_MAX]):
            topic = self._metadata.topics.get(key[0])
            if topic is None or not self._is_missing(topic, key[1]):
                continue
            try:
                await self._partitions.reopen(topic, key[1])
            except KafkaError as failure:
                log.error("{topic}-{partition} is offline: {why}", topic=key[0], partition=key[1], why=failure)
                if key in tried:
                    tried.clear()
                tried.add(key)
                return
            self._lead(key, topic.partitions[key[1]].leader_epoch)
            await self._partitions.settings.apply(topic)
            log.info("{topic}-{partition} is online now", topic=key[0], partition=key[1])
            for call in self._partitions.on_reopened:
                call(*key)

    def _is_missing(self, topic: TopicImage, index: int) -> bool:
        key, state = (topic.name, index), topic.partitions.get(index)
        is_leader = state is not None and state.leader == self._broker_id
        return is_leader and key not in self._partitions.led and not self._partitions.is_offline(key)
