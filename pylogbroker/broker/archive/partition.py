"""One archived partition, as its leader or a follower has it.

    log start                    local start              stored end        high watermark    log end
        |                             |                       |                   |              |
     ---[  remote segments, chosen by the log's leader epochs ]
                                      [ local segments                                           ]
                                      may be deleted locally  must stay

The leader copies sealed segments and deletes old ones; followers list what it has stored. Both read. State is of one
leader epoch: another one begins with a new listing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, Protocol, TypeVar
from uuid import UUID, uuid4

import attrs
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from pylogbroker.broker.archive.limits import CopyLimits
from pylogbroker.broker.archive.shared_reads import SharedReads
from pylogbroker.broker.partitions.archived import ArchivedRecords, ArchiveTotals
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.runtime.resources import InThread, Runtime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import SegmentView
from pylogbroker.storage import DeletedFiles, Log, TimestampedOffset
from pylogbroker.storage.log.retention import expire_archived
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.remote import contents, copying, deletion
from pylogbroker.storage.remote.checked_store import CheckedStore, MissingObject, StoreFailure
from pylogbroker.storage.remote.chunk_cache import ChunkCache
from pylogbroker.storage.remote.contents import Contents
from pylogbroker.storage.remote.copying import CopyAborted
from pylogbroker.storage.remote.lineage import Pieces, SegmentPiece, choose, contiguous_end, find
from pylogbroker.storage.remote.manifest import DamagedObject, RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName
from pylogbroker.storage.remote.reading import RemoteReader

READ_BYTES_MAX: Final = 8 << 20
"""Bytes that one fetch reads from the remote storage, unless a batch is larger."""

_SWEEP_MS: Final = 3_600_000
T = TypeVar("T")
log = Logger()


class HealthNotes(Protocol):
    def note_success(self) -> None: ...
    def note_failure(self, why: StoreFailure, /) -> None: ...


@attrs.frozen(eq=False, repr=False)
class ArchiveAccess:
    """Services that all archived partitions share."""

    runtime: Runtime
    store: CheckedStore
    cache: ChunkCache
    limits: CopyLimits
    in_reading_thread: InThread
    in_copying_thread: InThread
    health: HealthNotes
    reads: SharedReads


@attrs.frozen
class _Listing:
    """Contents of the remote storage in a leader epoch, and the pieces of the log there."""

    epoch: int
    contents: Contents
    pieces: Pieces


_NOT_LISTED: Final = _Listing(-2, Contents(), ())


@attrs.define(eq=False, repr=False)
class ArchivedPartition:
    partition: Partition
    topic_id: UUID
    _access: ArchiveAccess
    _new_id: Callable[[], str] = lambda: uuid4().hex
    totals: ArchiveTotals = attrs.field(factory=ArchiveTotals, init=False)
    is_stopped: bool = attrs.field(default=False, init=False)
    _reader: RemoteReader = attrs.field(init=False)
    _listing: _Listing = attrs.field(default=_NOT_LISTED, init=False)
    _lost_copies: set[SegmentName] = attrs.field(factory=set, init=False)  # copies that failed
    _sweep_ms: int = attrs.field(default=0, init=False)  # when the next one is due
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = RemoteReader(self._access.store, self._access.cache, self.topic_id, self.partition.index)

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def is_listed(self) -> bool:
        """Return whether the contents of the remote storage are known for this leader epoch."""
        return self._listing.epoch == self.partition.leader_epoch

    @property
    def pieces(self) -> Pieces:
        """Remote segments of the log; none before they are listed."""
        return self._listing.pieces if self.is_listed else ()

    @property
    def has_segments(self) -> bool:
        """Return whether the log has remote segments, as far as they are listed."""
        return bool(self.pieces)

    @property
    def stored_end(self) -> int:
        """Offset before which all local records are stored; the local start if none are, or that is not known."""
        local_start = self.log.local_start_offset
        return contiguous_end(self.pieces, local_start)

    @property
    def size(self) -> int:
        """Bytes of the log's segments in the remote storage."""
        return sum(piece.segment.size for piece in self.pieces)

    @property
    def lag(self) -> tuple[int, int]:
        """Bytes and number of sealed segments that are not copied yet."""
        end = self.stored_end
        waiting = [segment for segment, next_base in self._sealed() if next_base > end]
        return sum(segment.size for segment in waiting), len(waiting)

    # Listing

    async def listed(self, *, again: bool = False) -> Pieces:
        """Return the pieces, listed once in a leader epoch, or `again`. Raise StoreFailure."""
        if self.is_listed and not again:
            return self._listing.pieces
        before = self._listing
        await self._lock.acquire()
        try:
            if not self.is_listed or self._listing is before:  # else another call has listed them
                await self._list()
        finally:
            self._lock.release()
        return self._listing.pieces

    async def _list(self) -> None:
        partition, access = self.partition, self._access
        epoch, epochs, start = partition.leader_epoch, self.log.epochs.entries, self.log.log_start_offset
        manifests = {segment.name: segment for segment in self._listing.contents.segments}

        def load() -> tuple[Contents, Pieces]:
            loaded = contents.load(access.store, self.topic_id, partition.index, manifests)
            return loaded, choose(loaded.segments, epochs, start)

        loaded, pieces = await self._asked(access.in_reading_thread, load)
        if partition.leader_epoch != epoch:
            raise KafkaError("the leader has changed", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if epoch != self._listing.epoch:
            self._sweep_ms = 0
        self._listing = _Listing(epoch, loaded, pieces)
        for damage in loaded.damaged:
            if access.runtime.may_log(damage):
                log.error("an archived segment does not count: {damage}", damage=damage)

    async def _asked(self, in_thread: InThread, call: Callable[..., T], *arguments: object) -> T:
        """Return the result of a call in a thread; note whether the store works."""
        try:
            result: T = await in_thread(call, *arguments)
        except MissingObject:
            raise
        except StoreFailure as failure:
            self._access.health.note_failure(failure)
            raise
        self._access.health.note_success()
        return result

    # Reading

    def read_within(
        self, seconds: float, offset: int, max_bytes: int, upto: int, *, min_one: bool, is_committed: bool
    ) -> Deferred[ArchivedRecords | None]:
        """Return a Deferred of records from the remote storage, or of None when the time is over.

        It fails with KafkaError. A later call with the same offset waits for the same read.
        """
        key = self, self.partition.leader_epoch, offset, max_bytes, min_one, is_committed
        return self._access.reads.wait(
            key, seconds, lambda: self._read_listed(offset, max_bytes, upto, min_one, is_committed)
        )

    async def _read_listed(
        self, offset: int, max_bytes: int, upto: int, min_one: bool, is_committed: bool
    ) -> ArchivedRecords:
        self.totals.fetch_requests += 1
        try:
            pieces = await self.listed()
            if find(pieces, offset) is None:
                pieces = await self.listed(again=True)
            try:
                records = await self._read(pieces, offset, max_bytes, upto, min_one, is_committed)
            except MissingObject:  # deleted since the listing
                pieces = await self.listed(again=True)
                records = await self._read(pieces, offset, max_bytes, upto, min_one, is_committed)
        except KafkaError as error:
            self.totals.fetch_errors += 1
            if isinstance(error, DamagedObject):
                self._report(f"records at offset {offset} cannot be read: {error.detail}")
            raise
        self.totals.fetched_bytes += len(records.data)
        return records

    async def _read(
        self, pieces: Pieces, offset: int, max_bytes: int, upto: int, min_one: bool, is_committed: bool
    ) -> ArchivedRecords:
        def read() -> ArchivedRecords:
            records = self._reader.read(pieces, offset, min(max_bytes, READ_BYTES_MAX), upto, min_one=min_one)
            if records is None:
                detail = (
                    f"the remote storage has no record of {self.partition.topic}-{self.partition.index} at {offset}"
                )
                raise StoreFailure(detail)
            if not is_committed:
                return ArchivedRecords(records.data, records.next_offset)
            aborted, is_all = self._reader.aborted_transactions(pieces, offset, records.next_offset)
            return ArchivedRecords(records.data, records.next_offset, aborted, is_all)

        return await self._asked(self._access.in_reading_thread, read)

    async def find_timestamp(self, timestamp: int, start: int) -> TimestampedOffset | None:
        """Return the first remote record below the local start with at least this timestamp. Raise KafkaError."""
        await self.listed()
        pieces = self._below_local_start()
        return await self._asked(self._access.in_reading_thread, self._reader.find_timestamp, pieces, timestamp, start)

    def _below_local_start(self) -> Pieces:
        local_start = self.log.local_start_offset
        return tuple(
            attrs.evolve(piece, end_offset=min(piece.end_offset, local_start))
            for piece in self.pieces
            if piece.first_offset < local_start
        )

    def _report(self, problem: str) -> None:
        about = f"the archive of {self.partition.topic}-{self.partition.index}"
        if self._access.runtime.may_log(about):
            log.error("{about}: {problem}", about=about, problem=problem)

    # Retention

    def expire(self, now_ms: int, *, is_leader: bool) -> Iterator[DeletedFiles | None]:
        """Drop local segments that are stored; the leader also moves the log start, by the policies of the topic."""
        partition, remote = self.partition, self._below_local_start()
        return expire_archived(
            self.log,
            now_ms,
            partition.delete_policies if is_leader and self.is_listed else (),
            partition.local_delete_policies,
            [_view(piece) for piece in remote],
            self.log.log_end_offset if partition.copies_no_more else self.stored_end,
        )

    async def delete_old(self) -> None:
        """Delete remote segments before the log start, and copies that failed. For the leader."""
        now_ms, access, index = self._access.runtime.now_ms(), self._access, self.partition.index
        await self.listed()
        held = self._listing.contents
        if now_ms >= self._sweep_ms:
            left = await self._asked(
                access.in_copying_thread,
                deletion.sweep, access.store, self.topic_id, index, held, self.partition.leader_epoch, now_ms,
            )  # fmt: skip
            self._sweep_ms = now_ms + _SWEEP_MS
            swept = attrs.evolve(held, deleted=left, undeleted=frozenset(), unfinished=frozenset())
            self._listing = attrs.evolve(self._listing, contents=swept)
        for name in tuple(self._lost_copies):
            await self._delete(name)
            self._lost_copies.discard(name)
        start = self.log.log_start_offset
        for segment in self._listing.contents.segments:
            if segment.end_offset <= start and self._is_current():
                self._forget(segment)
                try:
                    await self._delete(segment.name)
                except StoreFailure:
                    self._lost_copies.add(segment.name)
                    raise

    async def _delete(self, name: SegmentName) -> None:
        access, now_ms = self._access, self._access.runtime.now_ms()
        self.totals.delete_requests += 1
        try:
            await self._asked(
                access.in_copying_thread,
                deletion.delete_segment, access.store, self.topic_id, self.partition.index, name, now_ms,
            )  # fmt: skip
        except StoreFailure:
            self.totals.delete_errors += 1
            raise

    def _forget(self, segment: RemoteSegment) -> None:
        epoch, held, pieces = self._listing.epoch, self._listing.contents, self._listing.pieces
        segments = tuple(other for other in held.segments if other is not segment)
        left = tuple(piece for piece in pieces if piece.segment is not segment)
        self._listing = _Listing(epoch, attrs.evolve(held, segments=segments), left)

    # Copying

    async def copy_due(self) -> None:
        """Copy the sealed segments that are not stored yet, oldest first. For the leader. Raise KafkaError."""
        await self.listed()
        while (due := self._next_due()) is not None:
            if not await self._copy(*due):
                return

    def _next_due(self) -> tuple[Segment, int] | None:
        """Return the oldest sealed segment that is not stored, if its records are stable and on the disk."""
        log_, stored_end = self.log, self.stored_end
        safe = min(log_.last_stable_offset, log_.recovery_point)
        for segment, next_base in self._sealed():
            if next_base > max(stored_end, log_.log_start_offset):
                return (segment, next_base) if next_base <= safe and self._is_current() else None
        return None

    def _sealed(self) -> Iterator[tuple[Segment, int]]:
        segments = self.log.segments
        return ((segment, following.base_offset) for segment, following in pairwise(segments))

    def _is_current(self) -> bool:
        """Return whether the state is that of the partition's leader epoch, and the work goes on."""
        return not self.is_stopped and self.is_listed and not self.log.offline_reason

    async def _copy(self, segment: Segment, next_base: int) -> bool:
        """Return whether the segment was stored; raise StoreFailure."""
        log_, access, partition, epoch = self.log, self._access, self.partition, self._listing.epoch
        name = SegmentName(segment.base_offset, next_base, max(epoch, 0), self._new_id())
        truncations = log_.truncations

        def is_wanted() -> bool:
            return self._is_current() and self._listing.epoch == epoch and log_.truncations == truncations

        with log_.on_disk():
            source = copying.SegmentSource(
                log_.topic, self.topic_id, partition.index, log_.path, segment.file.handle, segment.base_offset,
                next_base, segment.size, segment.largest()[0],
                tuple(entry for entry in log_.epochs.entries if entry[1] < next_base),
            )  # fmt: skip
        self.totals.copy_requests += 1
        try:
            stored = await self._asked(
                access.in_copying_thread,
                copying.copy, access.store, source, name, access.runtime.now_ms(), access.limits.pace(is_wanted),
            )  # fmt: skip
        except CopyAborted:
            self._lost_copies.add(name)
            return False
        except OSError as error:
            self._lost_copies.add(name)
            self.totals.copy_errors += 1
            self._report(f"{segment.path} cannot be copied: {error}")
            return False
        except StoreFailure:
            self._lost_copies.add(name)
            self.totals.copy_errors += 1
            raise
        if not is_wanted():
            self._lost_copies.add(name)
            return False
        self.totals.copied_bytes += stored.size + stored.index_size
        self._note(stored)
        return True

    def _note(self, stored: RemoteSegment) -> None:
        epoch, held, pieces = self._listing.epoch, self._listing.contents, self._listing.pieces
        contents_now = attrs.evolve(held, segments=(*held.segments, stored))
        start = self.log.log_start_offset
        end = pieces[-1].end_offset if pieces else start
        if end < stored.end_offset:
            pieces = (*pieces, SegmentPiece(stored, max(stored.base_offset, end), stored.end_offset))
        else:  # it fills a gap
            pieces = choose(contents_now.segments, self.log.epochs.entries, start)
        self._listing = _Listing(epoch, contents_now, pieces)


def _view(piece: SegmentPiece) -> SegmentView:
    segment = piece.segment
    return SegmentView(
        piece.first_offset, piece.end_offset, segment.size, segment.max_timestamp, segment.copied_ms, False
    )
