"""Fetch sessions, client side: a request holds only changes (KIP-227).

state                    request                                    response
-----------------------  -----------------------------------------  ----------------------------------------------
no session               id 0, epoch 0, every partition             an id: the session begins, its epoch is 1;
                                                                    id 0: the broker's session cache is full
a session                its id and epoch, partitions that are      the session continues with the next epoch
                         new or moved on, those to forget
a failed session         its id, epoch 0, every partition: the      as without a session
                         broker closes it and may begin another
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

_NEW: Final = 0
_LAST_EPOCH: Final = 0x7FFFFFFF


@attrs.frozen
class SessionPartition:
    offset: int
    max_bytes: int
    topic_id: UUID = NO_ID
    leader_epoch: int = -1


@attrs.define(eq=False, repr=False)
class ClientFetchSession:
    id: int = 0
    epoch: int = _NEW
    is_unavailable: bool = False
    """Whether the last answer has begun no session."""
    _held: dict[TopicPartition, SessionPartition] = attrs.field(factory=dict)

    def fill(self, request: FetchRequest, changes: Mapping[TopicPartition, SessionPartition | None]) -> None:
        """Add changes since the last request, None for a partition to forget, or all partitions without a session.

        They count as sent: call `answered` or `broken` next.
        """
        named: dict[TopicPartition, SessionPartition] = {}
        forgotten: list[tuple[TopicPartition, UUID]] = []
        held = self._held
        for key, partition in changes.items():
            before = held.get(key)
            if before is not None and (partition is None or partition.topic_id != before.topic_id):
                forgotten.append((key, before.topic_id))
            if partition is None:
                held.pop(key, None)
            elif partition != before:
                held[key] = named[key] = partition
        is_new = self.epoch == _NEW
        request.session_id, request.session_epoch = self.id, self.epoch
        request.topics = _asked(held if is_new else named)
        request.forgotten_topics_data = [] if is_new else _forgotten(forgotten)

    def answered(self, session_id: int) -> None:
        self.id = session_id
        self.is_unavailable = not session_id
        if not session_id:
            self.epoch = _NEW
        else:
            self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def broken(self, *, lost: bool = False) -> None:
        """Restart the session, without partitions. A `lost` one needs no closing."""
        self.epoch = _NEW
        self.is_unavailable = False
        self._held.clear()
        if lost:
            self.id = 0


def _asked(partitions: Mapping[TopicPartition, SessionPartition]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (topic, partition), target in partitions.items():
        fetch_topic = topics.get(topic)
        if fetch_topic is None:
            fetch_topic = topics[topic] = FetchTopic(topic, target.topic_id)
        fetch_topic.partitions.append(
            FetchPartition(
                partition,
                current_leader_epoch=target.leader_epoch,
                fetch_offset=target.offset,
                partition_max_bytes=target.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Iterable[tuple[TopicPartition, UUID]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, UUID], ForgottenTopic] = {}
    for (topic, partition), topic_id in partitions:
        forgotten_topic = topics.setdefault((topic, topic_id), ForgottenTopic(topic, topic_id))
        forgotten_topic.partitions.append(partition)
    return list(topics.values())
