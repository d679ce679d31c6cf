"""Work of a partition's leader on the archive: it copies sealed segments, and deletes old ones and what is left over.

log start                    local start              stored end        high watermark    log end
    |                             |                       |                   |              |
 ---[  remote segments, chosen by the log's leader epochs ]
                                  [ local segments                                           ]
                                                           sealed ones are copied, oldest first
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, takewhile
from typing import Final

import attrs

from pylogbroker.broker.archive.catalog import ArchiveCatalog
from pylogbroker.broker.partitions.archived import ArchiveTotals
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.remote import copying, deletion, summaries
from pylogbroker.storage.remote.checked_store import StoreFailure
from pylogbroker.storage.remote.contents import Contents
from pylogbroker.storage.remote.copying import CopyAborted
from pylogbroker.storage.remote.lineage import contiguous_end
from pylogbroker.storage.remote.object_names import SegmentName

SEGMENTS_MAX: Final = 300_000
"""Segments of a partition in the remote storage. All of their objects must fit into one listing."""

_SWEEP_MS: Final = 3_600_000


@attrs.define(eq=False, repr=False)
class ArchiveUpkeep:
    _catalog: ArchiveCatalog
    totals: ArchiveTotals
    _new_id: Callable[[], str]
    _lost_copies: set[SegmentName] = attrs.field(factory=set, init=False)  # copies that failed
    _swept_epoch: int = attrs.field(default=-2, init=False)
    _sweep_ms: int = attrs.field(default=0, init=False)  # when the next sweep in this epoch is due

    @property
    def lag(self) -> tuple[int, int]:
        """Bytes and number of sealed segments that are not copied yet."""
        end = self._catalog.stored_end
        waiting = [segment for segment, next_base in self._sealed() if next_base > end]
        return sum(segment.size for segment in waiting), len(waiting)

    async def delete_old(self) -> None:
        """Delete remote segments before the log start, and copies that failed. For the leader."""
        catalog = self._catalog
        now_ms = catalog.access.runtime.now_ms()
        is_time = now_ms >= self._sweep_ms
        is_swept = self._swept_epoch == catalog.partition.leader_epoch
        lists_again, lost_before = is_swept and is_time, frozenset(self._lost_copies)
        listing = await catalog.listed(again=lists_again)  # it finds the tombstones of earlier deletions
        if listing.is_beyond_end:
            return
        if is_time or not is_swept:
            await catalog.with_listing(lambda: self._sweep(listing.epoch, now_ms))
        if lists_again:  # the listing has those that are stored, and the others were swept
            self._lost_copies -= lost_before
        await catalog.with_listing(self._delete_lost_copies)
        for segment in catalog.listing.ending_before(catalog.log.log_start_offset):
            if catalog.is_current:
                catalog.listing = catalog.listing.without(segment)
                try:
                    await self._delete(segment.name)
                except StoreFailure:
                    self._lost_copies.add(segment.name)
                    raise

    async def _sweep(self, epoch: int, now_ms: int) -> None:
        """Finish deletions, and update the summaries, as the leader of an epoch."""
        catalog = self._catalog
        if catalog.listing.epoch == epoch:
            left = await catalog.access.calls.write(self._sweep_store, catalog.listing.contents, epoch, now_ms)
            self._sweep_ms, self._swept_epoch = now_ms + _SWEEP_MS, epoch
            catalog.listing = catalog.listing.swept(left)

    def _sweep_store(self, held: Contents, epoch: int, now_ms: int) -> frozenset[SegmentName]:
        """Blocks; return the segments with tombstones."""
        catalog = self._catalog
        store, topic_id, index = catalog.access.store, catalog.topic_id, catalog.partition.index
        left = deletion.sweep(store, topic_id, index, held, epoch, now_ms)
        summaries.update(store, topic_id, index, held.segments, held.summaries, epoch, self._new_id)
        return left

    async def _delete_lost_copies(self) -> None:
        """Delete the copies that failed, when others have their records.

        A failure may be that of an answer. Then the copy is stored, and counts once a listing has it: local records may
        have been deleted since, here or by followers.
        """
        catalog = self._catalog
        for name in tuple(self._lost_copies):
            listing = catalog.listing
            if not catalog.is_current:
                return
            if not listing.has(name):
                end = max(contiguous_end(listing.pieces, name.base_offset), catalog.log.log_start_offset)
                if end < name.end_offset:
                    continue
                await self._delete(name)
            self._lost_copies.discard(name)

    async def _delete(self, name: SegmentName) -> None:
        catalog = self._catalog
        access, now_ms = catalog.access, catalog.access.runtime.now_ms()
        self.totals.delete_requests += 1
        try:
            await access.calls.write(
                deletion.delete_segment, access.store, catalog.topic_id, catalog.partition.index, name, now_ms,
            )  # fmt: skip
        except StoreFailure:
            self.totals.delete_errors += 1
            raise

    async def copy_due(self) -> None:
        """Copy the sealed segments that are not stored yet, oldest first. For the leader. Raise KafkaError."""
        catalog = self._catalog
        await catalog.listed()
        while (due := self._next_due()) is not None:
            if not await self._copy(*due):
                return

    def _next_due(self) -> tuple[Segment, int] | None:
        """Return the oldest sealed segment that is not stored, if it is time, and its records are stable and synced."""
        catalog = self._catalog
        if catalog.listing.is_beyond_end:
            return None
        if len(catalog.listing.contents.segments) >= SEGMENTS_MAX:
            catalog.report(
                f"it has {SEGMENTS_MAX} segments, and gets no more: choose a shorter retention, or larger segments "
                "by segment.bytes and segment.ms"
            )
            return None
        log_, stored_end = catalog.log, catalog.stored_end
        safe = min(log_.last_stable_offset, log_.recovery_point)
        for segment, next_base in self._sealed():
            if next_base > max(stored_end, log_.log_start_offset):
                is_safe = next_base <= safe and catalog.is_current
                return (segment, next_base) if is_safe and self._is_time(segment, next_base) else None
        return None

    def _is_time(self, segment: Segment, next_base: int) -> bool:
        """Return whether `remote.copy.lag.ms` or `remote.copy.lag.bytes` is reached, or does not hold."""
        catalog = self._catalog
        lag = catalog.partition.copy_lag
        if lag is None or lag.is_none:
            return lag is not None
        with catalog.log.on_disk():
            view = segment.view(next_base, False)
        time_ms = view.largest_timestamp if view.largest_timestamp >= 0 else view.modified_ms
        behind = takewhile(lambda one: one.base_offset >= next_base, reversed(catalog.log.segments))
        newer = sum(one.size for one in behind)
        return lag.is_over(catalog.access.runtime.now_ms() - time_ms, newer)

    def _sealed(self) -> Iterator[tuple[Segment, int]]:
        segments = self._catalog.log.segments
        return ((segment, following.base_offset) for segment, following in pairwise(segments))

    async def _copy(self, segment: Segment, next_base: int) -> bool:
        """Return whether the segment was stored; raise StoreFailure."""
        catalog = self._catalog
        log_, access, partition, epoch = catalog.log, catalog.access, catalog.partition, catalog.listing.epoch
        name = SegmentName(segment.base_offset, next_base, max(epoch, 0), self._new_id())
        truncations = log_.truncations

        def is_wanted() -> bool:
            return catalog.is_current and catalog.listing.epoch == epoch and log_.truncations == truncations

        with log_.on_disk():
            source = copying.SegmentSource(
                log_.topic, catalog.topic_id, partition.index, log_.path, segment.file.handle, segment.base_offset,
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
            if not is_wanted():  # the files have gone with the replica, or to another directory
                return False
            self.totals.copy_errors += 1
            catalog.report(f"{segment.path} cannot be copied: {error}")
            return False
        except StoreFailure:
            self._lost_copies.add(name)
            self.totals.copy_errors += 1
            raise
        if not is_wanted():
            self._lost_copies.add(name)
            return False
        self.totals.copied_bytes += stored.size + stored.index_size
        listing = catalog.listing.with_copy(stored, log_.log_start_offset)
        if listing is None:  # it fills a gap
            await catalog.listed(again=True)
        else:
            catalog.listing = listing
        return True
