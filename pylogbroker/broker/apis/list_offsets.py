"""ListOffsets (2): a partition's first, last or time-stamped offset.

    asked by                     sees offsets below                                        answered by
    ---------------------------  --------------------------------------------------------  ---------------------
    a consumer                   the high watermark, or of committed records the last      the leader
                                 stable offset
    a follower                   the log end                                               the leader
    a debugger (replica id -2)   the log end                                               leader and followers

A search by time, or for the largest time, covers what the sender sees. It decodes records, perhaps millions, so it runs
in a worker thread, for up to a hundred partitions at once. Workers also read uncached indexes and headers.

Of an archived log, a search by time begins in its remote storage; one for the largest time covers the local part alone,
as Kafka's does. The remote storage has a limited time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

import attrs

from pylogbroker.broker.fetch.readahead import read_ahead
from pylogbroker.broker.partitions.archived import Archive
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.segment_offsets import visible_offsets_before
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import Caller, RequestContext
from pylogbroker.broker.requests.limits import find_duplicates
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import on_topics
from pylogbroker.broker.services import HasConfig, HasPartitions, HasRuntime
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.storage import Log, NewestSearch, NotCached
from pylogbroker.wire.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_FIRST_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NO_VERSION = 0x7FFF
CONSUMER = -1
DEBUGGER = -2
READ_COMMITTED = 1
_READS_PER_SEGMENT_MAX: Final = 10  # in its indexes and headers
_CALLS_PER_JOB_MAX: Final = 100  # in one hop to a thread
T = TypeVar("T")


class _Services(HasConfig, HasRuntime, HasPartitions, Protocol):
    """Services that this API uses."""


@attrs.frozen
class FoundOffset:
    """-1 stands for unknown values."""

    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


@attrs.frozen
class BlockingCall:
    """A call that a search waits for; `reads_only` if it mostly reads."""

    call: Callable[[], Any]
    reads_only: bool = False


@attrs.frozen
class Listing:
    """Wait until the remote segments of an archived partition are listed."""

    archive: Archive


@attrs.frozen
class ArchiveSearch:
    """A search by time in a remote storage."""

    archive: Archive
    timestamp: int
    start: int


Step = BlockingCall | Listing | ArchiveSearch
Search = Generator[Step, Any, FoundOffset]


@attrs.define
class _Pending:
    answer: ListOffsetsPartitionResponse
    log: Log
    search: Search
    step: Step


_reject_topic = reject_partitions(
    ListOffsetsTopicResponse, lambda partition, code: ListOffsetsPartitionResponse(partition.partition_index, code)
)


@serves(ListOffsetsRequest, access=[on_topics(AclOperation.DESCRIBE, _reject_topic)], is_read=True)
async def handle(services: _Services, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    return await _Query(services, request, context.api_version, context.caller).answer()


@attrs.define
class _Query:
    _services: _Services
    _request: ListOffsetsRequest
    _version: int
    _caller: Caller
    _twice: set[tuple[str, int]] = attrs.field(factory=set, init=False)
    _pending: list[_Pending] = attrs.field(factory=list, init=False)
    _until: float = attrs.field(init=False)  # the remote storage must have answered

    def __attrs_post_init__(self) -> None:
        timeout_ms = self._request.timeout_ms
        if timeout_ms <= 0:
            timeout_ms = self._services.config.remote_list_offsets_request_timeout_ms
        if self._request.replica_id >= 0:
            timeout_ms = 0  # the follower fetches no other partition meanwhile, and asks again
        self._until = self._services.runtime.clock.seconds() + timeout_ms / 1000

    async def answer(self) -> ListOffsetsResponse:
        topics = self._request.topics
        named = ((topic.name, partition.partition_index) for topic in topics for partition in topic.partitions)
        self._twice = await find_duplicates(named)
        responses = []
        async for topic in over(topics):
            partitions = [self._attempt(topic.name, partition) async for partition in over(topic.partitions)]
            responses.append(ListOffsetsTopicResponse(topic.name, partitions))
        while self._pending:
            await self._search_on()
        return ListOffsetsResponse(topics=responses)

    def _attempt(self, topic: str, requested: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        answer = ListOffsetsPartitionResponse(requested.partition_index)
        try:
            self._check(topic, requested)
            if not self._version:
                return self._offsets_before(topic, requested)
            partition = self._find(topic, requested)
            partition.check_epoch(requested.current_leader_epoch)
            if partition.replication is not None and self._is_consumer and requested.timestamp != EARLIEST:
                partition.replication.check_offsets_available()
        except KafkaError as error:
            answer.error_code = error.code
        else:
            bound = self._bound(partition.log)
            match = self._known(partition, requested.timestamp, bound)
            if match is not None:
                self._fill(answer, match)
            else:
                self._go_on(answer, partition.log, self._search(partition, requested.timestamp, bound))
        return answer

    def _fill(self, answer: ListOffsetsPartitionResponse, match: FoundOffset) -> None:
        answer.timestamp, answer.offset = match.timestamp, match.offset
        answer.leader_epoch = match.leader_epoch if self._version >= 4 else -1

    def _known(self, partition: Partition, timestamp: int, bound: int) -> FoundOffset | None:
        log = partition.log
        if timestamp == LATEST:
            return FoundOffset(bound, leader_epoch=partition.leader_epoch)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = log.log_start_offset if timestamp == EARLIEST else log.local_start_offset
            return FoundOffset(start, leader_epoch=log.epochs.epoch_at(start))
        is_of_archive = timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
        return FoundOffset() if is_of_archive and partition.archive is None else None

    async def _search_on(self) -> None:
        pending = self._pending[0]
        if not isinstance(pending.step, BlockingCall):
            del self._pending[0]
            seconds = max(self._until - self._services.runtime.clock.seconds(), 0.0)
            self._go_on(pending.answer, pending.log, pending.search, await _archive_outcome(pending.step, seconds))
            return
        first = pending.step.reads_only
        some, calls = [], []
        for search in self._pending:
            if isinstance(search.step, BlockingCall) and search.step.reads_only is first:
                some.append(search)
                calls.append(search.step.call)
                if len(some) == _CALLS_PER_JOB_MAX:
                    break
        served = set(map(id, some))
        self._pending = [search for search in self._pending if id(search) not in served]
        in_thread = self._services.runtime.in_reading_thread if first else self._services.runtime.in_thread
        outcomes = await in_thread(_outcomes, calls, self._caller)
        async for pending, outcome in over(zip(some, outcomes, strict=True)):
            self._go_on(pending.answer, pending.log, pending.search, outcome)

    def _go_on(self, answer: ListOffsetsPartitionResponse, log: Log, search: Search, outcome: object = None) -> None:
        try:
            step = search.throw(outcome) if isinstance(outcome, BaseException) else search.send(outcome)
        except StopIteration as end:
            self._fill(answer, end.value)
        except KafkaError as error:
            if isinstance(error, StorageFailure):
                self._services.partitions.request_failed(log, error)
            answer.error_code = error.code
        else:
            self._pending.append(_Pending(answer, log, search, step))

    def _search(self, partition: Partition, timestamp: int, bound: int) -> Search:
        log, archive = partition.log, partition.archive
        if timestamp == MAX_TIMESTAMP:
            return self._search_newest(log, bound)
        if archive is None:
            return self._search_time(log, timestamp, bound)
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return _search_stored_end(log, archive, timestamp)
        return self._search_archive(log, archive, timestamp, bound)

    def _search_archive(self, log: Log, archive: Archive, timestamp: int, bound: int) -> Search:
        start = log.log_start_offset
        while True:
            local_start = log.local_start_offset
            if start < local_start:
                match = yield ArchiveSearch(archive, timestamp, start)
                if match is not None:
                    return FoundOffset(*match) if match.offset < bound else FoundOffset()
            outcome = yield from self._search_time(log, timestamp, bound)
            if log.local_start_offset == local_start:
                return outcome
            start = local_start  # retention has moved records to the archive alone meanwhile

    def _search_newest(self, log: Log, bound: int) -> Search:
        search = NewestSearch(bound)
        while (scan := (yield from self._asked(log, partial(log.next_newest_scan, search)))) is not None:
            while not (yield from self._in_worker(log, scan.advance)):
                pass
            search.note(scan.newest)
        return FoundOffset() if search.newest is None else FoundOffset(*search.newest)

    def _search_time(self, log: Log, timestamp: int, bound: int) -> Search:
        start = 0
        while start < bound:
            candidate = yield from self._asked(log, partial(log.find_timestamp, timestamp, start))
            if candidate is None:
                break
            match = yield from self._in_worker(log, candidate.first)
            if match is not None:
                return FoundOffset(*match) if match.offset < bound else FoundOffset()
            start = candidate.next_offset
        return FoundOffset()

    def _in_worker(self, log: Log, call: Callable[[], T]) -> Generator[Step, Any, T]:
        try:
            return cast(T, (yield BlockingCall(call)))
        except OSError as error:
            raise log.record_failure(error) from error

    def _asked(self, log: Log, question: Callable[..., T]) -> Generator[Step, Any, T]:
        """Return a log's answer; workers read the missing parts first, the last try reads on the reactor thread."""
        for _ in range(_READS_PER_SEGMENT_MAX * len(log.segments)):
            try:
                return question(may_wait=False)
            except NotCached as missing:
                with suppress(OSError):  # the log itself raises it
                    yield BlockingCall(
                        partial(read_ahead, missing.region, lambda: self._caller.is_gone), reads_only=True
                    )
        return question()

    def _offsets_before(self, topic: str, requested: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        log = self._find(topic, requested).log
        now_ms, bound = self._services.runtime.now_ms(), self._bound(log)
        try:
            offsets = visible_offsets_before(log, requested.timestamp, requested.max_num_offsets, now_ms, bound)
        except StorageFailure as failure:
            self._services.partitions.request_failed(log, failure)
            raise
        return ListOffsetsPartitionResponse(requested.partition_index, old_style_offsets=offsets)

    def _find(self, topic: str, requested: ListOffsetsPartition) -> Partition:
        is_debugger = self._request.replica_id == DEBUGGER
        return self._services.partitions.find(topic, requested.partition_index, is_debugger)

    def _check(self, topic: str, requested: ListOffsetsPartition) -> None:
        if (topic, requested.partition_index) in self._twice:
            raise KafkaError("The partition is named more than once", ErrorCode.INVALID_REQUEST)
        if requested.timestamp < 0 and self._version < _FIRST_VERSION.get(requested.timestamp, _NO_VERSION):
            raise KafkaError("The timestamp has no meaning in this version", ErrorCode.UNSUPPORTED_VERSION)

    @property
    def _is_consumer(self) -> bool:
        return self._request.replica_id == CONSUMER

    def _bound(self, log: Log) -> int:
        if not self._is_consumer:
            return log.log_end_offset
        return log.last_stable_offset if self._request.isolation_level == READ_COMMITTED else log.high_watermark


def _search_stored_end(log: Log, archive: Archive, timestamp: int) -> Search:
    """Search for the last offset in the remote storage, or the first one that is only local."""
    yield Listing(archive)
    end = archive.stored_end
    is_stored = end > log.log_start_offset and (archive.has_segments or end > log.local_start_offset)
    if timestamp == LATEST_TIERED:
        return FoundOffset(end - 1, leader_epoch=log.epochs.epoch_at(end - 1)) if is_stored else FoundOffset()
    return FoundOffset(end, leader_epoch=log.epochs.epoch_at(end))


async def _archive_outcome(step: Listing | ArchiveSearch, seconds: float) -> object:
    archive = step.archive
    try:
        if isinstance(step, Listing):
            outcome: tuple[object] | None = await archive.listed_within(seconds)
        else:
            outcome = await archive.reads.find_timestamp(step.timestamp, step.start, seconds)
    except KafkaError as error:
        return error
    if outcome is None:
        return KafkaError("the remote storage has not answered in time", ErrorCode.REQUEST_TIMED_OUT)
    return outcome[0]


def _outcomes(calls: Sequence[Callable[[], object]], caller: Caller) -> list[object]:
    return [_outcome(call) for call in calls if not caller.is_gone]


def _outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except Exception as error:
        return error
