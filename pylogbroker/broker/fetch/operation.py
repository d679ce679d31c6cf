"""One fetch request, from the first read to the answer: a state machine.

    state      event             next state  meaning of the event
    ---------  ----------------  ----------  -----------------------------------------------------------------
    READING    MIN_BYTES_FOUND   PREPARING   `min_bytes` were found, or an error, or the client does not wait
               READ_READY        ANSWERED    the same, and the bytes of few partitions can be sent as they are
               FOUND_TOO_LITTLE  WAITING     fewer bytes were found
               EXPIRED           LAST_READ   `max_wait_ms` is over, a partition was closed, or the broker stops:
                                             the read under way goes on
    LAST_READ  MIN_BYTES_FOUND   PREPARING   the read is over; its result is answered in any case
               READ_READY        ANSWERED    the same, and the bytes of few partitions can be sent as they are
    WAITING    GROWN             READING     partitions grew by the missing bytes; for readers of committed
                                             records: a transaction was decided
               EXPIRED           LAST_READ   as in READING; another read begins
    PREPARING  PREPARED          ANSWERED    all bytes can be sent
    any        FAILED            ANSWERED    an exception ends the request
    any        CALLER_GONE       ABANDONED   the connection is closed: no work goes on

ANSWERED and ABANDONED are the ends: no event has an effect there.
`fetch` itself reads few partitions first, and makes a FetchOperation only if that read cannot be answered.

READING and LAST_READ find regions of files. PREPARING reads small ones from the page cache; worker threads read
uncached ones, and convert. It also waits for records of archived logs, for `remote.fetch.max.wait.ms` at most.

Whatever LAST_READ finds is answered. With few partitions, so is what the read after GROWN finds, unless the reader
wants committed records alone.

Growth during a read is not missed: many partitions are watched before they are read, few are compared after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum, auto
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from pylogbroker.broker.fetch.archived_reads import read_archived
from pylogbroker.broker.fetch.conversion import Conversion
from pylogbroker.broker.fetch.follower_session import FollowerSession
from pylogbroker.broker.fetch.readahead import read_ahead
from pylogbroker.broker.fetch.reader import FetchReader, make_reader
from pylogbroker.broker.fetch.response_builder import FetchedPartition, FetchResponseBuilder
from pylogbroker.broker.fetch.session import FetchSession, RequestedPartition
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasFetches, HasMetadata, HasNode, HasPartitions, HasQuotas, HasRuntime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.storage import FileRegion
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

PARTITIONS_INLINE_MAX: Final = 100
"""Partitions between two checks of the time."""

_READ_ROUNDS_MAX = 10
_CONVERTED_BYTES: Final = 1 << 20  # for one job of a worker
_Failed = tuple[RequestedPartition, PartitionData, OSError]


class _Services(HasRuntime, HasMetadata, HasPartitions, HasQuotas, HasNode, HasFetches, Protocol):
    """Services that this module uses."""


class FetchState(IntEnum):
    READING = auto()
    LAST_READ = auto()
    WAITING = auto()
    PREPARING = auto()
    ANSWERED = auto()
    ABANDONED = auto()


class FetchEvent(IntEnum):
    MIN_BYTES_FOUND = auto()
    READ_READY = auto()
    FOUND_TOO_LITTLE = auto()
    GROWN = auto()
    EXPIRED = auto()
    PREPARED = auto()
    FAILED = auto()
    CALLER_GONE = auto()


_ENDS: Final = {FetchEvent.FAILED: FetchState.ANSWERED, FetchEvent.CALLER_GONE: FetchState.ABANDONED}
TRANSITIONS: Final[Mapping[FetchState, Mapping[FetchEvent, FetchState]]] = {
    FetchState.READING: {
        FetchEvent.MIN_BYTES_FOUND: FetchState.PREPARING,
        FetchEvent.READ_READY: FetchState.ANSWERED,
        FetchEvent.FOUND_TOO_LITTLE: FetchState.WAITING,
        FetchEvent.EXPIRED: FetchState.LAST_READ,
        **_ENDS,
    },
    FetchState.LAST_READ: {
        FetchEvent.MIN_BYTES_FOUND: FetchState.PREPARING,
        FetchEvent.READ_READY: FetchState.ANSWERED,
        **_ENDS,
    },
    FetchState.WAITING: {FetchEvent.GROWN: FetchState.READING, FetchEvent.EXPIRED: FetchState.LAST_READ, **_ENDS},
    FetchState.PREPARING: {FetchEvent.PREPARED: FetchState.ANSWERED, **_ENDS},
    FetchState.ANSWERED: {},
    FetchState.ABANDONED: {},
}
"""Next states; an unlisted event has no effect."""


@attrs.frozen(eq=False, repr=False)
class _Announcement:
    """Answers a follower's waiting fetch when a high watermark rises (KIP-392)."""

    _operation: FetchOperation

    def try_complete(self, size: int) -> bool:
        self._operation.expire_soon()
        return True

    def fail(self, error: KafkaError) -> None:
        """Leave it to the fetch itself."""


