"""One share fetch: acquires records of the partitions in a session, and waits for them.

    read all partitions --> something acquired, or an error --> answer
      ^      |
      |      +--nothing--> wait --time is over, the session has ended--> answer
      |                     |
      +--records appended, released, or a state loaded--+

A fetch that begins lets those take records first that have waited for long, and waits behind them.

With `min_bytes` above 1, records are acquired when the log has so many bytes of them, or the time is over.

A partition that had records is read last the next time, so that others get their share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from pylogbroker.broker.fetch.readahead import read_ahead
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasPartitions, HasRuntime, SharePartitions
from pylogbroker.broker.share.led_partition import LedSharePartition
from pylogbroker.broker.share.led_partitions import LoadingSharePartition
from pylogbroker.broker.share.record_batches import PIECE_BYTES, LogPiece, piece_of, upper_bound
from pylogbroker.errors import ErrorCode, KafkaError, OffsetTiered, StorageFailure
from pylogbroker.groups.share.sessions import ShareSession, TopicIdPartition
from pylogbroker.groups.share.values import AcquiredRecords
from pylogbroker.long_loops import give_way
from pylogbroker.records import Buffer
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.storage import NotCached

BYTES_MAX: Final = 8 << 20
"""Bytes of records in one answer, unless one batch has more: answers are in memory."""

_UNCACHED_READS_MAX: Final = 10


class _Services(HasRuntime, HasPartitions, Protocol):
    """Services that this module uses."""


@attrs.frozen
class ShareFetchLimits:
    max_wait_ms: int
    min_bytes: int
    bytes_max: int
    records_max: int
    batch_size: int
    is_exact: bool


@attrs.define(eq=False, repr=False)
class ShareFetchResult:
    """Records of one partition, or its error."""

    error: ErrorCode = ErrorCode.NONE
    detail: str | None = None
    chunks: list[Buffer] = attrs.field(factory=list)
    acquired: list[AcquiredRecords] = attrs.field(factory=list)

    @property
    def size(self) -> int:
        return sum(map(len, self.chunks))


@attrs.define(eq=False, repr=False)
class ShareFetch:
    """`run` returns what was fetched, by partition; those without news are not in it."""

    _services: _Services
    _context: RequestContext
    _share_partitions: SharePartitions
    _session: ShareSession
    _limits: ShareFetchLimits
    results: dict[TopicIdPartition, ShareFetchResult] = attrs.field(factory=dict, init=False)
    _bytes_left: int = attrs.field(default=0, init=False)
    _records_left: int = attrs.field(default=0, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)
    _waits_for: list[LedSharePartition | LoadingSharePartition] = attrs.field(factory=list, init=False)
    _wakeups: list[Deferred[None]] = attrs.field(factory=list, init=False)
    _is_woken: bool = attrs.field(default=False, init=False)
    _stuck: set[LedSharePartition] = attrs.field(factory=set, init=False)  # their records are for other fetches

    @property
    def takes_any(self) -> bool:
        """True if this fetch takes whatever there is."""
        return self._limits.min_bytes <= 1

    def wake(self) -> None:
        """Read again."""
        self._is_woken = True
        wakeups, self._wakeups = self._wakeups, []
        for woken in wakeups:
            woken.callback(None)

    def stop(self) -> None:
        """Answer with what there is: the session or the broker ends, or the time is over."""
        self._is_stopped = True
        self.wake()

    @property
    def _has_ended(self) -> bool:
        return self._is_stopped or not self._session.is_open

    async def run(self) -> dict[TopicIdPartition, ShareFetchResult]:
        limits = self._limits
        self._bytes_left = min(limits.bytes_max, BYTES_MAX)
        self._records_left = limits.records_max
        if limits.records_max <= 0:
            return self.results
        try:
            await self._read_all(is_last=limits.max_wait_ms <= 0)
            if limits.max_wait_ms > 0 and not self.results and not self._has_ended:
                await self._wait_and_read()
        finally:
            self._leave_queues()
        return self.results

    async def _wait_and_read(self) -> None:
        deadline: IDelayedCall = self._services.runtime.clock.callLater(self._limits.max_wait_ms / 1000, self.stop)
        try:
            while not self.results and not self._has_ended:
                await self._wait()
                if self._session.is_open:
                    await self._read_all(is_last=self._is_stopped)
        finally:
            if deadline.active():
                deadline.cancel()

    # -- reading -----------------------------------------------------------------------------------------------------

    async def _read_all(self, *, is_last: bool) -> None:
        """Read each partition once; the next fetches in the queues get what is left."""
        missing_bytes = 0 if is_last or self._limits.min_bytes <= 1 else self._limits.min_bytes
        self._note_failed_loads()
        self._leave_queues()
        readable: list[tuple[TopicIdPartition, LedSharePartition]] = []
        for partition in tuple(self._session.partitions):
            await give_way()
            led = None if partition in self.results else self._find(partition)
            if led is not None:
                readable.append((partition, led))
                if missing_bytes > 0:
                    missing_bytes -= _bytes_there(led, missing_bytes)
        if missing_bytes > 0:
            return
        for partition, led in readable:
            if self._records_left <= 0 or self._bytes_left <= 0 or not self._session.is_open:
                break
            result = await self._read(led)
            if result is not None:
                self.results[partition] = result
        for partition in self.results:
            self._session.rotate(partition)
        for _, led in readable:
            led.store_start()
            led.wake_next()

    def _note_failed_loads(self) -> None:
        for share_partition in self._waits_for:
            if isinstance(share_partition, LoadingSharePartition) and share_partition.error:
                partition = share_partition.key.topic_id, share_partition.key.partition
                if partition in self._session.partitions:
                    self.results[partition] = ShareFetchResult(share_partition.error, share_partition.detail)

    def _find(self, partition: TopicIdPartition) -> LedSharePartition | None:
        """Return a share partition whose records can be read; note the error of another one, or wait for it."""
        try:
            self._check_access(partition)
            share_partition: LedSharePartition | LoadingSharePartition = self._share_partitions.find(
                self._session.group_id, *partition
            )
            if isinstance(share_partition, LedSharePartition):
                if share_partition.partition.log.byte_addressed:
                    raise KafkaError(
                        "share groups cannot read topics in the format of Kafka 0.7",
                        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                    )
                self._waits_for.append(share_partition)
                return share_partition
        except KafkaError as error:
            self.results[partition] = ShareFetchResult(error.code, error.detail)
            return None
        self._waits_for.append(share_partition)
        return None

    def _check_access(self, partition: TopicIdPartition) -> None:
        access = self._context.access
        if access is not None:
            topic = self._services.partitions.find(*partition).topic
            if not access.allows_on_topic(AclOperation.READ, topic):
                raise KafkaError("the topic may not be read", ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def _read(self, led: LedSharePartition) -> ShareFetchResult | None:
        """Acquire records of a partition within the limits; None if there are none."""
        result = ShareFetchResult()
        try:
            await self._acquire(led, result)
        except StorageFailure as failure:
            self._services.partitions.request_failed(led.partition.log, failure)
            result.error, result.detail = failure.code, failure.detail
        except KafkaError as error:
            result.error, result.detail = error.code, error.detail
        return result if result.acquired or result.error else None

    async def _acquire(self, led: LedSharePartition, result: ShareFetchResult) -> None:
        uncached_reads = 0
        while self._records_left > 0 and (self._bytes_left > 0 or not self._has_any(result)):
            led.follow_settings()
            if not led.has_records() or not self._session.is_open:
                break
            if not self._is_woken and self._limits.max_wait_ms > 0 and led.must_wait():
                self._stuck.add(led)
                break
            offset = led.records.next_fetch_offset
            try:
                piece = led.read(
                    self._bytes_left,
                    min_one=not self._has_any(result),
                    may_wait=uncached_reads >= _UNCACHED_READS_MAX,
                )
            except NotCached as missing:
                uncached_reads += 1
                await self._services.runtime.in_reading_thread(
                    read_ahead, missing.region, lambda: self._context.caller.is_gone
                )
                continue
            except OffsetTiered:
                piece = await self._read_archived(led, offset, not self._has_any(result))
                if piece is None or led.records.next_fetch_offset != offset:
                    break
            if piece is None:
                if not self._has_any(result):
                    led.skip(offset)
                break
            acquired = led.acquire(
                self._session.member_id,
                offset,
                piece,
                self._records_left,
                self._limits.batch_size,
                is_exact=self._limits.is_exact,
            )
            self._note(result, piece.of_acquired(acquired), acquired)
            if led.records.next_fetch_offset <= offset:
                self._stuck.add(led)
                break
            await give_way()

    async def _read_archived(self, led: LedSharePartition, offset: int, min_one: bool) -> LogPiece | None:
        """Read a piece from the remote storage; None if that takes too long. Raise KafkaError."""
        log, archive, is_committed = led.partition.log, led.partition.archive, led.settings.is_committed
        if archive is None:
            raise KafkaError("this broker has no remote storage", ErrorCode.KAFKA_STORAGE_ERROR)
        upto = upper_bound(log, is_committed)
        records = await archive.reads.read_within(
            offset, min(PIECE_BYTES, self._bytes_left), upto, min_one=min_one, is_committed=is_committed
        )
        if records is None or not records.data:
            return None
        aborted = list(records.aborted)
        if not records.is_all_aborted:
            aborted += log.aborted_transactions(offset, records.next_offset)
        return piece_of(memoryview(records.data), offset, is_committed, aborted)

    def _note(self, result: ShareFetchResult, chunks: Sequence[Buffer], acquired: Sequence[AcquiredRecords]) -> None:
        result.chunks += chunks
        result.acquired += acquired
        self._bytes_left -= sum(map(len, chunks))
        self._records_left -= sum(records.last - records.first + 1 for records in acquired)

    def _has_any(self, result: ShareFetchResult) -> bool:
        """Return whether something was acquired: a first batch may be larger than the limit."""
        return bool(result.acquired) or any(other.acquired for other in self.results.values())

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Wait until a partition has records, a state is loaded, or `stop` is called."""
        if self._limits.min_bytes <= 1 and any(map(self._has_news, self._waits_for)):
            await give_way()
            return  # it came while other partitions were read
        woken: Deferred[None] = Deferred()
        self._wakeups.append(woken)
        for share_partition in self._waits_for:
            share_partition.add_waiting(self)
        await woken

    def _has_news(self, share_partition: LedSharePartition | LoadingSharePartition) -> bool:
        if isinstance(share_partition, LoadingSharePartition):
            return share_partition.has_ended
        return share_partition.has_records() and share_partition not in self._stuck

    def _leave_queues(self) -> None:
        waited_for, self._waits_for = self._waits_for, []
        for share_partition in waited_for:
            share_partition.remove_waiting(self)


def _bytes_there(led: LedSharePartition, bytes_max: int) -> int:
    """Return the bytes of records to acquire, or at least `bytes_max`: all batches that follow the first of them."""
    if not led.has_records():
        return 0
    log = led.partition.log
    upto = upper_bound(log, led.settings.is_committed)
    try:
        region = log.read(led.records.next_fetch_offset, bytes_max + BYTES_MAX, upto=upto, may_wait=False)
    except (KafkaError, NotCached):  # found out when the records are read
        return bytes_max
    return 0 if region is None else region.length
