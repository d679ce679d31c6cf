"""Log cleaner: compacts logs in rounds, each in a process of its own.

    idle --log.cleaner.backoff.ms--> is a log due, and a cleaner free?
      ^                                |
      |                                v
      +---- no log is due ----  round: the dirtiest log -> sync -> clean in the process -> swap segments -> next log

Up to `log.cleaner.threads` rounds run at once, on different logs. Process and worker thread end with the round, so that
an idle broker has neither.

A log with damaged files is not compacted until the next start. After a dead process or a full disk the cleaning is
repeated, with a doubling delay; only the first failure is logged. The result is discarded if the log was truncated,
deleted or reconfigured meanwhile, or the broker stops.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol
from weakref import WeakKeyDictionary, WeakSet

import attrs
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from pylogbroker.background import run_in_background, with_cleanup
from pylogbroker.broker.jobs.disk_jobs import DiskJobs
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import CorruptRecords, StorageFailure
from pylogbroker.formatting import listed
from pylogbroker.storage import Log
from pylogbroker.storage.compaction.jobs import NO_LIMIT, Cleaned, CleanerJob, Failed, Statistics
from pylogbroker.storage.compaction.process import CleanerDied, CleanerProcess
from pylogbroker.storage.compaction.selection import Cleanable, CleanerLimits, dirtiest, examine, must_seal
from pylogbroker.storage.log.segment_swap import SegmentSwap, SwapAborted, remove_cleaned

_SETTINGS: Final = "log.cleaner."
_WAIT_MS_MIN: Final = 100
_WAIT_MS_MAX: Final = 3_600_000
_KEY_BYTES_MAX: Final = 2**31 - 1  # for the keys of one log
log = Logger()


class Cleaner(Protocol):
    def run(self, job: CleanerJob) -> Cleaned | Failed: ...
    def abort(self, for_good: bool = False) -> None: ...
    def close(self) -> None: ...


class CleaningFailed(Exception):
    """Cleaning failed; another try may succeed."""


@attrs.frozen
class Delay:
    until_ms: int
    wait_ms: int


@attrs.define(eq=False, repr=False)
class CleanerCounts:
    """Counts for metrics. `looked_at_ms` is the last look for logs to compact; None before the first."""

    cleanings: int = 0
    failures: int = 0
    seconds: float = 0.0
    seconds_max: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    dirty_ratio_max: float = 0.0
    looked_at_ms: int | None = None

    def add(self, statistics: Statistics) -> None:
        self.cleanings += 1
        self.seconds += statistics.seconds
        self.seconds_max = max(self.seconds_max, statistics.seconds)
        self.bytes_read += statistics.bytes_read
        self.bytes_written += statistics.bytes_written


@attrs.define(eq=False, repr=False)
class LogCleaner:
    _config: BrokerConfig
    _runtime: Runtime
    _partitions: Partitions
    _disk: DiskJobs
    new_cleaner: Callable[[], Cleaner] = CleanerProcess
    counts: CleanerCounts = attrs.field(factory=CleanerCounts, init=False)
    _alarm: IDelayedCall | None = attrs.field(default=None, init=False)
    _is_on: bool = attrs.field(default=False, init=False)
    _warned: bool = attrs.field(default=False, init=False)
    _rounds: dict[Cleaner, None] = attrs.field(factory=dict, init=False)
    _busy: dict[Log, Cleaner] = attrs.field(factory=dict, init=False)
    _uncleanable: WeakSet[Log] = attrs.field(factory=WeakSet, init=False)
    _delayed: WeakKeyDictionary[Log, Delay] = attrs.field(factory=WeakKeyDictionary, init=False)

    def __attrs_post_init__(self) -> None:
        self._partitions.on_log_deleted.append(self._abort_cleaning)
        self._partitions.settings.on_changed.append(self._warn_if_off)

    def start(self) -> None:
        if self._config.log_cleaner_enable:
            self._is_on = True
            self._config.observe(self._on_settings_changed)
            self._set_alarm()
        self._warn_if_off()

    def stop(self) -> None:
        self._is_on = False
        self._cancel_alarm()
        for cleaner in self._rounds:
            cleaner.abort(for_good=True)

    async def clean_now(self, partition_log: Log) -> None:
        """Compact a log at once, however small its dirty part is; failures are logged."""
        now_ms = self._runtime.now_ms()
        partition_log.roll(now_ms)
        chosen = self._examine(partition_log, now_ms)
        if chosen is not None and chosen.dirty_bytes:
            await self._round(chosen)

    def _abort_cleaning(self, deleted: Log) -> None:
        cleaner = self._busy.get(deleted)
        if cleaner is not None:
            cleaner.abort()

    def _on_settings_changed(self, names: frozenset[str]) -> None:
        if self._is_on and any(name.startswith(_SETTINGS) for name in names):
            self._set_alarm()

    def _warn_if_off(self) -> None:
        config = self._config
        enabled = config.log_cleaner_enable
        if enabled and config.log_cleaner_threads:
            self._warned = False
        elif not self._warned:
            logs = (partition.log for partition in self._partitions.hosted.values())
            topics = sorted({partition_log.topic for partition_log in logs if partition_log.config.compacts})
            if topics:
                self._warned = True
                log.warn(
                    "nothing is compacted because of {off}, but these topics have cleanup.policy=compact: {topics}",
                    off="log.cleaner.threads=0" if enabled else "log.cleaner.enable=false",
                    topics=listed(topics),
                )

    def _set_alarm(self) -> None:
        self._cancel_alarm()
        wait_ms = max(self._config.log_cleaner_backoff_ms, _WAIT_MS_MIN)
        self._alarm = self._runtime.clock.callLater(min(wait_ms, _WAIT_MS_MAX) / 1000, self._begin_look)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()

    def _begin_look(self) -> None:
        run_in_background(log, self._start_rounds(), "looking for logs to compact failed")

    async def _start_rounds(self) -> None:
        try:
            await self._seal_what_is_old()
            for _ in range(self._config.log_cleaner_threads - len(self._rounds)):
                chosen = await self._choose()
                if chosen is None or not self._is_on:
                    break
                run_in_background(log, self._round(chosen), "compacting failed")
        except Exception:
            log.failure("looking for logs to compact failed; it will be tried again")
        finally:
            if self._is_on:
                self._set_alarm()

    async def _seal_what_is_old(self) -> None:
        now_ms = self._runtime.now_ms()
        async for partition in self._runtime.slices.over(tuple(self._partitions.hosted.values())):
            try:
                if must_seal(partition.log, now_ms):
                    partition.log.roll(now_ms)
            except (OSError, StorageFailure) as error:
                self._storage_failed(partition.log, error)

    async def _choose(self) -> Cleanable | None:
        now_ms = self._runtime.now_ms()
        candidates = [
            cleanable
            async for partition in self._runtime.slices.over(tuple(self._partitions.hosted.values()))
            if partition.log.config.compacts and (cleanable := self._examine(partition.log, now_ms)) is not None
        ]
        free = [candidate for candidate in candidates if candidate.log not in self._busy]
        self.counts.looked_at_ms = now_ms
        self.counts.dirty_ratio_max = max((candidate.dirty_ratio for candidate in free), default=0.0)
        return dirtiest(free)

    def _examine(self, candidate: Log, now_ms: int) -> Cleanable | None:
        delay = self._delayed.get(candidate)
        if candidate in self._busy or candidate in self._uncleanable or (delay is not None and now_ms < delay.until_ms):
            return None
        try:
            return examine(candidate, now_ms)
        except (OSError, StorageFailure) as error:
            self._storage_failed(candidate, error)
            return None

    def _limits(self) -> CleanerLimits:
        config = self._config
        cleaners = max(config.log_cleaner_threads, 1)
        memory = min(config.log_cleaner_dedupe_buffer_size // cleaners, _KEY_BYTES_MAX)
        rate = config.log_cleaner_io_max_bytes_per_second / cleaners
        return CleanerLimits(int(memory * config.log_cleaner_io_buffer_load_factor), max(int(min(rate, NO_LIMIT)), 1))

    def uncleanable_in(self, directory: str) -> int:
        """Count the logs of a log directory that are not compacted until the next start."""
        return sum(
            os.path.dirname(partition_log.path) == directory
            for partition_log in self._uncleanable
            if self._is_online(partition_log)
        )

    def is_busy_with(self, partition_log: Log) -> bool:
        """Return whether a log is being cleaned: its segments must not be deleted then.

        Otherwise a value could survive the tombstone of its key.
        """
        return partition_log in self._busy

    async def _round(self, chosen: Cleanable | None) -> None:
        cleaner = self.new_cleaner()
        self._rounds[cleaner] = None
        await with_cleanup(self._clean_each(chosen, cleaner), partial(self._runtime.in_thread, cleaner.close))

    async def _clean_each(self, chosen: Cleanable | None, cleaner: Cleaner) -> None:
        try:
            while chosen is not None:
                await self._clean(chosen, cleaner)
                is_needed = len(self._rounds) <= self._config.log_cleaner_threads
                chosen = await self._choose() if self._is_on and is_needed else None
        except Exception:
            log.failure("compacting failed; it will be tried again")
        finally:
            self._rounds.pop(cleaner, None)

    async def _clean(self, chosen: Cleanable, cleaner: Cleaner) -> None:
        await with_cleanup(self._clean_busy(chosen, cleaner), partial(self._clear, chosen.log))

    async def _clean_busy(self, chosen: Cleanable, cleaner: Cleaner) -> None:
        partition_log, cuts = chosen.log, chosen.log.truncations
        self._busy[partition_log] = cleaner
        try:
            job = chosen.job(self._runtime.now_ms(), self._limits())
            cleaned = await self._runtime.in_thread(_sync_and_clean, partition_log, cleaner, job)
            if self._is_unchanged(partition_log, cuts):
                await self._swap(partition_log, cleaned)
                self.counts.add(cleaned.statistics)
                self._log_result(job, cleaned)
            elif self._is_on and self._is_online(partition_log):
                log.info("discarded the compaction of {path}: the log changed while it ran", path=partition_log.path)
        except (CleanerDied, CleaningFailed, SwapAborted, CorruptRecords, StorageFailure, OSError) as error:
            self._failed(partition_log, error)
        finally:
            del self._busy[partition_log]

    def _is_unchanged(self, partition_log: Log, cuts: int) -> bool:
        unchanged = (
            not partition_log.offline_reason and partition_log.config.compacts and partition_log.truncations == cuts
        )
        return self._is_on and self._is_online(partition_log) and unchanged

    def _is_online(self, partition_log: Log) -> bool:
        partition = self._partitions.hosted.get((partition_log.topic, partition_log.partition))
        return partition is not None and partition.log is partition_log

    async def _swap(self, partition_log: Log, cleaned: Cleaned) -> None:
        swap = partition_log.begin_swap(cleaned.replacements)
        try:
            if swap.replacements:
                await self._carry_out(partition_log, swap)
            if swap.is_complete:
                partition_log.cleaner_checkpoint = max(partition_log.cleaner_checkpoint, cleaned.first_dirty_offset)
                self._delayed.pop(partition_log, None)
        finally:
            partition_log.end_swap()
        self._disk.checkpoint_cleaner_offsets()

    async def _carry_out(self, partition_log: Log, swap: SegmentSwap) -> None:
        in_thread = self._runtime.in_thread
        try:
            await in_thread(swap.commit)
            gone = partition_log.swap(self._runtime.now_ms())
        except (SwapAborted, CorruptRecords, OSError):
            if not partition_log.offline_reason:  # else the directory may belong to another log by now
                await in_thread(_blocking, partition_log, swap.abort_and_remove)
            raise
        await in_thread(_blocking, partition_log, swap.complete)
        self._disk.unlink_later(partition_log, gone)

    async def _clear(self, partition_log: Log) -> None:
        """Remove the files of a failed cleaning, at once: the disk may be full."""
        if not partition_log.offline_reason:
            try:
                await self._runtime.in_thread(remove_cleaned, partition_log.path)
            except OSError as error:
                log.warn(
                    "could not remove the files of a failed compaction of {path}: {why}",
                    path=partition_log.path,
                    why=error,
                )

    def _log_result(self, job: CleanerJob, cleaned: Cleaned) -> None:
        log.info(
            "{path} is compacted from {first} to {end}: {read} bytes became {written}, {kept} of {records} records "
            "stay, in {seconds} s",
            path=job.directory,
            first=job.first_dirty_offset,
            end=cleaned.first_dirty_offset,
            read=cleaned.statistics.bytes_read,
            written=cleaned.statistics.bytes_written,
            kept=cleaned.statistics.records_kept,
            records=cleaned.statistics.records_read,
            seconds=round(cleaned.statistics.seconds, 2),
        )

    def _failed(self, partition_log: Log, error: Exception) -> None:
        if not self._is_on or not self._is_online(partition_log) or isinstance(error, SwapAborted):
            return
        self.counts.failures += 1
        if isinstance(error, CorruptRecords):
            self._uncleanable.add(partition_log)
            log.error("{path} is not compacted until the next start: {why}", path=partition_log.path, why=error)
        elif partition_log.offline_reason:
            self._storage_failed(partition_log, error)
        else:
            self._delay(partition_log, error)

    def _delay(self, partition_log: Log, why: Exception) -> None:
        before = self._delayed.get(partition_log)
        if before is None:
            wait_ms = max(self._config.log_cleaner_backoff_ms, _WAIT_MS_MIN)
            log.error("{path} could not be compacted; it will be tried again: {why}", path=partition_log.path, why=why)
        else:
            wait_ms = before.wait_ms * 2
        wait_ms = min(wait_ms, _WAIT_MS_MAX)
        self._delayed[partition_log] = Delay(self._runtime.now_ms() + wait_ms, wait_ms)

    def _storage_failed(self, partition_log: Log, error: Exception) -> None:
        if isinstance(error, OSError):
            partition_log.record_failure(error)
        if partition_log.offline_reason:
            log.error("compacting {path} failed: {why}", path=partition_log.path, why=error)
            self._partitions.storage_failed(partition_log)
        else:
            self._delay(partition_log, error)


def _sync_and_clean(partition_log: Log, cleaner: Cleaner, job: CleanerJob) -> Cleaned:
    partition_log.sync(job.end_offset)
    outcome = cleaner.run(job)
    if isinstance(outcome, Failed):
        raise CleaningFailed(outcome.detail) if outcome.path is None else CorruptRecords(str(outcome))
    if outcome.first_dirty_offset <= job.first_dirty_offset:
        raise CleaningFailed(f"log.cleaner.dedupe.buffer.size is too small for what comes at {job.first_dirty_offset}")
    return outcome


def _blocking(partition_log: Log, step: Callable[[], None]) -> None:
    """Run a step; on failure take the log offline: its directory's contents are unknown. Blocks."""
    try:
        step()
    except OSError as error:
        raise partition_log.record_failure(error, frozenset()) from error
