"""A replica that follows a leader: its state machine, and what the actions do.

A worker reads what a cut of the log needs, which may be a segment's headers, and removes the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.background import run_in_background
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.records import complete_entries
from pylogbroker.replication import (
    Actions,
    AdvanceHighWatermark,
    AdvanceLogStart,
    AppendFetched,
    EpochEnd,
    FetchedData,
    FollowerReplica,
    FollowerRequest,
    FollowerState,
    RestartAt,
    RestoreAt,
    TruncateTo,
)
from pylogbroker.replication.actions import NO_ACTIONS
from pylogbroker.rpc.transport import BUFFERS
from pylogbroker.storage import DeletedFiles, Log, Origin
from pylogbroker.storage.log.producer_recovery import PlannedTruncation
from pylogbroker.wire.messages.fetch import PartitionData

log = Logger()


class LogSyncs(Protocol):
    def sync(self, log: Log, /) -> Deferred[None]: ...
    def request_failed(self, failed: Log, why: StorageFailure, /) -> None: ...
    def lower_recovery_point(self, log: Log, offset: int, /) -> Deferred[None]:
        """Write that records from an offset on are not synced."""


def _nothing() -> None:
    """Ignore that a replica is ready: no fetcher has it."""


@attrs.define(eq=False, repr=False)
class Followership:
    """One replica in one leader epoch; the condition of its high watermark.

    Implements `FollowedLeader` of the partition.
    """

    topic: str
    topic_id: UUID
    index: int
    partition: Partition
    follower: FollowerReplica
    _runtime: Runtime
    _syncs: LogSyncs
    _backoff_seconds: float
    on_ready: Callable[[], None] = attrs.field(default=_nothing, init=False)
    """Called when there is something to ask the leader, after a sync."""
    is_syncing: bool = attrs.field(default=False, init=False)
    """True while fetched records are written to the disk: the next fetch reports them."""

    @property
    def offset(self) -> int:
        """High watermark that the leader allows."""
        return self.follower.high_watermark

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def is_throttled(self) -> bool:
        """Return whether its fetches share `follower.replication.throttled.rate`."""
        return self.partition.is_throttled_follower and not self.follower.has_caught_up

    @property
    def is_fetching(self) -> bool:
        """Return whether the next request is a fetch, and need not wait."""
        return self.follower.state is FollowerState.FETCHING and self.follower.retry_at_ms is None

    def check_read(self, offset: int) -> None:
        self.follower.check_read(offset)

    def next_request(self) -> FollowerRequest | None:
        return self.follower.next_request(self._runtime.now_ms())

    def fetched(self, request: FollowerRequest, answer: PartitionData) -> None:
        records = complete_entries(answer.records) if isinstance(answer.records, BUFFERS) else b""
        diverging = EpochEnd(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
        data = FetchedData(
            answer.high_watermark,
            answer.log_start_offset,
            bool(records),
            diverging if diverging.end_offset >= 0 else None,
        )
        self.run(self.follower.fetched(request, data), records)

    def epoch_end_found(self, request: FollowerRequest, epoch: int, end_offset: int) -> None:
        self.run(self.follower.epoch_end_found(request, EpochEnd(epoch, end_offset)))

    def offset_listed(self, request: FollowerRequest, offset: int) -> None:
        self.run(self.follower.offset_listed(request, offset))

    def request_failed(self, request: FollowerRequest, error: ErrorCode) -> None:
        self.follower.request_failed(request, error, self._runtime.now_ms())

    def not_answered(self, request: FollowerRequest) -> None:
        """Let the request be repeated at once: the leader has not looked at it."""
        self.follower.not_answered(request)

    def connection_lost(self) -> None:
        """Ask again after a delay; an answer to what was asked before is ignored."""
        in_flight = self.follower.in_flight
        if in_flight is not None:
            self.request_failed(in_flight, ErrorCode.NETWORK_EXCEPTION)

    def run(self, actions: Actions, records: bytes | memoryview = b"") -> None:
        try:
            for action in actions:
                match action:
                    case AppendFetched():
                        self._append(records)
                    case AdvanceHighWatermark():
                        self.partition.high_watermark.advance()
                    case AdvanceLogStart(offset):
                        self.log.start_at(offset)
                    case TruncateTo(offset):
                        self._truncate(offset)
                    case RestartAt(offset):
                        log.warn(
                            "{topic}-{partition} begins again, empty, at offset {offset}: its leader has none before",
                            topic=self.topic,
                            partition=self.index,
                            offset=offset,
                        )
                        self._cut(self.log.restart_at(offset, self._runtime.now_ms()))
                    case RestoreAt(offset):
                        run_in_background(log, self._restore(offset), "a replica could not be restored")
                    case _:
                        raise AssertionError(f"no action of a follower: {action}")
        except StorageFailure as failure:
            self._storage_failed(failure)
        if self.follower.state is FollowerState.SYNCING and not self.is_syncing:
            self.is_syncing = True
            self._syncs.sync(self.log).addCallbacks(self._synced, self._sync_failed)

    def _storage_failed(self, failure: StorageFailure) -> None:
        if self.log.offline_reason:
            self.follower.log_failed()
        else:  # the disk is full, say
            self.follower.append_failed(self._runtime.now_ms())
        self._syncs.request_failed(self.log, failure)

    def _truncate(self, offset: int) -> None:
        log.info(
            "cuts {topic}-{partition} from offset {end} to {offset}: its leader has other records there",
            topic=self.topic,
            partition=self.index,
            end=self.log.log_end_offset,
            offset=offset,
        )
        self._plan_truncation(offset)

    def _plan_truncation(self, offset: int) -> None:
        """Plan in a worker, after the recovery point was written: see `recovery_points` for why."""
        lowered = self._syncs.lower_recovery_point(self.log, offset)
        lowered.addCallback(lambda _: self._runtime.in_thread(self.log.plan_truncation, offset))
        lowered.addCallback(self._truncate_as_planned, offset).addErrback(self._truncation_failed)

    def _truncate_as_planned(self, planned: PlannedTruncation | None, offset: int) -> None:
        if self.partition.followed is not self:  # another leader epoch has begun, or the replica was stopped
            return
        if self.log.recovery_point > offset:  # a sync has raised it meanwhile, which a checkpoint may have written
            self._plan_truncation(offset)
            return
        self._cut(self.log.truncate_to(offset, planned))
        self.run(NO_ACTIONS)
        self.on_ready()

    def _truncation_failed(self, failure: Failure) -> None:
        if isinstance(failure.value, StorageFailure):
            self._storage_failed(failure.value)
        else:
            log.failure("{topic}-{partition} could not be cut", failure, topic=self.topic, partition=self.index)

    async def _restore(self, offset: int) -> None:
        """Begin again where the leader's local log does: its remote storage has the records before."""
        archive = self.partition.archive
        try:
            if archive is None:
                raise KafkaError("this broker does not archive the topic; see remote.log.storage.system.enable")
            state = await archive.state_at(offset)
            if self.partition.followed is not self:  # another leader epoch has begun, or the replica was stopped
                return
            deleted = archive.restore(state)
        except StorageFailure as failure:
            self._storage_failed(failure)
        except KafkaError as error:
            if self._runtime.may_log(f"restoring {self.topic}-{self.index}"):
                log.error(
                    "{topic}-{partition} could not be restored from its archive: {why}. It is tried again",
                    topic=self.topic,
                    partition=self.index,
                    why=error.detail,
                )
            self.follower.restore_failed(self._runtime.now_ms())
        else:
            log.info(
                "{topic}-{partition} begins at offset {offset}: older records are in its archive",
                topic=self.topic,
                partition=self.index,
                offset=offset,
            )
            self._cut(deleted)
        self.run(NO_ACTIONS)
        self.on_ready()

    def _append(self, records: bytes | memoryview) -> None:
        now_ms = self._runtime.now_ms()
        try:
            appended = self.log.append(records, now_ms, origin=Origin.REPLICATION)
        except StorageFailure:
            raise
        except KafkaError as error:
            if self._runtime.may_log(f"bad records of {self.topic}-{self.index}"):
                log.error(
                    "records of {topic}-{partition} at offset {offset} could not be replicated: {why}",
                    topic=self.topic,
                    partition=self.index,
                    offset=self.log.log_end_offset,
                    why=error,
                )
            self.follower.append_failed(now_ms)
            return
        self.partition.high_watermark.appended(len(records), appended.must_sync)
        self.run(self.follower.appended())

    def _synced(self, _: object) -> None:
        self.is_syncing = False
        self.follower.synced()
        self.run(NO_ACTIONS)  # records that came meanwhile need another sync
        self.on_ready()

    def _sync_failed(self, failure: object) -> None:
        self.is_syncing = False
        if self.log.offline_reason:
            self.follower.log_failed()
        else:
            self._runtime.clock.callLater(self._backoff_seconds, self._sync_again)

    def _sync_again(self) -> None:
        if self.partition.followed is self:
            self.run(NO_ACTIONS)

    def _cut(self, deleted: Iterable[DeletedFiles]) -> None:
        files = list(deleted)
        if files:
            self._runtime.in_thread(_unlink, files)
        self.partition.high_watermark.cut()
        self.follower.truncated()
        self.partition.high_watermark.advance()  # to the log start, if the log begins again


def _unlink(deleted: Iterable[DeletedFiles]) -> None:
    for files in deleted:
        files.unlink()
