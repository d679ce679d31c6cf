"""All archived partitions of a broker.

event                          effect
-----------------------------  -----------------------------------------------------------------------
a round, every task interval   leaders copy segments and delete old ones; followers list what is stored
the store fails                no work until a pause is over; pauses grow; one line in the log per outage
a topic is deleted             its objects are deleted, when the metadata do not have its id any more
a topic is archived no more    as for a deleted topic; the log starts where its local part does
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

import attrs
from twisted.internet.defer import DeferredLock, DeferredSemaphore, gatherResults
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from pylogbroker.background import run_in_background, with_cleanup
from pylogbroker.broker.archive.access import ArchiveAccess
from pylogbroker.broker.archive.limits import ByteRate, CopyLimits, ReadLimits
from pylogbroker.broker.archive.partition import ArchivedPartition
from pylogbroker.broker.archive.shared_reads import SharedReads
from pylogbroker.broker.archive.store_calls import ArchiveStopped, StoreCalls
from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.runtime.resources import InThread, PeriodicCall, Runtime
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces.remote_storage import IRemoteStorage
from pylogbroker.security.quotas.rates import Windows
from pylogbroker.storage.remote import deletion
from pylogbroker.storage.remote.checked_store import CheckedStore, StoreFailure
from pylogbroker.storage.remote.chunk_cache import ChunkCache
from pylogbroker.storage.remote.copying import CopyAborted
from pylogbroker.storage.remote.pending_deletions import PendingDeletions
from pylogbroker.storage.remote.store_marker import StoreMarker

_INTERVAL_SECONDS_MAX: Final = 7 * 24 * 3600.0
_PENDING_MS_MAX: Final = 3_600_000
_LISTINGS_MAX: Final = 2
log = Logger()


@attrs.define(eq=False, repr=False)
class StoreHealth:
    """State of the store: failures since it last worked, and a pause after them."""

    _place: str
    _now_ms: Callable[[], int]
    _pause_ms: int
    _pause_ms_max: int
    failures: int = attrs.field(default=0, init=False)
    """Number of failures since the last success."""
    retry_at_ms: int = attrs.field(default=0, init=False)

    @property
    def is_paused(self) -> bool:
        return self.failures > 0 and self._now_ms() < self.retry_at_ms

    def note_success(self) -> None:
        if self.failures:
            self.failures = 0
            log.info("the remote storage works again")

    def note_failure(self, why: StoreFailure) -> None:
        now_ms = self._now_ms()
        if not self.failures:
            log.error(
                "the remote storage fails: {place}: {why}. Old records of archived topics cannot be read, new segments "
                "stay on the local disk, nothing is lost; it is tried again",
                why=why.detail,
                place=self._place,
            )
        if now_ms >= self.retry_at_ms:  # failures of requests that began together count once
            self.failures += 1
            self.retry_at_ms = now_ms + min(self._pause_ms << min(self.failures - 1, 30), self._pause_ms_max)


@attrs.define(eq=False, repr=False)
class ArchiveService:
    """Finds the partitions that are archived, and drives their work."""

    _config: BrokerConfig
    _runtime: Runtime
    _metadata: ClusterMetadata
    _partitions: Partitions
    access: ArchiveAccess
    health: StoreHealth
    _pending_deletions: PendingDeletions
    archived: dict[Partition, ArchivedPartition] = attrs.field(factory=dict, init=False)
    _deleted: dict[tuple[UUID, int], int] = attrs.field(factory=dict, init=False)  # since when
    _detached: dict[tuple[UUID, int], Partition] = attrs.field(factory=dict, init=False)  # archived no more
    _has_read_file: bool = attrs.field(default=False, init=False)
    _file_lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)
    _has_listed_deletions: bool = attrs.field(default=False, init=False)
    _is_deleting: bool = attrs.field(default=False, init=False)
    _busy: set[tuple[UUID, int]] = attrs.field(factory=set, init=False)  # a worker may write or delete their objects
    _is_stopped: bool = attrs.field(default=False, init=False)
    _round: DeferredLock = attrs.field(factory=DeferredLock, init=False)
    _loops: list[PeriodicCall] = attrs.field(factory=list, init=False)
    _retries: list[IDelayedCall] = attrs.field(factory=list, init=False)  # one, after a failure

    @classmethod
    def of(
        cls,
        config: BrokerConfig,
        runtime: Runtime,
        metadata: ClusterMetadata,
        partitions: Partitions,
        storage: IRemoteStorage,
        in_reading_thread: InThread,
        in_copying_thread: InThread,
        cluster_id: str,
        log_directories: Callable[[], Iterable[str]],
    ) -> ArchiveService:
        """Return the service. The log directories remember that the store was used."""
        store = CheckedStore(storage)
        health = StoreHealth(
            config.remote_log_storage,
            runtime.now_ms,
            config.remote_log_manager_task_retry_backoff_ms,
            config.remote_log_manager_task_retry_backoff_max_ms,
        )
        access = ArchiveAccess(
            runtime,
            store,
            ChunkCache(config.remote_log_cache_bytes),
            CopyLimits(
                ByteRate(
                    lambda: config.remote_log_manager_copy_max_bytes_per_second,
                    Windows(
                        config.remote_log_manager_copy_quota_window_num,
                        config.remote_log_manager_copy_quota_window_size_seconds,
                    ),
                    runtime.now_ms,
                )
            ),
            ReadLimits(
                ByteRate(
                    lambda: config.remote_log_manager_fetch_max_bytes_per_second,
                    Windows(
                        config.remote_log_manager_fetch_quota_window_num,
                        config.remote_log_manager_fetch_quota_window_size_seconds,
                    ),
                    runtime.now_ms,
                ),
                runtime.clock,
            ),
            StoreCalls(in_reading_thread, in_copying_thread, health, StoreMarker(store, cluster_id, log_directories)),
            partitions.is_led,
            SharedReads(
                runtime.clock, lambda: config.remote_log_reader_threads + config.remote_log_reader_max_pending_tasks
            ),
            DeferredSemaphore(_LISTINGS_MAX),
            lambda: config.remote_fetch_max_wait_ms,
        )
        service = cls(config, runtime, metadata, partitions, access, health, PendingDeletions(log_directories))
        partitions.archives = service
        return service

    def start(self) -> None:
        seconds = min(self._config.remote_log_manager_task_interval_ms / 1000, _INTERVAL_SECONDS_MAX)
        log.info("segments of archived topics are copied to {place}", place=self._config.remote_log_storage)
        loop = PeriodicCall(self._runtime.clock, self.begin_round)
        loop.start(seconds, now=False)
        self._loops.append(loop)

    def stop(self) -> None:
        """End all work. No coroutine waits for the store when this returns; threads may still call it."""
        self._is_stopped = True
        for archived in self.archived.values():
            archived.stop()
        for loop in self._loops:
            loop.stop()
        for timer in self._retries:
            timer.cancel()
        self._retries.clear()
        self.access.stop()

    def unfinished(self) -> list[str]:
        """Return descriptions of work that waits for something: none after the stop."""
        access = self.access
        present = {
            "a round": self._round.locked,
            "deletions": self._is_deleting or self._file_lock.locked,
            f"{access.calls.count} calls of the store": access.calls.count,
            f"{access.reads.count} reads": access.reads.count,
            f"{access.read_limits.count} reads that wait for their quota": access.read_limits.count,
            "a listing": access.listings.tokens < access.listings.limit,
        }
        return [description for description, is_present in present.items() if is_present]

    # Partitions

    def attach(self, partition: Partition) -> None:
        """Archive a partition whose log is archived by the topic's settings; else stop that."""
        log_, archived = partition.log, self.archived.get(partition)
        if archived is None and log_.is_archived and log_.topic_id is not None:
            if (log_.topic_id, partition.index) in self._detached:  # its former archive is deleted first
                return
            archived = ArchivedPartition(partition, log_.topic_id, self.access)
            self.archived[partition] = archived
            partition.archive = archived
        elif archived is not None and not log_.is_archived:
            self.detach(partition)
            log_.start_locally()
            self._detached[archived.topic_id, partition.index] = partition
            self.begin_round()

    def detach(self, partition: Partition) -> None:
        """Stop the work on a partition whose replica goes."""
        archived = self.archived.pop(partition, None)
        if archived is not None:
            archived.stop()
            partition.archive = None

    async def note_deletions(self, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Note that logs will be deleted, also for later starts. If their topic is, their objects are deleted soon."""
        deleted = dict.fromkeys(partitions, self._runtime.now_ms())
        if deleted:
            await self._change_deleted(deleted)
            self._runtime.clock.callLater(0, self.begin_round)

    async def _change_deleted(self, added: Mapping[tuple[UUID, int], int]) -> None:
        """Add deleted partitions, and write the file of them."""
        await self._file_lock.acquire()
        try:
            self._deleted.update(added)
            if not self._has_read_file:
                earlier = await self._runtime.in_thread(lambda: tuple(self._pending_deletions.read()))
                self._deleted = dict.fromkeys(earlier, self._runtime.now_ms()) | self._deleted
                self._has_read_file = True
            await self._runtime.in_thread(self._pending_deletions.write, tuple(self._deleted))
        finally:
            self._file_lock.release()

    async def recover(self, partition: Partition) -> None:
        """Let a log that was lost begin where its archive ends. Raise KafkaError."""
        archived = self.archived.get(partition)
        if archived is not None:
            for files in await archived.recover():
                self._runtime.in_thread(files.unlink)

    # Rounds

    def begin_round(self) -> None:
        if not self._is_stopped and not self._round.waiting:
            run_in_background(log, self.round(), "a round of the archive failed; it will be tried again")

    async def round(self) -> None:
        """Do all work that is due. Rounds do not overlap."""
        await self._round.acquire()
        try:
            if not self._is_stopped and not self.health.is_paused:
                if not self._is_deleting:  # which may take long: nothing waits for it
                    run_in_background(log, self._delete_partitions(), "deletions failed; they will be tried again")
                due = deque(self.archived.values())
                width = min(len(due), self._config.remote_log_manager_copier_thread_pool_size)
                workers = [
                    run_in_background(log, self._work(due), "work on the archive failed; it will be tried again")
                    for _ in range(width)
                ]
                await gatherResults(workers)
        finally:
            self._round.release()
        self._retry_later()

    def _retry_later(self) -> None:
        """Begin a round when the pause after a failure is over, if that is before the next round."""
        if not self.health.failures or self._is_stopped:
            return
        if not self._retries:
            seconds = max(self.health.retry_at_ms - self._runtime.now_ms(), 1) / 1000
            self._retries.append(self._runtime.clock.callLater(seconds, self._try_again))

    def _try_again(self) -> None:
        self._retries.clear()
        self.begin_round()

    async def _work(self, due: deque[ArchivedPartition]) -> None:
        while due and not self._is_stopped and not self.health.is_paused:
            archived = due.popleft()
            key = archived.topic_id, archived.partition.index
            self._busy.add(key)
            try:
                await self._work_on(archived)
            except ArchiveStopped:
                return
            except KafkaError as error:
                if not isinstance(error, StoreFailure) and error.code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    log.error("the archive of {path} failed: {why}", path=archived.log.path, why=error)
            except Exception:
                log.failure("the archive of {path} failed; it will be tried again", path=archived.log.path)
            finally:
                self._busy.discard(key)

    async def _work_on(self, archived: ArchivedPartition) -> None:
        partition = archived.partition
        if archived.is_stopped or archived.log.offline_reason:
            return
        if self._partitions.is_led(partition):
            if partition.copy_lag is not None:
                await archived.upkeep.copy_due()
            await archived.upkeep.delete_old()
        elif partition.followed is not None:
            await archived.follow()

    # Deletions

    async def _delete_partitions(self) -> None:
        self._is_deleting = True
        try:
            await self._delete_gone()
        except StoreFailure:
            self._retry_later()
        except (CopyAborted, ArchiveStopped):
            return
        finally:
            self._is_deleting = False

    async def _delete_gone(self) -> None:
        if not self._has_listed_deletions:
            interrupted: Iterable[tuple[UUID, int]] = await self.access.calls.write(
                lambda: list(deletion.interrupted_partitions(self.access.store))
            )
            await self._change_deleted(dict.fromkeys(interrupted, self._runtime.now_ms()))
            self._has_listed_deletions = True
        before = frozenset(self._deleted)

        async def write_rest() -> None:
            if before - self._deleted.keys() and not self._is_stopped:
                await self._change_deleted({})

        await with_cleanup(self._delete_topics(), write_rest)
        for key in tuple(self._detached):
            if key in self._busy:
                continue
            await self._delete_objects(*key)
            partition = self._detached.pop(key)
            if self._partitions.hosted.get((partition.topic, partition.index)) is partition:
                self.attach(partition)

    async def _delete_topics(self) -> None:
        """Delete the objects of topics that the metadata do not have."""
        for key, since_ms in tuple(self._deleted.items()):
            if key in self._busy:  # what a copy writes must not be left
                continue
            if self._metadata.image.topic_by_id(key[0]) is None:
                await self._delete_objects(*key)
                del self._deleted[key]
            elif self._runtime.now_ms() - since_ms > _PENDING_MS_MAX:  # the replica moved to another broker
                del self._deleted[key]

    async def _delete_objects(self, topic_id: UUID, index: int) -> None:
        def pause() -> None:
            if self._is_stopped:
                raise CopyAborted

        await self.access.calls.write(deletion.delete_partition, self.access.store, topic_id, index, pause)
        log.info("deleted the archive of partition {index} of topic {id}", index=index, id=topic_id)
