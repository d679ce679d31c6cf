"""Contents of the remote storage for one partition, as its leader or a follower has listed them.

A listing is of one leader epoch: another one begins with a new listing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from pylogbroker.broker.archive.access import ArchiveAccess
from pylogbroker.broker.archive.listing import NOT_LISTED, ArchiveListing
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import SegmentView
from pylogbroker.storage import Log
from pylogbroker.storage.log.leader_epochs import joined
from pylogbroker.storage.remote import contents
from pylogbroker.storage.remote.contents import Contents
from pylogbroker.storage.remote.lineage import Pieces, choose, contiguous_end
from pylogbroker.storage.remote.manifest import Epochs
from pylogbroker.storage.remote.reading import RemoteReader

_LIST_AGAIN_MS: Final = 5_000
_LISTING_SHARE: Final = 100
log = Logger()


@attrs.define(eq=False, repr=False)
class ArchiveCatalog:
    """Listing of one partition, and a reader of its segments."""

    partition: Partition
    topic_id: UUID
    access: ArchiveAccess
    reader: RemoteReader = attrs.field(init=False)
    listing: ArchiveListing = attrs.field(default=NOT_LISTED, init=False)
    is_stopped: bool = attrs.field(default=False, init=False)
    opened_end: int = attrs.field(init=False)
    """Log end when the broker opened the log, or restored it."""
    _listed_ms: int = attrs.field(default=0, init=False)
    _listing_took_ms: int = attrs.field(default=0, init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    def __attrs_post_init__(self) -> None:
        self.opened_end = self.log.log_end_offset
        access = self.access
        self.reader = RemoteReader(
            access.store, access.cache, self.topic_id, self.partition.index, access.read_limits.rate.record
        )

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def is_listed(self) -> bool:
        """Return whether the contents of the remote storage are known for this leader epoch."""
        return self.listing.epoch == self.partition.leader_epoch

    @property
    def is_current(self) -> bool:
        """Return whether the listing is that of the partition's leader epoch, and the work goes on."""
        return not self.is_stopped and self.is_listed and not self.log.offline_reason

    @property
    def pieces(self) -> Pieces:
        """Remote segments of the log; none before they are listed."""
        return self.listing.pieces if self.is_listed else ()

    @property
    def stored_end(self) -> int:
        """Offset before which all local records are stored; the local start if none are, or that is not known."""
        return contiguous_end(self.pieces, self.log.local_start_offset)

    def below_local_start(self) -> tuple[Pieces, Sequence[SegmentView]]:
        """Return the pieces below the local start, and their views."""
        return self.listing.below(self.log.local_start_offset) if self.is_listed else ((), ())

    async def listed(self, *, again: bool = False) -> ArchiveListing:
        """Return the listing, made once in a leader epoch, or `again`. Raise StoreFailure."""
        if self.is_listed and not again:
            return self.listing
        before = self.listing
        await self._lock.acquire()
        try:
            if not self.is_listed or self.listing is before:  # else another call has listed them
                await self._list()
        finally:
            self._lock.release()
        return self.listing

    async def with_listing(self, change: Callable[[], Coroutine[Deferred[Any], Any, None]]) -> None:
        """Run a change that depends on the listing: there is no other listing meanwhile."""
        await self._lock.acquire()
        try:
            await change()
        finally:
            self._lock.release()

    def listed_within(self, seconds: float) -> Deferred[tuple[None] | None]:
        """Return a Deferred that fires when the pieces are listed, or with None when the time is over."""
        return self.access.reads.wait((self, self.partition.leader_epoch, "list"), seconds, self._listed_once)

    async def _listed_once(self) -> tuple[None]:
        await self.listed()
        return (None,)

    async def _list(self) -> None:
        partition, access = self.partition, self.access
        epoch, epochs, start = partition.leader_epoch, self.log.epochs.entries, self.log.log_start_offset
        first = epochs[0][1] if epochs else self.log.log_end_offset
        before, latest, begin_ms = self.listing, self.log.epochs.latest, access.runtime.now_ms()

        def load() -> tuple[ArchiveListing, Epochs]:
            loaded = contents.load(access.store, self.topic_id, partition.index, before.contents.segments)
            earlier: Epochs = ()
            if start < first:
                earlier = self.reader.epochs_before(loaded.segments, first, latest)
            return ArchiveListing.of(epoch, loaded, choose(loaded.segments, joined(earlier, epochs), start)), earlier

        listing, earlier = await access.listings.run(access.calls.list, load)
        if partition.leader_epoch != epoch:
            raise KafkaError("the leader has changed", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._listed_ms = access.runtime.now_ms()
        self._listing_took_ms = self._listed_ms - begin_ms
        is_first = epoch != self.listing.epoch
        if earlier and self.log.epochs.entries == epochs:
            self.log.epochs.prepend(earlier)
        is_beyond_end = self.listing.is_beyond_end and not is_first
        if access.is_led(partition):
            if is_first and listing.pieces:
                is_beyond_end = listing.pieces[-1].end_offset > self._end_before(listing)
            self._check_start(listing)
        self.listing = listing.beyond_end() if is_beyond_end else listing
        if is_beyond_end and listing.pieces:
            self.report(
                f"it ends at {listing.pieces[-1].end_offset}, but the log at {self.log.log_end_offset}: records may be "
                "lost. Nothing is copied, deleted or read there"
            )
        damaged = listing.contents.damaged
        if damaged:
            others = f"; nor do {len(damaged) - 1} others" if len(damaged) > 1 else ""
            self.report(f"an archived segment does not count: {damaged[0]}{others}")

    def _end_before(self, listing: ArchiveListing) -> int:
        """Return the log's end before this process has copied anything in a leader epoch.

        A broker that is alone goes on with its epoch after a restart. Records that it has appended since may hide that
        earlier ones were lost, perhaps because a backup was restored.
        """
        goes_on = listing.newest_epoch >= listing.epoch
        return self.opened_end if goes_on else self.log.log_end_offset

    def _check_start(self, listing: ArchiveListing) -> None:
        """Let the log start where its records begin, if nobody has those before. For the leader."""
        pieces = listing.pieces
        first = min(pieces[0].first_offset if pieces else self.log.local_start_offset, self.log.local_start_offset)
        start = self.log.log_start_offset
        if not listing.contents.damaged and first > start:
            if all(name.end_offset <= start for name in listing.contents.deleted):  # else a leader has deleted them
                log.warn(
                    "records may be lost: the archive of {topic}-{partition} has none from offset {start} to {first}. "
                    "The log begins at {first}",
                    topic=self.partition.topic,
                    partition=self.partition.index,
                    start=start,
                    first=first,
                )
            self.log.start_at(first)

    def may_list_again(self) -> bool:
        """Return whether a missing object may be a segment that was copied or deleted since the last listing."""
        return self.access.runtime.now_ms() - self._listed_ms >= max(_LIST_AGAIN_MS, self._listing_pause_ms)

    @property
    def is_listing_due(self) -> bool:
        """Return whether enough time has passed since the last listing."""
        return self.access.runtime.now_ms() - self._listed_ms >= self._listing_pause_ms

    @property
    def _listing_pause_ms(self) -> int:
        """Time between two listings: a small part of it goes into listings, however many segments there are."""
        return _LISTING_SHARE * self._listing_took_ms

    async def load(self) -> Contents:
        """Return the contents, which no listing has: nobody leads the partition, or this broker follows."""
        access = self.access
        return await access.calls.list(contents.load, access.store, self.topic_id, self.partition.index)

    def report(self, problem: str) -> None:
        about = f"the archive of {self.partition.topic}-{self.partition.index}"
        if self.access.runtime.may_log(about):
            log.error("{about}: {problem}", about=about, problem=problem)
