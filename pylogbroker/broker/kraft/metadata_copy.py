"""This member's copy of the metadata log on disk, in worker threads: `storage.metadata` has the files.

    MetadataLog --changes--> queue --one call in a thread at a time--> files
    reader --records are published--> a snapshot, if much or long ago was the last one: read and written in a thread of
                                      its own, then put in the queue

The copy saves reading, nothing else: the broker does not wait for it, unless much is queued. When the disk fails, the
broker goes on without it, and the next start begins with what is there. Nothing is synced before a snapshot or the end
of the broker: a start checks each batch, and what is lost is read again from the controllers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import PylogbrokerError, StartupError
from pylogbroker.kraft.compaction import compacted
from pylogbroker.kraft.metadata_log import MetadataLog, SnapshotContent
from pylogbroker.records import LogEntry
from pylogbroker.rpc.errors import Closed
from pylogbroker.storage.metadata.directory import MetadataDirectory, SnapshotPlace, StoredMetadata
from pylogbroker.wire.messages.fetch_snapshot import SnapshotName

log = Logger()
_QUEUED_BYTES_MAX: Final = 16 << 20
"""Of changes that wait for the disk; then the log is not read on."""
_Job = Callable[[], Any]


@attrs.frozen
class SnapshotBounds:
    """A snapshot is made when so many bytes of records follow the last one, or so long after it; 0 ms is never."""

    record_bytes: int
    interval_ms: int


@attrs.define(eq=False, repr=False)
class MetadataCopy:
    """A MetadataStore."""

    _directory: MetadataDirectory
    _runtime: Runtime
    _bounds: SnapshotBounds
    _jobs: deque[_Job] = attrs.field(factory=deque, init=False)
    """Changes of the directory that wait for a thread."""
    _queued_bytes: int = attrs.field(default=0, init=False)
    """Held by these, and by those that a thread carries out."""
    _has_worker: bool = attrs.field(default=False, init=False)
    _done: Deferred[None] = attrs.field(factory=lambda: succeed(None), init=False)
    """Fires when all jobs are done."""
    _is_on: bool = attrs.field(default=False, init=False)
    """Set from its loading on until the disk fails, or the broker ends."""
    _is_compacting: bool = attrs.field(default=False, init=False)
    _bytes_since: int = attrs.field(default=0, init=False)
    """Bytes of records since the last snapshot."""
    _snapshot_offset: int = attrs.field(default=0, init=False)
    _snapshot_ms: int = attrs.field(default=0, init=False)

    @property
    def path(self) -> str:
        return self._directory.path

    # start and end

    async def restore(self, metadata_log: MetadataLog) -> None:
        """Let the log begin with the copy; without one if the disk fails. Raise StartupError."""
        try:
            stored: StoredMetadata[SnapshotContent] = await self._runtime.in_thread(
                self._directory.load, SnapshotContent.of
            )
        except OSError as error:
            self._fail(error)
            return
        except StartupError:
            await self._runtime.in_thread(self._directory.release)
            raise
        for notice in stored.notices:
            log.warn(
                "the copy of the cluster's metadata in {path}: {notice}; what is missing is read from the controllers",
                path=self.path,
                notice=notice,
            )
        snapshot = None
        if stored.snapshot is not None:
            place, content = stored.snapshot
            snapshot = SnapshotName(place.end_offset, place.epoch), content
            self._snapshot_offset = place.end_offset
        metadata_log.restore(snapshot, stored.batches, stored.leader_epoch)
        self._bytes_since = sum(batch.size for batch in stored.batches)
        oldest = stored.batches[:1]  # of those that no snapshot has: restarts must not put off the next one
        self._snapshot_ms = min([self._runtime.now_ms(), *(batch.max_timestamp for batch in oldest)])
        self._is_on = True
        if metadata_log.end_offset:
            log.info(
                "the copy of the cluster's metadata in {path} ends at offset {end}",
                path=self.path,
                end=metadata_log.end_offset,
            )

    def close(self) -> None:
        """Write what is queued, sync, and release the directory, in a thread; may be called twice."""
        if self._is_on:
            self._is_on = False
            self._jobs.append(self._directory.close)
            run_in_background(log, self._end(), "the copy of the cluster's metadata was not synced")

    async def _end(self) -> None:
        try:
            await self._runtime.in_thread(self._directory.run, self._jobs)
        except (OSError, PylogbrokerError) as error:
            self._log_failure(error)

    def _fail(self, error: Exception) -> None:
        """Go on without the copy."""
        self._is_on = False
        self._jobs.clear()
        self._queued_bytes = 0
        self._log_failure(error)
        self._jobs.append(self._directory.release)
        self._runtime.in_thread(self._directory.run, self._jobs)

    def _log_failure(self, error: Exception) -> None:
        log.error(
            "no copy of the cluster's metadata is kept in {path} until the next start, which reads more from the "
            "controllers: {why}",
            path=self.path,
            why=error,
        )

    # changes

    def append(self, batches: Sequence[LogEntry]) -> None:
        size = sum(batch.size for batch in batches)
        self._bytes_since += size
        self._put(partial(self._directory.append, batches), size)

    def cut(self, offset: int) -> None:
        self._put(partial(self._directory.cut, offset))

    def clear(self, why: str) -> None:
        log.warn(
            "the copy of the cluster's metadata in {path} is removed, and read again: {why}",
            path=self.path,
            why=why,
        )
        self._bytes_since = self._snapshot_offset = 0
        self._put(self._directory.clear)

    def snapshot_part(self, name: SnapshotName, position: int, data: bytes) -> None:
        self._put(partial(self._directory.write_part, _place(name), position, data), len(data))

    def replace(self, name: SnapshotName) -> None:
        self._put(partial(self._directory.replace_log, _place(name)))
        self._snapshot_taken(name.end_offset)
        self._bytes_since = 0

    def follow_leader(self, leader_id: int, epoch: int) -> None:
        self._put(partial(self._directory.follow_leader, leader_id, epoch))

    async def wait_for_space(self) -> None:
        """Return when not too much waits for the disk."""
        while self._queued_bytes > _QUEUED_BYTES_MAX:
            await self._all_done()

    def _all_done(self) -> Deferred[None]:
        waiting: Deferred[None] = Deferred()
        self._done.addCallback(lambda _: waiting.callback(None))
        return waiting

    def _put(self, job: _Job, size: int = 0) -> None:
        if not self._is_on:
            return
        self._jobs.append(job)
        self._queued_bytes += size
        if not self._has_worker:
            self._has_worker = True
            self._done = Deferred()
            run_in_background(log, self._work(), "the copy of the cluster's metadata is not kept any more")

    async def _work(self) -> None:
        try:
            while self._jobs:
                try:
                    await self._runtime.in_thread(self._directory.run, self._jobs)
                except (OSError, PylogbrokerError) as error:
                    self._fail(error)
                    return
            self._queued_bytes = 0
        finally:
            self._has_worker = False
            self._done.callback(None)

    # snapshots

    def published(self, metadata_log: MetadataLog) -> None:
        """Make a snapshot of the published records, in the background, if it is time."""
        end = metadata_log.whole_offset
        if self._is_compacting or not self._is_on or end <= self._snapshot_offset or not self._is_due():
            return
        self._is_compacting = True
        place = SnapshotPlace(end, metadata_log.whole_epoch)
        run_in_background(log, self._compact(place), "no snapshot of the cluster's metadata was made")

    def _is_due(self) -> bool:
        if self._bytes_since >= self._bounds.record_bytes:
            return True
        interval = self._bounds.interval_ms
        return 0 < interval <= self._runtime.now_ms() - self._snapshot_ms

    def _snapshot_taken(self, end_offset: int) -> None:
        self._snapshot_offset, self._snapshot_ms = end_offset, self._runtime.now_ms()

    async def _compact(self, place: SnapshotPlace) -> None:
        """Read snapshot and log, write another snapshot, and put it in the place of what is before it."""
        try:
            counted = self._bytes_since
            await self._all_done()  # the files have the records
            if not self._is_on:
                return
            await self._runtime.in_thread(self._write_snapshot, place)
            if place.end_offset > self._snapshot_offset:
                self._put(partial(self._directory.add_snapshot, place))
                self._snapshot_taken(place.end_offset)
                self._bytes_since -= counted
        except Closed:
            pass
        except (OSError, PylogbrokerError) as error:
            self._snapshot_ms, self._bytes_since = self._runtime.now_ms(), 0  # tried again as late as after a success
            log.error("no snapshot of the cluster's metadata in {path}: {why}", path=self.path, why=error)
        finally:
            self._is_compacting = False

    def _write_snapshot(self, place: SnapshotPlace) -> None:
        """Blocks."""
        sources = self._directory.sources(place.end_offset)
        position = 0
        for piece in compacted(sources.batches(), place.epoch, self._give_way):
            self._directory.write_part(place, position, piece)
            position += len(piece)

    def _give_way(self) -> None:
        """Let other threads use the interpreter; raise Closed when the broker has ended."""
        if not self._is_on:
            raise Closed("the broker stops")
        time.sleep(0)


def _place(name: SnapshotName) -> SnapshotPlace:
    return SnapshotPlace(name.end_offset, name.epoch)
