"""Fetch a partition's record batches between two offsets, as raw bytes.

The next fetch is sent before records are yielded: the leader works while they are decoded. Reading ends at an offset,
not at a count: control records and compaction leave offsets without records.

With a topic id, fetches name the topic by it: a later topic of that name is never read. Brokers before Kafka 3.1 take
only names: for them, the id is compared with that of the metadata.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.connection import BlockingConnection
from pylogbroker.client.errors import OutOfRange, RecordTooLarge, RequestTimedOut, TopicRecreated, is_retriable
from pylogbroker.client.fetch_requests import NAMES_VERSION_MAX, FetchTarget, fetch_request
from pylogbroker.errors import ErrorCode, PylogbrokerError
from pylogbroker.records import Buffer
from pylogbroker.records.log_entry import last_entry
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.rpc.errors import raise_for
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST

_EMPTY_ANSWERS_MIN: Final = 2


@attrs.frozen
class FetchedBatches:
    """Whole batches; the first may have records before `position`."""

    records: Buffer
    position: int
    next_offset: int
    aborted: tuple[tuple[int, int], ...] | None
    """Producer ids and first offsets of aborted transactions; None with read_uncommitted."""


class PartitionFetcher:
    """Iterate over a partition's record batches from `start` to before `end`.

    Raise OutOfRange if the log starts after `start`, or nothing arrives for `stall_timeout` seconds because it ends
    before `end`. Raise TopicRecreated if the topic no longer has `topic_id`. If compaction removed the rest before
    `end`, the last item has no records.
    """

    def __init__(
        self,
        cluster: BlockingCluster,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        topic_id: UUID = NO_ID,
        stall_timeout: float = 120.0,
    ) -> None:
        settings = cluster.settings
        self.position = start
        self._cluster = cluster
        self._topic, self._partition, self._end = topic, partition, end
        self._topic_id = topic_id
        self._stall_timeout = stall_timeout
        self._limit = settings.integer("max.partition.fetch.bytes")
        self._wait = settings.integer("fetch.max.wait.ms")
        self._committed = settings.text("isolation.level") == "read_committed"
        self._asked: BlockingConnection | None = None
        self._empty = 0  # consecutive empty responses from a leader with all offsets

    def __iter__(self) -> Iterator[FetchedBatches]:
        moved = time.monotonic()
        try:
            while self.position < self._end:
                fetched = self._take(self._cluster.retrying(self._answer))
                if fetched is not None:
                    yield fetched
                    moved = time.monotonic()
                elif time.monotonic() - moved > self._stall_timeout:
                    raise self._nothing_comes()
        finally:
            if self._asked is not None:
                self._asked.close()  # a late response must not answer the next request

    def _take(self, data: PartitionData) -> FetchedBatches | None:
        records = data.records or b""
        last = last_entry(records)  # type: ignore[arg-type]
        if last is None:
            if len(records):
                self._ask_for_more()
            return None if len(records) else self._rest(data)
        self._empty = 0
        fetched = FetchedBatches(records, self.position, last.next_offset, self._aborted(data))  # type: ignore[arg-type]
        self.position = last.next_offset
        if self.position < self._end:
            self._prefetch()
        return fetched

    def _rest(self, data: PartitionData) -> FetchedBatches | None:
        """Skip to the end if a leader with all offsets returns nothing twice: the rest was compacted away."""
        readable = data.last_stable_offset if self._committed and data.last_stable_offset >= 0 else data.high_watermark
        self._empty = self._empty + 1 if readable >= self._end else 0
        if self._empty < _EMPTY_ANSWERS_MIN:
            return None
        rest = FetchedBatches(b"", self.position, self._end, None)
        self.position = self._end
        return rest

    def _prefetch(self) -> None:
        try:
            self._ask()
        except PylogbrokerError as error:
            if not is_retriable(error):  # retriable: retried when the response is needed
                raise

    def _ask_for_more(self) -> None:
        """Double the fetch size: brokers without KIP-74 cut off even the first batch."""
        largest = self._cluster.settings.integer("fetch.max.bytes")
        if self._limit >= largest:
            raise RecordTooLarge(
                f"{self._topic}/{self._partition} has a batch at offset {self.position} that exceeds the fetch limit,"
                f" {self._limit} bytes: increase fetch.max.bytes"
            )
        self._limit = min(2 * self._limit, largest)

    def _aborted(self, data: PartitionData) -> tuple[tuple[int, int], ...] | None:
        if not self._committed:
            return None
        return tuple(
            (transaction.producer_id, transaction.first_offset) for transaction in data.aborted_transactions or ()
        )

    def _answer(self) -> PartitionData:
        connection = self._asked or self._ask()
        self._asked = None
        response: FetchResponse = connection.receive()
        raise_for(response.error_code)
        data = PartitionData()  # of an answer that is empty over quota
        if any(topic.partitions for topic in response.responses):
            address = str(connection.address)
            data = sole_row(response, "responses.partitions", address, partition_index=self._partition)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise self._out_of_range()
        raise_for(data.error_code, f"{self._topic}/{self._partition}")
        return data

    def _ask(self) -> BlockingConnection:
        connection = self._cluster.leader(self._topic, self._partition)
        topic_id = self._checked_id()
        target = FetchTarget(self._topic, self._partition, self.position, self._limit, topic_id)
        request = fetch_request(self._cluster.settings, [target], wait_ms=self._wait)
        newest = connection.version_of(FetchRequest)
        connection.send(request, version=min(NAMES_VERSION_MAX, newest) if topic_id == NO_ID else newest)
        self._asked = connection
        return connection

    def _checked_id(self) -> UUID:
        """Return the topic's id; NO_ID if it was not given or the brokers have none. Raise TopicRecreated."""
        if self._topic_id == NO_ID:
            return NO_ID
        topic_id = self._cluster.topic_id(self._topic)
        if topic_id == NO_ID:
            return NO_ID
        if topic_id != self._topic_id:
            raise TopicRecreated(self._topic, self._topic_id, topic_id)
        return topic_id

    def _nothing_comes(self) -> PylogbrokerError:
        error = self._out_of_range()
        if error.end <= self.position:
            return error
        return RequestTimedOut(
            f"{self._topic}/{self._partition} is to be read up to offset {self._end}, but nothing after"
            f" {self.position} came for {self._stall_timeout:g} s, though it ends at {error.end}"
        )

    def _out_of_range(self) -> OutOfRange:
        key = self._topic, self._partition
        first = self._cluster.offsets({key: EARLIEST})[key].offset
        end = self._cluster.offsets({key: LATEST})[key].offset
        return OutOfRange(*key, self.position, first, end)
