"""Start offsets of share groups in their partitions, and how many records they have not finished.

    lag = high watermark - start offset - records behind the start offset that are finished

Neither is known before a consumer has read from the partition, nor while the share coordinator is away, nor the lag
while the partition has no leader.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import attrs

from pylogbroker.broker.services import LogServices
from pylogbroker.broker.share.persister import StatePeers
from pylogbroker.errors import ErrorCode
from pylogbroker.features import on_first_use
from pylogbroker.groups.share.requests import UNKNOWN_OFFSET, ShareOffset
from pylogbroker.groups.share.sessions import TopicIdPartition
from pylogbroker.groups.share.stored_state import NO_START, StoredState
from pylogbroker.long_loops import over
from pylogbroker.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from pylogbroker.broker.share import remote_ends
else:
    remote_ends = on_first_use("pylogbroker.broker.share.remote_ends")

TopicPartition = tuple[str, int]


class Summaries(Protocol):
    async def summaries(
        self, group_id: str, partitions: Collection[TopicIdPartition], /
    ) -> Mapping[TopicIdPartition, StoredState | ErrorCode]: ...


@attrs.define(eq=False, repr=False)
class ShareGroupOffsets:
    _services: LogServices
    _broker_id: int
    _states: Summaries
    _peers: StatePeers | None
    """None: no other broker has partitions."""

    async def describe(
        self, group_id: str, partitions: Mapping[UUID, Collection[int]]
    ) -> dict[TopicIdPartition, ShareOffset]:
        """Return the offsets of partitions that exist; those without a state have no start offset."""
        keys = {(topic_id, number) for topic_id, numbers in partitions.items() for number in numbers}
        states = await self._states.summaries(group_id, keys) if keys else {}
        names = {topic_id: self._name(topic_id) for topic_id in partitions}
        started = [
            (name, number)
            for (topic_id, number), state in states.items()
            if isinstance(state, StoredState) and state.start_offset != NO_START
            if (name := names[topic_id]) is not None
        ]
        ends = await self._ends(started)
        offsets = {}
        async for key, state in over(states.items()):
            name = names[key[0]]
            offsets[key] = _offset(state, None if name is None else ends.get((name, key[1])))
        return offsets

    def _name(self, topic_id: UUID) -> str | None:
        topic = self._services.metadata.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    async def _ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermarks that are known."""
        led, topics = self._services.partitions.led, self._services.metadata.topics
        ends: dict[TopicPartition, int] = {}
        elsewhere: dict[int, dict[str, list[int]]] = {}
        async for key in over(partitions):
            partition = led.get(key)
            if partition is not None:
                ends[key] = partition.log.high_watermark
                continue
            topic = topics.get(key[0])
            state = None if topic is None else topic.partitions.get(key[1])
            if state is not None and state.leader not in (NO_LEADER, self._broker_id):
                elsewhere.setdefault(state.leader, {}).setdefault(key[0], []).append(key[1])
        if self._peers is not None:
            for leader, by_topic in elsewhere.items():
                ends |= await remote_ends.log_ends(self._peers, leader, by_topic)
        return ends


def _offset(state: StoredState | ErrorCode, end: int | None) -> ShareOffset:
    if not isinstance(state, StoredState):
        return ShareOffset(error=state)
    start, finished = state.start_offset, max(state.delivery_complete_count, 0)
    lag = UNKNOWN_OFFSET if end is None or start == UNKNOWN_OFFSET else max(end - start - finished, 0)
    return ShareOffset(start, state.leader_epoch, lag)
