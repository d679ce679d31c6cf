"""Fetch session of a follower: a request reads the partitions with news, not all that the follower fetches.

    state     a partition is read       until
    -------   ------------------------  ------------------------------------------------------------------
    due       by each request           `settle`: the follower is in sync, and no news is left
    settled   by no request             the log grows, the leadership ends, or the follower names it again

Settled partitions are watched by their purgatories. One may grow while a request reads others: what it confirms lets
coordinators append. Such a request does not wait. Every `PASS_MS` all partitions are due once, for what nothing
announces: a log start that moved, or a replica that was assigned again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from pylogbroker.broker.fetch.session import FetchSession, PartitionKey, RequestedPartition, RequestedPartitions
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.errors import KafkaError

if TYPE_CHECKING:
    from pylogbroker.wire.messages.fetch import FetchRequest, PartitionData

PASS_MS = 5_000


class WaitingFetch(Protocol):
    def try_complete(self, size: int, /) -> bool: ...
    def fail(self, error: KafkaError, /) -> None: ...


@attrs.frozen(eq=False, repr=False)
class _GrowthWatch:
    """Waits in a settled partition's purgatory; ends at the first growth that no fetch waits for."""

    session: FollowerSession
    key: PartitionKey
    partition: Partition

    def try_complete(self, size: int) -> bool:
        return self.session.partition_grew(self, size)

    def fail(self, error: KafkaError) -> None:
        self.session.leadership_ended(self, error)

    def end(self) -> None:
        self.partition.purgatory.remove(self, Mark.LOG_END)


@attrs.define(eq=False, repr=False)
class FollowerSession(FetchSession):
    replica_id: int = attrs.field(kw_only=True)
    waiting: WaitingFetch | None = attrs.field(default=None, init=False)
    has_unread_news: bool = attrs.field(default=False, init=False)
    """Partitions have become due since `to_read`, and no fetch waited."""
    _due: dict[PartitionKey, RequestedPartition] = attrs.field(factory=dict, init=False)
    _watches: dict[PartitionKey, _GrowthWatch] = attrs.field(factory=dict, init=False)
    _last_pass_ms: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._last_pass_ms = self.last_used_ms

    def update(self, request: FetchRequest, requested: RequestedPartitions) -> None:
        super().update(request, requested)
        for key in requested:
            self._mark_due(key)

    def update_one(self, key: PartitionKey, present: RequestedPartition) -> None:
        self._due[key] = present

    def forget(self, key: PartitionKey) -> None:
        super().forget(key)
        self._due.pop(key, None)
        self._end_watch(key)

    def used(self, now_ms: int) -> None:
        super().used(now_ms)
        if now_ms - self._last_pass_ms >= PASS_MS:
            self._last_pass_ms = now_ms
            self._due.update(self.partitions)

    def to_read(self) -> list[RequestedPartition]:
        self.has_unread_news = False
        return list(self._due.values())

    def _mark_due(self, key: PartitionKey) -> None:
        partition = self.partitions.get(key)
        if partition is not None:
            self._due[key] = partition

    def move_to_end(self, key: PartitionKey) -> None:
        if (partition := self._due.pop(key, None)) is not None:
            self._due[key] = partition

    def is_watching(self, requested: RequestedPartition) -> bool:
        return bool(self._watches) and (requested.topic, requested.partition.partition) in self._watches

    def settle(self, requested: RequestedPartition, answer: PartitionData, partition: Partition) -> None:
        """Note an answer that is sent; the partition is settled if the follower has all of it."""
        if not requested.partition.fetch_offset == answer.high_watermark == partition.log.log_end_offset:
            return
        has_news = answer.error_code or answer.diverging_epoch.epoch >= 0
        replication = partition.replication
        if has_news or replication is None or not replication.is_in_sync(self.replica_id):
            return
        key = requested.topic, answer.partition_index
        self._due.pop(key, None)
        if key not in self._watches:
            watch = self._watches[key] = _GrowthWatch(self, key, partition)
            partition.purgatory.add(watch, Mark.LOG_END, partition.log.log_end_offset + 1)

    def partition_grew(self, watch: _GrowthWatch, size: int) -> bool:
        """Let the next pass read the partition; return whether the watch is over."""
        self._mark_due(watch.key)
        if watch.partition.replication is not None:
            watch.partition.replication.follower_waited(self.replica_id, self.last_used_ms)
        if self.waiting is not None:
            self.waiting.try_complete(size)
            return False
        self.has_unread_news = True
        del self._watches[watch.key]
        return True

    def leadership_ended(self, watch: _GrowthWatch, error: KafkaError) -> None:
        """Answer soon: the next pass finds the error."""
        self._mark_due(watch.key)
        self._watches.pop(watch.key, None)
        if self.waiting is not None:
            self.waiting.fail(error)
        else:
            self.has_unread_news = True

    def end(self) -> None:
        for key in tuple(self._watches):
            self._end_watch(key)

    def _end_watch(self, key: PartitionKey) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.end()