def fetch(
    services: _Services,
    context: RequestContext,
    request: FetchRequest,
    session: FetchSession | None,
    requested: list[RequestedPartition],
    incremental: bool,
) -> FetchResponse | Deferred[FetchResponse]:
    """Return the response, or a Deferred of it; to cancel that abandons the fetch."""
    reader = make_reader(services, context, request)
    builder = FetchResponseBuilder(services, reader, session, incremental)
    if read_first(reader, requested, session):
        return builder.build(requested)
    follower = session if isinstance(session, FollowerSession) else None
    return FetchOperation(services, context, request, requested, follower, reader, builder).start()


def read_first(reader: FetchReader, partitions: list[RequestedPartition], session: FetchSession | None) -> bool:
    """Read few partitions; return whether the answer can be built at once. Many are read by the operation alone."""
    if len(partitions) > PARTITIONS_INLINE_MAX:
        return False
    reader.begin()
    reader.read(partitions)
    if (reader.has_enough or names_nothing(partitions, session)) and reader.is_ready(reader.answers):
        return True
    reader.complete_acknowledged()
    return False


def names_nothing(partitions: list[RequestedPartition], session: FetchSession | None) -> bool:
    """Return whether a fetch has no partitions to wait for; a follower's session may have some without news."""
    return not partitions and not (isinstance(session, FollowerSession) and session.partitions)


