"""Partitions that are fetched from one leader, and what of them its next request must say.

    place, remove --> changed --> request --> contents, which answers are compared with

A fetch session has thousands of partitions, of which few change between two requests. So all work of a request is for
those that changed. A session begins with a part of many partitions, and gets the others with the next requests: neither
a request nor its answer is one of thousands of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.consumer.fetch_session import ClientFetchSession, SessionPartition
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import NO_ID

NEW_PARTITIONS_MAX: Final = 500
"""Partitions that one request adds to a session."""

Identity = Callable[[FetchBuffer], tuple[UUID, int]]
"""Returns the topic's id and the leader epoch of a partition."""


@attrs.frozen(eq=False, repr=False)
class PartitionInSession:
    """A partition of the session, as the last request that named it had it."""

    buffer: FetchBuffer
    round: int
    leader_epoch: int
    topic_id: UUID


@attrs.define(eq=False, repr=False)
class FetchContents:
    """Partitions of a request, including those that the session implies."""

    partitions: dict[TopicPartition, PartitionInSession] = attrs.field(factory=dict)
    _names: dict[UUID, str] = attrs.field(factory=dict)
    _without_id: set[TopicPartition] = attrs.field(factory=set)

    @property
    def have_ids(self) -> bool:
        return not self._without_id

    def name_of(self, topic_id: UUID) -> str:
        return self._names.get(topic_id, "")

    def add(self, key: TopicPartition, fetched: PartitionInSession) -> None:
        self.partitions[key] = fetched
        if fetched.topic_id == NO_ID:
            self._without_id.add(key)
        else:
            self._without_id.discard(key)
            self._names[fetched.topic_id] = key[0]

    def remove(self, key: TopicPartition) -> None:
        self.partitions.pop(key, None)
        self._without_id.discard(key)

    def clear(self) -> None:
        self.partitions.clear()
        self._names.clear()
        self._without_id.clear()


@attrs.define(eq=False, repr=False)
class FetchedLeader:
    """A broker that leads partitions. One request to it is in flight."""

    node: int
    session: ClientFetchSession = attrs.field(factory=ClientFetchSession)
    contents: FetchContents = attrs.field(factory=FetchContents)
    in_flight: Deferred[None] | None = None
    not_before: float = 0.0
    ready: dict[FetchBuffer, None] = attrs.field(factory=dict)
    """Partitions to fetch."""
    _full: dict[FetchBuffer, None] = attrs.field(factory=dict)
    """Partitions without space, in the order in which they became full."""
    _changed: dict[TopicPartition, FetchBuffer | None] = attrs.field(factory=dict)
    """Partitions that the next request must name; None: it forgets them."""

    @property
    def buffers(self) -> list[FetchBuffer]:
        return [*self.ready, *self._full]

    def place(self, buffer: FetchBuffer) -> None:
        """Fetch a partition here, from its present position on, while it has space."""
        self._full.pop(buffer, None)
        if buffer.full:
            self.ready.pop(buffer, None)
            self._full[buffer] = None
            self._forget(buffer.key)
        else:
            self.ready[buffer] = None
            self._changed[buffer.key] = buffer

    def remove(self, buffer: FetchBuffer) -> None:
        """Fetch a partition here no more."""
        self.ready.pop(buffer, None)
        self._full.pop(buffer, None)
        self._forget(buffer.key)

    def restart(self, *, lost: bool) -> None:
        """Begin the session again, with all partitions."""
        self.session.broken(lost=lost)
        self.contents.clear()
        self._changed = {buffer.key: buffer for buffer in self.ready}

    def seconds_since_full(self, now: float) -> float | None:
        """Return how long the partition has been full that became so last; None without one."""
        last: float | None = None
        for buffer in reversed(self._full):
            if buffer.full_since is not None:
                return now - (buffer.full_since if last is None else last)
            buffer.full_since = last = now
        return None if last is None else 0.0

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def changes(
        self, identity: Identity, partition_bytes: int
    ) -> Iterator[tuple[TopicPartition, SessionPartition | None]]:
        """Yield what the next request must say, and remember it as said."""
        changed, self._changed = self._changed, {}
        new = 0
        for key, buffer in changed.items():
            if buffer is None:
                self.contents.remove(key)
                yield key, None
                continue
            if buffer not in self.ready:  # since the caller pauses
                continue
            if key not in self.contents.partitions:
                new += 1
                if new > NEW_PARTITIONS_MAX and not self.session.is_unavailable:
                    self._changed.setdefault(key, buffer)
                    continue
            topic_id, epoch = identity(buffer)
            self.contents.add(key, PartitionInSession(buffer, buffer.round, epoch, topic_id))
            yield key, SessionPartition(buffer.position, partition_bytes, topic_id, epoch)

    def _forget(self, key: TopicPartition) -> None:
        if key in self.contents.partitions:
            self._changed[key] = None
        else:
            self._changed.pop(key, None)
