"""Partition as its leader or a follower has it: log, leader epoch, and operations that wait for offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import attrs
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.partitions.archived import Archive
from pylogbroker.broker.partitions.group_commit import GroupCommit
from pylogbroker.broker.partitions.high_watermark import HighWatermark, SyncedOffset
from pylogbroker.broker.partitions.purgatory import Mark, Purgatory
from pylogbroker.broker.partitions.record_checks import PartitionCheck
from pylogbroker.broker.partitions.traffic import TopicTraffic
from pylogbroker.broker.partitions.verifications import Verifications
from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.config.topic_config import AT_ONCE, CopyLag
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Buffer, PreparedRecords, TooCostly
from pylogbroker.storage import Appended, GuardedPolicy, Log, Origin

if TYPE_CHECKING:
    from pylogbroker.replication import EpochEnd, FollowerFetch

CONVERT_INLINE_BYTES_MAX = 16 * 1024
"""Larger records are converted or decompressed in a worker thread."""

_EMPTY_RANGES_MAX = 64
_NO_RANGES: dict[int, int] = {}
_UNUSED_LOCK = DeferredLock()
"""As `_NO_RANGES`, of all partitions that have not used their own so far; never changed."""
_NO_LEADER_EPOCH = -1

Check = Callable[[], None]
_OnError = Callable[[KafkaError], None]
log = Logger()


class Replication(Protocol):
    """Replicas of a led partition that has several; a condition of its high watermark."""

    @property
    def offset(self) -> int:
        """High watermark."""

    @property
    def low_watermark(self) -> int: ...
    def check_enough_replicas(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS if records with acks=all may not be appended."""

    def check_replicated(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few replicas have acknowledged records."""

    def check_offsets_available(self) -> None:
        """Raise OFFSET_NOT_AVAILABLE while the high watermark may be lower than an earlier leader's."""

    def set_min_insync_replicas(self, minimum: int, /) -> None: ...
    def is_in_sync(self, replica_id: int, /) -> bool: ...
    def preferred_read_replica(self, fetch_offset: int, client_rack: str, /) -> int | None:
        """Return the follower that a consumer should read from; None if the leader should serve it."""

    def follower_fetched(self, fetch: FollowerFetch, /) -> EpochEnd | None:
        """Note a follower's progress; return where its log diverges, or None. Raise KafkaError for a wrong fetch."""

    def follower_waited(self, replica_id: int, fetch_ms: int, /) -> None:
        """Note that a follower's fetch waits since `fetch_ms`, at the offset that it fetched from last."""


class FollowedLeader(Protocol):
    """Replica that follows a leader, and may serve consumers (KIP-392)."""

    def check_read(self, offset: int, /) -> None:
        """Raise an error if consumers cannot be served from an offset."""


@attrs.define(eq=False, repr=False)
class Partition:
    topic: str
    index: int
    log: Log
    _group_commit: GroupCommit
    traffic: TopicTraffic = attrs.field(factory=TopicTraffic)
    leader_epoch: int = 0
    """_NO_LEADER_EPOCH while the partition is neither led nor followed here."""
    min_insync_replicas: int = 1
    wanted_insync_replicas: int = 1
    """min.insync.replicas, which may be more than the partition has replicas."""
    is_internal: bool = False
    may_down_convert: bool = True
    throttles_followers: bool = False
    """True if followers that are not in sync share this broker's `leader.replication.throttled.rate`."""
    is_throttled_follower: bool = False
    """True if the replica shares this broker's `follower.replication.throttled.rate` until it has caught up."""
    delete_policies: tuple[GuardedPolicy, ...] = ()
    local_delete_policies: tuple[GuardedPolicy, ...] = ()
    """Of an archived partition: for its local segments, by `local.retention.ms` and `local.retention.bytes`."""
    copy_lag: CopyLag | None = AT_ONCE
    """Delay of copies of an archived partition; None if no more segments are copied."""
    archive: Archive | None = attrs.field(default=None, init=False)
    """None unless the topic is archived, and this broker has a remote storage."""
    record_check: PartitionCheck | None = None
    """None unless the topic's records are validated."""
    verifications: Verifications = attrs.field(factory=Verifications, init=False)
    purgatory: Purgatory = attrs.field(factory=Purgatory, init=False)
    high_watermark: HighWatermark = attrs.field(init=False)
    _synced: SyncedOffset = attrs.field(init=False)
    replication: Replication | None = attrs.field(default=None, init=False)
    """None: no other broker has a replica, or another one leads."""
    followed: FollowedLeader | None = attrs.field(default=None, init=False)
    """None unless another broker leads, and this one fetches from it."""
    ordered_leader: tuple[int, int] | None = attrs.field(default=None, init=False)
    """Leader and leader epoch by the controller's last order; None without a controller elsewhere."""
    _append_lock: DeferredLock = attrs.field(default=_UNUSED_LOCK, init=False)
    _empty_ranges: dict[int, int] = attrs.field(default=_NO_RANGES, init=False)
    """Offsets with no record, where one may be."""

    def __attrs_post_init__(self) -> None:
        self.log.on_converted = self.traffic.produce_converted
        self._synced = SyncedOffset(self.log)
        self.high_watermark = HighWatermark(self.log, self.purgatory)

    def lead_alone(self) -> None:
        """Let the high watermark begin at the log end: no other broker has a replica."""
        self.high_watermark.open(self._synced)

    def replicate(self, replication: Replication, high_watermark: int) -> None:
        """Let the high watermark wait for other replicas; `high_watermark` is where it begins."""
        self.replication = replication
        self.high_watermark.open_at(high_watermark, replication)
        if self._synced.offset < self.log.log_end_offset:  # records from before a crash: no append asks for their sync
            self._request_sync()

    def check_enough_replicas(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS if records with acks=all may not be appended."""
        if self.replication is not None:
            self.replication.check_enough_replicas()
        elif self.min_insync_replicas > 1:
            detail = f"min.insync.replicas={self.min_insync_replicas}, but one replica is in sync"
            raise KafkaError(detail, ErrorCode.NOT_ENOUGH_REPLICAS)

    def offset(self, mark: Mark) -> int:
        if mark is Mark.HIGH_WATERMARK:
            return self.log.high_watermark
        if mark is Mark.LOG_END:
            return self.log.log_end_offset
        if mark is Mark.SYNCED:
            return self._synced.offset
        return self.log.log_start_offset if self.replication is None else self.replication.low_watermark

    def append(self, records: Buffer, now_ms: int, origin: Origin = Origin.CLIENT) -> Appended:
        """Append records; with `must_sync` in the result, a sync has been requested."""
        appended = self.log.append(records, now_ms, self.leader_epoch, origin)
        if not appended.duplicate:
            self._count(1, appended.count, len(records), must_sync=appended.must_sync)
        if appended.must_sync:
            self._request_sync()
        return appended

    def prepare_run(self, batches: list[memoryview], now_ms: int) -> PreparedRecords | None:
        """Prepare clients' batches for `append_prepared`, up to the first unusual one; None without one.

        The unusual batch takes `append_now`.
        """
        if self._append_lock.locked or self.record_check is not None:
            return None
        for number, batch in enumerate(batches):
            if len(batch) > CONVERT_INLINE_BYTES_MAX and self.log.preparation.is_costly(batch):
                batches = batches[:number]
                break
        return self.log.prepare_run(batches, now_ms, self.leader_epoch)

    def append_prepared(self, prepared: PreparedRecords) -> bool:
        """Append with one write and one rise of the high watermark; return False if that fails.

        Nothing was appended then, and `append_now` finds the error.
        """
        if not self.log.append_prepared(prepared):
            return False
        self._count(len(prepared.entries), prepared.count, prepared.size, must_sync=False)
        return True

    def _count(self, appends: int, records: int, size: int, *, must_sync: bool) -> None:
        traffic = self.traffic
        traffic.appends += appends
        traffic.messages_in += records
        traffic.bytes_in += size
        if self.purgatory.delayed:
            self.purgatory.reached(Mark.LOG_END, self.log.log_end_offset, size)
        self.high_watermark.appended(size, must_sync)

    def append_now(
        self, records: Buffer, now_ms: int, check: Check | None = None, origin: Origin = Origin.CLIENT
    ) -> Appended | None:
        """Append records after `check`, which may raise a KafkaError.

        Return None, and append nothing, if that would block the reactor or overtake a queued append: use
        `append_queued` then.
        """
        if self._append_lock.locked or (
            len(records) > CONVERT_INLINE_BYTES_MAX and self.log.preparation.is_costly(records, origin)
        ):
            return None
        if check is not None:
            check()
        try:
            return self.append(records, now_ms, origin)
        except TooCostly:
            return None

    async def append_queued(
        self,
        records: Buffer | Callable[[], Buffer],
        now_ms: int,
        in_thread: InThread,
        check: Check | None = None,
        origin: Origin = Origin.CLIENT,
        on_error: _OnError | None = None,
    ) -> Appended:
        """Append in the order of the calls; decompress and convert in a worker thread before `check`.

        The worker thread calls `records` if it is a function. Raise NOT_LEADER_OR_FOLLOWER if the leadership ends
        meanwhile: the log may be a follower's by then. `on_error` gets an error before the next append begins.
        """
        epoch = self.leader_epoch
        if self._append_lock is _UNUSED_LOCK:
            self._append_lock = DeferredLock()
        await self._append_lock.acquire()
        try:
            converted = await in_thread(records) if callable(records) else records
            if self.log.preparation.is_costly(converted, origin):
                convert, on_converted = self.log.preparation.convert, self.log.on_converted
                converted = await in_thread(convert, converted, now_ms, origin, on_converted)
                origin = Origin.CONVERTED
            if self.leader_epoch != epoch:
                raise KafkaError(f"{self.topic}-{self.index} has another leader now", ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if check is not None:
                check()
            return self.append(converted, now_ms, origin)
        except KafkaError as error:
            if on_error is not None:
                on_error(error)
            raise
        finally:
            self._append_lock.release()

    def _request_sync(self) -> None:
        end = self.log.log_end_offset
        self._group_commit.sync(self.log).addCallbacks(
            lambda _: self.on_synced(), self._on_sync_failed, errbackArgs=(end,)
        )

    def on_synced(self) -> None:
        self.high_watermark.advance()
        self.purgatory.reached(Mark.SYNCED, self._synced.offset)

    def _on_sync_failed(self, failure: Failure, upto: int) -> None:
        error = failure.value
        if not isinstance(error, KafkaError):
            log.failure("a sync of {path} failed", failure, path=self.log.path)
            error = KafkaError(str(error))
        self.purgatory.sync_failed(upto, error)

    def delete_records_before(self, offset: int) -> None:
        self.log.delete_records_before(offset)
        self.purgatory.reached(Mark.LOW_WATERMARK, self.offset(Mark.LOW_WATERMARK))

    def pass_over(self, offset: int, next_offset: int) -> None:
        """Remember that [offset, next_offset) holds no records, so that later fetches skip it."""
        if self._empty_ranges is _NO_RANGES:
            self._empty_ranges = {}
        if len(self._empty_ranges) >= _EMPTY_RANGES_MAX:
            del self._empty_ranges[next(iter(self._empty_ranges))]
        self._empty_ranges[offset] = next_offset

    def after_empty_range(self, offset: int) -> int:
        """Return where to read `offset` in a byte-addressed log: behind a range without records."""
        return self._empty_ranges.get(offset, offset)

    def check_epoch(self, epoch: int) -> None:
        """Raise an error for another leader epoch than ours (KIP-320); -1 stands for unknown."""
        if epoch in (-1, self.leader_epoch):
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(f"{self.topic}-{self.index} has leader epoch {self.leader_epoch}, the request {epoch}", code)

    def set_min_insync_replicas(self, minimum: int, replicas: int) -> None:
        self.wanted_insync_replicas = minimum
        self.min_insync_replicas = min(minimum, replicas)
        if self.replication is not None:
            self.replication.set_min_insync_replicas(minimum)

    def follow(self, followed: FollowedLeader | None, leader_epoch: int) -> None:
        """Serve consumers as a follower in a leader epoch."""
        self.followed = followed
        self.leader_epoch = leader_epoch

    def resign(self, error: KafkaError) -> None:
        """Fail waiting operations: the leader epoch is over."""
        self.replication = self.followed = None
        self.leader_epoch = _NO_LEADER_EPOCH  # appends of this leader epoch may still be queued
        self.high_watermark.stop()
        self.purgatory.fail_all(error)

    def close(self, error: KafkaError | None = None) -> None:
        """Fail waiting operations: the partition is deleted, or its log failed."""
        deleted = KafkaError(f"{self.topic}-{self.index} is not here any more", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.purgatory.close(error or deleted)
