"""Records: offsets by time, and deletion up to an offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import Router, deferred, outcome
from pylogbroker.client.offset_requests import list_offsets_request
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from pylogbroker.wire.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    ListOffsetsResponse,
)

__all__ = ["EARLIEST", "EARLIEST_LOCAL", "LATEST", "MAX_TIMESTAMP", "ListedOffset", "RecordAdmin"]

#: In `delete`: all records that consumers may read.
HIGH_WATERMARK = -1


@attrs.frozen
class ListedOffset:
    """`offset` is None if no record is as late; `timestamp` is None for the log's ends."""

    offset: int | None
    timestamp: int | None
    leader_epoch: int

    def or_end(self, end: int) -> int:
        """Return the offset, or `end` if no record is as late."""
        return end if self.offset is None else self.offset


@attrs.frozen(eq=False, repr=False)
class RecordAdmin:
    _router: Router

    @deferred
    async def offsets(
        self, times: Mapping[TopicPartition, int], *, committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """Return the first offset at or after each time: milliseconds, EARLIEST, LATEST or MAX_TIMESTAMP.

        EARLIEST_LOCAL is the first offset that an archived log has on the local disk.

        With `committed`, LATEST is the last stable offset.
        """

        def read(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, ListedOffset | KafkaError]]:
            for topic in response.topics:
                for partition in topic.partitions:
                    listed = ListedOffset(_known(partition.offset), _known(partition.timestamp), partition.leader_epoch)
                    where = f"{topic.name}/{partition.partition_index}"
                    yield (topic.name, partition.partition_index), outcome(where, partition.error_code, None, listed)

        partitions = arguments.partitions("times", arguments.by_key("times", times, "{('orders', 0): LATEST}"))
        for time in times.values():
            arguments.whole("times", time)
        return await self._router.ask(
            self._router.leaders(),
            partitions,
            lambda keys: list_offsets_request({key: times[key] for key in keys}, committed),
            read,
        )

    @deferred
    async def delete(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records below these offsets (-1: all up to the high watermark); return the new start offsets."""

        def make(keys: Sequence[TopicPartition]) -> DeleteRecordsRequest:
            topics: dict[str, DeleteRecordsTopic] = {}
            for topic, partition in keys:
                rows = topics.setdefault(topic, DeleteRecordsTopic(topic)).partitions
                rows.append(DeleteRecordsPartition(partition, before[topic, partition]))
            return DeleteRecordsRequest([*topics.values()], self._router.timeout_ms)

        def read(response: DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int | KafkaError]]:
            for topic in response.topics:
                for partition in topic.partitions:
                    where = f"{topic.name}/{partition.partition_index}"
                    yield (
                        (topic.name, partition.partition_index),
                        outcome(where, partition.error_code, None, partition.low_watermark),
                    )

        partitions = arguments.partitions("before", arguments.by_key("before", before, "{('orders', 0): 7}"))
        for offset in before.values():
            arguments.whole("before", offset)
        return await self._router.ask(self._router.leaders(), partitions, make, read)


def _known(number: int) -> int | None:
    return None if number < 0 else number
