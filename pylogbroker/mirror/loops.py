"""Loops of mirrors that keep names, found by the positions that other mirrors have written.

    mirror A->B writes to B:  positions of A's topic `orders`, with the id that the topic has in A
    mirror B->A, before it copies `orders`:
        1. writes a position of B's `orders` to A: its claim
        2. reads the positions in B, which say that `orders` comes from the topic with this id in A
        3. takes the claim back, and does not copy the topic

Both mirrors claim before they look. So whichever looks last sees the other one, and no loop can begin. Likewise, a
source that was mirrored under another alias is found by the ids of its topics, before all is copied a second time.

Topics have no ids before Kafka 2.8. Then positions have the id of the topic's cluster instead. Those of MirrorMaker 2
have neither: there, the alias in the name of the positions topic says where a topic comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import attrs
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.list_offsets import list_offsets
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.committed_records import CommittedRecords
from pylogbroker.mirror.errors import TopicStopped
from pylogbroker.mirror.legacy07_source import Legacy07Source
from pylogbroker.mirror.parts import MirrorParts
from pylogbroker.mirror.positions import RecordedPosition, is_positions_topic, recorded_position
from pylogbroker.mirror.topics import MirroredTopic
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.list_offsets import LATEST

log = Logger()

_Origins = dict[tuple[str, UUID | str], tuple[str, int]]
"""Positions topics and the greatest position there, by a topic in the cluster that it is mirrored from.

The topic is its name, and its id or that of the cluster.
"""


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
            name = topic.source.name
            place, position = _place(origins, name, (topic.source.topic_id, parts.source_id))
            is_elsewhere = position > 0 and await self._is_empty(topic.target)
            if place and not is_elsewhere:
                stopped[name] = TopicStopped(
                    name,
                    f"the target has it from this source already, by {place}: give the source the alias in that name"
                    " (--from-alias), or delete that topic to copy all records again",
                )
        return stopped

    async def _is_empty(self, topic: str) -> bool:
        """Return whether a topic of the target has never had a record: then the other alias has another name for it."""
        cluster = self._parts.target
        ends = {(topic, partition): LATEST for partition in range(cluster.partitions_of(topic) or 0)}
        offsets, errors = await list_offsets(cluster, ends, committed=False)
        return not errors and not any(offsets.values())

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
            if info is None:
                continue
            place, _ = _place(origins, topic.target, (info.topic_id, parts.target_id, parts.target_alias))
            if place:
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
                    if record.position is not None:
                        key = record.partition[0], record.position.origin or record.source
                        origins[key] = place, max(origins.get(key, ("", 0))[1], record.position.next_offset)
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


def _place(origins: _Origins, topic: str, ids: Iterable[UUID | str]) -> tuple[str, int]:
    """Return the positions topic that has a topic from a cluster with one of these ids, or "", and the position."""
    places = [origins[topic, origin] for origin in ids if origin not in (NO_ID, "") and (topic, origin) in origins]
    return places[0] if places else ("", 0)
