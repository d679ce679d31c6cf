"""A share partition at its leader: records of a log, their states, and fetches that wait for them.

    acquire              in memory alone
    acknowledge, release, expired locks, dead letters
                         persisted first; a failure leaves the records as they were
    offsets without records
                         skipped in memory; the start offset is persisted by the next change, or once nothing is locked

Fetches wait in a queue. What makes records available wakes the first of them, and a fetch that has ended wakes the next
one: so one new record does not wake hundreds of members. A fetch that begins takes records before those that wait, as
that costs least, unless the first of them has waited for FAIR_WAIT_MS.

A leader that is fenced closes its share partition: the next fetch reads the state again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import attrs
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.share.counts import ShareCounts
from pylogbroker.broker.share.delivery_settings import DeliverySettings
from pylogbroker.broker.share.persister import SharePersister
from pylogbroker.broker.share.record_batches import LogPiece, RecentPieces, upper_bound
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.share.partition import SharePartition, StateChange
from pylogbroker.groups.share.state_coordinator import StateWrite
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.groups.share.values import Acknowledgement, AcquiredRecords, LogBatch

log = Logger()

_FENCED: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_OF_COORDINATORS: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_RETRY_MS: Final = 1_000
"""Time after which locks that could not be ended are ended again."""


FAIR_WAIT_MS: Final = 50
"""Time after which a fetch that waits comes before those that begin."""


class WaitingShareFetch(Protocol):
    @property
    def takes_any(self) -> bool:
        """True if it takes whatever there is."""

    def wake(self) -> None:
        """Read again."""


def error_of_members(error: ErrorCode) -> ErrorCode:
    """Return the error that members get for one of the persister's."""
    if error in _FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error in _OF_COORDINATORS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


