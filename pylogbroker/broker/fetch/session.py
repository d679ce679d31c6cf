"""One fetch session: the partitions of a fetcher, and the offsets last sent to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

import attrs

from pylogbroker.long_loops import mapped

if TYPE_CHECKING:
    from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

CONSUMER = -1

TopicKey = str | UUID
PartitionKey = tuple[TopicKey, int]


@attrs.define(eq=False, repr=False)
class RequestedPartition:
    """One partition of a fetcher: its last request, and the last offsets sent."""

    topic: TopicKey
    partition: FetchPartition
    sent_high_watermark: int = -1
    sent_log_start: int = -1

    def changed(self, answer: PartitionData) -> bool:
        """Return whether an incremental response must have the partition; remember the offsets."""
        moved = answer.high_watermark != self.sent_high_watermark or answer.log_start_offset != self.sent_log_start
        self.sent_high_watermark = answer.high_watermark
        self.sent_log_start = answer.log_start_offset
        diverges = answer.diverging_epoch.end_offset >= 0
        if answer.error_code or diverges:
            self.sent_high_watermark = -1  # sent again then: followers take none from such an answer (KAFKA-14704)
        return bool(moved or answer.error_code or diverges or answer.records or answer.preferred_read_replica >= 0)


def fetcher_of(request: FetchRequest) -> int:
    """Return the broker id of a follower; CONSUMER, or less, for others."""
    return max(request.replica_id, request.replica_state.replica_id)


RequestedPartitions = dict[PartitionKey, RequestedPartition]


def requested_partitions(request: FetchRequest, by_id: bool) -> RequestedPartitions:
    """Return the partitions in order; the last duplicate counts, as in Kafka."""
    return dict(_named(request, by_id))


async def many_requested_partitions(request: FetchRequest, by_id: bool) -> RequestedPartitions:
    """Like `requested_partitions`, for a long request."""
    return dict(await mapped(lambda named: named, _named(request, by_id)))


def _named(request: FetchRequest, by_id: bool) -> Iterator[tuple[PartitionKey, RequestedPartition]]:
    for topic in request.topics:
        key = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            yield (key, partition.partition), RequestedPartition(key, partition)


@attrs.define(eq=False, repr=False)
class FetchSession:
    """Partitions of one fetcher; `epoch` is of its next request."""

    id: int
    by_id: bool
    epoch: int = 1
    last_used_ms: int = 0
    partitions: dict[PartitionKey, RequestedPartition] = attrs.field(factory=dict)

    def update(self, request: FetchRequest, requested: RequestedPartitions) -> None:
        for key, newer in requested.items():
            present = self.partitions.get(key)
            if present is None or present.partition.current_leader_epoch != newer.partition.current_leader_epoch:
                self.partitions[key] = newer  # a follower drops what was sent in its former leader epoch
            else:
                present.partition = newer.partition
        for topic in request.forgotten_topics_data:
            topic_key = topic.topic_id if self.by_id else topic.topic
            for index in topic.partitions:
                self.forget((topic_key, index))

    def update_one(self, key: PartitionKey, present: RequestedPartition) -> None:
        """Note that a request names one partition, which the session has, with another offset."""

    def forget(self, key: PartitionKey) -> None:
        self.partitions.pop(key, None)

    def used(self, now_ms: int) -> None:
        """Note an incremental request."""
        self.epoch = self.epoch % 0x7FFFFFFF + 1
        self.last_used_ms = now_ms

    def to_read(self) -> list[RequestedPartition]:
        """Return the partitions that an incremental request reads, in order."""
        return list(self.partitions.values())

    def move_to_end(self, key: PartitionKey) -> None:
        """Move a partition whose records were sent to the end: the byte limit must starve none."""
        if (partition := self.partitions.pop(key, None)) is not None:
            self.partitions[key] = partition

    def end(self) -> None:
        """Note that no request comes any more."""
