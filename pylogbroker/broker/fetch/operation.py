"""One fetch request, from the first read to the answer: a state machine.

    state      event                                                next state
    ---------  ---------------------------------------------------  -----------------------------------------
    READING    enough bytes, an error, or the client does not wait  PREPARING
               too few bytes                                        WAITING
    WAITING    the partitions grew to `min_bytes`                   READING, for the last time
               (read_committed: something was decided)              READING
               time over, a partition gone, the broker stops        READING, for the last time
    PREPARING  indexes have to come from the disk                   PREPARING, read again after a worker's turn
               records have to come from the disk                   PREPARING, after a worker's turn
               the client cannot read the format                    PREPARING, after a worker has converted
               all bytes can be sent                                ANSWERED
    any        the caller has gone                                  ABANDONED: watches and work end

Reading finds regions of files, no bytes.  A request for few partitions is read, and mostly answered, in one go.  A
request for many gives the reactor back every few milliseconds, in each state.  What happens to its partitions meanwhile
is noted: they are watched from before they are read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.fetch.conversion import FIRST_WITH_BYTE_LIMIT, FIRST_WITH_V2, FIRST_WITH_V2_ALONE, Conversion
from pylogbroker.broker.fetch.readahead import (
    READ_INLINE_BYTES_MAX,
    is_cached,
    magic_if_cached,
    read_ahead,
    read_if_cached,
)
from pylogbroker.broker.fetch.sessions import FetchSession, RequestedPartition, TopicKey
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.records import HEADER_V2, MAGIC_AT
from pylogbroker.storage import FileRegion, Log, NotCached
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

READ_COMMITTED = 1
CONSUMER = -1
PARTITIONS_INLINE_MAX: Final = 100
"""Partitions that are handled between two looks at the time; requests for no more are read in one go."""

_FIRST_WITH_STORAGE_ERROR = 6
_FIRST_WITH_ZSTD = 10
_READ_ROUNDS_MAX = 10
_CONVERTED_BYTES: Final = 1 << 20  # of records that are given to a worker at once
_Failed = tuple[RequestedPartition, PartitionData, OSError]
_Pair = tuple[RequestedPartition, PartitionData]


class FetchState(Enum):
    """State of a fetch."""

    READING = auto()
    WAITING = auto()
    PREPARING = auto()
    ANSWERED = auto()
    ABANDONED = auto()


def _is_empty_batch(region: FileRegion) -> bool:
    return len(region) == HEADER_V2.size and region.first_position < 0


@attrs.define(eq=False)
class FetchOperation:
    """One fetch request, from the read to the answer."""

    services: Services
    context: RequestContext
    request: FetchRequest
    session: FetchSession | None
    asked: list[RequestedPartition]
    incremental: bool
    _state: FetchState = attrs.field(default=FetchState.READING, init=False)
    _answers: list[PartitionData] = attrs.field(factory=list, init=False)
    _limit: int = attrs.field(init=False)  # bytes of records that the whole answer may have
    _left: int = attrs.field(default=0, init=False)  # what the records found so far leave of it
    _urgent: bool = attrs.field(default=False, init=False)
    _uncached: list[FileRegion] = attrs.field(factory=list, init=False)  # what finding regions has to read
    _watched: list[Partition] = attrs.field(factory=list, init=False)
    _missing: int = attrs.field(default=0, init=False)  # bytes by which the watched partitions have to grow
    _is_last: bool = attrs.field(default=False, init=False)  # what the read under way finds is answered
    _deadline: IDelayedCall | None = attrs.field(default=None, init=False)
    _answered: Deferred[FetchResponse] | None = attrs.field(default=None, init=False)
    _work: Deferred[None] | None = attrs.field(default=None, init=False)
    _charged: int = attrs.field(default=0, init=False)
    _committed: bool = attrs.field(init=False)
    _follower: int = attrs.field(init=False)
    _needs_v2: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        request, version = self.request, self.context.api_version
        self._follower = max(request.replica_id, request.replica_state.replica_id)
        self._committed = request.isolation_level == READ_COMMITTED and self._follower <= CONSUMER
        self._needs_v2 = version >= FIRST_WITH_V2_ALONE and self._follower <= CONSUMER
        most = self.services.fetches.bytes_max
        self._limit = min(request.max_bytes, most) if version >= FIRST_WITH_BYTE_LIMIT else most

    # -- states and events ---------------------------------------------------------------------------------------

    def run(self) -> FetchResponse | Deferred[FetchResponse]:
        """The answer, or a Deferred of it; to cancel that abandons the fetch."""
        if len(self.asked) > PARTITIONS_INLINE_MAX:
            return self._later(self._read_long())
        self._read()
        if not self._is_enough():
            return self._later(None)
        return self._answer() if self._is_ready(self._answers) else self._later(self._prepare())

    def _is_enough(self) -> bool:
        request = self.request
        return (
            self._urgent
            or self._limit - self._left >= request.min_bytes
            or request.max_wait_ms <= 0
            or not self.asked
            or self._is_last
        )

    def _later(self, work: Coroutine[Any, Any, FetchResponse | None] | None) -> Deferred[FetchResponse]:
        """Answer when the work is done; without work, when the partitions have grown."""
        answered: Deferred[FetchResponse] = Deferred(self._abandon)
        self._answered = answered
        if work is not None:
            self._do(work)
        else:
            self._begin_waiting()
            self._watch(self.asked)
            self._wait()
        return answered

    def _begin_waiting(self) -> None:
        """From now on the fetch is answered in time, also when the broker stops."""
        self._missing = self.request.min_bytes
        self._deadline = self.services.runtime.clock.callLater(self.request.max_wait_ms / 1000, self.expire)
        self.services.fetches.delayed.add(self)

    def _watch(self, some: Sequence[RequestedPartition]) -> None:
        for asked in some:
            try:
                partition = self.services.partitions.find(asked.topic, asked.partition.partition)
            except KafkaError:  # the read that follows tells
                continue
            self._watched.append(partition)
            mark = Mark.LOG_END if self._follower > CONSUMER else Mark.HIGH_WATERMARK
            partition.purgatory.add(self, mark, partition.offset(mark) + 1)

    def _wait(self) -> None:
        """READING -> WAITING."""
        self._missing -= self._limit - self._left
        self._state = FetchState.WAITING

    def try_complete(self, size: int) -> bool:
        """Note that a partition has `size` more bytes; others may follow, so the fetch goes on with deferred actions.

        The fetch stays in the purgatory until it ends.
        """
        had, self._missing = self._missing, 0 if self._committed else self._missing - size
        if had > 0 >= self._missing:
            self.services.runtime.deferred_actions.defer(self._on_grown)
        return False

    def fail(self, error: KafkaError) -> None:
        """Answer soon: a partition was closed, and the read that follows finds the error."""
        if self._missing > 0 or self._committed:
            self._missing = 0
            self.services.runtime.deferred_actions.defer(self.expire)

    def expire(self) -> None:
        """Answer with what there is."""
        if self._state in (FetchState.READING, FetchState.WAITING):
            self._is_last = True
            self._on_grown()

    def _on_grown(self) -> None:
        """WAITING -> READING; a read that is under way looks at what was noted when it ends."""
        if self._state is FetchState.WAITING:
            try:
                self._read_again()
            except Exception:
                self._fail_all(Failure())

    def _read_again(self) -> None:
        if self._committed and not self._is_last and not self._is_decided():
            self._missing = 1
            return
        if len(self.asked) > PARTITIONS_INLINE_MAX:
            self._do(self._read_long())
            return
        self._is_last |= not self._committed
        self._read()
        if not self._is_enough():
            self._missing = 1
        elif self._is_ready(self._answers):
            self._finish(self._answer())
        else:
            self._do(self._prepare())

    def _is_decided(self) -> bool:
        """Whether some transaction, or record outside of any, was decided since the last read."""
        pairs = zip(self._watched, self._answers, strict=True)
        return any(partition.log.last_stable_offset != answer.last_stable_offset for partition, answer in pairs)

    def _do(self, work: Coroutine[Any, Any, FetchResponse | None]) -> None:
        """Let a coroutine go on; it ends with the answer, or in WAITING with None."""
        deferred = ensureDeferred(work)
        self._work = deferred.addCallbacks(self._finish, self._fail_all)

    def _finish(self, answer: FetchResponse | None) -> None:
        """PREPARING -> ANSWERED, unless the fetch waits again."""
        if answer is not None and (answered := self._end(FetchState.ANSWERED)) is not None:
            answered.callback(answer)

    def _fail_all(self, failure: Failure) -> None:
        """The fetch ends with an error that concerns no partition alone."""
        answered = self._end(FetchState.ANSWERED)
        if answered is not None:
            answered.errback(failure)
        else:
            failure.trap(CancelledError)

    def _abandon(self, answered: Deferred[FetchResponse]) -> None:
        """The caller has gone."""
        work = self._work
        self._end(FetchState.ABANDONED)
        if work is not None:
            work.cancel()

    def _end(self, state: FetchState) -> Deferred[FetchResponse] | None:
        """Wait no more, and hold nothing; the Deferred that is owed an answer, if one is."""
        self._state = state
        self._unwatch()
        self._charge(0)
        self._work = None
        answered, self._answered = self._answered, None
        return answered

    def _unwatch(self) -> None:
        if self._deadline is None:
            return
        for partition in self._watched:
            partition.purgatory.remove(self)
        self._watched.clear()
        self.services.fetches.delayed.discard(self)
        deadline, self._deadline = self._deadline, None
        if deadline.active():
            deadline.cancel()

    def _charge(self, size: int) -> None:
        """Count the bytes in memory that the answer takes."""
        if size != self._charged:
            change, self._charged = size - self._charged, size
            self.context.caller.charge(change)

    # -- READING -------------------------------------------------------------------------------------------------

    def _read(self, may_wait: bool = False) -> None:
        self._begin_read()
        self._read_some(self.asked, may_wait)

    async def _read_long(self) -> FetchResponse | None:
        """READING, for many partitions: in slices."""
        self._state = FetchState.READING
        is_first = self._deadline is None and not self._is_last and self.request.max_wait_ms > 0
        if is_first:
            self._begin_waiting()
        while True:
            self._missing = self.request.min_bytes
            await self._read_in_slices(watch=is_first)
            if self._is_enough():
                break
            self._wait()
            if self._missing > 0:
                return None
            self._state, is_first = FetchState.READING, False
        async for place in self._slices():
            if not self._is_ready(self._answers[place]):
                return await self._prepare()
        return await self._answer_in_slices()

    async def _read_in_slices(self, may_wait: bool = False, watch: bool = False) -> None:
        self._begin_read()
        async for place in self._slices():
            if watch:
                self._watch(self.asked[place])
            self._read_some(self.asked[place], may_wait)

    async def _slices(self) -> AsyncIterator[slice]:
        """Parts of what was asked for, between which other work is done."""
        starts = range(0, len(self.asked), PARTITIONS_INLINE_MAX)
        async for start in self.services.runtime.slices.over(starts):
            yield slice(start, start + PARTITIONS_INLINE_MAX)

    def _begin_read(self) -> None:
        self._answers = []
        self._left = self._limit
        self._urgent = False
        self._uncached = []

    def _read_some(self, some: Sequence[RequestedPartition], may_wait: bool) -> None:
        left, limit, answers = self._left, self._limit, self._answers
        may_cut = self.context.api_version < FIRST_WITH_BYTE_LIMIT
        for asked in some:
            try:
                answer = self._read_partition(asked, max(0, left), left == limit or (may_cut and left > 0), may_wait)
            except KafkaError as error:
                self._urgent = True
                answer = PartitionData(asked.partition.partition)
                self._fail(answer, error.code)
            except NotCached as missing:
                self._urgent = True
                answer = PartitionData(asked.partition.partition)
                self._uncached.append(missing.region)
            answers.append(answer)
            if answer.records:
                left -= len(answer.records)
        self._left = left

    def _read_partition(self, asked: RequestedPartition, left: int, min_one: bool, may_wait: bool) -> PartitionData:
        wanted = asked.partition
        partition = self.services.partitions.find(asked.topic, wanted.partition)
        if wanted.current_leader_epoch >= 0:
            partition.check_epoch(wanted.current_leader_epoch)
        if self.context.api_version < _FIRST_WITH_ZSTD:
            self._check_age(partition)
        if self._follower > CONSUMER:
            self._check_follower(partition)
        log = partition.log
        stable = log.last_stable_offset
        upto = log.log_end_offset if self._follower > CONSUMER else stable if self._committed else log.high_watermark
        answer = PartitionData(wanted.partition, 0, log.high_watermark, stable, log.log_start_offset)
        answer.aborted_transactions, answer.records = [] if self._committed else None, b""
        if wanted.last_fetched_epoch < 0 or not self._diverges(partition, asked, answer):
            max_bytes = min(wanted.partition_max_bytes, left)
            offset = partition.after_empty_range(wanted.fetch_offset) if log.byte_addressed else wanted.fetch_offset
            try:
                region = self._find(log, offset, max_bytes, upto, min_one, may_wait)
                if self._committed and region is not None:
                    aborted = log.aborted_transactions(wanted.fetch_offset, region.next_offset, may_wait=may_wait)
                    answer.aborted_transactions = [AbortedTransaction(each[0], each[1]) for each in aborted]
            except StorageFailure as failure:
                self.services.partitions.request_failed(log, failure)
                raise
            answer.records = region or b""
        return answer

    def _find(
        self, log: Log, offset: int, max_bytes: int, upto: int, min_one: bool, may_wait: bool
    ) -> FileRegion | None:
        """What is there from `offset` on; for a consumer not just a batch that compaction has emptied.

        librdkafka takes a row of answers without a record for a record that is too large.
        """
        region = log.read(offset, max_bytes, upto=upto, min_one=min_one, may_wait=may_wait)
        while region is not None and _is_empty_batch(region) and self._follower <= CONSUMER:
            behind = log.read(region.next_offset, max_bytes, upto=upto, min_one=min_one, may_wait=may_wait)
            if behind is None:
                break
            region = behind
        return region

    def _check_follower(self, partition: Partition) -> None:
        """Refuse a follower that has no replica of the partition."""
        state = self.services.metadata.topics[partition.topic].partitions[partition.index]
        if self._follower == state.leader or self._follower not in state.replicas:
            raise KafkaError(f"broker {self._follower} is no follower here", ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _fail(self, answer: PartitionData, code: ErrorCode) -> None:
        """Answer with an error alone, one that the client knows."""
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self.context.api_version < _FIRST_WITH_STORAGE_ERROR:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer.error_code, answer.records = code, b""
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1

    def _check_age(self, partition: Partition) -> None:
        """Refuse a client that is too old for what the topic is to hold."""
        if self.context.api_version < FIRST_WITH_V2 and not partition.may_down_convert:
            raise KafkaError("message.downconversion.enable is false", ErrorCode.UNSUPPORTED_VERSION)
        if partition.log.config.compression_type == "zstd":
            raise KafkaError("the topic is compressed with zstd", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

    def _diverges(self, partition: Partition, asked: RequestedPartition, answer: PartitionData) -> bool:
        """Whether the fetcher's last epoch is not this log's (KIP-595): then it is told where they part."""
        wanted = asked.partition
        epoch, end = partition.log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if epoch < 0:
            raise KafkaError("the fetcher's epoch is unknown here", ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch >= wanted.last_fetched_epoch and end >= wanted.fetch_offset:
            return False
        answer.diverging_epoch = EpochEndOffset(epoch, end)
        self._urgent = True
        return True

    # -- PREPARING -----------------------------------------------------------------------------------------------

    def _is_ready(self, some: Sequence[PartitionData]) -> bool:
        """Whether these answers' bytes can be sent at once: as they lie in the files, or read from the page cache."""
        if self._uncached:
            return False
        if self.context.api_version < FIRST_WITH_V2:
            return self._left == self._limit
        for answer in some:
            region = answer.records
            if not isinstance(region, FileRegion):
                continue
            if region.first_position >= 0:
                return False
            if len(region) > READ_INLINE_BYTES_MAX:
                if not is_cached(region) or (self._needs_v2 and magic_if_cached(region) != 2):
                    return False
            elif (data := read_if_cached(region)) is not None and not (self._needs_v2 and data[MAGIC_AT] != 2):
                answer.records = data
            else:
                return False
        return True

    async def _prepare(self) -> FetchResponse:
        """PREPARING: have workers bring in what is on the disk, and convert what the client cannot read."""
        self._state = FetchState.PREPARING
        self._unwatch()
        await self._read_uncached()
        conversion = Conversion(self.services, self.context, self._needs_v2, self._limit)
        while True:
            self._fail_those(await self.services.runtime.in_reading_thread(self._bring_in))
            due = [pair for pair in self._pairs() if conversion.is_due(pair[1].records)]
            if not due:
                break
            await self._convert(conversion, due)
            if not conversion.pass_over():
                break
        return await self._answer_in_slices()

    async def _read_uncached(self) -> None:
        """Bring in what finding regions takes, indexes and headers, and find them; at last, come what may."""
        for left in reversed(range(_READ_ROUNDS_MAX)):
            if not self._uncached:
                return
            with suppress(OSError):  # the last round will tell
                await self.services.runtime.in_reading_thread(self._read_on, self._uncached)
            await self._read_in_slices(may_wait=not left)

    async def _convert(self, conversion: Conversion, due: Sequence[_Pair]) -> None:
        """Convert in the order asked, a megabyte at a time, and count the bytes that are prepared."""
        conversion.begin(self._answers)
        batch: list[_Pair] = []
        size = 0
        for number, pair in enumerate(due, 1):
            batch.append(pair)
            size += len(pair[1].records or b"")
            if size >= _CONVERTED_BYTES or number == len(due):
                self._charge(conversion.done + size)
                self._fail_those(await self.services.runtime.in_thread(self._convert_some, conversion, batch))
                self._charge(conversion.done)
                batch, size = [], 0

    def _fail_those(self, failed: list[_Failed]) -> None:
        for asked, answer, error in failed:
            self._fail(answer, ErrorCode.KAFKA_STORAGE_ERROR)
            with suppress(KafkaError):  # it is gone meanwhile
                log = self.services.partitions.find(asked.topic, asked.partition.partition).log
                self.services.partitions.request_failed(log, log.record_failure(error))

    def _pairs(self) -> Iterator[_Pair]:
        return zip(self.asked, self._answers, strict=True)

    # In worker threads; they look whether the caller has gone.

    def _is_abandoned(self) -> bool:
        return self.context.caller.is_gone

    def _read_on(self, regions: Sequence[FileRegion]) -> None:
        """Bring several regions in, and what follows close behind."""
        for region in regions:
            read_ahead(region, self._is_abandoned)

    def _bring_in(self) -> list[_Failed]:
        """Bring in what is on the disk; says what cannot be read."""
        return _with_regions(self._pairs(), lambda asked, answer, region: read_ahead(region, self._is_abandoned))

    def _convert_some(self, conversion: Conversion, some: Sequence[_Pair]) -> list[_Failed]:
        """Give a client what it can read; says what cannot be read."""

        def convert(asked: RequestedPartition, answer: PartitionData, region: FileRegion) -> None:
            try:
                conversion.convert(asked, answer, region)
            except KafkaError as error:
                self._fail(answer, error.code)

        return _with_regions(some, convert)

    # -- ANSWERED ------------------------------------------------------------------------------------------------

    def _answer(self) -> FetchResponse:
        response = self._begin_answer()
        self._add_answers(response, self.asked, self._answers)
        return response

    async def _answer_in_slices(self) -> FetchResponse:
        response = self._begin_answer()
        async for place in self._slices():
            self._add_answers(response, self.asked[place], self._answers[place])
        return response

    def _begin_answer(self) -> FetchResponse:
        return FetchResponse(session_id=self.session.id if self.session else 0, responses=[])

    def _add_answers(
        self, response: FetchResponse, some: Sequence[RequestedPartition], answers: Sequence[PartitionData]
    ) -> None:
        """Add the next partitions; in a session the fetcher's next answer begins behind those with records."""
        pairs: Iterable[_Pair] = zip(some, answers, strict=True)
        if (session := self.session) is not None:
            pairs = list(pairs)
            changed = [pair for pair in pairs if pair[0].changed(pair[1])]
            session.move_to_end((asked.topic, asked.partition.partition) for asked, answer in changed if answer.records)
            if self.incremental:
                pairs = changed
        topics = response.responses
        previous: TopicKey | None = None
        if topics:
            last = topics[-1]
            previous, partitions = last.topic or last.topic_id, last.partitions
        for asked, answer in pairs:
            if asked.topic != previous:
                previous = asked.topic
                name, topic_id = ("", previous) if isinstance(previous, UUID) else (previous, NO_ID)
                partitions = []
                topics.append(FetchableTopicResponse(name, topic_id, partitions))
            partitions.append(answer)


def _with_regions(
    pairs: Iterable[_Pair], do: Callable[[RequestedPartition, PartitionData, FileRegion], None]
) -> list[_Failed]:
    """Do something with each region that is to be sent; says which of them cannot be read."""
    failed = []
    for asked, answer in pairs:
        if isinstance(answer.records, FileRegion):
            try:
                do(asked, answer, answer.records)
            except OSError as error:
                failed.append((asked, answer, error))
    return failed
