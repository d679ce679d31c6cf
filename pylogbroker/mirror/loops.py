"""Loops of mirrors that keep names, found by the positions that other mirrors have written.

    mirror A->B writes to B:  positions of A's topic `orders`, with the id that the topic has in A
    mirror B->A, before it copies `orders`:
        1. writes a position of B's `orders` to A: its claim
        2. reads the positions in B, which say that `orders` comes from the topic with this id in A
        3. takes the claim back, and does not copy the topic

Both mirrors claim before they look. So whichever looks last sees the other one, and no loop can begin. Likewise, a
source that was mirrored under another alias is found by the ids of its topics, before all is copied a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import attrs
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.committed_records import CommittedRecords
from pylogbroker.mirror.errors import TopicStopped
from pylogbroker.mirror.legacy07_source import Legacy07Source
from pylogbroker.mirror.parts import MirrorParts
from pylogbroker.mirror.positions import RecordedPosition, is_positions_topic, recorded_position
from pylogbroker.mirror.topics import MirroredTopic
from pylogbroker.wire import NO_ID

log = Logger()

_Origins = dict[tuple[str, UUID], str]
"""Positions topics by the name and id that a topic has in the cluster that it is mirrored from."""


@attrs.frozen(eq=False, repr=False)
class LoopCheck:
    _parts: MirrorParts
    _stall_seconds_max: float

    async def aliases(self, topics: Iterable[MirroredTopic]) -> dict[str, TopicStopped]:
        """Return the topics that the target has already from this source, under another alias."""
        parts = self._parts
        origins = await self._origins(parts.target, {parts.positions_topic})
        stopped: dict[str, TopicStopped] = {}
        for topic in topics:
            name, topic_id = topic.source.name, topic.source.topic_id
            place = origins.get((name, topic_id))
            if topic_id != NO_ID and place is not None:
                stopped[name] = TopicStopped(
                    name,
                    f"the target has it from this source already, by {place}: give the source the alias in that name"
                    " (--from-alias), or delete that topic to copy all records again",
                )
        return stopped

    async def loops(self, topics: Iterable[MirroredTopic]) -> dict[str, TopicStopped]:
        """Return the topics of the source that are mirrored from the target."""
        parts = self._parts
        if isinstance(parts.source, Legacy07Source):
            return {}  # nothing is mirrored to Kafka 0.7
        origins = await self._origins(parts.source, set())
        there = parts.target.topics()
        stopped: dict[str, TopicStopped] = {}
        for topic in topics:
            info = there.get(topic.target)
            place = None if info is None else origins.get((topic.target, info.topic_id))
            if info is not None and info.topic_id != NO_ID and place is not None:
                name = topic.source.name
                stopped[name] = TopicStopped(
                    name,
                    f"the source has it from the target, by {place}, and its records would go round in a loop: exclude"
                    " it in one direction, or use the policy `prefix`. If that mirror is not used any more, delete"
                    f" {place} in the source",
                )
        return stopped

    async def _origins(self, cluster: Cluster, but: set[str]) -> _Origins:
        await cluster.refresh()
        origins: _Origins = {}
        for place in sorted(topic for topic in cluster.topics() if is_positions_topic(topic) and topic not in but):
            try:
                for record in (await self._positions(cluster, place)).values():
                    if record.position is not None and record.position.topic_id != NO_ID:
                        origins[record.partition[0], record.position.topic_id] = place
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise
                log.warn("{topic} may not be read: a loop of mirrors would not be found", topic=place)
        return origins

    async def _positions(self, cluster: Cluster, place: str) -> Mapping[tuple[str, TopicPartition], RecordedPosition]:
        parts = self._parts
        options = parts.options
        records = CommittedRecords(
            cluster, parts.pauses, options.backoff, options.block_timeout, self._stall_seconds_max
        )
        latest: dict[tuple[str, TopicPartition], RecordedPosition] = {}
        async for key, value in records.read(place):
            record = recorded_position(key, value)
            if record is not None:
                latest[record.source, record.partition] = record
        return latest
