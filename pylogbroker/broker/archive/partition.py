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

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final
from uuid import UUID, uuid4

import attrs
from twisted.internet.defer import Deferred, DeferredLock, DeferredSemaphore
from twisted.logger import Logger

from pylogbroker.broker.archive.limits import CopyLimits, ReadLimits
from pylogbroker.broker.archive.listing import NOT_LISTED, ArchiveListing
from pylogbroker.broker.archive.shared_reads import SharedReads
from pylogbroker.broker.archive.store_calls import StoreCalls
from pylogbroker.broker.partitions.archived import ArchivedRecords, ArchiveTotals
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import SegmentView
from pylogbroker.storage import DeletedFiles, Log, TimestampedOffset
from pylogbroker.storage.log.leader_epochs import joined
from pylogbroker.storage.log.retention import expire_archived
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.log.transaction_index import AbortedTxn
from pylogbroker.storage.remote import contents, copying, deletion, summaries
from pylogbroker.storage.remote.checked_store import CheckedStore, MissingObject, StoreFailure
from pylogbroker.storage.remote.chunk_cache import ChunkCache
from pylogbroker.storage.remote.contents import Contents
from pylogbroker.storage.remote.copying import CopyAborted
from pylogbroker.storage.remote.lineage import Pieces, choose, contiguous_end, find
from pylogbroker.storage.remote.manifest import DamagedObject, Epochs
from pylogbroker.storage.remote.object_names import SegmentName
from pylogbroker.storage.remote.reading import RemoteReader, RestoredState

READ_BYTES_MAX: Final = 8 << 20
"""Bytes that one fetch reads from the remote storage, unless a batch is larger."""

_SWEEP_MS: Final = 3_600_000
_LIST_AGAIN_MS: Final = 5_000
_LISTING_SHARE: Final = 100
_EPOCH_MAX: Final = 2**31 - 1
log = Logger()


@attrs.frozen(eq=False, repr=False)
class ArchiveAccess:
    """Services that all archived partitions share."""

    runtime: Runtime
    store: CheckedStore
    cache: ChunkCache
    limits: CopyLimits
    read_limits: ReadLimits
    calls: StoreCalls
    is_led: Callable[[Partition], bool]
    reads: SharedReads
    listings: DeferredSemaphore
    """Few at the same time: threads that compute get no further together, and the reactor waits for each."""
    wait_ms: Callable[[], int]
    """Time that a fetch waits."""

    def stop(self) -> None:
        """Fail all that waits for the store, and what is asked later."""
        self.limits.stop()
        self.read_limits.stop()
        self.calls.stop()
        self.reads.stop()


