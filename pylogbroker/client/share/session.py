"""Share sessions, client side: a request holds only changes of the set of partitions.

state             request                             answer
----------------  ----------------------------------  ----------------------------------------------
closed (epoch 0)  all partitions, nothing to          the session is open, its epoch is 1
                  acknowledge
open (epoch > 0)  new partitions, those to forget,    the next epoch
                  and acknowledgements
any               no answer, or a session error       closed: the broker has released all records
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from pylogbroker.wire.messages.share_fetch import (
    AcknowledgementBatch,
    ForgottenShareTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)

NEW_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 0x7FFFFFFF

TopicIdPartition = tuple[UUID, int]
Acknowledgements = Mapping[TopicIdPartition, list[AcknowledgementBatch]]


@attrs.define(eq=False, repr=False)
class ClientShareSession:
    epoch: int = NEW_EPOCH
    _partitions: frozenset[TopicIdPartition] = frozenset()

    @property
    def is_open(self) -> bool:
        return self.epoch != NEW_EPOCH

    def fill_fetch(
        self, request: ShareFetchRequest, partitions: Collection[TopicIdPartition], sent: Acknowledgements
    ) -> None:
        """Add changes and acknowledgements: call `answered` or `broken` next."""
        request.share_session_epoch = self.epoch
        topics: dict[UUID, ShareFetchTopic] = {}
        for topic_id, number in sorted({*(frozenset(partitions) - self._partitions), *sent}):
            row = ShareFetchPartition(number, sent.get((topic_id, number), []))
            topics.setdefault(topic_id, ShareFetchTopic(topic_id)).partitions.append(row)
        request.topics = list(topics.values())
        forgotten: dict[UUID, ForgottenShareTopic] = {}
        for topic_id, number in sorted(self._partitions.difference(partitions)):
            forgotten.setdefault(topic_id, ForgottenShareTopic(topic_id)).partitions.append(number)
        request.forgotten_topics_data = list(forgotten.values())
        self._partitions = frozenset(partitions)

    def fill_acknowledge(self, request: ShareAcknowledgeRequest, sent: Acknowledgements, is_final: bool) -> None:
        """Add acknowledgements: call `answered` or `broken` next."""
        request.share_session_epoch = FINAL_EPOCH if is_final else self.epoch
        topics: dict[UUID, AcknowledgeTopic] = {}
        for (topic_id, number), batches in sorted(sent.items()):
            row = AcknowledgePartition(number, batches)
            topics.setdefault(topic_id, AcknowledgeTopic(topic_id)).partitions.append(row)
        request.topics = list(topics.values())

    def answered(self) -> None:
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def broken(self) -> None:
        self.epoch, self._partitions = NEW_EPOCH, frozenset()
