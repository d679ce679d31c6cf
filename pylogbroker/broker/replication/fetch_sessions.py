"""Follower's side of a fetch session (KIP-227): sends what changed since the last request.

    state        request                        response's session id    next state
    -----------  -----------------------------  -----------------------  ------------------------------
    no session   id 0, epoch 0: all partitions  0                        no session
                                                n                        session n, epoch 1
    session n    id n, epoch k: changed ones,   n                        session n, epoch k + 1
                 and those to forget            an error, no response    no session

A partition that is not fetched now is forgotten: the leader would take its last fetch offset for a new one.

Without sessions (`FollowerFetchSession.none`), each request has epoch -1 and names all partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

import attrs

from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

_NO_SESSION = 0
_FIRST_EPOCH = 0
_FINAL_EPOCH = -1
"""Epoch of a request that wants no session."""


class FetchedPartition(NamedTuple):
    topic: str
    topic_id: UUID
    partition: int


@attrs.define(eq=False, repr=False)
class FollowerFetchSession:
    _first_epoch: int = _FIRST_EPOCH
    id: int = attrs.field(default=_NO_SESSION, init=False)
    epoch: int = attrs.field(init=False)
    """Of the next request."""
    _sent: dict[FetchedPartition, FetchPartition] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.epoch = self._first_epoch

    @classmethod
    def none(cls) -> FollowerFetchSession:
        """Return what fills requests that have no session."""
        return cls(_FINAL_EPOCH)

    @property
    def is_incremental(self) -> bool:
        return self.id != _NO_SESSION

    def fill(
        self,
        request: FetchRequest,
        requested: Mapping[FetchedPartition, FetchPartition],
        over: Iterable[FetchedPartition],
    ) -> None:
        """Name the partitions in the request; `requested` are all without a session, else those asked for again."""
        sent = self._sent
        changed = {key: partition for key, partition in requested.items() if sent.get(key) != partition}
        forgotten = [key for key in over if sent.pop(key, None) is not None]
        sent.update(changed)
        request.session_id, request.session_epoch = self.id, self.epoch
        request.topics = [
            FetchTopic(topic, topic_id, [changed[key] for key in keys])
            for (topic, topic_id), keys in _by_topic(changed).items()
        ]
        request.forgotten_topics_data = [
            ForgottenTopic(topic, topic_id, [key.partition for key in keys])
            for (topic, topic_id), keys in _by_topic(forgotten).items()
        ]

    def names(self, key: FetchedPartition, partition: FetchPartition) -> bool:
        """Return whether a request must name a partition; it does so then."""
        if self._sent.get(key) == partition:
            return False
        self._sent[key] = partition
        return True

    def answered(self, session_id: int) -> None:
        if session_id == _NO_SESSION or self._first_epoch == _FINAL_EPOCH:
            self.end()
        else:
            self.id = session_id
            self.epoch = self.epoch + 1 if self.epoch < 0x7FFFFFFF else 1

    def end(self) -> None:
        """Begin a new session with the next request."""
        self.id, self.epoch = _NO_SESSION, self._first_epoch
        self._sent.clear()


def _by_topic(keys: Iterable[FetchedPartition]) -> dict[tuple[str, UUID], list[FetchedPartition]]:
    by_topic: dict[tuple[str, UUID], list[FetchedPartition]] = {}
    for key in keys:
        by_topic.setdefault((key.topic, key.topic_id), []).append(key)
    return by_topic
