"""The log of one partition: consecutive segments, and the offsets between which it can be read.

```
 log start         recovery point            high watermark     log end offset
     |                    |                        |                  |
  ---[ sealed segment ][ sealed segment ][ active segment              ]
                      on disk up to here   consumers read up to here
```

An append happens completely or not at all. A read returns a region of a file, unread.

The log of an archived topic (`remote_storage_enable`) may start before its first segment: a remote storage has the
records between the log start and the local start. They are not read here, see `storage.remote`.

Thread rules: only `sync`, `close`, and `unlink` of deleted files block, and run in workers. These see
consistent segments, since their tuple is replaced as a whole.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange, OffsetTiered, StorageFailure
from pylogbroker.interfaces import SegmentView
from pylogbroker.records import Buffer, ConversionListener, PreparedRecords, ignore_conversion
from pylogbroker.storage import names
from pylogbroker.storage.files import (
    DISK_FULL_ERRNOS,
    TRANSIENT_ERRNOS,
    DeletedFiles,
    FileRegion,
    Pools,
    sync_file,
)
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.addressing import OFFSET_ADDRESSED
from pylogbroker.storage.log.append_rules import preparation_of
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.leader_epochs import LeaderEpochs
from pylogbroker.storage.log.log_reader import LogReader
from pylogbroker.storage.log.log_transaction_index import LogTransactionIndex
from pylogbroker.storage.log.newest_lookup import NewestScan, NewestSearch
from pylogbroker.storage.log.producer_recovery import PlannedTruncation, load_producers, remove_snapshots_beyond
from pylogbroker.storage.log.producer_states import (
    EndedTransaction,
    Origin,
    ProducerStateEntry,
    ProducerStates,
    WrittenBatch,
)
from pylogbroker.storage.log.segment import RELATIVE_OFFSET_MAX, Segment
from pylogbroker.storage.log.segment_swap import Replacement, SegmentSwap, SwapAborted
from pylogbroker.storage.log.timestamp_lookup import TimestampCandidate, find_candidate
from pylogbroker.storage.log.transaction_index import AbortedTxn

_base_offset = attrgetter("base_offset")
_END_LOCK: Final = threading.Lock()
"""Of all logs: a cut against the begin and the end of a sync. Each holds it for a few assignments."""


@attrs.define
class Appended:
    base_offset: int
    last_offset: int
    count: int
    log_append_time: int  # -1 unless message.timestamp.type is LogAppendTime
    log_start_offset: int
    duplicate: bool  # the offsets are those of the earlier append
    must_sync: bool  # by flush.messages, before the append is acknowledged


class Log:
    __slots__ = (
        "__weakref__",
        "_aborted",
        "_active",
        "_config",
        "_cut",
        "_has_newer_format",
        "_offline_reason",
        "_pools",
        "_reader",
        "_snapshot_offset",
        "_swap",
        "_sync_lock",
        "_synced_ms",
        "addressing",
        "byte_addressed",
        "cleaner_checkpoint",
        "durable_start",
        "epochs",
        "failure_errno",
        "high_watermark",
        "local_start_offset",
        "log_end_offset",
        "log_start_offset",
        "on_converted",
        "partition",
        "path",
        "preparation",
        "producers",
        "recovery_point",
        "segments",
        "topic",
        "topic_id",
        "truncations",
    )

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
        self.topic_id: UUID | None = None
        self.failure_errno = 0  # of the error that took the log offline
        self.segments = segments
        self.addressing = segments[0].file.addressing
        self.byte_addressed = self.addressing is not OFFSET_ADDRESSED
        self.log_start_offset = self.durable_start = log_start_offset  # the latter survives a crash
        self.local_start_offset = max(log_start_offset, segments[0].base_offset)
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset  # set by the broker
        self.recovery_point = recovery_point
        self.cleaner_checkpoint = 0  # end of the compacted part
        self.epochs = epochs
        self.producers = producers
        self.truncations = 0
        self.on_converted: ConversionListener = ignore_conversion  # gets conversions of clients' records
        self._pools = pools
        self._active = segments[-1]
        self._synced_ms = now_ms
        self._snapshot_offset = snapshot_offset
        self._offline_reason = ""
        self._sync_lock = threading.Lock()
        self._reader = LogReader()
        self._aborted = LogTransactionIndex(path)
        self._swap: SegmentSwap | None = None
        self._has_newer_format = False  # than the settings: the active segment
        self._cut = -1, -1  # log end after the last cut, and the end of the last batch before it
        self._config = config
        self.config = config  # with the rules that follow from it

    @property
    def config(self) -> LogConfig:
        """Settings of the next appends.

        A change to an older format begins a new segment, so a region's first batch shows whether any is older than v2.
        """
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._has_newer_format |= config.magic < self._config.magic and self._active.size > 0
        self._config = config
        self.preparation = preparation_of(config, self.byte_addressed)
        self._active.index_interval = config.index_interval_bytes

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """End of the part whose transactions have all ended, by markers below the high watermark."""
        high_watermark = self.high_watermark
        unstable = self.producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def is_archived(self) -> bool:
        """Return whether sealed segments go to a remote storage, by the topic's settings."""
        return self._config.remote_storage_enable

    # Disk errors

    @property
    def offline_reason(self) -> str:
        return self._offline_reason

    def record_failure(self, error: OSError, transient: frozenset[int] = TRANSIENT_ERRNOS) -> StorageFailure:
        """Return the error to raise; unless `transient`, take the log offline."""
        failure = StorageFailure(f"{self.path}: {error.strerror or error}")
        failure.is_full = error.errno in DISK_FULL_ERRNOS
        if error.errno not in transient:
            self.failure_errno, self._offline_reason = error.errno or 0, failure.detail
        return failure

    @contextmanager
    def on_disk(self, transient: frozenset[int] = TRANSIENT_ERRNOS) -> Iterator[None]:
        """Raise StorageFailure for an OSError; unless `transient`, the log is offline then."""
        try:
            yield
        except OSError as error:
            raise self.record_failure(error, transient) from error

    def take_offline(self, reason: str) -> None:
        self._offline_reason = self._offline_reason or reason
        if self._swap is not None:
            self._swap.abort_unless_committed()
        for segment in self.segments:
            segment.close()

    # Appending

    def append(self, buffer: Buffer, now_ms: int, leader_epoch: int = 0, origin: Origin = Origin.CLIENT) -> Appended:
        """Raise KafkaError for invalid records, with the sender's code.

        Raise StorageFailure if the disk is full (a retry may succeed) or failed (the log is offline then).
        """
        if self._offline_reason:
            raise StorageFailure(self._offline_reason)
        end = self.log_end_offset
        prepared = self.preparation.prepare(
            buffer, origin, end, now_ms, leader_epoch, self.producers, self.on_converted
        )
        if prepared.entries[0].producer_id >= 0:
            duplicate = self.producers.admit(prepared.entries, origin)
            if duplicate is not None:
                return self._duplicate(duplicate)
        if origin is not Origin.REPLICATION and prepared.size > self._config.segment_bytes:
            detail = f"{prepared.size} bytes of records exceed segment.bytes, {self._config.segment_bytes}"
            raise KafkaError(detail, ErrorCode.RECORD_LIST_TOO_LARGE)
        self._write(prepared, now_ms)
        if origin is Origin.REPLICATION:
            for epoch, start in prepared.epochs:
                self.epochs.assign(epoch, start)
        elif leader_epoch != self.epochs.latest and self._config.magic == 2 and not self.byte_addressed:
            self.epochs.assign(leader_epoch, prepared.base_offset)
        for entry in prepared.entries:
            if entry.producer_id >= 0 and (ended := self.producers.record(entry)) is not None:
                self._end_transaction(ended)
        self.log_end_offset = end = prepared.last_offset + 1
        return Appended(
            prepared.base_offset,
            prepared.last_offset,
            prepared.count,
            prepared.log_append_time,
            self.log_start_offset,
            False,
            end - self.recovery_point >= self._config.flush_messages,
        )

    def prepare_run(self, buffers: Iterable[memoryview], now_ms: int, leader_epoch: int) -> PreparedRecords | None:
        """Prepare batches of clients for one write, up to the first that needs a step of its own; None without one.

        That batch takes `append`, for its result or its error. Such steps are changes, errors, a new segment or leader
        epoch, and a sync. Nothing else may be appended before `append_prepared`.
        """
        if self._offline_reason or self._has_newer_format or leader_epoch != self.epochs.latest:
            return None
        prepared = self.preparation.prepare_run(buffers, self.log_end_offset, now_ms, leader_epoch, self.producers)
        if prepared is None:
            return None
        size, last_offset, config = prepared.size, prepared.last_offset, self._config
        if (
            size > config.segment_bytes
            or last_offset + 1 - self.recovery_point >= config.flush_messages
            or self._active.must_roll(size, last_offset, prepared.max_timestamp, now_ms, config)
        ):
            return None
        return prepared

    def append_prepared(self, prepared: PreparedRecords) -> bool:
        """Append the result of `prepare_run`; return False if that fails. Then `append` finds the error."""
        entries = prepared.entries
        try:
            self._active.append(prepared.chunks, prepared.size, entries)
        except OSError:
            return False
        for entry in entries:
            if entry.producer_id >= 0:
                self.producers.record(entry)
        self.log_end_offset = prepared.last_offset + 1
        return True

    def _duplicate(self, batch: WrittenBatch) -> Appended:
        append_time = batch.timestamp if self.preparation.client.timestamp_type else -1
        count = batch.last_offset - batch.first_offset + 1
        must_sync = self.log_end_offset - self.recovery_point >= self._config.flush_messages
        return Appended(
            batch.first_offset, batch.last_offset, count, append_time, self.log_start_offset, True, must_sync
        )

    def _write(self, prepared: PreparedRecords, now_ms: int) -> None:
        size, config, segment = prepared.size, self._config, self._active
        try:
            must_roll = segment.must_roll(size, prepared.last_offset, prepared.max_timestamp, now_ms, config)
            if must_roll or (self._has_newer_format and segment.size):
                segment = self._roll(self._next_base_offset(prepared), now_ms)
            segment.append(prepared.chunks, size, prepared.entries)
        except OSError as error:
            raise self.record_failure(error) from error

    def _end_transaction(self, ended: EndedTransaction) -> None:
        self._active.transaction_index.note(ended, self.producers.first_undecided_offset)
        self._aborted.changed()
        self.producers.forget_visible(self.high_watermark)

    # Reading. Raises NotCached unless the caller `may_wait`.

    def read(
        self, offset: int, max_bytes: int, *, upto: int, min_one: bool = True, may_wait: bool = True
    ) -> FileRegion | None:
        """Return whole batches from the one with `offset` on, below `upto`; None if there are none.

        With `min_one` the first may exceed `max_bytes`. Raise OffsetOutOfRange if `offset` is outside of the log, and
        OffsetTiered if it is below the local part.
        """
        end = self.log_end_offset
        if not self.local_start_offset <= offset <= end:
            raise self._not_local(offset)
        if offset >= upto:
            return None
        try:
            return self._reader.region(self.segments, offset, max_bytes, upto, end, min_one, may_wait)
        except OSError as error:
            raise self.record_failure(error) from error

    def _not_local(self, offset: int) -> KafkaError:
        start, local_start = self.log_start_offset, self.local_start_offset
        if start <= offset < local_start:
            return OffsetTiered(f"offset {offset} is in the remote storage: the local log begins at {local_start}")
        return OffsetOutOfRange(f"offset {offset} is not within {start} to {self.log_end_offset}")

    def read_bytes(self, offset: int, max_bytes: int, *, upto: int) -> FileRegion | None:
        """Return bytes from `offset` on, regardless of message bounds; None at `upto`.

        Raise OffsetOutOfRange if `offset` is outside of the log.
        """
        if not self.log_start_offset <= offset <= upto:
            raise OffsetOutOfRange(f"position {offset} is not within {self.log_start_offset} to {upto}")
        segment = self.segments[bisect_right(self.segments, offset, key=_base_offset) - 1]
        start = offset - segment.base_offset
        length = min(max_bytes, segment.size - start, upto - offset)
        with self.on_disk():
            return segment.file.region(start, length, offset + length) if length > 0 else None

    def aborted_transactions(self, first_offset: int, upto: int, *, may_wait: bool = True) -> list[AbortedTxn]:
        """Return the transactions that overlap `first_offset` to `upto`; all of them must have ended."""
        with self.on_disk():
            return self._aborted.overlapping(self.segments, first_offset, upto, may_wait)

    def next_newest_scan(self, search: NewestSearch, *, may_wait: bool = True) -> NewestScan | None:
        """Return the next part of a search for the largest timestamp, or None at its end.

        Raise StorageFailure if the log is offline.
        """
        if self._offline_reason:
            raise StorageFailure(self._offline_reason)
        with self.on_disk():
            return search.next_scan(self.segments, self.log_start_offset, may_wait)

    def find_timestamp(self, timestamp: int, start: int = 0, *, may_wait: bool = True) -> TimestampCandidate | None:
        """Return the first batch that may have a record with at least `timestamp`, at or after offset `start`.

        If it has none, repeat with a `start` after it. Raise StorageFailure if the log is offline.
        """
        if self._offline_reason:
            raise StorageFailure(self._offline_reason)
        with self.on_disk():
            return find_candidate(self.segments, timestamp, max(start, self.log_start_offset), may_wait)

    # Leader epochs

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def assign_epoch(self, epoch: int) -> None:
        self.epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # Rolling

    def roll(self, now_ms: int) -> None:
        """Seal the active segment unless it is empty."""
        if not self._active.size:
            return
        with self.on_disk():
            self._roll(self._end_of_batches(), now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        active = self._active
        active.seal()
        self._write_snapshot(base_offset)
        segment = self._new_segment(base_offset, now_ms)
        if active.size:
            self.segments = (*self.segments, segment)
        else:  # the offsets exceed an empty segment's relative offsets
            active.delete().unlink()
            self.segments = (*self.segments[:-1], segment)
            self._start_at_first_segment()
        self._active, self._has_newer_format = segment, False
        return segment

    def _next_base_offset(self, prepared: PreparedRecords) -> int:
        """Return the end of the last batch, although a follower's next one may begin later.

        Recovery takes a gap between segments for a loss, and compaction rejects it. Only offsets that are too large for
        an index leave one.
        """
        end = self._end_of_batches()
        return end if prepared.last_offset - end <= RELATIVE_OFFSET_MAX else prepared.base_offset

    def _end_of_batches(self) -> int:
        """Return the log end, or what is before it: a log may be cut where compaction has left no records."""
        log_end, end = self._cut
        return end if log_end == self.log_end_offset else self.log_end_offset

    def _write_snapshot(self, offset: int) -> None:
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
        """Move the log start up to `offset`; return the log start offset.

        Blocks if indexes or headers are not in the page cache.
        """
        if offset > self.high_watermark or offset < 0:
            raise OffsetOutOfRange(f"offset {offset} is beyond the high watermark, {self.high_watermark}")
        self.start_at(self._batch_start(offset) if self.byte_addressed else offset)
        return self.log_start_offset

    def _batch_start(self, offset: int) -> int:
        """Return a message's start: half a message is unreadable."""
        place = self._reader.locate(self.segments, offset, may_wait=True)
        return offset if place is None else place[0].base_offset + place[1]

    def start_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.local_start_offset = max(offset, self.local_start_offset)
            self.epochs.truncate_start(offset)

    def _start_at_first_segment(self) -> None:
        """Move the local start to the first segment; an archived log has the records before it elsewhere."""
        base_offset = self.segments[0].base_offset
        if self.is_archived:
            self.local_start_offset = max(self.log_start_offset, base_offset)
        else:
            self.start_at(base_offset)

    def start_locally(self) -> None:
        """Let the log start where its local part does: it is not archived any more."""
        self.start_at(self.local_start_offset)

    def views(self, first: int = 0) -> list[SegmentView]:
        """Omit an empty active segment."""
        segments = self.segments if self._active.size else self.segments[:-1]
        ends = [segment.base_offset for segment in self.segments[first + 1 :]] + [self.log_end_offset]
        with self.on_disk():
            return [
                segment.view(end, segment is self._active) for segment, end in zip(segments[first:], ends, strict=False)
            ]

    def drop_oldest(self, count: int) -> Iterator[DeletedFiles]:
        """Drop the oldest segments: at once for readers, then file by file."""
        dropped, self.segments = self.segments[:count], self.segments[count:]
        if dropped:
            self._start_at_first_segment()
        for segment in dropped:
            with self.on_disk():
                deleted = segment.delete()
            yield deleted

    # Truncating

    def plan_truncation(self, offset: int) -> PlannedTruncation | None:
        """Return what `truncate_to` takes time to read, or None. Blocks; any thread, while nothing is appended."""
        segments = tuple(segment for segment in self.segments if segment.base_offset <= offset)
        if not segments or offset >= self.log_end_offset:
            return None
        with self.on_disk(frozenset()):
            cut = segments[-1].find(offset)
            end = offset if cut is None else min(cut.first_offset, offset)
            return PlannedTruncation.at(end, self.path, segments)

    def truncate_to(self, offset: int, planned: PlannedTruncation | None = None) -> list[DeletedFiles]:
        """Drop records from `offset` on, and leader epochs that begin there or later, also at the log end.

        Without a plan, this blocks.

        A disk error takes the log offline, also a transient one: only a part may be cut.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_end(offset)
            return []
        self.abort_swap()
        if offset < self.segments[0].base_offset:
            return self.restart_at(offset, self._synced_ms)
        self._move_end(offset)
        kept = tuple(segment for segment in self.segments if segment.base_offset <= offset)
        dropped, self.segments, self._active = self.segments[len(kept) :], kept, kept[-1]
        with self.on_disk(frozenset()):
            cut = self._active.truncate(offset)
            self._end_at(offset if cut is None else min(cut, offset), planned)
            return [segment.delete() for segment in dropped]

    def restart_at(self, offset: int, now_ms: int) -> list[DeletedFiles]:
        """Drop all records and leader epochs; the next record gets `offset`.

        The log does not know in which epoch the leader has the record before: fetches must not name an earlier one.
        """
        self.abort_swap()
        self._move_end(min(offset, self.log_end_offset))
        with self.on_disk(frozenset()):
            deleted = [segment.delete() for segment in self.segments]
            remove_snapshots_beyond(-1, self.path)
            self._active = self._new_segment(offset, now_ms)
            self.segments = (self._active,)
            self.log_start_offset = self.local_start_offset = offset
            self._end_at(offset)
            self.epochs.replace(())
        return deleted

    def restore_at(
        self,
        offset: int,
        log_start: int,
        epochs: Sequence[tuple[int, int]],
        producers: Iterable[ProducerStateEntry],
        now_ms: int,
    ) -> list[DeletedFiles]:
        """Drop all local records of an archived log; the next one gets `offset`, and a remote storage has those before.

        The state at `offset` comes from there: leader epochs, and producers.
        """
        deleted = self.restart_at(offset, now_ms)
        self.log_start_offset = min(log_start, offset)
        self.epochs.replace(epochs)
        self.producers = ProducerStates(producers)
        with self.on_disk(frozenset()):
            producer_snapshots.write(names.file_of(self.path, offset, names.SNAPSHOT), self.producers)
            self._snapshot_offset = offset
            self.epochs.save()
        return deleted

    def _move_end(self, offset: int) -> None:
        """Set the log end. Syncs that began before do not raise the recovery point any more.

        This comes before the files are cut, too: a sync or a checkpoint must not take the former end for safe.
        """
        with _END_LOCK:
            self.truncations += 1
            self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)

    def _end_at(self, offset: int, planned: PlannedTruncation | None = None) -> None:
        self._move_end(offset)  # a batch may have been cut before the wanted offset
        active = self._active
        self._cut = offset, active.end_of_batches() if active.size and not self.byte_addressed else offset
        self._reader.forget()
        self.cleaner_checkpoint = min(self.cleaner_checkpoint, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.durable_start = min(self.durable_start, offset)
        self.local_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.epochs.truncate_end(offset)
        before = self.producers
        if planned is None or planned.end_offset != offset:
            loaded = load_producers(self.path, names.snapshots_in(self.path), self.segments, offset)
            self.producers, self._snapshot_offset = loaded
        else:
            remove_snapshots_beyond(offset, self.path)
            self.producers, self._snapshot_offset = planned.producers, planned.snapshot_offset
        self.producers.keep_unseen(before, offset)

    # Moving

    @property
    def is_swapping(self) -> bool:
        return self._swap is not None

    def hold_syncs(self) -> bool:
        """Let syncs wait until `release_syncs`; return False if one is running."""
        return self._sync_lock.acquire(blocking=False)

    def release_syncs(self) -> None:
        """Any thread."""
        self._sync_lock.release()

    def adopt(self, copy: Log, path: str) -> None:
        """Go on with a copy of all records, whose directory was renamed to `path`; syncs are held.

        Reads in progress keep the old files open.
        """
        for segment in self.segments:
            segment.close()
        for segment in copy.segments:
            segment.relocate(path)
        self.path = copy._aborted.path = path
        self.epochs.dirty = True
        self.epochs.directory = path
        self.segments, self._active, self._aborted = copy.segments, copy._active, copy._aborted
        self._snapshot_offset = copy._snapshot_offset
        self.durable_start = 0  # the checkpoint of the other directory has none
        self.local_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        self.recovery_point = copy.recovery_point
        self.cleaner_checkpoint = min(self.cleaner_checkpoint, copy.cleaner_checkpoint)
        self.truncations += 1  # for syncs and compactions that began before
        self._reader.forget()
        self.config = self._config

    # Compaction

    @property
    def first_dirty_offset(self) -> int:
        return max(self.cleaner_checkpoint, self.log_start_offset)

    def begin_swap(self, replacements: Iterable[Replacement]) -> SegmentSwap:
        """Begin a swap without replacements of dropped segments; prevent drops until `end_swap`."""
        self._swap = SegmentSwap.of(self.path, self.segments, replacements)
        return self._swap

    def swap(self, now_ms: int) -> list[DeletedFiles]:
        """Carry out the committed swap.

        Raise SwapAborted, or StorageFailure: the log is offline then, and the next start finishes the swap.
        """
        swap = self._swap
        if swap is None or self._offline_reason:
            raise StorageFailure(self._offline_reason or f"{self.path}: no swap was begun")
        if swap.is_aborted:
            raise SwapAborted

        def replacing(base_offset: int, sizes: dict[str, int]) -> Segment:
            segment = Segment.existing(self.path, base_offset, sizes, self._pools, now_ms)
            segment.index_interval = self._config.index_interval_bytes
            return segment

        with self.on_disk(frozenset()):
            self.segments, deleted = swap.carry_out(self.segments, replacing)
        self._reader.forget()
        self._aborted.changed()
        return deleted

    def end_swap(self) -> None:
        self._swap = None

    def abort_swap(self) -> None:
        if self._swap is not None:
            with self.on_disk():
                self._swap.abort()

    # Syncing

    def sync_target(self, now_ms: int) -> int | None:
        """Return the offset up to which a sync is due: sealed segments, or by flush.ms all."""
        if self.recovery_point >= self.log_end_offset:
            self._synced_ms = now_ms
            return None
        if now_ms - self._synced_ms >= self._config.flush_ms:
            self._synced_ms = now_ms
            return self.log_end_offset
        sealed = self._active.base_offset
        return sealed if sealed > self.recovery_point else None

    def sync(self, upto: int | None = None) -> int:
        """Sync all records before `upto`; return the new recovery point.

        Blocks; several workers may call it. After a StorageFailure a retry may succeed, or the log is offline: another
        log may have the files' names then.
        """
        with self._sync_lock:
            if self._offline_reason:
                raise StorageFailure(self._offline_reason)
            with _END_LOCK:
                truncations, end, segments = self.truncations, self.log_end_offset, self.segments
            end = end if upto is None else min(end, upto)
            if end <= self.recovery_point:
                return self.recovery_point
            with self.on_disk():
                has_new_names = self.epochs.save() | self._aborted.save(segments)
            try:
                _sync_segments(self.path, segments, self.recovery_point, end, has_new_names)
                os.stat(self.path)  # if the directory was removed, the records are lost
            except OSError as error:
                raise self.record_failure(error, TRANSIENT_ERRNOS - DISK_FULL_ERRNOS) from error
            with _END_LOCK:
                if truncations == self.truncations:
                    self.recovery_point = end
                return self.recovery_point

    def lower_recovery_point(self, offset: int) -> bool:
        """Lower the recovery point before a cut at `offset`; return whether it was higher."""
        with _END_LOCK:
            is_higher = self.recovery_point > offset
            if is_higher:
                self.recovery_point = offset
            return is_higher

    def close(self) -> None:
        try:
            if not self._offline_reason:
                self.sync()
                with self.on_disk():
                    self.epochs.save()  # `sync` may skip restored epochs
                    self._active.seal()
                    self._aborted.save(self.segments)
                    self._write_snapshot(self.log_end_offset)
        finally:
            self.take_offline("closed")


def _sync_segments(path: str, segments: tuple[Segment, ...], safe: int, end: int, has_new_names: bool) -> None:
    """Sync the records from `safe` to `end`, sealed indexes, a new log's topic id, and names: a restart trusts these.

    Indexes are rebuilt only if found damaged.
    """
    has_new_names = has_new_names or segments[-1].base_offset >= safe
    for segment, successor in zip(segments, (*segments[1:], None), strict=True):
        if segment.base_offset < end and (successor is None or successor.base_offset > safe):
            segment.sync(sealed=successor is not None)
            if successor is not None:
                sync_file(names.file_of(path, successor.base_offset, names.SNAPSHOT))
    is_new = segments[0].base_offset >= safe
    if is_new:
        sync_file(f"{path}/{names.PARTITION_METADATA}")
    if has_new_names:
        sync_file(path)
    if is_new:
        sync_file(os.path.dirname(path))