@attrs.define(eq=False, repr=False)
class FetchOperation:
    """One fetch request that is not answered at once; a DelayedOperation while it waits."""

    # Stages without types: its state says what is there, by the table at the head

    services: _Services
    context: RequestContext
    request: FetchRequest
    requested: list[RequestedPartition]
    _follower: FollowerSession | None
    _reader: FetchReader
    _builder: FetchResponseBuilder
    _state: FetchState = FetchState.READING
    _watched: list[Partition] = attrs.field(factory=list, init=False)
    _missing: int = attrs.field(default=0, init=False)  # bytes that the wait still needs
    _deadline: IDelayedCall | None = attrs.field(default=None, init=False)
    _response: FetchResponse | Failure | None = attrs.field(default=None, init=False)
    _answered: Deferred[FetchResponse] | None = attrs.field(default=None, init=False)
    _work: Deferred[FetchEvent] | None = attrs.field(default=None, init=False)
    _charged: int = attrs.field(default=0, init=False)
    _announcement: _Announcement | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if self._reader.announces_high_watermarks:
            self._announcement = _Announcement(self)

    @property
    def _is_short(self) -> bool:
        """True for few partitions, which are read and prepared without pauses."""
        return len(self.requested) <= PARTITIONS_INLINE_MAX

    # -- states and events -------------------------------------------------------------------------------------------

    def start(self) -> Deferred[FetchResponse]:
        """Return a Deferred of the response; to cancel it abandons the fetch. Few partitions have been read."""
        answered: Deferred[FetchResponse] = Deferred(self._on_caller_gone)
        self._answered = answered
        if self._is_short:
            self._on(self._found())
        else:
            self._enter_reading()
        return answered

    def go_on(self, event: FetchEvent) -> Deferred[FetchResponse]:
        """Handle an event of a fetch that a repeated request has begun; return a Deferred as `start` does."""
        answered: Deferred[FetchResponse] = Deferred(self._on_caller_gone)
        self._answered = answered
        if self._state is FetchState.WAITING:
            self._begin_waiting()
            self._watch(self.requested, self._reader.partitions)
        self._on(event)
        return answered

    def _on(self, event: FetchEvent) -> None:
        former = self._state
        state = TRANSITIONS[former].get(event)
        if state is None:
            return
        self._state = state
        if former is FetchState.READING and state is FetchState.LAST_READ:
            return  # the read under way goes on
        try:
            _ENTER[state](self)
        except Exception:
            if self._answered is None:
                raise
            self._on_failure(Failure())

    def _do(self, work: Coroutine[Any, Any, FetchEvent]) -> None:
        self._work = deferred = ensureDeferred(work)
        deferred.addCallbacks(self._on, self._on_failure)

    def _on_failure(self, failure: Failure) -> None:
        if self._answered is None:
            failure.trap(CancelledError)
        else:
            self._response = failure
            self._on(FetchEvent.FAILED)

    def _on_caller_gone(self, answered: Deferred[FetchResponse]) -> None:
        self._on(FetchEvent.CALLER_GONE)

    def _enter_reading(self) -> None:
        self._missing = self.request.min_bytes
        if self._follower is not None:
            self.requested = self._follower.to_read()
        if not self._is_short:
            self._do(self._read_in_slices_and_watch())
            return
        reader = self._reader
        reader.begin(resumes=self._deadline is not None)
        reader.read(self.requested)
        is_enough = not reader.is_committed or self._is_enough()  # partitions have grown by the missing bytes
        if not is_enough:
            self._on(FetchEvent.FOUND_TOO_LITTLE)
        elif reader.is_ready(reader.answers):
            self._response = self._builder.build(self.requested)
            self._on(FetchEvent.READ_READY)
        else:
            self._on(FetchEvent.MIN_BYTES_FOUND)

    def _enter_waiting(self) -> None:
        if self._deadline is None:
            self._missing = self.request.min_bytes
            self._begin_waiting()
            self._watch(self.requested, self._reader.partitions)
            is_news_unread = self._follower is not None and self._follower.has_unread_news
            if is_news_unread or self._reader.has_grown():  # a short read of a follower completes appends
                self._missing = 0
        self._missing -= self._reader.size
        if self._missing <= 0:  # growth during the read
            self._on(FetchEvent.GROWN)

    def _enter_preparing(self) -> None:
        self._stop_waiting()
        self._do(self._prepare() if self._is_short else self._prepare_in_slices())

    def _enter_answered(self) -> None:
        answered, response = self._end(), self._response
        if answered is not None and response is not None:
            answered.callback(response)

    def _enter_abandoned(self) -> None:
        work = self._work
        self._end()
        if work is not None:
            work.cancel()

    def _end(self) -> Deferred[FetchResponse] | None:
        self._stop_waiting()
        self._charge(0)
        self._work = None
        answered, self._answered = self._answered, None
        return answered

    def _charge(self, size: int) -> None:
        if size != self._charged:
            change, self._charged = size - self._charged, size
            self.context.caller.charge(change)

    # -- READING ---------------------------------------------------------------------------------------------------

    def _found(self) -> FetchEvent:
        return FetchEvent.MIN_BYTES_FOUND if self._is_enough() else FetchEvent.FOUND_TOO_LITTLE

    def _is_enough(self) -> bool:
        is_last = self._state is FetchState.LAST_READ
        return is_last or self._reader.has_enough or names_nothing(self.requested, self._follower)

    async def _read_in_slices_and_watch(self) -> FetchEvent:
        resumes = self._deadline is not None
        is_first = not resumes and self.request.max_wait_ms > 0
        if is_first:
            self._begin_waiting()
        await self._read_in_slices(watch=is_first, resumes=resumes)
        return self._found()

    async def _read_in_slices(self, may_wait: bool = False, watch: bool = False, resumes: bool = False) -> None:
        self._reader.begin(resumes)
        async for place in self._slices():
            some = self.requested[place]
            if watch:
                self._watch(some, map(self._reader.find_for_wait, some))
            self._reader.read(some, may_wait)

    async def _slices(self) -> AsyncIterator[slice]:
        starts = range(0, len(self.requested), PARTITIONS_INLINE_MAX)
        async for start in self.services.runtime.slices.over(starts):
            yield slice(start, start + PARTITIONS_INLINE_MAX)

    # -- WAITING ---------------------------------------------------------------------------------------------------

    def _begin_waiting(self) -> None:
        self._deadline = self.services.runtime.clock.callLater(self.request.max_wait_ms / 1000, self._time_out)
        self.services.fetches.delayed[self] = None
        if self._follower is not None:
            self._follower.waiting = self

    def _watch(self, some: Sequence[RequestedPartition], partitions: Iterable[Partition | None]) -> None:
        mark = self._reader.mark
        for requested, partition in zip(some, partitions, strict=True):
            if partition is None or (self._follower is not None and self._follower.is_watching(requested)):
                continue
            self._watched.append(partition)
            partition.purgatory.add(self, mark, partition.offset(mark) + 1)
            if self._announcement is not None:
                partition.purgatory.add(self._announcement, Mark.HIGH_WATERMARK, partition.log.high_watermark + 1)

    def _stop_waiting(self) -> None:
        if self._deadline is None:
            return
        for partition in self._watched:
            partition.purgatory.remove(self, self._reader.mark)
            if self._announcement is not None:
                partition.purgatory.remove(self._announcement, Mark.HIGH_WATERMARK)
        self._watched.clear()
        if self._follower is not None and self._follower.waiting is self:
            self._follower.waiting = None
        self.services.fetches.delayed.pop(self, None)
        deadline, self._deadline = self._deadline, None
        if deadline.active():
            deadline.cancel()

    def try_complete(self, size: int) -> bool:
        """Note `size` more bytes in a partition; stay in the purgatory.

        The fetch goes on with the deferred actions, since other appends may follow at once.
        """
        had, self._missing = self._missing, 0 if self._reader.is_committed else self._missing - size
        if had > 0 >= self._missing:
            self.services.runtime.deferred_actions.defer(self._resume)
        return False

    def _resume(self) -> None:
        if self._state is FetchState.WAITING and self._reader.is_committed and not self._is_decided():
            self._missing = 1
        else:
            self._on(FetchEvent.GROWN)

    def _is_decided(self) -> bool:
        """Return whether a transaction, or a record outside of any, was decided since the last read."""
        pairs = zip(self._watched, self._reader.answers, strict=True)
        return any(partition.log.last_stable_offset != answer.last_stable_offset for partition, answer in pairs)

    def fail(self, error: KafkaError) -> None:
        """Answer soon: the next read raises the error."""
        if self._missing > 0 or self._reader.is_committed:
            self._missing = 0
            self.expire_soon()

    def expire_soon(self) -> None:
        self.services.runtime.deferred_actions.defer(self.expire)

    def _time_out(self) -> None:
        self.services.fetches.expired[self._reader.fetcher] += 1
        self.expire()

    def expire(self) -> None:
        self._on(FetchEvent.EXPIRED)

    # -- PREPARING -------------------------------------------------------------------------------------------------

    async def _prepare_in_slices(self) -> FetchEvent:
        async for place in self._slices():
            if not self._reader.is_ready(self._reader.answers[place]):
                return await self._prepare()
        self._response = self._builder.throttled_response() or await self._build_response_in_slices()
        return FetchEvent.PREPARED

    async def _prepare(self) -> FetchEvent:
        await self._read_uncached()
        await read_archived(self.services, self._reader, self._is_abandoned)
        self._response = self._builder.throttled_response()
        if self._response is not None:
            return FetchEvent.PREPARED
        reader = self._reader
        conversion = Conversion(self.services, self.context, reader.needs_v2, reader.limit, reader.count_converted)
        while any(isinstance(answer.records, FileRegion) for answer in reader.answers):
            self._fail_those(await self.services.runtime.in_reading_thread(self._bring_in))
            due = [pair for pair in self._pairs() if conversion.is_due(pair[1].records)]
            if not due:
                break
            await self._convert(conversion, due)
            if not conversion.pass_over():
                break
        self._response = await self._build_response_in_slices()
        return FetchEvent.PREPARED

    async def _read_uncached(self) -> None:
        """Let workers read missing indexes and headers, and repeat the read; the last round waits for the disk."""
        for left in reversed(range(_READ_ROUNDS_MAX)):
            if not self._reader.uncached:
                return
            with suppress(OSError):  # raised again in the last round
                await self.services.runtime.in_reading_thread(self._read_on, self._reader.uncached)
            await self._read_in_slices(may_wait=not left)

    async def _convert(self, conversion: Conversion, due: Sequence[FetchedPartition]) -> None:
        conversion.begin(self._reader.answers)
        batch: list[FetchedPartition] = []
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
        for requested, answer, error in failed:
            self._reader.fail(answer, ErrorCode.KAFKA_STORAGE_ERROR)
            with suppress(KafkaError):  # the partition is gone
                log = self._reader.find(requested).log
                self.services.partitions.request_failed(log, log.record_failure(error))

    def _pairs(self) -> Iterator[FetchedPartition]:
        return zip(self.requested, self._reader.answers, strict=True)

    # In worker threads, which stop when the caller has gone.

    def _is_abandoned(self) -> bool:
        return self.context.caller.is_gone

    def _read_on(self, regions: Sequence[FileRegion]) -> None:
        for region in regions:
            read_ahead(region, self._is_abandoned)

    def _bring_in(self) -> list[_Failed]:
        return _with_regions(self._pairs(), lambda requested, answer, region: read_ahead(region, self._is_abandoned))

    def _convert_some(self, conversion: Conversion, some: Sequence[FetchedPartition]) -> list[_Failed]:
        def convert(requested: RequestedPartition, answer: PartitionData, region: FileRegion) -> None:
            try:
                conversion.convert(requested, answer, region)
            except KafkaError as error:
                self._reader.fail(answer, error.code)

        return _with_regions(some, convert)

    # -- ANSWERED --------------------------------------------------------------------------------------------------

    async def _build_response_in_slices(self) -> FetchResponse:
        response = self._builder.begin()
        async for place in self._slices():
            self._builder.add(response, self.requested[place], place.start)
        return response


_ENTER: Final[Mapping[FetchState, Callable[[FetchOperation], None]]] = {
    FetchState.READING: FetchOperation._enter_reading,
    FetchState.LAST_READ: FetchOperation._enter_reading,
    FetchState.WAITING: FetchOperation._enter_waiting,
    FetchState.PREPARING: FetchOperation._enter_preparing,
    FetchState.ANSWERED: FetchOperation._enter_answered,
    FetchState.ABANDONED: FetchOperation._enter_abandoned,
}


def _with_regions(
    pairs: Iterable[FetchedPartition], do: Callable[[RequestedPartition, PartitionData, FileRegion], None]
) -> list[_Failed]:
    failed = []
    for requested, answer in pairs:
        if isinstance(answer.records, FileRegion):
            try:
                do(requested, answer, answer.records)
            except OSError as error:
                failed.append((requested, answer, error))
    return failed
