"""Periodic maintenance of logs:

    every log.retention.check.interval.ms                  apply delete policies; files are removed later
    every log.flush.scheduler.interval.ms, or second       sync logs after `flush.ms`, and sealed segments
    every log.flush.offset.checkpoint.interval.ms          write recovery points and log start offsets
    every replica.high.watermark.checkpoint.interval.ms    write high watermarks
    every producer.id.expiration.check.interval.ms         forget producers idle for producer.id.expiration.ms
    every second                                           check that the log directories exist
    every 10 seconds                                       create logs that could not be created, on a full disk say

The reactor thread decides, in slices; worker threads make blocking calls.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.background import run_in_background
from pylogbroker.broker.jobs.disk_jobs import DiskJobs
from pylogbroker.broker.jobs.log_cleaner import LogCleaner
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.runtime.resources import PeriodicCall, Runtime
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import KafkaError
from pylogbroker.formatting import counted
from pylogbroker.storage import DeletedFiles, Log, LogManager
from pylogbroker.storage.log.guarded_policy import REPEAT_MS
from pylogbroker.storage.log.retention import expire

log = Logger()

_SYNC_CHECK_SECONDS = 1.0
_DIRECTORY_CHECK_SECONDS = 1.0
_REOPEN_SECONDS = 10.0
_INTERVAL_SECONDS_MAX = 7 * 24 * 3600.0


@attrs.define(eq=False, repr=False)
class LogMaintenance:
    _config: BrokerConfig
    _runtime: Runtime
    _logs: LogManager
    _partitions: Partitions
    _cleaner: LogCleaner
    _disk: DiskJobs
    _reopen_offline_partitions: Callable[[], Coroutine[Any, Any, None]]
    _loops: list[PeriodicCall] = attrs.field(factory=list, init=False)
    _syncing: set[Log] = attrs.field(factory=set, init=False)
    _stopped: bool = attrs.field(default=False, init=False)
    _running: set[str] = attrs.field(factory=set, init=False)  # names of jobs

    def start(self) -> None:
        """The first run of each job comes after its interval."""
        seconds = self._seconds
        self._round_every(seconds("log.retention.check.interval.ms"), self.expire)
        self._round_every(min(seconds("log.flush.scheduler.interval.ms"), _SYNC_CHECK_SECONDS), self.sync_due_logs)
        self._every(seconds("log.flush.offset.checkpoint.interval.ms"), self._disk.checkpoint_log_offsets)
        self._every(seconds("replica.high.watermark.checkpoint.interval.ms"), self._disk.checkpoint_high_watermarks)
        self._round_every(seconds("producer.id.expiration.check.interval.ms"), self.expire_producers)
        self._every(_DIRECTORY_CHECK_SECONDS, self.check_directories)
        self._round_every(_REOPEN_SECONDS, self._reopen_offline_partitions)
        self._every(REPEAT_MS / 1000, self._partitions.settings.note_missing_policies)

    def stop(self) -> None:
        for loop in self._loops:
            loop.stop()
        self._loops.clear()
        self._stopped = True
        self._disk.stop()

    def _seconds(self, setting: str) -> float:
        return min(self._config.integer(setting) / 1000, _INTERVAL_SECONDS_MAX)

    def _every(self, seconds: float, job: Callable[[], None]) -> None:
        loop = PeriodicCall(self._runtime.clock, _run, job)
        loop.start(seconds, now=False)
        self._loops.append(loop)

    def _round_every(self, seconds: float, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        def begin() -> None:
            run_in_background(log, self._one_round(job), "{job} failed", job=job.__name__)

        self._every(seconds, begin)

    async def _one_round(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if job.__name__ in self._running:
            return
        self._running.add(job.__name__)
        try:
            await job()
        except Exception:
            log.failure("{job} failed; it will be tried again", job=job.__name__)
        finally:
            self._running.discard(job.__name__)

    async def _each_partition(self) -> AsyncIterator[Partition]:
        partitions = deque(self._partitions.hosted.values())  # those of a deleted topic are released one by one
        async for _ in self._runtime.slices.over(range(len(partitions))):
            if self._stopped:
                return
            yield partitions.popleft()

    async def expire(self) -> None:
        async for partition in self._each_partition():
            partition_log = partition.log
            try:
                await self._expire(partition)
            except KafkaError as error:
                log.error("retention of {path} failed: {why}", path=partition_log.path, why=error)
                self._partitions.storage_failed(partition_log)
            except Exception:
                log.failure("retention of {path} failed; it will be tried again", path=partition_log.path)

    async def _expire(self, partition: Partition) -> None:
        partition_log, gone = partition.log, list[DeletedFiles]()
        if partition_log.offline_reason:  # since the round began
            return
        await self._drop_expired(partition, gone)
        if partition.archive is not None and partition_log.durable_start < partition_log.log_start_offset:
            notices = await self._runtime.in_thread(self._logs.checkpoints.save_log_starts)
            if any(notice.path == os.path.dirname(partition_log.path) for notice in notices):
                partition_log.durable_start = partition_log.log_start_offset  # a full disk, say, needs space above all
            await self._drop_expired(partition, gone)  # now also segments that are not stored
        if gone:
            is_archived = partition_log.local_start_offset > partition_log.log_start_offset
            log.info(
                "{segments} of {path} {are} deleted, {part} begins at {start} now",
                segments=counted(len(gone), "archived segment" if is_archived else "old segment"),
                are="is" if len(gone) == 1 else "are",
                path=partition_log.path,
                part="the local log" if is_archived else "it",
                start=partition_log.local_start_offset,
            )
            self._disk.unlink_later(partition_log, gone)

    async def _drop_expired(self, partition: Partition, gone: list[DeletedFiles]) -> None:
        async for files in self._runtime.slices.over(self._expiry_steps(partition)):
            if files is not None:
                gone.append(files)
            elif self._cleaner.is_busy_with(partition.log) or self._stopped:
                return

    def _expiry_steps(self, partition: Partition) -> Iterator[DeletedFiles | None]:
        """Drop expired segments; of an archived log without its remote storage, none."""
        now_ms, partition_log = self._runtime.now_ms(), partition.log
        if partition.archive is not None:
            return partition.archive.expire(now_ms, is_leader=self._partitions.is_led(partition))
        return expire(partition_log, now_ms, () if partition_log.is_archived else partition.delete_policies)

    async def sync_due_logs(self) -> None:
        """Sync due logs and sealed segments, one sync at a time for each log."""
        now_ms = self._runtime.now_ms()
        async for partition in self._each_partition():
            partition_log = partition.log
            target = partition_log.sync_target(now_ms) if partition_log not in self._syncing else None
            if target is not None:
                self._syncing.add(partition_log)
                synced = self._runtime.in_thread(partition_log.sync, target).addBoth(self._end_sync, partition_log)
                synced.addCallback(lambda _, partition: partition.on_synced(), partition)
                synced.addErrback(self._sync_failed, partition_log)

    def _end_sync(self, result: int | Failure, partition_log: Log) -> int | Failure:
        self._syncing.discard(partition_log)
        return result

    def _sync_failed(self, failure: Failure, partition_log: Log) -> None:
        partition = self._partitions.hosted.get((partition_log.topic, partition_log.partition))
        if partition is None or partition.log is not partition_log:  # deleted or offline meanwhile
            return
        about = f"syncs in {os.path.dirname(partition_log.path)}"  # on a full disk, all fail repeatedly
        if partition_log.offline_reason or self._runtime.may_log(about):
            log.error("a sync of {path} failed: {why}", path=partition_log.path, why=failure.value)
        self._partitions.storage_failed(partition_log)

    async def expire_producers(self) -> None:
        now_ms, after_ms = self._runtime.now_ms(), self._config.producer_id_expiration_ms
        async for partition in self._each_partition():
            partition.log.producers.expire(now_ms, after_ms)

    def check_directories(self) -> None:
        for directory in self._logs.directories.online:
            if not directory.is_present():
                self._partitions.directory_failed(
                    directory.path, f"{directory.path} is gone: removed, moved or unmounted"
                )


def _run(job: Callable[..., None], *arguments: Any) -> None:
    try:
        job(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException:
        log.failure("{job} failed; it will be tried again", job=job.__name__)
