"""The segments of a log: how they begin, end, fail and go, and what follows from that for what is known of the log.

```
 log start                                                       log end offset
     |                                                                  |
  ---[ sealed segment ][ sealed segment ][ active segment              ]
      dropped from here      replaced by    cut off, or sealed, here
                             compacted ones here
```

The thread rules are those of `Log`, which is made of this.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from operator import attrgetter
from uuid import UUID

from pylogbroker.errors import OffsetOutOfRange, StorageFailure
from pylogbroker.interfaces import LogView, SegmentView
from pylogbroker.storage import names
from pylogbroker.storage.compaction.jobs import Replacement
from pylogbroker.storage.files import TRANSIENT_ERRNOS, DeletedFiles, Pools, remove
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.addressing import BYTE_ADDRESSED
from pylogbroker.storage.log.append_rules import rules_of
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.guarded_policy import GuardedPolicy
from pylogbroker.storage.log.leader_epochs import LeaderEpochs
from pylogbroker.storage.log.log_reader import LogReader
from pylogbroker.storage.log.log_transaction_index import LogTransactionIndex
from pylogbroker.storage.log.producer_recovery import load_producers
from pylogbroker.storage.log.producer_states import Origin, ProducerStates
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.log.segment_swap import SegmentSwap, SwapAborted, rename_cleaned_files

_base_offset = attrgetter("base_offset")


class LogSegments:
    """A log without what its users do with it."""

    def __init__(
        self,
        topic: str,
        partition: int,
        path: str,
        config: LogConfig,
        pools: Pools,
        segments: tuple[Segment, ...],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        epochs: LeaderEpochs,
        producers: ProducerStates,
        snapshot_offset: int,
        now_ms: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.path = path
        self.topic_id: UUID | None = None  # None if the directory does not say
        self.failure_errno = 0  # the number of the error that broke the log, if one did
        self.segments = segments
        self.addressing = segments[0].addressing
        self.byte_addressed = self.addressing is BYTE_ADDRESSED
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset  # followed by the broker
        self.recovery_point = recovery_point
        self.epochs = epochs
        self.producers = producers
        self._pools = pools
        self._active = segments[-1]
        self._synced_ms = now_ms
        self._snapshot_offset = snapshot_offset
        self._broken = ""
        self.truncations = 0  # how often the log was cut
        self.cleaner_checkpoint = 0  # what lies before was compacted
        self._sync_lock = threading.Lock()
        self._reader = LogReader()
        self._aborted = LogTransactionIndex(path)
        self._swap: SegmentSwap | None = None
        self._written_magic = 0  # the format of the last append
        self.config = config

    @property
    def config(self) -> LogConfig:
        """The topic's settings; a new value counts from the next append on.

        What is written in an older format than the append before it begins a new segment.  So the format of a region's
        first entry tells whether any in there is older than v2.
        """
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._client_rules = rules_of(config, Origin.CLIENT)
        self._converted_rules = self._client_rules.after_conversion
        self._coordinator_rules = rules_of(config, Origin.COORDINATOR)
        self._active.index_interval = config.index_interval_bytes

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    # Failing

    def failed(self, error: OSError, is_transient: frozenset[int] = TRANSIENT_ERRNOS) -> StorageFailure:
        """What to raise for an error of the disk.  Unless it is a `passing` one, the log takes no more appends."""
        failure = StorageFailure(f"{self.path}: {error.strerror or error}")
        if error.errno not in is_transient:
            self.failure_errno, self._broken = error.errno or 0, failure.detail
        return failure

    @contextmanager
    def _on_disk(self, is_transient: frozenset[int] = TRANSIENT_ERRNOS) -> Iterator[None]:
        """Errors of the disk within a `with` block become StorageFailure."""
        try:
            yield
        except OSError as error:
            raise self.failed(error, is_transient) from error

    @property
    def broken(self) -> str:
        """Why the log is offline; empty if it is not."""
        return self._broken

    def take_offline(self, reason: str) -> None:
        """Refuse appends from now on, and give back descriptors."""
        self._broken = self._broken or reason
        if self._swap is not None:
            self._swap.abort_unless_committed()
        for segment in self.segments:
            segment.close()

    # Rolling

    def roll(self, now_ms: int) -> None:
        """Seal the active segment, unless it is empty, and begin a new one."""
        if not self._active.size:
            return
        with self._on_disk():
            self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        active = self._active
        active.seal()
        self._write_snapshot(base_offset)
        segment = self._new_segment(base_offset, now_ms)
        if active.size:
            self.segments = (*self.segments, segment)
        else:  # too far away for an empty segment's relative offsets
            active.delete().unlink()
            self.segments = (*self.segments[:-1], segment)
            self._start_at(self.segments[0].base_offset)
        self._active = segment
        return segment

    def _write_snapshot(self, offset: int) -> None:
        """Keep what is known of producers, as of the log's end, unless a snapshot says it already."""
        if offset != self._snapshot_offset:
            producer_snapshots.write(names.file_of(self.path, offset, names.SNAPSHOT), self.producers)
            self._snapshot_offset = offset

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        config = self._config
        preallocate = config.segment_bytes if config.preallocate else 0
        segment = Segment.create(self.path, base_offset, self._pools, preallocate, now_ms, self.addressing)
        segment.index_interval = config.index_interval_bytes
        segment.jitter_ms = config.random_jitter_ms()
        return segment

    # Deleting

    def delete_records_before(self, offset: int) -> int:
        """Let the log begin at `offset`, if it does not begin later; says where it begins.

        Segments that lie before go at the next `expire`.  Blocks, if what has to be known is not in the page cache.
        """
        if offset > self.high_watermark or offset < 0:
            raise OffsetOutOfRange(f"offset {offset} is beyond the high watermark, {self.high_watermark}")
        self._start_at(self._begin_of(offset) if self.byte_addressed else offset)
        return self.log_start_offset

    def _begin_of(self, offset: int) -> int:
        """Where the entry begins that has the byte at `offset`: nobody could make sense of half of one."""
        place = self._reader.locate(self.segments, offset, may_wait=True)
        return offset if place is None else place[0].base_offset + place[1]

    def _start_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_start(offset)

    def expire(self, now_ms: int, policies: Iterable[GuardedPolicy] = ()) -> Iterator[DeletedFiles | None]:
        """Take away the segments that may go, in small steps; a worker has to `unlink` what is yielded.

        Those are what lies before the log's start, and of what the policies name all that is below the high watermark.
        When all may go, a new segment is begun first.  While segments are exchanged, none goes.

        The steps that yield None come before anything has changed; the caller may stop there, and must not stop later.
        Between steps the log may be used.
        """
        sealed, cuts = self.segments[:-1], self.truncations
        views = []
        for segment, following in zip(sealed, self.segments[1:], strict=True):
            with self._on_disk():
                views.append(segment.view(following.base_offset, False))
            yield None
        if self._broken or self._swap is not None:
            return
        if self.truncations != cuts or self.segments[: len(sealed)] != sealed:
            return  # they changed meanwhile: the next time will do
        views += self.views(len(sealed))
        yield from self._drop(self._expired(tuple(views), now_ms, policies))

    def _expired(self, views: tuple[SegmentView, ...], now_ms: int, policies: Iterable[GuardedPolicy]) -> int:
        """How many of the oldest segments may go; that one stays is seen to."""
        run = sum(1 for view in views if not view.active and view.next_offset <= self.log_start_offset)
        most = sum(1 for view in views if view.next_offset <= self.high_watermark)
        for policy in policies:
            if views[run:]:
                run += min(policy.run(LogView(self.topic, self.partition, views[run:]), now_ms), max(most - run, 0))
        if run and run == len(self.segments):
            self.roll(now_ms)
        return run

    def views(self, first: int = 0) -> list[SegmentView]:
        """The segments from the `first` on as delete policies see them: an active one that is empty is left out."""
        segments = self.segments if self._active.size else self.segments[:-1]
        ends = [segment.base_offset for segment in self.segments[first + 1 :]] + [self.log_end_offset]
        with self._on_disk():
            return [
                segment.view(end, segment is self._active) for segment, end in zip(segments[first:], ends, strict=False)
            ]

    # Compacting

    @property
    def first_dirty_offset(self) -> int:
        """From where on the log was not compacted yet."""
        return max(self.cleaner_checkpoint, self.log_start_offset)

    def begin_swap(self, replacements: Iterable[Replacement]) -> SegmentSwap:
        """Get ready for compacted segments to take the places of others.

        Those whose others are not all there any more are left out.  Until `end_swap` no segments are dropped.
        """
        ends = {one.base_offset: other.base_offset for one, other in pairwise(self.segments)}
        whole = {each: ends.keys() >= {*each.replaced} for each in replacements}
        kept = [each for each in whole if whole[each]]
        is_complete = ends.keys().isdisjoint(base for each in whole if not whole[each] for base in each.replaced)
        self._swap = SegmentSwap(self.path, tuple((each, ends[each.replaced[-1]]) for each in kept), is_complete)
        return self._swap

    def swap(self, now_ms: int) -> list[DeletedFiles]:
        """What was begun, and promised, happens; a worker has to `unlink` what is returned.

        SwapAborted; StorageFailure: the log is offline, and as it should be after the next start.
        """
        swap, deleted = self._swap, []
        if swap is None or self._broken:
            raise StorageFailure(self._broken or f"{self.path}: no exchange was begun")
        if swap.is_aborted:
            raise SwapAborted
        segments = {segment.base_offset: segment for segment in self.segments}
        with self._on_disk(frozenset()):
            for replacement, _ in swap.replacements:
                gone = [segments.pop(base) for base in replacement.replaced]
                deleted += [segment.delete(segment.base_offset == replacement.base_offset) for segment in gone]
                segments[replacement.base_offset] = self._compacted(replacement.base_offset, now_ms)
        self.segments = tuple(sorted(segments.values(), key=_base_offset))
        self._reader.forget()
        self._aborted.changed()
        return deleted

    def _compacted(self, base_offset: int, now_ms: int) -> Segment:
        sizes = rename_cleaned_files(self.path, base_offset)
        segment = Segment.existing(self.path, base_offset, sizes, self._pools, now_ms)
        segment.index_interval = self._config.index_interval_bytes
        return segment

    def end_swap(self) -> None:
        """It has happened, or is not to happen."""
        self._swap = None

    def abort_swap(self) -> None:
        """The log changes in a way that leaves nothing to exchange."""
        if self._swap is not None:
            with self._on_disk():
                self._swap.abort()

    def _drop(self, run: int) -> Iterator[DeletedFiles]:
        """Take the oldest segments away: all at once for readers, then file by file, the oldest first."""
        gone, self.segments = self.segments[:run], self.segments[run:]
        if gone:
            self._start_at(self.segments[0].base_offset)
        for segment in gone:
            with self._on_disk():
                deleted = segment.delete()
            yield deleted

    def truncate_to(self, offset: int) -> list[DeletedFiles]:
        """Cut off the entry that reaches `offset` and all behind it, as a follower does that diverged."""
        if offset >= self.log_end_offset:
            return []
        self.abort_swap()
        if offset < self.segments[0].base_offset:
            return self.restart_at(offset, self._synced_ms)
        kept = tuple(segment for segment in self.segments if segment.base_offset <= offset)
        gone, self.segments, self._active = self.segments[len(kept) :], kept, kept[-1]
        with self._on_disk():
            cut = self._active.truncate(offset)
            self._ends_at(offset if cut is None else min(cut, offset))
            return [segment.delete() for segment in gone]

    def restart_at(self, offset: int, now_ms: int) -> list[DeletedFiles]:
        """Drop all entries; the next one will have `offset`."""
        self.abort_swap()
        with self._on_disk():
            deleted = [segment.delete() for segment in self.segments]
            for snapshot in names.snapshots_in(self.path):
                remove(names.file_of(self.path, snapshot, names.SNAPSHOT))
            self._active = self._new_segment(offset, now_ms)
            self.segments = (self._active,)
            self.log_start_offset = offset
            self._ends_at(offset)
        return deleted

    def _ends_at(self, offset: int) -> None:
        """The log was cut: all that knew of more forgets it."""
        self.truncations += 1
        self._reader.forget()
        self.cleaner_checkpoint = min(self.cleaner_checkpoint, offset)
        self.log_end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs.truncate_end(offset)
        before = self.producers
        self.producers, self._snapshot_offset = load_producers(
            self.path, names.snapshots_in(self.path), self.segments, offset
        )
        self.producers.keep_unseen(before, offset)
