"""One archived partition, as its leader or a follower has it.

    log start                    local start              stored end        high watermark    log end
        |                             |                       |                   |              |
     ---[  remote segments, chosen by the log's leader epochs ]
                                      [ local segments                                           ]
                                      may be deleted locally  must stay

The leader copies sealed segments and deletes old ones (`upkeep`); followers list what it has stored (`catalog`). Both
serve consumers (`reads`), delete local segments, and let a log begin again where its archive ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID, uuid4

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from pylogbroker.broker.archive.access import ArchiveAccess
from pylogbroker.broker.archive.catalog import ArchiveCatalog
from pylogbroker.broker.archive.reads import ArchiveReads
from pylogbroker.broker.archive.upkeep import ArchiveUpkeep
from pylogbroker.broker.partitions.archived import ArchiveTotals
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.storage import DeletedFiles, Log
from pylogbroker.storage.log.retention import expire_archived
from pylogbroker.storage.remote.checked_store import StoreFailure
from pylogbroker.storage.remote.contents import Contents
from pylogbroker.storage.remote.lineage import choose, contiguous_end
from pylogbroker.storage.remote.reading import RestoredState

_EPOCH_MAX: Final = 2**31 - 1
log = Logger()


@attrs.define(eq=False, repr=False)
class ArchivedPartition:
    partition: Partition
    topic_id: UUID
    _access: ArchiveAccess
    _new_id: Callable[[], str] = lambda: uuid4().hex
    totals: ArchiveTotals = attrs.field(factory=ArchiveTotals, init=False)
    upkeep: ArchiveUpkeep = attrs.field(init=False)
    _catalog: ArchiveCatalog = attrs.field(init=False)
    reads: ArchiveReads = attrs.field(init=False)
    _keeps_expired: bool = attrs.field(default=False, init=False)  # local segments, which may not be stored

    def __attrs_post_init__(self) -> None:
        self._catalog = ArchiveCatalog(self.partition, self.topic_id, self._access)
        self.reads = ArchiveReads(self._catalog, self.totals)
        self.upkeep = ArchiveUpkeep(self._catalog, self.totals, self._new_id)

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def is_stopped(self) -> bool:
        return self._catalog.is_stopped

    def stop(self) -> None:
        """Let copies and deletions end soon: the broker stops, or the replica goes."""
        self._catalog.is_stopped = True

    # As others see it

    @property
    def is_listed(self) -> bool:
        """Return whether the contents of the remote storage are known for this leader epoch."""
        return self._catalog.is_listed

    @property
    def has_segments(self) -> bool:
        """Return whether the log has remote segments, as far as they are listed."""
        return bool(self._catalog.pieces)

    @property
    def stored_end(self) -> int:
        """Offset before which all local records are stored; the local start if none are, or that is not known."""
        return self._catalog.stored_end

    @property
    def size(self) -> int:
        """Bytes of the log's segments in the remote storage."""
        return self._catalog.listing.size if self._catalog.is_listed else 0

    @property
    def segment_count(self) -> int:
        return len(self._catalog.pieces)

    @property
    def lag(self) -> tuple[int, int]:
        """Bytes and number of sealed segments that are not copied yet."""
        return self.upkeep.lag

    def listed_within(self, seconds: float) -> Deferred[tuple[None] | None]:
        """Return a Deferred that fires when the pieces are listed, or with None when the time is over."""
        return self._catalog.listed_within(seconds)

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
            self._catalog.below_local_start()[1],
            self._deletable_end(),
            self._stored_end(),
            self._note_kept,
        )

    def _note_kept(self) -> None:
        self._keeps_expired = True

    async def follow(self) -> None:
        """List again if local segments could be deleted if they were stored. For a follower."""
        catalog = self._catalog
        if self._keeps_expired and (catalog.is_listing_due or not catalog.is_listed):
            await catalog.listed(again=True)

    def _deletable_end(self) -> int:
        """Return the offset before which records may be deleted for good."""
        if self._catalog.listing.is_beyond_end:
            return self.log.local_start_offset
        return self.log.log_end_offset if self.partition.copy_lag is None else self.stored_end

    def _stored_end(self) -> int:
        """Return the offset before which local records are stored, or below a log start that a crash does not undo."""
        first = self.log.segments[0].base_offset
        if self._catalog.listing.is_beyond_end:
            return first
        return contiguous_end(self._catalog.pieces, max(first, self.log.durable_start))

    # Restoring

    async def state_at(self, offset: int) -> RestoredState:
        """Return the state of the log at an offset, which the leader has as its local start. Raise KafkaError."""
        loaded = await self._catalog.load()
        return await self._state_at(loaded, offset, _EPOCH_MAX)

    async def recover(self) -> list[DeletedFiles]:
        """Let a log whose local records are lost begin where its archive ends. Nothing is led here meanwhile."""
        loaded = await self._catalog.load()
        newest = max(loaded.segments, key=lambda one: (one.name.leader_epoch, one.end_offset), default=None)
        if newest is None:
            return []
        state = await self._state_at(loaded, newest.end_offset, _EPOCH_MAX)
        pieces = await self._catalog.access.calls.read(choose, loaded.segments, state.epochs, 0)
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
        now_ms = self._catalog.access.runtime.now_ms()
        start = max(log_start, state.epochs[0][1] if state.epochs else state.offset)
        deleted = self.log.restore_at(state.offset, start, state.epochs, state.producers, now_ms)
        self._catalog.opened_end = state.offset
        return deleted

    async def _state_at(self, loaded: Contents, offset: int, epoch_max: int) -> RestoredState:
        catalog = self._catalog
        state = await catalog.access.calls.read(catalog.reader.state_at, loaded.segments, offset, epoch_max)
        if state is None:
            raise StoreFailure(
                f"the remote storage has no segment of {self.partition.topic}-{self.partition.index} with the record "
                f"before offset {offset}. All brokers with replicas of the topic need the same remote.log.storage"
            )
        return state
