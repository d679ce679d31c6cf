r"""A fetch on its way: read, perhaps wait, perhaps bring in from the disk or convert, then answer.

    read --enough, an error, or no wait--> prepared --> answered
      \--too little--> waiting --grew to min_bytes, time over, a partition gone--> read again --> prepared --> answered

Reading finds regions of files, no bytes.  Bytes that are not in the page cache, and what has to be converted for the
client (see `fetch_conversion`), are dealt with in a worker thread first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.fetch_conversion import FIRST_WITH_BYTE_LIMIT, FIRST_WITH_V2, Conversion
from pylogbroker.broker.fetch_sessions import Asked, FetchSession
from pylogbroker.broker.partition import Partition
from pylogbroker.broker.readahead import SMALL, is_cached, read_ahead, read_if_cached, read_on
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.records import HEADER_V2
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

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

READ_COMMITTED = 1
CONSUMER = -1
_FIRST_WITH_STORAGE_ERROR = 6
_FIRST_WITH_ZSTD = 10
_MOST_ROUNDS = 10
_Failed = tuple[Asked, PartitionData, OSError]


def _is_empty_batch(region: FileRegion) -> bool:
    return len(region) == HEADER_V2.size and region.first_position < 0


@attrs.define(eq=False)
class Fetch:
    """One fetch request, from the read to the answer."""

    broker: Broker
    context: RequestContext
    request: FetchRequest
    session: FetchSession | None
    asked: list[Asked]
    incremental: bool
    _answers: list[PartitionData] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)
    _urgent: bool = attrs.field(default=False, init=False)
    _uncached: list[FileRegion] = attrs.field(factory=list, init=False)  # what finding regions has to read
    _watched: list[Partition] = attrs.field(factory=list, init=False)
    _stable: list[int] = attrs.field(factory=list, init=False)  # up to where, of what is watched, all was decided
    _missing: int = attrs.field(default=0, init=False)
    _deadline: IDelayedCall | None = attrs.field(default=None, init=False)
    _waiting: Deferred[FetchResponse] | None = attrs.field(default=None, init=False)
    _committed: bool = attrs.field(init=False)
    _follower: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        request = self.request
        self._follower = max(request.replica_id, request.replica_state.replica_id)
        self._committed = request.isolation_level == READ_COMMITTED and self._follower <= CONSUMER

    def run(self) -> FetchResponse | Awaitable[FetchResponse]:
        """The answer, or what will be it."""
        self._read()
        request = self.request
        if self._urgent or self._size >= request.min_bytes or request.max_wait_ms <= 0 or not self.asked:
            return self._answer() if self._is_ready() else self._prepare_and_answer()
        return self._wait()

    # -- reading -------------------------------------------------------------------------------------------------

    def _read(self, may_wait: bool = False) -> None:
        left = limit = self._limit()
        may_cut = self.context.api_version < FIRST_WITH_BYTE_LIMIT
        self._answers = answers = []
        self._urgent = False
        self._uncached = []
        for asked in self.asked:
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
        self._size = limit - left

    def _limit(self) -> int:
        """Bytes of records that the whole answer may have."""
        most = self.broker.fetch_max_bytes
        return min(self.request.max_bytes, most) if self.context.api_version >= FIRST_WITH_BYTE_LIMIT else most

    def _read_partition(self, asked: Asked, left: int, min_one: bool, may_wait: bool) -> PartitionData:
        wanted = asked.partition
        partition = self.broker.find(asked.topic, wanted.partition)
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
            offset = partition.begin_of(wanted.fetch_offset) if log.by_position else wanted.fetch_offset
            try:
                region = self._find(log, offset, max_bytes, upto, min_one, may_wait)
                if self._committed and region is not None:
                    aborted = log.aborted_transactions(wanted.fetch_offset, region.next_offset, may_wait=may_wait)
                    answer.aborted_transactions = [AbortedTransaction(each[0], each[1]) for each in aborted]
            except StorageFailure as failure:
                self.broker.request_failed(log, failure)
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
        state = self.broker.catalog.topics[partition.topic].partitions[partition.index]
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

    def _diverges(self, partition: Partition, asked: Asked, answer: PartitionData) -> bool:
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

    # -- waiting -------------------------------------------------------------------------------------------------

    def _wait(self) -> Deferred[FetchResponse]:
        self._missing = self.request.min_bytes - self._size
        waiting: Deferred[FetchResponse] = Deferred(self._give_up)
        self._waiting = waiting
        for asked in self.asked:
            partition = self.broker.find(asked.topic, asked.partition.partition)
            partition.watchers.add(self)
            self._watched.append(partition)
            self._stable.append(partition.log.last_stable_offset)
        self._deadline = self.broker.clock.callLater(self.request.max_wait_ms / 1000, self.stop_waiting)
        self.broker.waiting.add(self)
        return waiting

    def grew(self, size: int) -> None:
        """A partition has `size` more bytes.  Others may follow at once, so what is woken runs in the next turn."""
        had, self._missing = self._missing, 0 if self._committed else self._missing - size
        if had > 0 >= self._missing:
            self.broker.turns.at_end(self._look_again if self._committed else self.stop_waiting)

    def gone(self) -> None:
        """A partition went away: the client is to learn it now."""
        if self._missing > 0 or self._committed:
            self._missing = 0
            self.broker.turns.at_end(self.stop_waiting)

    def _look_again(self) -> None:
        """Who reads committed records goes on waiting if what came is undecided, or what it decided is too little."""
        if self._waiting is not None and not self._is_enough():
            self._missing = 1
            return
        self.stop_waiting()

    def _is_enough(self) -> bool:
        before, self._stable = self._stable, [partition.log.last_stable_offset for partition in self._watched]
        if self._stable == before:
            return False
        self._read()
        return self._urgent or self._size >= self.request.min_bytes

    def stop_waiting(self) -> None:
        """Answer with what there is."""
        waiting = self._stop_watching()
        if waiting is not None:
            self._answer_late(waiting)

    def _give_up(self, cancelled: Deferred[FetchResponse]) -> None:
        """Nobody wants the answer any more."""
        self._stop_watching()

    def _stop_watching(self) -> Deferred[FetchResponse] | None:
        """Wait no more; says for what an answer is owed."""
        for partition in self._watched:
            partition.watchers.discard(self)
        self._watched.clear()
        self.broker.waiting.discard(self)
        deadline, self._deadline = self._deadline, None
        if deadline is not None and deadline.active():
            deadline.cancel()
        waiting, self._waiting = self._waiting, None
        return waiting

    def _answer_late(self, waiting: Deferred[FetchResponse]) -> None:
        try:
            self._read()
            if not self._is_ready():
                ensureDeferred(self._prepare_and_answer()).chainDeferred(waiting)
                return
            answer = self._answer()
        except Exception:
            waiting.errback(Failure())
        else:
            waiting.callback(answer)

    # -- answering -----------------------------------------------------------------------------------------------

    def _is_ready(self) -> bool:
        """Whether the answer's bytes can be sent at once: as they lie in the files, or read from the page cache."""
        if self._uncached:
            return False
        if self.context.api_version < FIRST_WITH_V2:
            return not self._size
        for answer in self._answers:
            region = answer.records
            if not isinstance(region, FileRegion):
                continue
            if region.first_position >= 0:
                return False
            if len(region) > SMALL:
                if not is_cached(region):
                    return False
            elif (data := read_if_cached(region)) is not None:
                answer.records = data
            else:
                return False
        return True

    async def _prepare_and_answer(self) -> FetchResponse:
        await self._read_uncached()
        conversion = Conversion(self.broker, self.context.api_version, self._limit())
        while True:
            self._fail_those(await self.broker.in_reading_thread(self._bring_in))
            if not any(conversion.is_due(answer.records) for answer in self._answers):
                return self._answer()
            self._fail_those(await self.broker.in_thread(self._convert_all, conversion))
            if not conversion.pass_over():
                return self._answer()

    def _fail_those(self, failed: list[_Failed]) -> None:
        for asked, answer, error in failed:
            self._fail(answer, ErrorCode.KAFKA_STORAGE_ERROR)
            with suppress(KafkaError):  # it is gone meanwhile
                log = self.broker.find(asked.topic, asked.partition.partition).log
                self.broker.request_failed(log, log.failed(error))

    async def _read_uncached(self) -> None:
        """Bring in what finding regions takes, indexes and headers, and find them; at last, come what may."""
        for left in reversed(range(_MOST_ROUNDS)):
            if not self._uncached:
                return
            with suppress(OSError):  # the last round will tell
                await self.broker.in_reading_thread(read_on, self._uncached)
            self._read(may_wait=not left)

    def _bring_in(self) -> list[_Failed]:
        """In a thread that reads: bring in what is on the disk; says what cannot be read."""
        return self._with_regions(lambda asked, answer, region: read_ahead(region))

    def _convert_all(self, conversion: Conversion) -> list[_Failed]:
        """In a worker thread: give a client what it can read; says what cannot be read."""
        conversion.begin(self._answers)

        def convert(asked: Asked, answer: PartitionData, region: FileRegion) -> None:
            try:
                conversion.convert(asked, answer, region)
            except KafkaError as error:
                self._fail(answer, error.code)

        return self._with_regions(convert)

    def _with_regions(self, do: Callable[[Asked, PartitionData, FileRegion], None]) -> list[_Failed]:
        failed = []
        for asked, answer in zip(self.asked, self._answers, strict=True):
            if isinstance(answer.records, FileRegion):
                try:
                    do(asked, answer, answer.records)
                except OSError as error:
                    failed.append((asked, answer, error))
        return failed

    def _answer(self) -> FetchResponse:
        pairs: Iterable[tuple[Asked, PartitionData]] = zip(self.asked, self._answers, strict=True)
        if self.session is not None:
            pairs = self._for_session(self.session, pairs)
        topics: list[FetchableTopicResponse] = []
        previous = None
        for asked, answer in pairs:
            if asked.topic != previous:
                previous = asked.topic
                name, topic_id = ("", previous) if isinstance(previous, UUID) else (previous, NO_ID)
                partitions: list[PartitionData] = []
                topics.append(FetchableTopicResponse(name, topic_id, partitions))
            partitions.append(answer)
        return FetchResponse(session_id=self.session.id if self.session else 0, responses=topics)

    def _for_session(
        self, session: FetchSession, pairs: Iterable[tuple[Asked, PartitionData]]
    ) -> list[tuple[Asked, PartitionData]]:
        """What an answer within a session has to say: in an incremental one, what is new alone."""
        answers = list(pairs)
        changed = [pair for pair in answers if pair[0].changed(pair[1])]
        session.sent_last((asked.topic, asked.partition.partition) for asked, answer in changed if answer.records)
        return changed if self.incremental else answers
