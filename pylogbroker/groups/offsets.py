"""The offsets that one group remembers, and when it forgets them.

An offset counts as committed once its record is stored; until then it is pending. Pending offsets are not shown, and a
partition with one is not expired. Offsets expire

    group without protocol type     `retention` after their own commit (consumers that do without membership)
    Empty group                     `retention` after the group became Empty
    Stable group of consumers       `retention` after their own commit, if no member subscribes to the topic
    any other                       never
    with an expiry of their own     at that time, wherever the table does not say never
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import attrs

from pylogbroker.groups.requests import CommittedOffset, TopicPartition


@attrs.define(eq=False)
class GroupOffsets:
    """A group's committed and pending offsets, by topic and partition."""

    committed: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)
    pending: dict[TopicPartition, CommittedOffset] = attrs.field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending)

    def begin(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        """The record of this offset is on its way to the store."""
        self.pending[partition] = offset

    def complete(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        """The record is stored. Nothing happens if the partition has been removed in the meantime."""
        if partition in self.pending:
            self.committed[partition] = offset
            self.fail(partition, offset)

    def fail(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        """The record is not on its way any more."""
        if self.pending.get(partition) is offset:
            del self.pending[partition]

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget these partitions; those of which there was a committed offset are returned."""
        removed = []
        for partition in partitions:
            self.pending.pop(partition, None)
            if self.committed.pop(partition, None) is not None:
                removed.append(partition)
        return removed

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        since: Callable[[CommittedOffset], int],
        subscribed: Collection[str] = (),
    ) -> list[TopicPartition]:
        """The partitions whose offset is older than `retention_ms`, counted from `since(offset)`."""

        def is_over(offset: CommittedOffset) -> bool:
            if offset.expires is not None:
                return now_ms >= offset.expires
            return now_ms - since(offset) >= retention_ms

        return [
            partition
            for partition, offset in self.committed.items()
            if partition[0] not in subscribed and partition not in self.pending and is_over(offset)
        ]