@attrs.define(eq=False, repr=False)
class LedSharePartition:
    """`settings` returns those of the group now; `on_dead_letters` and `on_idle` are called after changes."""

    key: SharePartitionKey
    partition: Partition
    leader_epoch: int
    _state_epoch: int
    records: SharePartition
    _settings: Callable[[], DeliverySettings]
    _persister: SharePersister
    _runtime: Runtime
    _pieces: RecentPieces
    _counts: ShareCounts
    _on_dead_letters: Callable[[LedSharePartition], None]
    _on_idle: Callable[[LedSharePartition], None]
    is_closed: bool = attrs.field(default=False, init=False)
    _is_committed: bool = attrs.field(default=False, init=False)
    _stored_start: int = attrs.field(init=False)
    _is_storing_start: bool = attrs.field(default=False, init=False)
    _waiting: dict[WaitingShareFetch, int] = attrs.field(factory=dict, init=False)  # since when, in ms
    _expiry: IDelayedCall = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._expiry = self._runtime.clock.callLater(0, self._expire)
        self._expiry.cancel()  # no record is locked yet
        self._stored_start = self.records.start_offset
        self.follow_settings()

    @property
    def settings(self) -> DeliverySettings:
        return self._settings()

    def follow_settings(self) -> DeliverySettings:
        """Take the group's settings of now over, and the log's start; return the settings."""
        settings = self._settings()
        self.records.settings = settings.records
        self._is_committed = settings.is_committed
        start = self.partition.log.log_start_offset
        if start > self.records.start_offset:
            self.records.drop_before(start)
        return settings

    # -- fetches -----------------------------------------------------------------------------------------------------

    def has_records(self) -> bool:
        """Return whether a fetch may acquire records now."""
        if self.is_closed or not self.records.can_acquire:
            return False
        return self.records.next_fetch_offset < upper_bound(self.partition.log, self._is_committed)

    def read(self, bytes_max: int, *, min_one: bool, may_wait: bool) -> LogPiece | None:
        """Return batches from the first record to acquire on; None if there are none, or no more fit.

        With `min_one` the first one may exceed `bytes_max`. Raise NotCached unless `may_wait`, OffsetOutOfRange,
        StorageFailure, or CorruptRecords.
        """
        return self._pieces.read(
            self,
            self.partition.log,
            self.records.next_fetch_offset,
            bytes_max,
            is_committed=self._is_committed,
            min_one=min_one,
            may_wait=may_wait,
        )

    def acquire(
        self, member_id: str, offset: int, piece: LogPiece, records_max: int, batch_size: int, *, is_exact: bool
    ) -> list[AcquiredRecords]:
        """Acquire records of batches that were read from `offset` on."""
        acquired = self.records.acquire(
            member_id,
            offset,
            piece.batches,
            records_max,
            self._runtime.now_ms(),
            batch_size=batch_size,
            is_exact=is_exact,
        )
        self._schedule_expiry()
        return acquired

    def skip(self, first: int) -> None:
        """Step over offsets without records."""
        upto = upper_bound(self.partition.log, self._is_committed)
        if first < upto:
            self.records.acquire("", first, [LogBatch(first, upto - 1, is_hidden=True)], 1, self._runtime.now_ms())

    def add_waiting(self, fetch: WaitingShareFetch) -> None:
        self._waiting[fetch] = self._runtime.now_ms()
        log_of_records = self.partition.log
        self.partition.purgatory.add(self, Mark.HIGH_WATERMARK, log_of_records.high_watermark + 1)

    def remove_waiting(self, fetch: WaitingShareFetch) -> None:
        """Let a fetch wait no longer; the next one gets what it has left."""
        self._waiting.pop(fetch, None)
        if not self._waiting:
            self.partition.purgatory.remove(self, Mark.HIGH_WATERMARK)

    def must_wait(self) -> bool:
        """Return whether a fetch that begins is to wait, as another one has waited for long."""
        for fetch, since_ms in self._waiting.items():
            return fetch.takes_any and self._runtime.now_ms() - since_ms >= FAIR_WAIT_MS
        return False

    def wake_next(self) -> None:
        """Wake the fetch that waits longest if it may acquire records."""
        if self._waiting and self.has_records():
            self._runtime.deferred_actions.defer(self._wake_first)

    def _wake_first(self) -> None:
        """Wake the fetch that waits longest, unless a fetch was faster."""
        if self._waiting and self.has_records():
            next(iter(self._waiting)).wake()

    def try_complete(self, size: int) -> bool:
        """Wake a fetch: the high watermark has risen. Stay in the purgatory."""
        if self._waiting:
            self._wake(next(iter(self._waiting)))
        return False

    def fail(self, error: KafkaError) -> None:
        """Wake all fetches: the partition is no longer led here, and their next read finds out."""
        self._wake_all()

    def _wake(self, fetch: WaitingShareFetch) -> None:
        self._runtime.deferred_actions.defer(fetch.wake)

    def _wake_all(self) -> None:
        for fetch in self._waiting:
            self._wake(fetch)

    # -- changes -----------------------------------------------------------------------------------------------------

    async def acknowledge(
        self, member_id: str, acknowledgements: Iterable[Acknowledgement], *, may_renew: bool
    ) -> ErrorCode:
        settings = self.follow_settings()
        change = self.records.acknowledge(
            member_id,
            acknowledgements,
            self._runtime.now_ms(),
            may_renew=may_renew and settings.may_renew,
        )
        if isinstance(change, ErrorCode):
            return change
        self._schedule_expiry()
        return await self._store(change)

    async def release(self, member_id: str) -> None:
        """Release what a member has acquired; if that cannot be stored, its locks expire."""
        self.follow_settings()
        await self._store(self.records.release(member_id))

    async def dead_letters_stored(self, first: int, last: int) -> ErrorCode:
        return await self._store(self.records.dead_letters_stored(first, last))

    async def _store(self, change: StateChange) -> ErrorCode:
        """Persist a change, and commit it; return the error for members if that fails."""
        if change.is_empty and change.start_offset <= self._stored_start:
            change.commit()
            self._on_idle(self)
            return ErrorCode.NONE
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not self.is_closed:
            error = await self._persister.write(self.key, self._write(change))
        if error:
            change.roll_back()
            self._schedule_expiry()
        else:
            change.commit()
            self._stored_start = max(self._stored_start, change.start_offset)
        if error in _FENCED:
            self.close()
        self.wake_next()
        if not error:
            self._on_dead_letters(self)
        self._on_idle(self)
        return error_of_members(error)

    def _write(self, change: StateChange) -> StateWrite:
        return StateWrite(
            self._state_epoch,
            self.leader_epoch,
            change.start_offset,
            change.delivery_complete_count,
            change.batches,
        )

    def store_start(self) -> None:
        """Store a start offset that has moved over offsets without records, unless an acknowledgement will do so.

        These are markers, aborted records, and what the log has deleted: without it they would be lag.
        """
        has_moved = self.records.start_offset > self._stored_start
        if has_moved and not self.is_closed and not self._is_storing_start and self.records.is_idle:
            self._is_storing_start = True
            run_in_background(
                log, self._store_start(), "the start of share group {group!r} is stored later", group=self.key.group_id
            )

    async def _store_start(self) -> None:
        try:
            await self._store(self.records.progress())
        finally:
            self._is_storing_start = False

    # -- locks -------------------------------------------------------------------------------------------------------

    def _schedule_expiry(self, earliest_ms: int = 0) -> None:
        due_ms = self.records.next_expiry_ms
        if due_ms is None or self.is_closed:
            return
        clock = self._runtime.clock
        seconds = max(max(due_ms, earliest_ms) / 1000 - self._runtime.time_of_day(), 0)
        if not self._expiry.active():
            self._expiry = clock.callLater(seconds, self._expire)
        elif earliest_ms or self._expiry.getTime() > clock.seconds() + seconds:
            self._expiry.reset(seconds)

    def _expire(self) -> None:
        self.follow_settings()
        change = self.records.expire(self._runtime.now_ms())
        self._counts.expired_locks += sum(batch.last - batch.first + 1 for batch in change.batches)
        run_in_background(
            log, self._store_expired(change), "locks of share group {group!r} did not end", group=self.key.group_id
        )

    async def _store_expired(self, change: StateChange) -> None:
        """Store which locks have expired; try again later if that fails."""
        error = await self._store(change)
        self._schedule_expiry(self._runtime.now_ms() + _RETRY_MS if error else 0)

    def close(self) -> None:
        """Stop: another broker leads, the group was initialized again, or nobody fetches.

        Members get errors from now on.
        """
        self.is_closed = True
        self._pieces.forget(self)
        if self._expiry.active():
            self._expiry.cancel()
        self.partition.purgatory.remove(self, Mark.HIGH_WATERMARK)
        self._wake_all()
