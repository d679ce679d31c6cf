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
    _held: dict[TopicPartition, SessionPartition] = attrs.field(factory=dict)

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, SessionPartition]) -> None:
        """Add changes, which count as sent: call `answered` or `broken` next."""
        before = {} if self.epoch == _NEW else self._held
        forgotten = [key for key, held in before.items() if key not in wanted or wanted[key].topic_id != held.topic_id]
        request.session_id, request.session_epoch = self.id, self.epoch
        request.topics = _asked({key: partition for key, partition in wanted.items() if before.get(key) != partition})
        request.forgotten_topics_data = _forgotten((key, before[key].topic_id) for key in forgotten)
        self._held = dict(wanted)

    def answered(self, session_id: int) -> None:
        self.id = session_id
        if not session_id:
            self.epoch = _NEW
        else:
            self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def broken(self, *, lost: bool = False) -> None:
        """Restart the session. A `lost` one needs no closing."""
        self.epoch = _NEW
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
