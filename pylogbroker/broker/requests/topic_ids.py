"""Topics that a request names by id.

They get their names first, since access and everything else goes by names. The name of an unknown id stays empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from pylogbroker.long_loops import over
from pylogbroker.metadata.image import ClusterImage


class TopicWithId(Protocol):
    name: str

    @property
    def topic_id(self) -> UUID: ...


async def name_topics(image: ClusterImage, topics: Sequence[TopicWithId]) -> None:
    async for topic in over(topics):
        name_topic(image, topic)


def name_topic(image: ClusterImage, topic: TopicWithId) -> None:
    if not topic.name:
        topic.name = image.topic_names.get(topic.topic_id.int, "")
