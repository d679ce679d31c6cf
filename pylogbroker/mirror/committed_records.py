"""Read a topic from its start to its end: the records that transactions have committed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar, cast

import attrs

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import is_retriable
from pylogbroker.client.fetch_requests import NAMES_VERSION_MAX
from pylogbroker.client.offset_requests import list_offsets_request, listed_offset
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.errors import MirrorError
from pylogbroker.records import Header
from pylogbroker.records.columnar import AbortedTransactions, decode
from pylogbroker.records.log_entry import last_entry
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import raise_for
from pylogbroker.rpc.retries import Pauses, retrying
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartitionResponse

_EARLIEST: Final = -2
_LATEST: Final = -1
_READ_COMMITTED: Final = 1
_WAIT_MS: Final = 500
_PARTITION_BYTES: Final = 131_072
"""So many bytes of small records are decoded without a pause."""

T = TypeVar("T")
KeyAndValue = tuple[bytes | None, bytes | None]
StoredRecord = tuple[bytes | None, bytes | None, tuple[Header, ...]]


@attrs.frozen(eq=False, repr=False)
class CommittedRecords:
    """Reads whole topics. `stall_seconds_max` bounds the wait for a transaction that is open before the end."""

    _cluster: Cluster
    _pauses: Pauses
    _backoff: Backoff
    _timeout: float
    _stall_seconds_max: float

    async def read(self, topic: str) -> AsyncIterator[KeyAndValue]:
        """Yield keys and values, partition by partition. Raise MirrorError if a transaction stays open."""
        async for key, value, _ in self.read_with_headers(topic):
            yield key, value

    async def read_with_headers(self, topic: str) -> AsyncIterator[StoredRecord]:
        """Like `read`, with the headers of the records."""
        partitions = len((await self._cluster.find_topic(topic)).partitions)
        for partition in range(partitions):
            async for row in self._read_partition((topic, partition)):
                yield row

    async def _read_partition(self, partition: TopicPartition) -> AsyncIterator[StoredRecord]:
        position = await self._offset(partition, _EARLIEST)
        end = await self._offset(partition, _LATEST)
        clock = self._pauses.clock
        moved_at = clock.seconds()
        while position < end:
            rows, following = await self._retrying(partial(self._fetch, partition, position))
            for row in rows:
                yield row
            if following > position:
                position, moved_at = following, clock.seconds()
            elif clock.seconds() - moved_at > self._stall_seconds_max:
                topic, number = partition
                raise MirrorError(
                    f"partition {number} of {topic} cannot be read to its end: a transaction is open at offset"
                    f" {position}; see `pylogbroker txn list`"
                )

    async def _offset(self, partition: TopicPartition, time: int) -> int:
        async def ask() -> int:
            node = await self._cluster.find_leader(*partition)
            try:
                response = await self._cluster.send(node, list_offsets_request({partition: time}, committed=False))
                row = sole_row(response, "topics.partitions", node, partition_index=partition[1])
                raise_for(row.error_code)
            except KafkaError:
                self._cluster.leader_is_stale(*partition)
                raise
            return listed_offset(cast(ListOffsetsPartitionResponse, row))

        return await self._retrying(ask)

    async def _fetch(self, partition: TopicPartition, position: int) -> tuple[list[StoredRecord], int]:
        topic, number = partition
        node = await self._cluster.find_leader(topic, number)
        row = FetchPartition(number, fetch_offset=position, partition_max_bytes=_PARTITION_BYTES)
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            isolation_level=_READ_COMMITTED,
            topics=[FetchTopic(topic, partitions=[row])],
        )
        version = min(await self._cluster.find_version(node, FetchRequest), NAMES_VERSION_MAX)
        response = await self._cluster.send(node, request, version=version)
        raise_for(response.error_code)
        data = sole_row(response, "responses.partitions", node, partition_index=number)
        if data.error_code:
            self._cluster.leader_is_stale(topic, number)
            raise_for(data.error_code)
        last = last_entry(data.records or b"")
        if last is None:
            return [], position
        hidden = [
            (transaction.producer_id, transaction.first_offset) for transaction in data.aborted_transactions or ()
        ]
        rows: list[StoredRecord] = []
        for columns in decode(data.records, position, AbortedTransactions(hidden)):
            rows += zip(columns.iter_keys(), columns.iter_values(), columns.iter_headers(), strict=True)
        return rows, last.next_offset

    async def _retrying(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await retrying(work, self._pauses, self._backoff, self._timeout, retriable=_may_pass)


def _may_pass(error: BaseException) -> bool:
    return is_retriable(error) and not (isinstance(error, KafkaError) and error.code is ErrorCode.CORRUPT_MESSAGE)
