"""Sizes of topics, in the partitions of this broker, noted at regular times: lists are sorted by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from pylogbroker.broker.services import Services
from pylogbroker.metadata.image import TopicImage

INTERVAL_SECONDS: Final = 10.0
_PARTITIONS_AT_ONCE: Final = 200


@attrs.frozen
class TopicSize:
    """Bytes of the logs here, offsets between their first and their end, and how many logs these are."""

    bytes: int = 0
    records: int = 0
    partitions: int = 0


@attrs.define(eq=False, repr=False)
class TopicSizes:
    noted: Mapping[str, TopicSize] = attrs.field(factory=dict, init=False)
    """Sizes at the last sample."""
    bytes: int = attrs.field(default=0, init=False)
    """Sum of the sizes."""

    async def sample(self, services: Services) -> None:
        """Note the sizes of all topics."""
        over = services.runtime.slices.over
        self.noted = {
            topic.name: await size_here(services, topic)
            async for topic in over(tuple(services.metadata.topics.values()))
        }
        self.bytes = sum(size.bytes for size in self.noted.values())


NOTHING: Final = TopicSize()


async def size_here(services: Services, topic: TopicImage) -> TopicSize:
    size = records = here = 0
    hosted = services.partitions.hosted
    indexes = tuple(topic.partitions)
    async for start in services.runtime.slices.over(range(0, len(indexes), _PARTITIONS_AT_ONCE)):
        for index in indexes[start : start + _PARTITIONS_AT_ONCE]:
            partition = hosted.get((topic.name, index))
            if partition is not None:
                here += 1
                size += partition.log.size
                records += partition.log.high_watermark - partition.log.log_start_offset
    return TopicSize(size, records, here)