@attrs.define(eq=False, repr=False)
class ArchivedPartition:
    partition: Partition
    topic_id: UUID
    _access: ArchiveAccess
    _new_id: Callable[[], str] = lambda: uuid4().hex
    totals: ArchiveTotals = attrs.field(factory=ArchiveTotals, init=False)
    is_stopped: bool = attrs.field(default=False, init=False)
    _reader: RemoteReader = attrs.field(init=False)
    _opened_end: int = attrs.field(init=False)  # log end when the broker opened the log
    _listing: ArchiveListing = attrs.field(default=NOT_LISTED, init=False)
    _lost_copies: set[SegmentName] = attrs.field(factory=set, init=False)  # copies that failed
    _listed_ms: int = attrs.field(default=0, init=False)
    _listing_took_ms: int = attrs.field(default=0, init=False)
    _keeps_expired: bool = attrs.field(default=False, init=False)  # local segments, which may not be stored
    _sweep_ms: int = attrs.field(default=0, init=False)  # when the next one is due
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    def __attrs_post_init__(self) -> None:
        self._opened_end = self.log.log_end_offset
        access = self._access
        self._reader = RemoteReader(
            access.store, access.cache, self.topic_id, self.partition.index, access.read_limits.rate.record
        )

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
        return self._listing.size if self.is_listed else 0

    @property
    def segment_count(self) -> int:
        return len(self.pieces)

    @property
    def lag(self) -> tuple[int, int]:
        """Bytes and number of sealed segments that are not copied yet."""
        end = self.stored_end
        waiting = [segment for segment, next_base in self._sealed() if next_base > end]
        return sum(segment.size for segment in waiting), len(waiting)

    # Listing

    async def listed(self, *, again: bool = False) -> ArchiveListing:
        """Return the listing, made once in a leader epoch, or `again`. Raise StoreFailure."""
        if self.is_listed and not again:
            return self._listing
        before = self._listing
        await self._lock.acquire()
        try:
            if not self.is_listed or self._listing is before:  # else another call has listed them
                await self._list()
        finally:
            self._lock.release()
        return self._listing

    def listed_within(self, seconds: float) -> Deferred[tuple[None] | None]:
        """Return a Deferred that fires when the pieces are listed, or with None when the time is over."""
        return self._access.reads.wait((self, self.partition.leader_epoch, "list"), seconds, self._listed_once)

    async def _listed_once(self) -> tuple[None]:
        await self.listed()
        return (None,)

    async def _list(self) -> None:
        partition, access = self.partition, self._access
        epoch, epochs, start = partition.leader_epoch, self.log.epochs.entries, self.log.log_start_offset
        first = epochs[0][1] if epochs else self.log.log_end_offset
        before, latest, begin_ms = self._listing, self.log.epochs.latest, access.runtime.now_ms()

        def load() -> tuple[ArchiveListing, Epochs]:
            loaded = contents.load(access.store, self.topic_id, partition.index, before.contents.segments)
            earlier: Epochs = ()
            if start < first:
                earlier = self._reader.epochs_before(loaded.segments, first, latest)
            return ArchiveListing.of(epoch, loaded, choose(loaded.segments, joined(earlier, epochs), start)), earlier

        listing, earlier = await access.listings.run(access.calls.read, load)
        if partition.leader_epoch != epoch:
            raise KafkaError("the leader has changed", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._listed_ms = access.runtime.now_ms()
        self._listing_took_ms = self._listed_ms - begin_ms
        is_first = epoch != self._listing.epoch
        if is_first:
            self._sweep_ms = 0
        if earlier and self.log.epochs.entries == epochs:
            self.log.epochs.prepend(earlier)
        is_beyond_end = self._listing.is_beyond_end and not is_first
        if access.is_led(partition):
            if is_first and listing.pieces:
                is_beyond_end = listing.pieces[-1].end_offset > self._end_before(listing)
            self._check_start(listing)
        self._listing = listing.beyond_end() if is_beyond_end else listing
        if is_beyond_end and listing.pieces:
            self._report(
                f"it ends at {listing.pieces[-1].end_offset}, but the log at {self.log.log_end_offset}: records may be "
                "lost. Nothing is copied, deleted or read there"
            )
        damaged = listing.contents.damaged
        if damaged:
            others = f"; nor do {len(damaged) - 1} others" if len(damaged) > 1 else ""
            self._report(f"an archived segment does not count: {damaged[0]}{others}")

    def _end_before(self, listing: ArchiveListing) -> int:
        """Return the log's end before this process has copied anything in a leader epoch.

        A broker that is alone goes on with its epoch after a restart. Records that it has appended since may hide that
        earlier ones were lost, perhaps because a backup was restored.
        """
        goes_on = listing.newest_epoch >= listing.epoch
        return self._opened_end if goes_on else self.log.log_end_offset

    def _check_start(self, listing: ArchiveListing) -> None:
        """Let the log start where its records begin, if nobody has those before. For the leader."""
        pieces = listing.pieces
        first = min(pieces[0].first_offset if pieces else self.log.local_start_offset, self.log.local_start_offset)
        if not listing.contents.damaged and first > self.log.log_start_offset:
            self.log.start_at(first)

    # Reading

    def read_within(
        self,
        offset: int,
        max_bytes: int,
        upto: int,
        *,
        min_one: bool,
        is_committed: bool,
        seconds: float | None = None,
    ) -> Deferred[ArchivedRecords | None]:
        """Return a Deferred of records from the remote storage, or of None when the time is over.

        The time is by default `remote.fetch.max.wait.ms`. The Deferred fails with KafkaError. A later call with the
        same offset waits for the same read.
        """
        key = self, self.partition.leader_epoch, offset, max_bytes, min_one, is_committed
        if seconds is None:
            seconds = self._access.wait_ms() / 1000
        return self._access.reads.wait(
            key, seconds, lambda: self._read_listed(offset, max_bytes, upto, min_one, is_committed)
        )

    async def _read_listed(
        self, offset: int, max_bytes: int, upto: int, min_one: bool, is_committed: bool
    ) -> ArchivedRecords:
        limits, size = self._access.read_limits, min(max_bytes, READ_BYTES_MAX)
        await limits.begin(size)
        self.totals.fetch_requests += 1
        try:
            listing = await self.listed()
            if find(listing.pieces, offset) is None:
                listing = await self.listed(again=self._may_list_again())
            try:
                records = await self._read(listing, offset, max_bytes, upto, min_one, is_committed)
            except MissingObject:  # deleted since the listing
                listing = await self.listed(again=self._may_list_again())
                records = await self._read(listing, offset, max_bytes, upto, min_one, is_committed)
        except KafkaError as error:
            self.totals.fetch_errors += 1
            if isinstance(error, DamagedObject):
                self._report(f"records at offset {offset} cannot be read: {error.detail}")
            raise
        finally:
            limits.end(size)
        self.totals.fetched_bytes += len(records.data)
        return records

    def _may_list_again(self) -> bool:
        """Return whether a missing object may be a segment that was copied or deleted since the last listing."""
        return self._access.runtime.now_ms() - self._listed_ms >= max(_LIST_AGAIN_MS, self._listing_pause_ms)

    @property
    def _listing_pause_ms(self) -> int:
        """Time between two listings: a small part of it goes into listings, however many segments there are."""
        return _LISTING_SHARE * self._listing_took_ms

    async def _read(
        self, listing: ArchiveListing, offset: int, max_bytes: int, upto: int, min_one: bool, is_committed: bool
    ) -> ArchivedRecords:
        def read() -> ArchivedRecords:
            records = self._reader.read(listing.pieces, offset, min(max_bytes, READ_BYTES_MAX), upto, min_one=min_one)
            if records is None:
                detail = (
                    f"the remote storage has no record of {self.partition.topic}-{self.partition.index} at {offset}"
                )
                raise MissingObject(detail)
            aborted, is_all = list[AbortedTxn](), True
            if is_committed:
                aborted, is_all = self._reader.aborted_transactions(listing.aborted, offset, records.next_offset)
            return ArchivedRecords(records.data, records.next_offset, aborted, is_all)

        return await self._access.calls.read(read)

    def find_timestamp(
        self, timestamp: int, start: int, seconds: float
    ) -> Deferred[tuple[TimestampedOffset | None] | None]:
        """Return a Deferred of the first remote record with at least this timestamp, or of None when the time is over.

        The record is below the local start, and in a tuple: there may be none. The Deferred fails with KafkaError. A
        later call with the same arguments waits for the same search.
        """
        key = self, self.partition.leader_epoch, "time", timestamp, start
        return self._access.reads.wait(key, seconds, lambda: self._find_timestamp(timestamp, start))

    async def _find_timestamp(self, timestamp: int, start: int) -> tuple[TimestampedOffset | None]:
        await self.listed()
        search, pieces = self._reader.find_timestamp, self._remote()[0]
        return (await self._access.calls.read(search, pieces, timestamp, start),)

    def _report(self, problem: str) -> None:
        about = f"the archive of {self.partition.topic}-{self.partition.index}"
        if self._access.runtime.may_log(about):
            log.error("{about}: {problem}", about=about, problem=problem)

    # Retention

    def expire(self, now_ms: int, *, is_leader: bool) -> Iterator[DeletedFiles | None]:
        """Drop local segments that are stored; the leader also moves the log start, by the policies of the topic."""
        partition = self.partition
        self._keeps_expired = False
        return expire_archived(
            self.log,
            now_ms,
            partition.delete_policies if is_leader and self.is_listed else (),
            partition.local_delete_policies,
            self._remote()[1],
            self._deletable_end(),
            self._note_kept,
        )

    def _note_kept(self) -> None:
        self._keeps_expired = True

    def _remote(self) -> tuple[Pieces, Sequence[SegmentView]]:
        """Return the pieces below the local start, and their views."""
        return self._listing.below(self.log.local_start_offset) if self.is_listed else ((), ())

    async def follow(self) -> None:
        """List again if local segments could be deleted if they were stored. For a follower."""
        is_due = self._access.runtime.now_ms() - self._listed_ms >= self._listing_pause_ms
        if self._keeps_expired and (is_due or not self.is_listed):
            await self.listed(again=True)

    def _deletable_end(self) -> int:
        """Return the offset before which local records may be deleted."""
        if self._listing.is_beyond_end:
            return self.log.local_start_offset
        return self.log.log_end_offset if self.partition.copies_no_more else self.stored_end

    async def delete_old(self) -> None:
        """Delete remote segments before the log start, and copies that failed. For the leader."""
        now_ms, access = self._access.runtime.now_ms(), self._access
        await self.listed(again=0 < self._sweep_ms <= now_ms)  # it finds the tombstones of earlier deletions
        if self._listing.is_beyond_end:
            return
        if now_ms >= self._sweep_ms:
            left = await access.calls.write(self._sweep, self._listing.contents, now_ms)
            self._sweep_ms = now_ms + _SWEEP_MS
            self._listing = self._listing.swept(left)
        for name in tuple(self._lost_copies):
            await self._delete(name)
            self._lost_copies.discard(name)
        for segment in self._listing.ending_before(self.log.log_start_offset):
            if self._is_current():
                self._listing = self._listing.without(segment)
                try:
                    await self._delete(segment.name)
                except StoreFailure:
                    self._lost_copies.add(segment.name)
                    raise

    def _sweep(self, held: Contents, now_ms: int) -> frozenset[SegmentName]:
        """Finish deletions, and update the summaries. Blocks; return the segments with tombstones."""
        store, topic_id, index = self._access.store, self.topic_id, self.partition.index
        epoch = self.partition.leader_epoch
        left = deletion.sweep(store, topic_id, index, held, epoch, now_ms)
        summaries.update(store, topic_id, index, held.segments, held.summaries, epoch, self._new_id)
        return left

    async def _delete(self, name: SegmentName) -> None:
        access, now_ms = self._access, self._access.runtime.now_ms()
        self.totals.delete_requests += 1
        try:
            await access.calls.write(
                deletion.delete_segment, access.store, self.topic_id, self.partition.index, name, now_ms,
            )  # fmt: skip
        except StoreFailure:
            self.totals.delete_errors += 1
            raise

    # Restoring

    async def state_at(self, offset: int) -> RestoredState:
        """Return the state of the log at an offset, which the leader has as its local start. Raise KafkaError."""
        loaded = await self._load_contents()
        return await self._state_at(loaded, offset, _EPOCH_MAX)

    async def recover(self) -> list[DeletedFiles]:
        """Let a log whose local records are lost begin where its archive ends. Nothing is led here meanwhile."""
        loaded = await self._load_contents()
        newest = max(loaded.segments, key=lambda one: (one.name.leader_epoch, one.end_offset), default=None)
        if newest is None:
            return []
        state = await self._state_at(loaded, newest.end_offset, _EPOCH_MAX)
        pieces = await self._access.calls.read(choose, loaded.segments, state.epochs, 0)
        log.warn(
            "{topic}-{partition} has lost its local records: it begins at offset {offset}, where its archive ends. "
            "Records that were not archived are lost",
            topic=self.partition.topic,
            partition=self.partition.index,
            offset=state.offset,
        )
        return self.restore(state, pieces[0].first_offset)

    def restore(self, state: RestoredState, log_start: int = 0) -> list[DeletedFiles]:
        """Let the log begin again, empty, at a state of its archive."""
        now_ms = self._access.runtime.now_ms()
        start = max(log_start, state.epochs[0][1] if state.epochs else state.offset)
        deleted = self.log.restore_at(state.offset, start, state.epochs, state.producers, now_ms)
        self._opened_end = state.offset
        return deleted

    async def _load_contents(self) -> Contents:
        access = self._access
        return await access.calls.read(contents.load, access.store, self.topic_id, self.partition.index)

    async def _state_at(self, loaded: Contents, offset: int, epoch_max: int) -> RestoredState:
        reader = self._reader
        state = await self._access.calls.read(reader.state_at, loaded.segments, offset, epoch_max)
        if state is None:
            raise StoreFailure(
                f"the remote storage has no segment of {self.partition.topic}-{self.partition.index} with the record "
                f"before offset {offset}. All brokers with replicas of the topic need the same remote.log.storage"
            )
        return state

    # Copying

    async def copy_due(self) -> None:
        """Copy the sealed segments that are not stored yet, oldest first. For the leader. Raise KafkaError."""
        await self.listed()
        while (due := self._next_due()) is not None:
            if not await self._copy(*due):
                return

    def _next_due(self) -> tuple[Segment, int] | None:
        """Return the oldest sealed segment that is not stored, if its records are stable and on the disk."""
        if self._listing.is_beyond_end:
            return None
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
                len(segment.transaction_index),
                tuple(entry for entry in log_.epochs.entries if entry[1] < next_base),
            )  # fmt: skip
        self.totals.copy_requests += 1
        try:
            stored = await access.calls.write(
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
        listing = self._listing.with_copy(stored, log_.log_start_offset)
        if listing is None:  # it fills a gap
            await self.listed(again=True)
        else:
            self._listing = listing
        return True
