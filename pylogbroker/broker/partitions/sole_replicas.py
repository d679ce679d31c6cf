"""Replicas of a cluster of one broker: each partition has its only one here, and is led here.

| delta             | before requests see it (`prepare`) | afterwards (`on_delta`)                |
|-------------------|------------------------------------|----------------------------------------|
| TopicCreated      | logs are made                      | the topic's settings apply             |
| PartitionsChanged | logs of new partitions are made    | partitions are led as the image says   |
| TopicDeleted      |                                    | logs are deleted                       |
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pylogbroker.broker.cluster_metadata import ClusterMetadata
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.runtime import Runtime
from pylogbroker.metadata.delta import Delta, PartitionsChanged, TopicCreated, TopicDeleted
from pylogbroker.metadata.image import ClusterImage, PartitionState, TopicImage, topic_resource


@attrs.frozen(eq=False)
class SoleReplicas:
    _runtime: Runtime
    _metadata: ClusterMetadata
    _partitions: Partitions
    _broker_id: int

    async def open(self) -> None:
        async for topic in self._runtime.slices.over(tuple(self._metadata.topics.values())):
            await self._open(topic, topic.partitions, self._metadata.image, is_new=False)
            await self._partitions.configure(topic)

    async def prepare(self, delta: Delta, after: ClusterImage) -> None:
        for change in delta:
            match change:
                case TopicCreated(topic):
                    await self._open(topic, topic.partitions, after)
                case PartitionsChanged(name, partitions):
                    known = self._metadata.topics[name].partitions
                    added = [index for index in partitions if not self._is_replica(known.get(index))]
                    await self._open(after.topics[name], added, after)

    async def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for change in delta:
            match change:
                case TopicCreated(topic):
                    await self._partitions.configure(topic)
                    self._partitions.settings_changed()
                case PartitionsChanged(name, partitions):
                    topic = after.topics[name]
                    async for index in self._runtime.slices.over(partitions):
                        self._obey(topic, index)
                    await self._partitions.configure(topic)
                case TopicDeleted(topic):
                    await self._partitions.drop(topic)

    async def _open(self, topic: TopicImage, indexes: Iterable[int], image: ClusterImage, is_new: bool = True) -> None:
        wanted = [
            index async for index in self._runtime.slices.over(indexes) if self._is_replica(topic.partitions[index])
        ]
        settings = image.settings(topic_resource(topic.name))
        opened = await self._partitions.open_replicas(topic, wanted, settings, is_new)
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
                self._partitions.lead(key, state.leader_epoch)
