"""Replicas here that follow one leader, and those of them that have no request at the leader."""

from __future__ import annotations

from uuid import UUID

import attrs

from pylogbroker.broker.replication.followership import Followership
from pylogbroker.coordinators import TopicPartition
from pylogbroker.wire import NO_ID


@attrs.define(eq=False, repr=False)
class FollowedReplicas:
    by_key: dict[TopicPartition, Followership] = attrs.field(factory=dict, init=False)
    resting: dict[TopicPartition, Followership] = attrs.field(factory=dict, init=False)
    """Replicas whose fetch is not pending."""
    _by_topic_id: dict[UUID, dict[TopicPartition, None]] = attrs.field(factory=dict, init=False)
    """Keys of all replicas; NO_ID has those whose topic has no id."""

    @property
    def topic_ids(self) -> list[UUID]:
        return list(self._by_topic_id)

    @property
    def have_topic_ids(self) -> bool:
        return NO_ID not in self._by_topic_id

    def add(self, replica: Followership) -> None:
        key = replica.topic, replica.index
        self.by_key[key] = self.resting[key] = replica
        self._by_topic_id.setdefault(replica.topic_id, {})[key] = None

    def remove(self, key: TopicPartition) -> None:
        self.resting.pop(key, None)
        replica = self.by_key.pop(key, None)
        if replica is not None:
            keys = self._by_topic_id[replica.topic_id]
            del keys[key]
            if not keys:
                del self._by_topic_id[replica.topic_id]

    def clear(self) -> list[Followership]:
        """Remove all replicas; return them."""
        replicas = list(self.by_key.values())
        self.by_key.clear()
        self.resting.clear()
        self._by_topic_id.clear()
        return replicas

    def name_of(self, topic_id: UUID) -> str:
        """Return the name of a topic, or "" if no replica of it is fetched any more."""
        return next((name for name, _ in self._by_topic_id.get(topic_id, ())), "")

    def next_retry_ms(self, now_ms: int) -> int | None:
        """Return the next time after now at which a replica may be fetched again after an error; None without one."""
        times = (replica.follower.retry_at_ms for replica in self.resting.values())
        return min((at_ms for at_ms in times if at_ms is not None and at_ms > now_ms), default=None)

    def follows(self, key: TopicPartition, replica: Followership) -> bool:
        """Return whether the replica still follows this leader in the same leader epoch."""
        return self.by_key.get(key) is replica
