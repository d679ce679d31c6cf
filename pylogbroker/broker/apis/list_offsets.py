"""ListOffsets (2), 0 to 9: a partition's first, last or time-stamped offset.

    0  several offsets before a time, by the age of the segments (see `old_offsets`)
    1  one offset and its timestamp
    2  isolation level; throttle_time_ms in the answer
    4  current_leader_epoch in the request, the offset's leader epoch in the answer
    6  flexible
    7  the largest timestamp (-3)
    8  the first offset kept locally (-4)
    9  the last offset in tiered storage (-5)

A timestamp of 0 or more asks for the first record of that time or later.  A client sees offsets below the high
watermark, or below the last stable offset when it reads committed records alone; a replica sees them all.

To look for a time means to decode records, maybe millions of them: that is done in a worker thread, entry by entry.  A
worker also brings in the indexes and headers that say which entry it is, where they are not in the page cache.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from pylogbroker.broker.admin import repeated
from pylogbroker.broker.apis.old_offsets import offsets_below
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.partition import Partition
from pylogbroker.broker.readahead import read_ahead
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.storage import Log, NotCached
from pylogbroker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
FIRST_VERSION = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
NEVER = 0x7FFF
CONSUMER = -1
READ_COMMITTED = 1
_MOST_READS: Final = 10  # in a segment's indexes and headers
T = TypeVar("T")


@attrs.frozen
class Found:
    """An offset with its timestamp and leader epoch; -1 for what there is not."""

    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


async def handle(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Look every partition's offset up, one after the other."""
    return await _Query(broker, request, context.api_version).answer()


@attrs.define
class _Query:
    """One request on its way to its answer."""

    _broker: Broker
    _request: ListOffsetsRequest
    _version: int
    _twice: set[tuple[str, int]] = attrs.field(factory=set, init=False)

    async def answer(self) -> ListOffsetsResponse:
        topics = self._request.topics
        self._twice = repeated((topic.name, wanted.partition_index) for topic in topics for wanted in topic.partitions)
        return ListOffsetsResponse(topics=[await self._topic(topic) for topic in topics])

    async def _topic(self, topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
        answers = [await self._attempt(topic.name, wanted) for wanted in topic.partitions]
        return ListOffsetsTopicResponse(topic.name, answers)

    async def _attempt(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        try:
            self._check(topic, wanted)
            return await self._look_up(topic, wanted) if self._version else self._look_up_old(topic, wanted)
        except KafkaError as error:
            return ListOffsetsPartitionResponse(wanted.partition_index, error.code)

    async def _look_up(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        partition = self._broker.find(topic, wanted.partition_index)
        partition.check_epoch(wanted.current_leader_epoch)
        found = await self._find(partition, wanted.timestamp, self._bound(partition.log))
        return ListOffsetsPartitionResponse(
            wanted.partition_index,
            timestamp=found.timestamp,
            offset=found.offset,
            leader_epoch=found.leader_epoch if self._version >= 4 else -1,
        )

    async def _find(self, partition: Partition, timestamp: int, bound: int) -> Found:
        """The offset that `timestamp` stands for, as one sees it who sees nothing from `bound` on."""
        log = partition.log
        if timestamp == LATEST:
            return Found(bound, leader_epoch=partition.leader_epoch)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return Found(log.log_start_offset, leader_epoch=log.epochs.epoch_at(log.log_start_offset))
        if timestamp == LATEST_TIERED:
            return Found()
        try:
            return await self._search(log, timestamp, bound)
        except StorageFailure as failure:
            self._broker.request_failed(log, failure)
            raise

    async def _search(self, log: Log, timestamp: int, bound: int) -> Found:
        if timestamp == MAX_TIMESTAMP and (timestamp := await self._asked(log, log.largest_timestamp)) < 0:
            return Found()
        start = 0
        while start < bound:
            candidate = await self._asked(log, partial(log.find_timestamp, timestamp, start))
            if candidate is None:
                break
            try:
                found = await self._broker.in_thread(candidate.first)
            except OSError as error:
                raise log.failed(error) from error
            if found is not None:
                return Found(*found) if found.offset < bound else Found()
            start = candidate.next_offset
        return Found()

    async def _asked(self, log: Log, question: Callable[..., T]) -> T:
        """A log's answer, when a worker has brought in what it takes to know; at last, come what may."""
        for _ in range(_MOST_READS * len(log.segments)):
            try:
                return question(may_wait=False)
            except NotCached as missing:
                with suppress(OSError):  # the log itself will tell
                    await self._broker.in_reading_thread(read_ahead, missing.region)
        return question()

    def _look_up_old(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        log = self._broker.find(topic, wanted.partition_index).log
        now_ms, bound = self._broker.now_ms(), self._bound(log)
        offsets = offsets_below(log, wanted.timestamp, wanted.max_num_offsets, now_ms, bound)
        return ListOffsetsPartitionResponse(wanted.partition_index, old_style_offsets=offsets)

    def _check(self, topic: str, wanted: ListOffsetsPartition) -> None:
        if (topic, wanted.partition_index) in self._twice:
            raise KafkaError("The partition is named more than once", ErrorCode.INVALID_REQUEST)
        if wanted.timestamp < 0 and self._version < FIRST_VERSION.get(wanted.timestamp, NEVER):
            raise KafkaError("The timestamp has no meaning in this version", ErrorCode.UNSUPPORTED_VERSION)

    def _bound(self, log: Log) -> int:
        """The offset from which on the asker sees nothing."""
        if self._request.replica_id != CONSUMER:
            return log.log_end_offset
        return log.last_stable_offset if self._request.isolation_level == READ_COMMITTED else log.high_watermark
